//! Our store as the library of Delta's log sees it: what it writes is as durable as what we write.
//!
//! The library brings stores of its own, whose local one never syncs; a commit that a power cut may
//! blank is none. Through this bridge its checkpoints, its rewritten files and its commits go the
//! way of every other durable file of Onefold.

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use chrono::{DateTime, Utc};
use deltalake_core::{ObjectMeta, ObjectStore, ObjectStoreError, Path};
use futures::stream::{BoxStream, StreamExt};
use object_store::{
    CopyMode, CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, UploadPart,
};
use onefold_storage::{
    CreateError, Created, Durability, Entry, Recorded, StagedWriter, Store, create_record,
};
use onefold_types::Error;
use std::collections::{BTreeSet, VecDeque};
use std::fmt::{self, Display};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Mutex as AsyncMutex;

type Outcome<T> = Result<T, ObjectStoreError>;

/// A folder of ours as an object store whose root is that folder.
#[derive(Debug, Clone)]
pub(crate) struct Bridge(pub(crate) Arc<dyn Store>);

impl Display for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.url())
    }
}

fn failed(error: Error) -> ObjectStoreError {
    ObjectStoreError::Generic { store: "table folder", source: Box::new(error) }
}

fn not_found(path: &Path) -> ObjectStoreError {
    let source = Error::corrupt(format!("there is no file {path}"));
    ObjectStoreError::NotFound { path: path.to_string(), source: Box::new(source) }
}

fn taken(path: &Path) -> ObjectStoreError {
    let source = Error::invalid(format!("there is a file {path} already"));
    ObjectStoreError::AlreadyExists { path: path.to_string(), source: Box::new(source) }
}

fn meta(entry: &Entry) -> ObjectMeta {
    ObjectMeta {
        location: Path::parse(&entry.path).unwrap_or_else(|_| Path::from(entry.path.as_str())),
        last_modified: DateTime::<Utc>::from_timestamp_millis(entry.modified_ms)
            .unwrap_or_default(),
        size: entry.size,
        e_tag: entry.etag.clone(),
        version: None,
    }
}

fn done() -> PutResult {
    PutResult { e_tag: None, version: None }
}

impl Bridge {
    async fn create(&self, path: &Path, bytes: Bytes) -> Outcome<()> {
        match create_record(self.0.as_ref(), path.as_ref(), bytes, Durability::Now).await {
            Ok(Recorded::Mine) => Ok(()),
            Ok(Recorded::Theirs(_)) => Err(taken(path)),
            Err(error) => Err(failed(error)),
        }
    }

    /// Puts bytes in the place of others. A reader may find neither for a moment: what the library
    /// overwrites (the hint at the newest checkpoint) may be missing at any time.
    async fn replace(&self, path: &Path, bytes: Bytes) -> Outcome<()> {
        for _ in 0..4 {
            match self.0.create(path.as_ref(), bytes.clone(), Durability::Now).await {
                Ok(Created::New) => return Ok(()),
                Ok(Created::Exists(found)) if found == bytes => return Ok(()),
                Ok(Created::Exists(_)) => self.0.delete(path.as_ref()).await.map_err(failed)?,
                Err(CreateError::NotDone(error) | CreateError::MaybeDone(error)) => {
                    return Err(failed(error));
                }
            }
        }
        Err(failed(Error::unavailable(format!("{path} is written by others again and again"))))
    }

    async fn entries(&self, prefix: Option<&Path>) -> Outcome<Vec<ObjectMeta>> {
        let folder = prefix.map(ToString::to_string).unwrap_or_default();
        let mut found: Vec<ObjectMeta> = match self.0.list_deep(&folder, false).await {
            Ok(entries) => entries.iter().map(meta).collect(),
            Err(error) => return Err(failed(error)),
        };
        // The library reads a log in the order of its listing.
        found.sort_by(|a, b| a.location.cmp(&b.location));
        Ok(found)
    }
}

fn whole(payload: PutPayload) -> Bytes {
    let mut parts = payload.into_iter();
    let Some(first) = parts.next() else { return Bytes::new() };
    let mut rest = parts.peekable();
    if rest.peek().is_none() {
        return first;
    }
    let mut all = BytesMut::from(first.as_ref());
    for part in rest {
        all.extend_from_slice(&part);
    }
    all.freeze()
}

fn bounds(wanted: Option<&GetRange>, size: u64) -> Range<u64> {
    match wanted {
        None => 0..size,
        Some(GetRange::Bounded(range)) => range.start.min(size)..range.end.min(size),
        Some(GetRange::Offset(start)) => (*start).min(size)..size,
        Some(GetRange::Suffix(length)) => size.saturating_sub(*length)..size,
    }
}

#[async_trait]
impl ObjectStore for Bridge {
    async fn put_opts(
        &self,
        to: &Path,
        payload: PutPayload,
        how: PutOptions,
    ) -> Outcome<PutResult> {
        let bytes = whole(payload);
        match how.mode {
            PutMode::Create => self.create(to, bytes).await?,
            PutMode::Overwrite => self.replace(to, bytes).await?,
            PutMode::Update(_) => {
                return Err(ObjectStoreError::NotImplemented {
                    operation: "a conditional update".to_owned(),
                    implementer: "a table folder".to_owned(),
                });
            }
        }
        Ok(done())
    }

