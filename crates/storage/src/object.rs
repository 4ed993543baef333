//! Files in an object store: S3, Google Cloud Storage, Azure.
//!
//! A file is created by a conditional put. Its answer may lie: the client tries again after a
//! server's error, and a try that landed makes the next one lose to it; and a store may refuse
//! because another put is in flight which then fails. So a taken name is always read back, and a
//! name that is taken and not there is tried again.
//!
//! A staged file is a multipart upload that is completed when it is revealed: until then no listing
//! shows it. Uploads that nobody completes or aborts (the process died) cost space until
//! [`Store::abort_uploads`] or the bucket's own rule for incomplete uploads ends them; set one.
//!
//! # Durability
//! What the store acknowledged is durable; [`Durability`] makes no difference.

mod connect;
mod reason;
mod staged;
mod uploads;

pub(crate) use connect::connect;
pub use reason::redact;

use crate::location::{check_folder, check_relative, encode_path, join_path, split_path};
use crate::planted::{Bug, planted};
use crate::store::PathTest;
use crate::{CreateError, Created, Durability, Entry, Staged, StagedWriter, Store};
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::multipart::MultipartStore;
use object_store::path::Path as Key;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use onefold_types::{Error, Result};
use reason::{certainly_not_done, doubt, fault};
use std::sync::Arc;
use std::time::Duration;
use uploads::S3Uploads;

/// How often a name that is taken and not there is tried.
const TRIES: u32 = 6;
/// Requests in flight for one call on many files.
const AT_ONCE: usize = 16;

/// What is needed of a client. Uploads are named by text, so that another process can complete
/// them.
pub(crate) trait Bucket: ObjectStore + MultipartStore {}
impl<T: ObjectStore + MultipartStore> Bucket for T {}

/// A client of one bucket.
#[derive(Debug)]
pub(crate) struct Client {
    bucket: Arc<dyn Bucket>,
    uploads: Option<S3Uploads>,
}

/// A prefix in an object store.
#[derive(Debug, Clone)]
pub struct BucketStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    bucket: Arc<dyn Bucket>,
    /// The root's key without slashes at its ends; empty for the whole bucket.
    prefix: String,
    url: String,
    /// Tells the unfinished uploads, where that can be asked.
    uploads: Option<S3Uploads>,
}

/// Waits before a name is tried again: 50 ms, 100 ms, 200 ms …
async fn back_off(tries: u32) {
    tokio::time::sleep(Duration::from_millis(50 << tries.min(6))).await;
}

impl BucketStore {
    /// A store over a client. `start` is the URL up to the prefix: `s3://bucket`.
    pub(crate) fn new(client: Client, start: &str, prefix: &str) -> Self {
        let Client { bucket, uploads } = client;
        let prefix = prefix.trim_matches('/').to_owned();
        let url = match prefix.as_str() {
            "" => start.to_owned(),
            prefix => format!("{start}/{}", encode_path(prefix)),
        };
        BucketStore { inner: Arc::new(Inner { bucket, prefix, url, uploads }) }
    }

    fn bucket(&self) -> &dyn Bucket {
        &*self.inner.bucket
    }

    fn key(&self, path: &str) -> Result<Key> {
        check_relative(path)?;
        self.parse(&join_path(&self.inner.prefix, path))
    }

    fn folder_key(&self, folder: &str) -> Result<Key> {
        check_folder(folder)?;
        match folder {
            "" => self.parse(&self.inner.prefix),
            folder => self.parse(&join_path(&self.inner.prefix, folder)),
        }
    }

    fn parse(&self, key: &str) -> Result<Key> {
        Key::parse(key).map_err(|_| {
            Error::invalid(format!("{key:?} is no name in {}; rename the file", self.inner.url))
        })
    }

    /// The full name of a path, for messages.
    fn name(&self, path: &str) -> String {
        format!("{}/{path}", self.inner.url)
    }

    async fn read_key(&self, path: &str, key: &Key) -> Result<Option<Bytes>> {
        let read = async { self.bucket().get(key).await?.bytes().await };
        match read.await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(fault("read", &self.name(path), &error)),
        }
    }

    /// The name was taken: whose bytes has it? `None`: nobody's, so try again.
    async fn read_taken(&self, path: &str, key: &Key) -> Result<Option<Created>, CreateError> {
        // The try that was refused may be the second of two, the first of which landed.
        let found = self.read_key(path, key).await.map_err(CreateError::MaybeDone)?;
        Ok(found.map(Created::Exists))
    }

    /// Turns an answer to a conditional act into one of its four outcomes; `None`: try again.
    async fn settle_create<T>(
        &self,
        path: &str,
        key: &Key,
        answer: Result<T, object_store::Error>,
    ) -> Result<Option<Created>, CreateError> {
        use object_store::Error as E;
        match answer {
            Ok(_) => Ok(Some(Created::New)),
            Err(E::AlreadyExists { .. } | E::Precondition { .. } | E::NotModified { .. }) => {
                self.read_taken(path, key).await
            }
            Err(error) if certainly_not_done(&error) => {
                Err(CreateError::NotDone(fault("create", &self.name(path), &error)))
            }
            Err(error) => Err(CreateError::MaybeDone(doubt("create", &self.name(path), &error))),
        }
    }

    fn contended(&self, path: &str) -> CreateError {
        CreateError::NotDone(Error::unavailable(format!(
            "the store refuses to create {} as if it were there, but it is not: another process \
             is creating it too; try again",
            self.name(path)
        )))
    }

    fn entry(&self, meta: ObjectMeta) -> Option<Entry> {
        let key = meta.location.as_ref();
        let path = match self.inner.prefix.as_str() {
            "" => key,
            prefix => key.strip_prefix(prefix)?.strip_prefix('/')?,
        };
        Some(Entry {
            path: path.to_owned(),
            size: meta.size,
            modified_ms: meta.last_modified.timestamp_millis(),
            etag: meta.e_tag,
        })
    }

    async fn delete_key(&self, path: &str, key: &Key) -> Result<()> {
        match self.bucket().delete(key).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(fault("remove", &self.name(path), &error)),
        }
    }
}

