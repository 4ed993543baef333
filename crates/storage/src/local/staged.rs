//! Staged files: hidden names beside their final ones.

use super::create::beside;
use super::fault::fault;
use super::{Inner, LocalStore, concealed};
use crate::location::{join_path, split_path};
use crate::{CreateError, Created, Durability, Staged, StagedWriter};
use async_trait::async_trait;
use bytes::Bytes;
use onefold_types::{Error, ErrorKind, Result};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes gathered before they go to the disk, so that many small writes cost few threads' turns.
const GATHERED: usize = 1 << 20;

/// A staged file on a local disk.
#[derive(Debug)]
pub(super) struct LocalWriter {
    store: LocalStore,
    staged: Staged,
    hidden: PathBuf,
    /// `None` once the file is finished or abandoned.
    file: Option<Arc<File>>,
    gathered: Vec<Bytes>,
    gathered_bytes: usize,
}

impl LocalWriter {
    /// Writes out what was gathered; syncs if asked to.
    async fn flush(&mut self, sync: bool) -> Result<()> {
        let Some(file) = self.file.clone() else {
            return Err(Error::internal(format!("{} is closed", self.hidden.display())));
        };
        let parts = std::mem::take(&mut self.gathered);
        self.gathered_bytes = 0;
        let hidden = self.hidden.clone();
        self.store
            .run(move |inner| {
                inner.check_poison()?;
                for part in parts {
                    inner
                        .disk
                        .write(&file, &hidden, &part)
                        .map_err(|error| fault("write", &hidden, error))?;
                }
                if sync { inner.sync_file(&file, &hidden) } else { Ok(()) }
            })
            .await
    }
}

#[async_trait]
impl StagedWriter for LocalWriter {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.staged.size += bytes.len() as u64;
        self.gathered_bytes += bytes.len();
        self.gathered.push(bytes);
        if self.gathered_bytes >= GATHERED { self.flush(false).await } else { Ok(()) }
    }

    async fn finish(mut self: Box<Self>) -> Result<Staged> {
        self.flush(true).await?;
        self.file = None;
        Ok(self.staged.clone())
    }

    async fn create_later(mut self: Box<Self>) -> Result<Created, CreateError> {
        self.flush(false).await.map_err(CreateError::NotDone)?;
        self.file = None;
        let (hidden, path) = (self.hidden.clone(), self.staged.path.clone());
        self.store
            .blocking(CreateError::MaybeDone, move |inner| {
                let place = inner.place(&path).map_err(CreateError::NotDone)?;
                inner.name_hidden(&hidden, &place, Durability::Later)
            })
            .await
    }

    async fn abandon(mut self: Box<Self>) -> Result<()> {
        self.file = None;
        let hidden = self.hidden.clone();
        self.store.run(move |inner| inner.remove(&hidden).map(|_| ())).await
    }
}

impl Drop for LocalWriter {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            let _ = self.store.inner.disk.remove(&self.hidden);
        }
    }
}

impl Inner {
    pub(super) fn stage(&self, store: LocalStore, path: &str, tag: &str) -> Result<LocalWriter> {
        self.check_poison()?;
        let place = self.place(path)?;
        if tag.is_empty() || tag.contains(['/', '\0']) {
            return Err(Error::internal(format!("{tag:?} cannot be part of a file name")));
        }
        let (folder, name) = split_path(path);
        let held_as = join_path(folder, &format!(".{name}.{tag}.staged"));
        let hidden = beside(&place, |name| format!(".{name}.{tag}.staged"));
        let file = Some(Arc::new(self.open_hidden(&hidden)?));
        let staged = Staged { path: path.to_owned(), held_as, parts: Vec::new(), size: 0 };
        Ok(LocalWriter { store, staged, hidden, file, gathered: Vec::new(), gathered_bytes: 0 })
    }

    /// Renames all, then syncs each folder once.
    pub(super) fn reveal(&self, staged: &[Staged]) -> Result<()> {
        self.check_poison()?;
        let mut renamed = false;
        for one in staged {
            self.reveal_one(one).map_err(|error| if renamed { half_done(error) } else { error })?;
            renamed = true;
        }
        self.sync_folders(staged.iter().map(|one| one.path.as_str()))
    }

