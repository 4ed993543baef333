//! The objects of the S3 server.

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, CommonPrefix,
    CompleteMultipartUploadInput, CompleteMultipartUploadOutput, CopyPartResult, CopySource,
    CreateMultipartUploadInput, CreateMultipartUploadOutput, DeleteObjectInput, DeleteObjectOutput,
    DeleteObjectsInput, DeleteObjectsOutput, DeletedObject, ETag, ETagCondition, GetObjectInput,
    GetObjectOutput, HeadObjectInput, HeadObjectOutput, ListMultipartUploadsInput,
    ListMultipartUploadsOutput, ListObjectsV2Input, ListObjectsV2Output, MultipartUpload, Object,
    PutObjectInput, PutObjectOutput, StreamingBlob, Timestamp, UploadPartCopyInput,
    UploadPartCopyOutput, UploadPartInput, UploadPartOutput,
};
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Keys of one page of a listing: few, so that tests meet the second page.
const PAGE: usize = 100;
/// Uploads of one page of their listing.
const UPLOADS_PAGE: usize = 5;
/// Bytes that every part but the last must have.
const PART_MIN: usize = 5 << 20;

#[derive(Debug, Clone)]
struct Stored {
    bytes: Bytes,
    etag: String,
    modified: SystemTime,
}

#[derive(Debug, Default)]
struct Upload {
    key: String,
    parts: BTreeMap<i32, Stored>,
}

#[derive(Debug, Default)]
struct Content {
    objects: BTreeMap<String, Stored>,
    uploads: BTreeMap<String, Upload>,
    made: u64,
}

/// One bucket.
#[derive(Debug)]
pub(super) struct Bucket {
    name: &'static str,
    content: Mutex<Content>,
}

impl Content {
    fn stored(&mut self, bytes: Bytes) -> Stored {
        self.made += 1;
        Stored { bytes, etag: format!("{:032x}", self.made), modified: SystemTime::now() }
    }

    /// Decides under the lock of the caller.
    fn put(
        &mut self,
        key: &str,
        bytes: Bytes,
        condition: Option<&ETagCondition>,
    ) -> S3Result<ETag> {
        if condition.is_some_and(ETagCondition::is_any) && self.objects.contains_key(key) {
            return Err(s3_error!(PreconditionFailed));
        }
        let stored = self.stored(bytes);
        let etag = ETag::Strong(stored.etag.clone());
        self.objects.insert(key.to_owned(), stored);
        Ok(etag)
    }

    fn put_part(&mut self, upload: &str, number: i32, bytes: Bytes) -> S3Result<ETag> {
        let stored = self.stored(bytes);
        let etag = ETag::Strong(stored.etag.clone());
        let Some(upload) = self.uploads.get_mut(upload) else {
            return Err(s3_error!(NoSuchUpload));
        };
        upload.parts.insert(number, stored);
        Ok(etag)
    }
}

impl Bucket {
    pub(super) fn new(name: &'static str) -> Self {
        Bucket { name, content: Mutex::default() }
    }

    pub(super) fn keys(&self) -> Vec<String> {
        self.lock().objects.keys().cloned().collect()
    }

    pub(super) fn object(&self, key: &str) -> Option<Bytes> {
        self.lock().objects.get(key).map(|stored| stored.bytes.clone())
    }

    pub(super) fn open_uploads(&self) -> usize {
        self.lock().uploads.len()
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, bucket: &str) -> S3Result<()> {
        if bucket == self.name { Ok(()) } else { Err(s3_error!(NoSuchBucket)) }
    }

    fn find(&self, bucket: &str, key: &str) -> S3Result<Stored> {
        self.check(bucket)?;
        self.lock().objects.get(key).cloned().ok_or_else(|| s3_error!(NoSuchKey))
    }
}

async fn collect(body: Option<StreamingBlob>) -> S3Result<Bytes> {
    let Some(mut body) = body else {
        return Ok(Bytes::new());
    };
    let mut bytes = BytesMut::new();
    while let Some(piece) = body.try_next().await.map_err(|_| s3_error!(IncompleteBody))? {
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes.freeze())
}

fn size(bytes: &Bytes) -> Option<i64> {
    i64::try_from(bytes.len()).ok()
}

fn answer<T>(output: T) -> S3Result<S3Response<T>> {
    Ok(S3Response::new(output))
}

/// As answers show names when asked for `encoding-type=url`.
fn url_encoded(key: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'/' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    key.bytes().map(encode).collect()
}

/// One page of a listing.
#[derive(Default)]
struct Page {
    contents: Vec<Object>,
    prefixes: Vec<CommonPrefix>,
    next: Option<String>,
}