#[async_trait]
impl Store for BucketStore {
    fn url(&self) -> &str {
        &self.inner.url
    }

    async fn create(
        &self,
        path: &str,
        bytes: Bytes,
        _durability: Durability,
    ) -> Result<Created, CreateError> {
        let key = self.key(path).map_err(CreateError::NotDone)?;
        let mode =
            if planted(Bug::CreateOverwrites) { PutMode::Overwrite } else { PutMode::Create };
        for tries in 0..TRIES {
            let options = PutOptions { mode: mode.clone(), ..PutOptions::default() };
            let payload = PutPayload::from(bytes.clone());
            let answer = self.bucket().put_opts(&key, payload, options).await;
            if let Some(created) = self.settle_create(path, &key, answer).await? {
                return Ok(created);
            }
            back_off(tries).await;
        }
        Err(self.contended(path))
    }

    async fn sync(&self, _paths: &[String]) -> Result<()> {
        // What the store acknowledged is durable.
        Ok(())
    }

    async fn read(&self, path: &str) -> Result<Option<Bytes>> {
        self.read_key(path, &self.key(path)?).await
    }

    async fn read_range(&self, path: &str, start: u64, length: u64) -> Result<Bytes> {
        let key = self.key(path)?;
        if length == 0 {
            return Ok(Bytes::new());
        }
        match self.bucket().get_range(&key, start..start.saturating_add(length)).await {
            Ok(bytes) => Ok(bytes),
            Err(error) => match self.stat(path).await? {
                // Stores refuse a range that starts past the end.
                Some(entry) if entry.size <= start => Ok(Bytes::new()),
                _ => Err(fault("read", &self.name(path), &error)),
            },
        }
    }

    async fn stat(&self, path: &str) -> Result<Option<Entry>> {
        match self.bucket().head(&self.key(path)?).await {
            Ok(meta) => Ok(self.entry(meta)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(fault("look at", &self.name(path), &error)),
        }
    }

    async fn list(&self, folder: &str) -> Result<Vec<Entry>> {
        let key = self.folder_key(folder)?;
        let found = self
            .bucket()
            .list_with_delimiter(Some(&key))
            .await
            .map_err(|error| fault("list", &self.name(folder), &error))?;
        let entries = found.objects.into_iter().filter_map(|meta| self.entry(meta));
        Ok(entries.filter(|entry| !split_path(&entry.path).1.starts_with('.')).collect())
    }

    async fn list_deep(&self, folder: &str, hidden: bool) -> Result<Vec<Entry>> {
        let key = self.folder_key(folder)?;
        let metas: Vec<ObjectMeta> = self
            .bucket()
            .list(Some(&key))
            .try_collect()
            .await
            .map_err(|error| fault("list", &self.name(folder), &error))?;
        let entries = metas.into_iter().filter_map(|meta| self.entry(meta));
        let below = |path: &str| path.strip_prefix(folder).unwrap_or(path).to_owned();
        Ok(entries
            .filter(|entry| {
                hidden || !below(&entry.path).split('/').any(|part| part.starts_with('.'))
            })
            .collect())
    }

    async fn delete(&self, path: &str) -> Result<()> {
        // Hadoop keeps checksum files on local disks only.
        self.delete_key(path, &self.key(path)?).await
    }

    async fn delete_all(&self, paths: &[String]) -> Result<()> {
        stream::iter(paths.to_vec())
            .map(|path| async move { self.delete(&path).await })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    async fn stage(&self, path: &str, _tag: &str) -> Result<Box<dyn StagedWriter>> {
        Ok(Box::new(self.start_upload(path, None).await?))
    }

    async fn stage_record(&self, path: &str, tag: &str) -> Result<Box<dyn StagedWriter>> {
        let (folder, name) = split_path(path);
        let held = join_path(folder, &format!(".{name}.{tag}.staged"));
        Ok(Box::new(self.start_upload(&held, Some(path)).await?))
    }

    async fn reveal(&self, staged: &[Staged]) -> Result<()> {
        stream::iter(staged.to_vec())
            .map(|one| async move { self.complete(&one).await })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    async fn conceal(&self, _paths: &[String]) -> Result<()> {
        Ok(())
    }

    fn concealed(&self, path: &str) -> Staged {
        // The file stays where it is: revealing it again finds it there.
        let path = path.to_owned();
        Staged { path, held_as: String::new(), parts: Vec::new(), size: 0 }
    }

    async fn discard(&self, staged: &[Staged]) -> Result<()> {
        stream::iter(staged.to_vec())
            .map(|one| async move { self.throw_away(&one).await })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    async fn abort_uploads(&self, wanted: PathTest<'_>) -> Result<u64> {
        self.end_uploads(wanted).await
    }

    async fn create_staged(&self, staged: &Staged) -> Result<Created, CreateError> {
        self.copy_to_name(staged).await
    }
}
