//! Files on a local disk, durable when the call returns.
//!
//! A file is written under a hidden name in its own folder, synced, given its final name by a
//! rename that refuses a taken one, and then the folder is synced. So a final name holds a whole
//! file or is not there, whatever instant the process or the machine stops at.
//!
//! # Invariants
//! - Bytes under a final name never change; nothing here overwrites.
//! - A failed sync is never tried again, since the system may have dropped the bytes and would
//!   report success: the store is poisoned and refuses every later durable act.
//! - What [`Store::read`] and [`Store::list`] show of a folder that this store meets for the first
//!   time is made durable first: an earlier process may have died between rename and sync, and
//!   what was decided from a name must not outlive that name.
//!
//! # Cancellation
//! Dropping a future does not stop the act: it runs to its end on a thread of its own.

mod create;
mod disk;
#[cfg(test)]
mod explore;
mod fault;
mod folders;
mod listing;
mod moved;
mod staged;
#[cfg(test)]
mod tests;

pub use moved::move_folder;

use crate::location::{check_folder, check_relative, local_url, split_path};
use crate::{CreateError, Created, Durability, Entry, Staged, StagedWriter, Store};
use async_trait::async_trait;
use bytes::Bytes;
use disk::{Disk, RealDisk};
use fault::fault;
use folders::Folders;
use onefold_types::{Error, ErrorKind, Result};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A folder on a local disk. What it guarantees stands at the head of its module.
#[derive(Debug, Clone)]
pub struct LocalStore {
    inner: Arc<Inner>,
}

/// What the threads that do the work share.
#[derive(Debug)]
struct Inner {
    root: PathBuf,
    url: String,
    disk: Arc<dyn Disk>,
    folders: Folders,
    /// The failed sync that ended this store.
    poison: OnceLock<String>,
}

impl LocalStore {
    /// A store rooted at a folder, which need not exist yet. A relative path starts at the current
    /// folder. Touches nothing.
    ///
    /// # Errors
    /// Invalid, when the path is not UTF-8, or relative while there is no current folder.
    pub fn new(root: impl AsRef<Path>) -> Result<Self> {
        Self::with_disk(root.as_ref(), Arc::new(RealDisk::default()))
    }

    fn with_disk(root: &Path, disk: Arc<dyn Disk>) -> Result<Self> {
        let root = std::path::absolute(root).map_err(|error| {
            let text = format!("path {} has no absolute form", root.display());
            Error::invalid(text).because(error)
        })?;
        let root = without_dots(&root);
        let url = local_url(&root)?;
        let inner =
            Inner { folders: Folders::new(&root), root, url, disk, poison: OnceLock::new() };
        Ok(LocalStore { inner: Arc::new(inner) })
    }

    /// The root folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.inner.root
    }

    /// Runs blocking work on a thread where that harms nobody.
    async fn blocking<T, E>(
        &self,
        broken: fn(Error) -> E,
        work: impl FnOnce(&Inner) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let inner = Arc::clone(&self.inner);
        match tokio::task::spawn_blocking(move || work(&inner)).await {
            Ok(outcome) => outcome,
            Err(error) => Err(broken(
                Error::new(ErrorKind::Unknown, "the work on a file was cut off").because(error),
            )),
        }
    }

    /// As [`Self::blocking`] for work whose error is the general one.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.blocking(|error| error, work).await
    }
}

/// A path without `..`, by its text alone, so that the URL names one place in one way.
fn without_dots(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        if part == std::path::Component::ParentDir {
            clean.pop();
        } else {
            clean.push(part);
        }
    }
    clean
}

impl Inner {
    /// The place on disk of a path inside the store.
    fn place(&self, path: &str) -> Result<PathBuf> {
        check_relative(path)?;
        Ok(self.root.join(path))
    }

    fn folder(&self, folder: &str) -> Result<PathBuf> {
        check_folder(folder)?;
        Ok(if folder.is_empty() { self.root.clone() } else { self.root.join(folder) })
    }

    /// Refuses a durable act after a failed sync.
    fn check_poison(&self) -> Result<()> {
        match self.poison.get() {
            None => Ok(()),
            Some(cause) => Err(Error::restart(format!(
                "{} is closed to changes since a sync failed ({cause}): what it holds is not \
                 certain to be on disk; check the disk, then start the process again",
                self.root.display()
            ))),
        }
    }

    /// Remembers a failed sync. The outcome is not known, and only a new process can find it out.
    fn poisoned(&self, act: &str, path: &Path, error: std::io::Error) -> Error {
        let cause = format!("cannot {act} {}: {error}", path.display());
        tracing::error!(%cause, "a sync failed; the store takes no more changes");
        let _ = self.poison.set(cause);
        let fault = fault(act, path, error);
        let text = format!(
            "{fault}; a sync that failed is not tried again: start the process again to recover"
        );
        Error::restart(text).because(fault)
    }

    fn read(&self, path: &str) -> Result<Option<Bytes>> {
        let place = self.place(path)?;
        self.meet(&place)?;
        read_whole(&place)
    }