fn page(content: &Content, prefix: &str, delimiter: Option<&str>, after: &str) -> Page {
    let mut page = Page::default();
    let mut last = String::new();
    for (key, stored) in content.objects.iter().filter(|(key, _)| key.starts_with(prefix)) {
        let rest = key.strip_prefix(prefix).unwrap_or_default();
        let folder = delimiter.and_then(|mark| {
            rest.split_once(mark).map(|(name, _)| format!("{prefix}{name}{mark}"))
        });
        let item = folder.clone().unwrap_or_else(|| key.clone());
        if item.as_str() <= after || item == last {
            continue;
        }
        if page.contents.len() + page.prefixes.len() == PAGE {
            page.next = Some(last);
            break;
        }
        last.clone_from(&item);
        match folder {
            Some(folder) => page.prefixes.push(CommonPrefix { prefix: Some(folder) }),
            None => page.contents.push(Object {
                key: Some(key.clone()),
                size: size(&stored.bytes),
                e_tag: Some(ETag::Strong(stored.etag.clone())),
                last_modified: Some(Timestamp::from(stored.modified)),
                ..Object::default()
            }),
        }
    }
    page
}

/// Shares a bucket between the server and the test.
#[async_trait::async_trait]
impl S3 for Shared {
    async fn put_object(
        &self,
        request: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        let input = request.input;
        self.0.check(&input.bucket)?;
        let bytes = collect(input.body).await?;
        let etag = self.0.lock().put(&input.key, bytes, input.if_none_match.as_ref())?;
        answer(PutObjectOutput { e_tag: Some(etag), ..PutObjectOutput::default() })
    }

    async fn get_object(
        &self,
        request: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        let input = request.input;
        let stored = self.0.find(&input.bucket, &input.key)?;
        let whole = stored.bytes.len();
        let (bytes, content_range) = match input.range {
            None => (stored.bytes, None),
            Some(range) => {
                let range = range.check(whole as u64)?;
                let text = format!("bytes {}-{}/{whole}", range.start, range.end - 1);
                let bound = |place| usize::try_from(place).unwrap_or(whole);
                (stored.bytes.slice(bound(range.start)..bound(range.end)), Some(text))
            }
        };
        answer(GetObjectOutput {
            content_length: size(&bytes),
            content_range,
            body: Some(StreamingBlob::from(s3s::Body::from(bytes))),
            e_tag: Some(ETag::Strong(stored.etag)),
            last_modified: Some(Timestamp::from(stored.modified)),
            ..GetObjectOutput::default()
        })
    }

    async fn head_object(
        &self,
        request: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        let stored = self.0.find(&request.input.bucket, &request.input.key)?;
        answer(HeadObjectOutput {
            content_length: size(&stored.bytes),
            e_tag: Some(ETag::Strong(stored.etag)),
            last_modified: Some(Timestamp::from(stored.modified)),
            ..HeadObjectOutput::default()
        })
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let input = request.input;
        self.0.check(&input.bucket)?;
        let prefix = input.prefix.unwrap_or_default();
        let after = input.continuation_token.or(input.start_after).unwrap_or_default();
        let page = page(&self.0.lock(), &prefix, input.delimiter.as_deref(), &after);
        answer(ListObjectsV2Output {
            is_truncated: Some(page.next.is_some()),
            next_continuation_token: page.next,
            contents: Some(page.contents),
            common_prefixes: Some(page.prefixes),
            prefix: Some(prefix),
            ..ListObjectsV2Output::default()
        })
    }

    async fn delete_object(
        &self,
        request: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        self.0.check(&request.input.bucket)?;
        self.0.lock().objects.remove(&request.input.key);
        answer(DeleteObjectOutput::default())
    }

    async fn delete_objects(
        &self,
        request: S3Request<DeleteObjectsInput>,
    ) -> S3Result<S3Response<DeleteObjectsOutput>> {
        self.0.check(&request.input.bucket)?;
        let mut content = self.0.lock();
        let mut deleted = Vec::new();
        for object in request.input.delete.objects {
            content.objects.remove(&object.key);
            deleted.push(DeletedObject { key: Some(object.key), ..DeletedObject::default() });
        }
        answer(DeleteObjectsOutput { deleted: Some(deleted), ..DeleteObjectsOutput::default() })
    }

