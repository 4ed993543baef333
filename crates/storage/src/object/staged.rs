//! Staged files as multipart uploads.
//!
//! Two kinds, since no store can complete an upload under a condition through its client here:
//! - a file for [`Store::reveal`](crate::Store::reveal) is an upload to its final key; its name is
//!   unique to the attempt, so nobody else completes one there;
//! - a file for [`Store::create_staged`](crate::Store::create_staged), whose name others want too,
//!   is a finished object under a hidden key, which a conditional copy then gives its name.

use super::reason::{certainly_not_done, doubt, fault};
use super::{BucketStore, TRIES, back_off};
use crate::{CreateError, Created, Staged, StagedWriter, Store};
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use object_store::multipart::PartId;
use object_store::path::Path as Key;
use object_store::{CopyMode, CopyOptions, PutPayload};
use onefold_types::{Error, ErrorKind, Result};

/// Bytes of a part. All but the last are of this size; stores ask for at least 5 MiB.
const PART: usize = 8 << 20;
/// Parts that a store takes for one file.
const PARTS_MAX: usize = 10_000;

/// An upload in progress.
#[derive(Debug)]
pub(super) struct Upload {
    store: BucketStore,
    /// The path of the key uploaded to.
    path: String,
    key: Key,
    id: String,
    /// For a record: the name it will be given.
    record: Option<String>,
    parts: Vec<String>,
    gathered: BytesMut,
    size: u64,
    /// Whether the upload still needs an end.
    open: bool,
}

impl Upload {
    async fn send(&mut self, part: Bytes) -> Result<()> {
        let name = self.store.name(&self.path);
        if self.parts.len() >= PARTS_MAX {
            return Err(Error::invalid(format!(
                "{name} has more than {} bytes, which an object store takes for no file; write \
                 smaller files",
                PART * PARTS_MAX
            )));
        }
        let part = self
            .store
            .bucket()
            .put_part(&self.key, &self.id, self.parts.len(), PutPayload::from(part))
            .await
            .map_err(|error| fault("write", &name, &error))?;
        self.parts.push(part.content_id);
        Ok(())
    }
}

#[async_trait]
impl StagedWriter for Upload {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.size += bytes.len() as u64;
        self.gathered.extend_from_slice(&bytes);
        while self.gathered.len() >= PART {
            let part = self.gathered.split_to(PART).freeze();
            self.send(part).await?;
        }
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<Staged> {
        if !self.gathered.is_empty() || self.parts.is_empty() {
            let part = self.gathered.split().freeze();
            self.send(part).await?;
        }
        self.open = false;
        let upload = Staged {
            path: self.path.clone(),
            held_as: self.id.clone(),
            parts: std::mem::take(&mut self.parts),
            size: self.size,
        };
        let Some(record) = self.record.take() else {
            return Ok(upload);
        };
        self.store.complete(&upload).await?;
        Ok(Staged { path: record, held_as: upload.path, parts: Vec::new(), size: upload.size })
    }

    async fn create_later(self: Box<Self>) -> Result<Created, CreateError> {
        let store = self.store.clone();
        let staged = self.finish().await.map_err(CreateError::NotDone)?;
        let created = store.create_staged(&staged).await;
        if !matches!(created, Ok(Created::New)) {
            store.throw_held_away(&staged).await;
        }
        created
    }

    async fn abandon(mut self: Box<Self>) -> Result<()> {
        self.open = false;
        self.store.abort(&self.path, &self.key, &self.id).await
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (store, path) = (self.store.clone(), self.path.clone());
            let (key, id) = (self.key.clone(), self.id.clone());
            runtime.spawn(async move {
                if let Err(error) = store.abort(&path, &key, &id).await {
                    tracing::debug!(%error, "an upload was left unfinished");
                }
            });
        }
    }
}

impl BucketStore {
    pub(super) async fn start_upload(&self, path: &str, record: Option<&str>) -> Result<Upload> {
        let key = self.key(path)?;
        let id = self
            .bucket()
            .create_multipart(&key)
            .await
            .map_err(|error| fault("start writing", &self.name(path), &error))?;
        Ok(Upload {
            store: self.clone(),
            path: path.to_owned(),
            key,
            id,
            record: record.map(str::to_owned),
            parts: Vec::new(),
            gathered: BytesMut::new(),
            size: 0,
            open: true,
        })
    }

