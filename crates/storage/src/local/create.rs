//! Creating a file: hidden name, write, sync, rename without replace, sync of the folder.

use super::disk::rename_certainly_failed;
use super::fault::fault;
use super::{Inner, read_whole};
use crate::planted::{Bug, planted};
use crate::{CreateError, Created, Durability};
use bytes::Bytes;
use onefold_types::{Error, ErrorKind, Result};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// How often a name that is taken and then gone again is tried.
const TRIES: usize = 5;

impl Inner {
    pub(super) fn create(
        &self,
        path: &str,
        bytes: &[u8],
        durability: Durability,
    ) -> Result<Created, CreateError> {
        let (place, hidden) = self
            .check_poison()
            .and_then(|()| {
                let place = self.place(path)?;
                let hidden = self.write_hidden(&place, bytes, durability)?;
                Ok((place, hidden))
            })
            .map_err(CreateError::NotDone)?;
        self.name_hidden(&hidden, &place, durability)
    }

    /// Gives a hidden file its final name, or removes it.
    pub(super) fn name_hidden(
        &self,
        hidden: &Path,
        place: &Path,
        durability: Durability,
    ) -> Result<Created, CreateError> {
        let outcome = self.give_name(hidden, place, durability);
        if !matches!(outcome, Ok(Created::New)) {
            // Gone already if the rename took place.
            let _ = self.disk.remove(hidden);
        }
        outcome
    }

    /// Makes files durable that were created without a sync.
    pub(super) fn sync_created(&self, paths: &[String]) -> Result<()> {
        self.check_poison()?;
        for path in paths {
            let place = self.place(path)?;
            match File::open(&place) {
                Ok(file) => self.sync_file(&file, &place)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(Error::corrupt(format!(
                        "{} is gone before it was made durable; something else deletes in this \
                         folder: stop it",
                        place.display()
                    ))
                    .because(error));
                }
                Err(error) => return Err(fault("open", &place, error)),
            }
        }
        self.sync_folders(paths.iter().map(String::as_str))
    }

    /// Writes a hidden file beside its later place, as durable as asked for. After an error
    /// nothing is left.
    fn write_hidden(&self, place: &Path, bytes: &[u8], durability: Durability) -> Result<PathBuf> {
        let nonce = uuid::Uuid::new_v4();
        let hidden = beside(place, |name| format!(".{name}.{nonce}.tmp"));
        let file = self.open_hidden(&hidden)?;
        let written = match self.disk.write(&file, &hidden, bytes) {
            Err(error) => Err(fault("write", place, error)),
            Ok(()) if durability == Durability::Later => Ok(()),
            Ok(()) => self.sync_file(&file, &hidden),
        };
        if let Err(error) = written {
            let _ = self.disk.remove(&hidden);
            return Err(error);
        }
        Ok(hidden)
    }

    /// Opens a hidden file for writing, making its folder when that is missing.
    pub(super) fn open_hidden(&self, hidden: &Path) -> Result<File> {
        let folder = hidden.parent().unwrap_or(&self.root);
        self.settle_folder(folder)?;
        let opened = match self.disk.open_new(hidden) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Someone removed the folder since we met it.
                self.forget_folder(folder);
                self.settle_folder(folder)?;
                self.disk.open_new(hidden)
            }
            outcome => outcome,
        };
        opened.map_err(|error| fault("create", hidden, error))
    }

    /// Makes a file durable that has no final name yet: after a failure nothing happened to any
    /// name, but the store is poisoned all the same.
    pub(super) fn sync_file(&self, file: &File, hidden: &Path) -> Result<()> {
        if planted(Bug::NoFileSync) {
            return Ok(());
        }
        let synced = match self.disk.sync(file, hidden) {
            Err(_) if planted(Bug::SyncRetried) => self.disk.sync(file, hidden),
            outcome => outcome,
        };
        synced.map_err(|error| self.poisoned("sync", hidden, error))
    }

    /// Gives a durable hidden file its final name, durably.
    pub(super) fn give_name(
        &self,
        hidden: &Path,
        place: &Path,
        durability: Durability,
    ) -> Result<Created, CreateError> {
        for _ in 0..TRIES {
            let renamed = if planted(Bug::CreateOverwrites) {
                self.disk.rename_over(hidden, place)
            } else {
                self.disk.rename_new(hidden, place)
            };
            match renamed {
                Ok(()) => {
                    self.sync_name(place, durability)?;
                    return Ok(Created::New);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    // Its creator may not have come to its own sync yet.
                    self.sync_name(place, durability)?;
                    if let Some(found) = self.read_taken(place).map_err(CreateError::NotDone)? {
                        return Ok(Created::Exists(found));
                    }
                }
                Err(error) if rename_certainly_failed(&error) => {
                    return Err(CreateError::NotDone(fault("create", place, error)));
                }
                Err(error) => {
                    let fault = fault("create", place, error);
                    let text = format!("{fault}; whether it is there is not known");
                    let unknown = Error::new(ErrorKind::Unknown, text).because(fault);
                    return Err(CreateError::MaybeDone(unknown));
                }
            }
        }
        Err(CreateError::NotDone(Error::unavailable(format!(
            "{} is created and removed by someone else again and again; stop the other process",
            place.display()
        ))))
    }

    fn sync_name(&self, place: &Path, durability: Durability) -> Result<(), CreateError> {
        let folder = place.parent().unwrap_or(&self.root);
        match durability {
            Durability::Later => Ok(()),
            Durability::Now => self.sync_folder(folder).map_err(CreateError::MaybeDone),
        }
    }

    fn read_taken(&self, place: &Path) -> Result<Option<Bytes>> {
        read_whole(place)
    }
}

/// A place in the same folder under another name.
pub(super) fn beside(place: &Path, rename: impl FnOnce(&str) -> String) -> PathBuf {
    // Every place is made of text and ends in a name.
    let name = place.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    place.with_file_name(rename(name))
}