    async fn put_multipart_opts(
        &self,
        to: &Path,
        _: PutMultipartOptions,
    ) -> Outcome<Box<dyn MultipartUpload>> {
        let tag = uuid::Uuid::new_v4().simple().to_string();
        let writer = self.0.stage(to.as_ref(), &tag).await.map_err(failed)?;
        Ok(Box::new(Upload {
            store: Arc::clone(&self.0),
            waiting: Arc::default(),
            writer: Arc::new(AsyncMutex::new(Some(writer))),
        }))
    }

    async fn get_opts(&self, from: &Path, how: GetOptions) -> Outcome<GetResult> {
        let entry = self.0.stat(from.as_ref()).await.map_err(failed)?;
        let meta = meta(&entry.ok_or_else(|| not_found(from))?);
        how.check_preconditions(&meta)?;
        let range = bounds(how.range.as_ref(), meta.size);
        let bytes = if how.head || range.is_empty() {
            Bytes::new()
        } else {
            let length = range.end - range.start;
            self.0.read_range(from.as_ref(), range.start, length).await.map_err(failed)?
        };
        Ok(GetResult {
            payload: GetResultPayload::Stream(futures::stream::iter([Ok(bytes)]).boxed()),
            meta,
            range,
            attributes: Default::default(),
        })
    }

    async fn get_ranges(&self, from: &Path, ranges: &[Range<u64>]) -> Outcome<Vec<Bytes>> {
        let reads = ranges.iter().map(|range| {
            self.0.read_range(from.as_ref(), range.start, range.end.saturating_sub(range.start))
        });
        futures::future::try_join_all(reads).await.map_err(failed)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Outcome<Path>>,
    ) -> BoxStream<'static, Outcome<Path>> {
        let store = Arc::clone(&self.0);
        locations
            .then(move |path| {
                let store = Arc::clone(&store);
                async move {
                    let path = path?;
                    store.delete(path.as_ref()).await.map_err(failed)?;
                    Ok(path)
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Outcome<ObjectMeta>> {
        let (bridge, prefix) = (self.clone(), prefix.cloned());
        futures::stream::once(async move {
            match bridge.entries(prefix.as_ref()).await {
                Ok(entries) => entries.into_iter().map(Ok).collect::<Vec<_>>(),
                Err(error) => vec![Err(error)],
            }
        })
        .flat_map(futures::stream::iter)
        .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Outcome<ListResult> {
        let root = prefix.cloned().unwrap_or_default();
        let (mut folders, mut objects) = (BTreeSet::new(), Vec::new());
        for object in self.entries(prefix).await? {
            let Some(mut parts) = object.location.prefix_match(&root) else { continue };
            let first = parts.next();
            match (first, parts.next()) {
                (Some(folder), Some(_)) => {
                    folders.insert(root.clone().join(folder));
                }
                _ => {
                    drop(parts);
                    objects.push(object);
                }
            }
        }
        Ok(ListResult { common_prefixes: folders.into_iter().collect(), objects })
    }

    async fn copy_opts(&self, from: &Path, to: &Path, how: CopyOptions) -> Outcome<()> {
        let found = self.0.read(from.as_ref()).await.map_err(failed)?;
        let bytes = found.ok_or_else(|| not_found(from))?;
        match how.mode {
            CopyMode::Create => self.create(to, bytes).await,
            CopyMode::Overwrite => self.replace(to, bytes).await,
        }
    }
}

type Writer = Arc<AsyncMutex<Option<Box<dyn StagedWriter>>>>;

/// A file that comes in parts, in the order in which they were handed over.
#[derive(Debug)]
struct Upload {
    store: Arc<dyn Store>,
    waiting: Arc<Mutex<VecDeque<Bytes>>>,
    writer: Writer,
}

fn next(waiting: &Mutex<VecDeque<Bytes>>) -> Option<Bytes> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

fn ended() -> ObjectStoreError {
    failed(Error::internal("a part came after the end of its file"))
}

async fn write_waiting(waiting: &Mutex<VecDeque<Bytes>>, writer: &Writer) -> Outcome<()> {
    // Whoever has the writer writes all that waits, so that order does not depend on who came first.
    let mut writer = writer.lock().await;
    let writer = writer.as_mut().ok_or_else(ended)?;
    while let Some(bytes) = next(waiting) {
        writer.write(bytes).await.map_err(failed)?;
    }
    Ok(())
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let mut queue = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        queue.extend(data);
        drop(queue);
        let (waiting, writer) = (Arc::clone(&self.waiting), Arc::clone(&self.writer));
        Box::pin(async move { write_waiting(&waiting, &writer).await })
    }

    async fn complete(&mut self) -> Outcome<PutResult> {
        write_waiting(&self.waiting, &self.writer).await?;
        let writer = self.writer.lock().await.take().ok_or_else(ended)?;
        let staged = writer.finish().await.map_err(failed)?;
        let path = staged.path.clone();
        // A checkpoint of a version says what every other one of it says.
        let stays = path.starts_with("_delta_log/") && path.ends_with(".parquet");
        if stays && self.store.stat(&path).await.map_err(failed)?.is_some() {
            self.store.discard(&[staged]).await.map_err(failed)?;
            return Ok(done());
        }
        self.store.reveal(&[staged]).await.map_err(failed)?;
        Ok(done())
    }

    async fn abort(&mut self) -> Outcome<()> {
        match self.writer.lock().await.take() {
            Some(writer) => writer.abandon().await.map_err(failed),
            None => Ok(()),
        }
    }
}