    /// Completes an upload unless that was done already.
    pub(super) async fn complete(&self, staged: &Staged) -> Result<()> {
        let key = self.key(&staged.path)?;
        if self.revealed(staged).await? {
            return Ok(());
        }
        if staged.parts.is_empty() {
            return Err(self.lost(staged));
        }
        let parts = staged.parts.iter().map(|part| PartId { content_id: part.clone() }).collect();
        let answer = self.bucket().complete_multipart(&key, &staged.held_as, parts).await;
        let Err(error) = answer else {
            return Ok(());
        };
        // The answer to an earlier try of this request may have been lost.
        match self.revealed(staged).await {
            Ok(true) => Ok(()),
            Ok(false) if gone(&error) => Err(self.lost(staged)),
            Ok(false) if certainly_not_done(&error) => {
                Err(fault("reveal", &self.name(&staged.path), &error))
            }
            Ok(false) | Err(_) => Err(doubt("reveal", &self.name(&staged.path), &error)),
        }
    }

    /// Whether a staged file has its final name.
    async fn revealed(&self, staged: &Staged) -> Result<bool> {
        let any_size = staged.held_as.is_empty() && staged.parts.is_empty();
        match self.stat(&staged.path).await? {
            None => Ok(false),
            Some(found) if any_size || found.size == staged.size => Ok(true),
            Some(found) => Err(Error::corrupt(format!(
                "{} has {} bytes, but {} were staged for it; it is never overwritten: find out who \
                 else writes here",
                self.name(&staged.path),
                found.size,
                staged.size
            ))),
        }
    }

    fn lost(&self, staged: &Staged) -> Error {
        Error::corrupt(format!(
            "the upload of {} is gone and the file is not there; another process aborted it, or \
             the bucket's rule for incomplete uploads is too short",
            self.name(&staged.path)
        ))
    }

    pub(super) async fn abort(&self, path: &str, key: &Key, id: &str) -> Result<()> {
        match self.bucket().abort_multipart(key, &id.to_owned()).await {
            Ok(()) => Ok(()),
            // Completed or aborted before.
            Err(error) if gone(&error) => Ok(()),
            Err(error) => Err(fault("throw away", &self.name(path), &error)),
        }
    }

    pub(super) async fn throw_away(&self, staged: &Staged) -> Result<()> {
        let key = self.key(&staged.path)?;
        if !staged.parts.is_empty() {
            self.abort(&staged.path, &key, &staged.held_as).await?;
            return self.delete_key(&staged.path, &key).await;
        }
        if staged.held_as.is_empty() {
            return self.delete_key(&staged.path, &key).await;
        }
        // A record: while it is held, the name is not its own.
        let held = self.key(&staged.held_as)?;
        match self.stat(&staged.held_as).await? {
            Some(_) => self.delete_key(&staged.held_as, &held).await,
            None => self.delete_key(&staged.path, &key).await,
        }
    }

    /// Removes the hidden object of a record that got no name. Nobody sees it; a failure leaves it
    /// over.
    async fn throw_held_away(&self, staged: &Staged) {
        let gone = async { self.delete_key(&staged.held_as, &self.key(&staged.held_as)?).await };
        if let Err(error) = gone.await {
            tracing::debug!(%error, "a hidden object is left over");
        }
    }

    /// Gives a finished hidden object its name by a copy that refuses a taken one.
    pub(super) async fn copy_to_name(&self, staged: &Staged) -> Result<Created, CreateError> {
        if !staged.parts.is_empty() || staged.held_as.is_empty() {
            return Err(CreateError::NotDone(Error::internal(format!(
                "{} was not staged as a record",
                self.name(&staged.path)
            ))));
        }
        let keys = || Ok((self.key(&staged.held_as)?, self.key(&staged.path)?));
        let (held, key) = keys().map_err(CreateError::NotDone)?;
        for tries in 0..TRIES {
            let options = CopyOptions { mode: CopyMode::Create, ..CopyOptions::default() };
            let answer = self.bucket().copy_opts(&held, &key, options).await;
            if let Err(error) = &answer
                && gone(error)
            {
                return self.copied_before(staged, &key, error).await;
            }
            match self.settle_create(&staged.path, &key, answer).await? {
                Some(Created::New) => {
                    if let Err(error) = self.delete_key(&staged.held_as, &held).await {
                        tracing::debug!(%error, "a hidden object is left over");
                    }
                    return Ok(Created::New);
                }
                Some(exists) => return Ok(exists),
                None => back_off(tries).await,
            }
        }
        Err(self.contended(&staged.path))
    }

    /// The hidden object is gone: an earlier call may have got this far.
    async fn copied_before(
        &self,
        staged: &Staged,
        key: &Key,
        error: &object_store::Error,
    ) -> Result<Created, CreateError> {
        match self.read_taken(&staged.path, key).await? {
            Some(exists) => Ok(exists),
            None => {
                let fault = fault("create", &self.name(&staged.path), error);
                let text = format!("{fault}; what was staged for it is gone");
                Err(CreateError::NotDone(Error::new(ErrorKind::Corrupt, text)))
            }
        }
    }
}

/// Whether an upload or an object is not there. Stores say so of an upload with 404 or, within a
/// generic error, with the code.
fn gone(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::NotFound { .. })
        || error.to_string().contains("NoSuchUpload")
}