    fn reveal_one(&self, staged: &Staged) -> Result<()> {
        let (hidden, place) = (self.place(&staged.held_as)?, self.place(&staged.path)?);
        match self.disk.rename_new(&hidden, &place) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.check_revealed(staged, &hidden, &place)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if same_file(&hidden, &place) {
                    // Linked but not unlinked before a crash.
                    return self.remove(&hidden).map(|_| ());
                }
                Err(Error::corrupt(format!(
                    "cannot give {} its name: another file has it, which is never overwritten; \
                     find out who writes into this folder and move that file away",
                    place.display()
                )))
            }
            Err(error) => Err(fault("give its final name to", &hidden, error)),
        }
    }

    /// The hidden file is gone: fine if an earlier call revealed it.
    fn check_revealed(&self, staged: &Staged, hidden: &Path, place: &Path) -> Result<()> {
        let any_size = staged.held_as == concealed(&staged.path).held_as;
        match self.stat(&staged.path)? {
            Some(found) if any_size || found.size == staged.size => Ok(()),
            Some(found) => Err(Error::corrupt(format!(
                "{} has {} bytes, but {} were staged for it; another process writes into this \
                 folder or the file was changed",
                place.display(),
                found.size,
                staged.size
            ))),
            None => Err(Error::corrupt(format!(
                "the staged file {} is gone and {} is not there; another process removed it",
                hidden.display(),
                place.display()
            ))),
        }
    }

    pub(super) fn conceal(&self, paths: &[String]) -> Result<()> {
        self.check_poison()?;
        let mut changed = Vec::new();
        for path in paths {
            let (place, hidden) = (self.place(path)?, self.place(&concealed(path).held_as)?);
            match self.disk.rename_new(&place, &hidden) {
                Ok(()) => changed.push(path.as_str()),
                Err(error) if super::absent(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if !same_file(&hidden, &place) {
                        return Err(Error::corrupt(format!(
                            "cannot take {} out of sight: {} is there already; compare the two \
                             and move one away",
                            place.display(),
                            hidden.display()
                        )));
                    }
                    self.remove(&place)?;
                    changed.push(path.as_str());
                }
                Err(error) => return Err(fault("take out of sight", &place, error)),
            }
        }
        self.sync_folders(changed.into_iter())
    }

    pub(super) fn discard(&self, staged: &[Staged]) -> Result<()> {
        self.check_poison()?;
        let mut changed = Vec::new();
        for one in staged {
            let (hidden, place) = (self.place(&one.held_as)?, self.place(&one.path)?);
            let linked = same_file(&hidden, &place);
            let held = self.remove(&hidden)?;
            if (!held || linked) && self.remove(&place)? {
                changed.push(one.path.as_str());
            }
        }
        // A hidden file that comes back after a power cut is seen by nobody.
        self.sync_folders(changed.into_iter())
    }

    pub(super) fn create_staged(&self, staged: &Staged) -> Result<Created, CreateError> {
        let places = || -> Result<(PathBuf, PathBuf)> {
            self.check_poison()?;
            Ok((self.place(&staged.held_as)?, self.place(&staged.path)?))
        };
        let (hidden, place) = places().map_err(CreateError::NotDone)?;
        match self.give_name(&hidden, &place, Durability::Now) {
            Err(CreateError::NotDone(error)) if !hidden.exists() => {
                // An earlier call may have got this far.
                match super::read_whole(&place).map_err(CreateError::NotDone)? {
                    None => Err(CreateError::NotDone(error)),
                    Some(found) => {
                        let folder = place.parent().unwrap_or(&self.root);
                        self.sync_folder(folder).map_err(CreateError::MaybeDone)?;
                        Ok(Created::Exists(found))
                    }
                }
            }
            outcome => outcome,
        }
    }

    pub(super) fn sync_folders<'a>(&self, paths: impl Iterator<Item = &'a str>) -> Result<()> {
        let mut folders: Vec<PathBuf> = Vec::new();
        for path in paths {
            let folder = self.folder(split_path(path).0)?;
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        folders.iter().try_for_each(|folder| self.sync_folder(folder))
    }
}

/// Some files of a reveal have their names already.
fn half_done(error: Error) -> Error {
    let text = format!("{error}; some files of this batch have their final names already");
    let kind = match error.kind() {
        kind @ (ErrorKind::Corrupt | ErrorKind::Restart) => kind,
        _ => ErrorKind::Unknown,
    };
    Error::new(kind, text).because(error)
}

fn same_file(one: &Path, other: &Path) -> bool {
    match (std::fs::metadata(one), std::fs::metadata(other)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}