    fn read_range(&self, path: &str, start: u64, length: u64) -> Result<Bytes> {
        let place = self.place(path)?;
        let read = || -> std::io::Result<Bytes> {
            let mut file = std::fs::File::open(&place)?;
            file.seek(SeekFrom::Start(start))?;
            let there = file.metadata()?.len().saturating_sub(start).min(length);
            // One more than there is, so that meeting the end asks for no more memory.
            let mut bytes = Vec::with_capacity(usize::try_from(there).map_or(0, |it| it + 1));
            file.take(length).read_to_end(&mut bytes)?;
            Ok(bytes.into())
        };
        read().map_err(|error| fault("read", &place, error))
    }

    fn delete_all(&self, paths: &[String]) -> Result<()> {
        self.check_poison()?;
        let mut changed: Vec<PathBuf> = Vec::new();
        for path in paths {
            let place = self.place(path)?;
            let checksum = crate::store::sibling_checksum(path);
            let gone = self.remove(&place)?;
            let checksum_gone = self.remove(&self.place(&checksum)?)?;
            if let Some(folder) = place.parent()
                && (gone || checksum_gone)
                && !changed.iter().any(|known| known == folder)
            {
                changed.push(folder.to_owned());
            }
        }
        changed.iter().try_for_each(|folder| self.sync_folder(folder))
    }

    /// Removes a file; whether it was there.
    fn remove(&self, place: &Path) -> Result<bool> {
        match self.disk.remove(place) {
            Ok(()) => Ok(true),
            Err(error) if absent(&error) => Ok(false),
            Err(error) => Err(fault("remove", place, error)),
        }
    }
}

/// Whether an error says that there is no such file.
fn absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

/// The bytes of a file, if it is there.
fn read_whole(place: &Path) -> Result<Option<Bytes>> {
    match std::fs::read(place) {
        Ok(bytes) => Ok(Some(bytes.into())),
        Err(error) if absent(&error) => Ok(None),
        Err(error) => Err(fault("read", place, error)),
    }
}

#[async_trait]
impl Store for LocalStore {
    fn url(&self) -> &str {
        &self.inner.url
    }

    async fn create(
        &self,
        path: &str,
        bytes: Bytes,
        durability: Durability,
    ) -> Result<Created, CreateError> {
        let path = path.to_owned();
        self.blocking(CreateError::MaybeDone, move |inner| inner.create(&path, &bytes, durability))
            .await
    }

    async fn sync(&self, paths: &[String]) -> Result<()> {
        let paths = paths.to_vec();
        self.run(move |inner| inner.sync_created(&paths)).await
    }

    async fn read(&self, path: &str) -> Result<Option<Bytes>> {
        let path = path.to_owned();
        self.run(move |inner| inner.read(&path)).await
    }

    async fn read_range(&self, path: &str, start: u64, length: u64) -> Result<Bytes> {
        let path = path.to_owned();
        self.run(move |inner| inner.read_range(&path, start, length)).await
    }

    async fn stat(&self, path: &str) -> Result<Option<Entry>> {
        let path = path.to_owned();
        self.run(move |inner| inner.stat(&path)).await
    }

    async fn list(&self, folder: &str) -> Result<Vec<Entry>> {
        let folder = folder.to_owned();
        self.run(move |inner| inner.list(&folder)).await
    }

    async fn list_deep(&self, folder: &str, hidden: bool) -> Result<Vec<Entry>> {
        let folder = folder.to_owned();
        self.run(move |inner| inner.list_deep(&folder, hidden)).await
    }

    async fn names_deep(&self, folder: &str, hidden: bool) -> Result<Vec<String>> {
        let folder = folder.to_owned();
        self.run(move |inner| inner.names_deep(&folder, hidden)).await
    }

    async fn delete(&self, path: &str) -> Result<()> {
        self.delete_all(&[path.to_owned()]).await
    }

    async fn delete_all(&self, paths: &[String]) -> Result<()> {
        let paths = paths.to_vec();
        self.run(move |inner| inner.delete_all(&paths)).await
    }

    async fn stage(&self, path: &str, tag: &str) -> Result<Box<dyn StagedWriter>> {
        let (path, tag) = (path.to_owned(), tag.to_owned());
        let store = self.clone();
        let writer = self.run(move |inner| inner.stage(store, &path, &tag)).await?;
        Ok(Box::new(writer))
    }

    async fn reveal(&self, staged: &[Staged]) -> Result<()> {
        let staged = staged.to_vec();
        self.run(move |inner| inner.reveal(&staged)).await
    }

    async fn conceal(&self, paths: &[String]) -> Result<()> {
        let paths = paths.to_vec();
        self.run(move |inner| inner.conceal(&paths)).await
    }

    fn concealed(&self, path: &str) -> Staged {
        concealed(path)
    }

    async fn discard(&self, staged: &[Staged]) -> Result<()> {
        let staged = staged.to_vec();
        self.run(move |inner| inner.discard(&staged)).await
    }

    async fn create_staged(&self, staged: &Staged) -> Result<Created, CreateError> {
        let staged = staged.clone();
        self.blocking(CreateError::MaybeDone, move |inner| inner.create_staged(&staged)).await
    }
}

/// Where [`Store::conceal`] puts a file.
fn concealed(path: &str) -> Staged {
    let (folder, name) = split_path(path);
    let held_as = crate::location::join_path(folder, &format!(".{name}.concealed.staged"));
    Staged { path: path.to_owned(), held_as, parts: Vec::new(), size: 0 }
}
