//! Unfinished uploads of others, found and ended.
//!
//! An upload that a stopped process left costs space; one that a paused process left can still be
//! completed, and then shows rows that another driver published meanwhile. The client that is used
//! for all else cannot list uploads, so S3's own request is made here, with that client's
//! connection and credentials.
//!
//! Azure has no uploads to list (blocks that nobody commits vanish after a week), and for Google
//! this is not built: there a bucket's rule for incomplete uploads is what removes them.

use super::reason::{code_of, fault};
use super::{AT_ONCE, BucketStore, TRIES, back_off};
use crate::location::decode_path;
use crate::store::PathTest;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::ClientOptions;
use object_store::aws::{AmazonS3, AwsAuthorizer};
use object_store::client::{
    HttpClient, HttpConnector, HttpRequest, HttpRequestBody, ReqwestConnector,
};
use object_store::path::Path as Key;
use object_store::signer::Signer;
use onefold_types::Result;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Pages of a listing before it is given up as endless.
const PAGES: usize = 10_000;

/// An upload that is neither completed nor aborted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unfinished {
    key: String,
    id: String,
}

/// Where a listing goes on.
type Marker = (String, String);

/// Keeps the connection that a client of the store makes for itself.
#[derive(Debug, Default, Clone)]
pub(super) struct SharedConnector(Arc<Mutex<Option<HttpClient>>>);

impl HttpConnector for SharedConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        // The last one made is that of the store; those before fetch credentials.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(client.clone());
        Ok(client)
    }
}

/// Lists the uploads of a bucket that speaks S3.
#[derive(Debug)]
pub(super) struct S3Uploads {
    client: Arc<AmazonS3>,
    http: HttpClient,
    region: String,
}

impl S3Uploads {
    /// `None` before the client was built.
    pub(super) fn new(
        client: Arc<AmazonS3>,
        connector: &SharedConnector,
        region: Option<String>,
    ) -> Option<Self> {
        let http = connector.0.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        // The client's own default.
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        Some(S3Uploads { client, http, region })
    }

    async fn all(&self, prefix: &str) -> object_store::Result<Vec<Unfinished>> {
        let mut found = Vec::new();
        let mut after: Option<Marker> = None;
        for _ in 0..PAGES {
            let page = self.page(prefix, after.as_ref()).await?;
            let (uploads, next) = parse_page(&page)?;
            found.extend(uploads);
            if next.is_none() || next == after {
                break;
            }
            after = next;
        }
        Ok(found)
    }

    /// One page as text; asks again where the server was too busy.
    async fn page(&self, prefix: &str, after: Option<&Marker>) -> object_store::Result<String> {
        let mut tries = 0;
        loop {
            let (status, text) = match self.ask(prefix, after).await {
                Ok(answer) => answer,
                Err(error) if tries + 1 >= TRIES => return Err(error),
                Err(_) => (503, String::new()),
            };
            match status {
                200..=299 => return Ok(text),
                429 | 500..=599 if tries + 1 < TRIES => {}
                _ => return Err(generic(format!("status {status}: {text}"))),
            }
            back_off(tries).await;
            tries += 1;
        }
    }

    async fn ask(
        &self,
        prefix: &str,
        after: Option<&Marker>,
    ) -> object_store::Result<(u16, String)> {
        let credential = self.client.credentials().get_credential().await?;
        // The only way to the address of the bucket is over that of an object.
        let method = "GET".parse().map_err(generic)?;
        let minute = Duration::from_secs(60);
        let mut url = self.client.signed_url(method, &Key::from("x"), minute).await?;
        let root = url.path().trim_end_matches('x').trim_end_matches('/').to_owned();
        url.set_path(&root);
        url.set_query(Some(&query(prefix, after)));
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.uri_mut() = url.as_str().parse().map_err(generic)?;
        AwsAuthorizer::new(&credential, "s3", &self.region).authorize(&mut request, None);
        let response = self.http.execute(request).await.map_err(generic)?;
        let status = response.status().as_u16();
        let bytes = response.into_body().bytes().await.map_err(generic)?;
        Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
    }
}

fn generic(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> object_store::Error {
    object_store::Error::Generic { store: "S3", source: source.into() }
}

fn query(prefix: &str, after: Option<&Marker>) -> String {
    let mut pairs = vec![("encoding-type", "url"), ("prefix", prefix), ("uploads", "")];
    if let Some((key, id)) = after {
        pairs.push(("key-marker", key));
        pairs.push(("upload-id-marker", id));
    }
    let pairs = pairs
        .iter()
        .map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)));
    pairs.collect::<Vec<_>>().join("&")
}