    async fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        let input = request.input;
        self.0.check(&input.bucket)?;
        let mut content = self.0.lock();
        content.made += 1;
        let id = format!("upload-{}", content.made);
        let upload = Upload { key: input.key.clone(), parts: BTreeMap::new() };
        content.uploads.insert(id.clone(), upload);
        answer(CreateMultipartUploadOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            upload_id: Some(id),
            ..CreateMultipartUploadOutput::default()
        })
    }

    async fn upload_part(
        &self,
        request: S3Request<UploadPartInput>,
    ) -> S3Result<S3Response<UploadPartOutput>> {
        let input = request.input;
        let bytes = collect(input.body).await?;
        let etag = self.0.lock().put_part(&input.upload_id, input.part_number, bytes)?;
        answer(UploadPartOutput { e_tag: Some(etag), ..UploadPartOutput::default() })
    }

    async fn upload_part_copy(
        &self,
        request: S3Request<UploadPartCopyInput>,
    ) -> S3Result<S3Response<UploadPartCopyOutput>> {
        let input = request.input;
        let CopySource::Bucket { bucket, key, .. } = &input.copy_source else {
            return Err(s3_error!(NotImplemented));
        };
        let source = self.0.find(bucket, key)?;
        let etag = self.0.lock().put_part(&input.upload_id, input.part_number, source.bytes)?;
        let result = CopyPartResult {
            e_tag: Some(etag),
            last_modified: Some(Timestamp::from(source.modified)),
            ..CopyPartResult::default()
        };
        let copy_part_result = Some(result);
        answer(UploadPartCopyOutput { copy_part_result, ..UploadPartCopyOutput::default() })
    }

    async fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        let input = request.input;
        let mut content = self.0.lock();
        let Some(upload) = content.uploads.get(&input.upload_id) else {
            return Err(s3_error!(NoSuchUpload));
        };
        if upload.key != input.key {
            return Err(s3_error!(NoSuchUpload));
        }
        let wanted = input.multipart_upload.and_then(|upload| upload.parts).unwrap_or_default();
        let mut bytes = BytesMut::new();
        for (index, part) in wanted.iter().enumerate() {
            let number = part.part_number.unwrap_or_default();
            let found = upload.parts.get(&number).ok_or_else(|| s3_error!(InvalidPart))?;
            if part.e_tag.as_ref().map(ETag::value) != Some(found.etag.as_str()) {
                return Err(s3_error!(InvalidPart));
            }
            if index + 1 < wanted.len() && found.bytes.len() < PART_MIN {
                return Err(s3_error!(EntityTooSmall));
            }
            bytes.extend_from_slice(&found.bytes);
        }
        let etag = content.put(&input.key, bytes.freeze(), input.if_none_match.as_ref())?;
        content.uploads.remove(&input.upload_id);
        answer(CompleteMultipartUploadOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            e_tag: Some(etag),
            ..CompleteMultipartUploadOutput::default()
        })
    }

    async fn list_multipart_uploads(
        &self,
        request: S3Request<ListMultipartUploadsInput>,
    ) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
        let input = request.input;
        self.0.check(&input.bucket)?;
        let prefix = input.prefix.unwrap_or_default();
        let after =
            (input.key_marker.unwrap_or_default(), input.upload_id_marker.unwrap_or_default());
        let mut found: Vec<(String, String)> = {
            let content = self.0.lock();
            let uploads =
                content.uploads.iter().map(|(id, upload)| (upload.key.clone(), id.clone()));
            uploads.filter(|upload| upload.0.starts_with(&prefix) && *upload > after).collect()
        };
        found.sort();
        let more = found.len() > UPLOADS_PAGE;
        found.truncate(UPLOADS_PAGE);
        let last = found.last().filter(|_| more).cloned();
        let encoded = input.encoding_type.is_some();
        let shown = |key: String| if encoded { url_encoded(&key) } else { key };
        let uploads = found.into_iter().map(|(key, id)| MultipartUpload {
            key: Some(shown(key)),
            upload_id: Some(id),
            ..MultipartUpload::default()
        });
        answer(ListMultipartUploadsOutput {
            bucket: Some(input.bucket),
            encoding_type: input.encoding_type,
            is_truncated: Some(more),
            next_key_marker: last.as_ref().map(|(key, _)| shown(key.clone())),
            next_upload_id_marker: last.map(|(_, id)| id),
            prefix: Some(prefix),
            uploads: Some(uploads.collect()),
            ..ListMultipartUploadsOutput::default()
        })
    }

    async fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        match self.0.lock().uploads.remove(&request.input.upload_id) {
            Some(_) => answer(AbortMultipartUploadOutput::default()),
            None => Err(s3_error!(NoSuchUpload)),
        }
    }
}

/// A bucket as the server's implementation.
pub(super) struct Shared(pub(super) Arc<Bucket>);
