//! Folders: made durable on first use, remembered afterwards, so that the steady state costs no
//! system call for them.

use super::Inner;
use super::disk::is;
use super::fault::fault;
use crate::planted::{Bug, planted};
use onefold_types::Result;
use rustix::io::Errno;
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many folders are remembered. A sink partitioned by date makes new ones for ever; past this
/// number all are forgotten and met anew, which costs one sync each.
const REMEMBERED: usize = 10_000;

/// What this store knows about its folders.
#[derive(Debug)]
pub(super) struct Folders {
    root: PathBuf,
    /// Folders that exist durably: each name from the root down is synced.
    settled: Mutex<HashSet<PathBuf>>,
    /// Folders whose names were synced since the store was opened.
    met: Mutex<HashSet<PathBuf>>,
}

impl Folders {
    pub(super) fn new(root: &Path) -> Self {
        let root = root.to_owned();
        Folders { root, settled: Mutex::default(), met: Mutex::default() }
    }
}

fn lock(set: &Mutex<HashSet<PathBuf>>) -> MutexGuard<'_, HashSet<PathBuf>> {
    // A set of paths is whole after any panic.
    set.lock().unwrap_or_else(PoisonError::into_inner)
}

fn remember(set: &Mutex<HashSet<PathBuf>>, folder: &Path) {
    let mut set = lock(set);
    if set.len() >= REMEMBERED {
        set.clear();
    }
    set.insert(folder.to_owned());
}

impl Inner {
    /// Sees to it that a folder exists durably. Costs nothing for one that is known to.
    ///
    /// # Errors
    /// Poisons the store when a sync fails.
    pub(super) fn settle_folder(&self, folder: &Path) -> Result<()> {
        if lock(&self.folders.settled).contains(folder) {
            return Ok(());
        }
        let Some(parent) = folder.parent() else {
            return Ok(());
        };
        let below_root = folder != self.folders.root && folder.starts_with(&self.folders.root);
        if below_root {
            self.settle_folder(parent)?;
        }
        let made = match self.disk.make_folder(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Above the root nothing is ours until it is missing.
                self.forget_folder(parent);
                self.settle_folder(parent)?;
                self.disk.make_folder(folder)
            }
            outcome => outcome,
        };
        let existed = match made {
            Ok(()) => false,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => true,
            Err(error) => return Err(fault("make folder", folder, error)),
        };
        match self.sync_folder_raw(parent) {
            // The parent of an existing root may be closed to us; its names are not our doing.
            Err(error) if existed && !below_root && closed(&error) => {}
            Err(error) => return Err(self.poisoned("sync folder", parent, error)),
            Ok(()) => {}
        }
        remember(&self.folders.settled, folder);
        Ok(())
    }

    /// Takes back what is known about a folder that turned out to be gone.
    pub(super) fn forget_folder(&self, folder: &Path) {
        lock(&self.folders.settled).retain(|known| !folder.starts_with(known));
        lock(&self.folders.met).remove(folder);
    }

    /// Makes the names in a folder durable.
    ///
    /// # Errors
    /// Unknown, and the store is poisoned.
    pub(super) fn sync_folder(&self, folder: &Path) -> Result<()> {
        self.sync_folder_raw(folder)
            .map_err(|error| self.poisoned("sync folder", folder, error))?;
        remember(&self.folders.met, folder);
        Ok(())
    }

    fn sync_folder_raw(&self, folder: &Path) -> io::Result<()> {
        if planted(Bug::NoFolderSync) {
            return Ok(());
        }
        self.disk.sync_folder(folder)
    }

    /// Before the first reading of a name in a folder: makes durable what an earlier process left
    /// there, so that nothing is decided from a name that a power cut may take back. A folder that
    /// is missing or closed to us is left alone.
    pub(super) fn meet(&self, place: &Path) -> Result<()> {
        match place.parent() {
            Some(folder) => self.meet_folder(folder),
            None => Ok(()),
        }
    }

    /// As [`Inner::meet`] for the folder itself.
    pub(super) fn meet_folder(&self, folder: &Path) -> Result<()> {
        if lock(&self.folders.met).contains(folder) {
            return Ok(());
        }
        match self.sync_folder_raw(folder) {
            Ok(()) => {}
            Err(error) if super::absent(&error) => return Ok(()),
            Err(error) if closed(&error) => {}
            Err(error) => return Err(self.poisoned("sync folder", folder, error)),
        }
        remember(&self.folders.met, folder);
        Ok(())
    }
}

/// Whether a folder refused to be opened or synced for want of rights, not of health.
fn closed(error: &io::Error) -> bool {
    [Errno::ACCESS, Errno::PERM, Errno::ROFS, Errno::LOOP].into_iter().any(|errno| is(error, errno))
}