/// The uploads of one page and where the next begins, if there is one.
fn parse_page(text: &str) -> object_store::Result<(Vec<Unfinished>, Option<Marker>)> {
    if !text.contains("<ListMultipartUploadsResult") {
        return Err(generic(format!("no list of uploads in the answer {text:?}")));
    }
    let encoded = field(text, "EncodingType").as_deref() == Some("url");
    let name = |text: &str, tag: &str| match field(text, tag) {
        Some(value) if encoded => decode_path(&value).map_err(generic).map(Some),
        value => Ok(value),
    };
    let mut uploads = Vec::new();
    for piece in text.split("<Upload>").skip(1) {
        let piece = piece.split("</Upload>").next().unwrap_or_default();
        if let (Some(key), Some(id)) = (name(piece, "Key")?, field(piece, "UploadId")) {
            uploads.push(Unfinished { key, id });
        }
    }
    let more = field(text, "IsTruncated").as_deref() == Some("true");
    let next = match (name(text, "NextKeyMarker")?, field(text, "NextUploadIdMarker")) {
        (Some(key), Some(id)) if more => Some((key, id)),
        _ => None,
    };
    Ok((uploads, next))
}

/// The text of the first element of this name.
fn field(text: &str, tag: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{tag}>"))?;
    let (value, _) = rest.split_once(&format!("</{tag}>"))?;
    let value = value.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    Some(value.replace("&apos;", "'").replace("&#39;", "'").replace("&amp;", "&"))
}

/// Whether the store cannot or may not list uploads, which will not change by asking again.
fn refused(error: &object_store::Error) -> bool {
    let codes = ["AccessDenied", "MethodNotAllowed", "NotImplemented", "NotSupported"];
    code_of(&error.to_string()).is_some_and(|code| codes.contains(&code))
}

impl BucketStore {
    /// Ends the unfinished uploads to keys whose paths are wanted; how many.
    pub(super) async fn end_uploads(&self, wanted: PathTest<'_>) -> Result<u64> {
        let Some(lister) = &self.inner.uploads else { return Ok(0) };
        let prefix = match self.inner.prefix.as_str() {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        let found = match lister.all(&prefix).await {
            Ok(found) => found,
            Err(error) if refused(&error) => {
                tracing::warn!(
                    error = %fault("list the uploads of", &self.inner.url, &error),
                    "uploads that an earlier run left unfinished stay; allow \
                     s3:ListBucketMultipartUploads, and give the bucket a rule that removes \
                     incomplete uploads"
                );
                return Ok(0);
            }
            Err(error) => return Err(fault("list the uploads of", &self.inner.url, &error)),
        };
        let ours = found.into_iter().filter_map(|upload| {
            let path = upload.key.strip_prefix(&prefix)?.to_owned();
            wanted(&path).then_some((path, upload.id))
        });
        let ours: Vec<(String, String)> = ours.collect();
        let count = ours.len() as u64;
        stream::iter(ours)
            .map(|(path, id)| async move { self.abort(&path, &self.key(&path)?, &id).await })
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::{Unfinished, parse_page, query};

    #[test]
    fn a_page_tells_uploads_and_where_the_next_begins() {
        let page = "<?xml version=\"1.0\"?><ListMultipartUploadsResult xmlns=\"x\">\
            <Bucket>b</Bucket><EncodingType>url</EncodingType>\
            <NextKeyMarker>out%201/b</NextKeyMarker><NextUploadIdMarker>u&amp;2</NextUploadIdMarker>\
            <IsTruncated>true</IsTruncated>\
            <Upload><Key>out%201/a%3D%25</Key><UploadId>u1</UploadId></Upload>\
            <Upload><Initiated>2026</Initiated><UploadId>u&amp;2</UploadId><Key>out%201/b</Key>\
            </Upload></ListMultipartUploadsResult>";
        let upload = |key: &str, id: &str| Unfinished { key: key.to_owned(), id: id.to_owned() };
        let (uploads, next) = parse_page(page).unwrap();
        assert_eq!(uploads, [upload("out 1/a=%", "u1"), upload("out 1/b", "u&2")]);
        assert_eq!(next, Some(("out 1/b".to_owned(), "u&2".to_owned())));
        let plain = page.replace("<EncodingType>url</EncodingType>", "").replace("true", "false");
        let (uploads, next) = parse_page(&plain).unwrap();
        assert_eq!((uploads[0].key.as_str(), next), ("out%201/a%3D%25", None));
        assert!(parse_page("<Error><Code>AccessDenied</Code></Error>").is_err());
    }

    #[test]
    fn names_in_a_request_are_encoded() {
        let after = ("a b".to_owned(), "u+1".to_owned());
        let query = query("out 1/", Some(&after));
        assert!(query.contains("prefix=out%201%2F&uploads=&key-marker=a%20b"), "{query}");
        assert!(query.ends_with("upload-id-marker=u%2B1"), "{query}");
    }
}
