//! The local folder of a database, held by one driver at a time.
//!
//! A query's folder has numbered places, each with a lock that the kernel gives up when its holder
//! dies. A driver takes the place that was used last among those that nobody holds: one that runs
//! on though it was thought dead keeps its own and is in nobody's way. Places that are left over go.

use onefold_types::{Error, Result};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Drivers of one query that may run at once on a machine: one that works, others that do not know
/// yet that they are fenced.
const PLACES: usize = 8;
/// The folder of a query that did not start for so long is removed.
const FORGOTTEN: Duration = Duration::from_secs(7 * 24 * 3600);
/// The file whose lock says that a place is in use, and whose time says when it was taken.
const LOCK: &str = "in-use";
const DATABASE: &str = "db";
/// What the folders of queries begin with.
const PREFIX: &str = "onefold-state-";

/// A place that this process holds.
#[derive(Debug)]
pub(super) struct LocalFolder {
    database: PathBuf,
    /// Held as long as it is open.
    _lock: File,
}

impl LocalFolder {
    /// Takes a place in a query's folder.
    ///
    /// # Errors
    /// Invalid, when the folder is somebody else's; Unavailable, when it cannot be used or all its
    /// places are held.
    pub(super) fn take(folder: &Path) -> Result<Self> {
        make(folder)?;
        let mut free = Vec::new();
        for number in 0..PLACES {
            let place = folder.join(number.to_string());
            make(&place)?;
            if let Some(lock) = lock(&place)? {
                free.push((modified(&lock)?, place, lock));
            } else {
                tracing::info!("the local state in {} is in use; taking another", place.display());
                continue;
            }
            if !folder.join((number + 1).to_string()).exists() {
                break;
            }
        }
        free.sort_by_key(|(taken, _, _)| *taken);
        let Some((_, place, lock)) = free.pop() else {
            return Err(Error::unavailable(format!(
                "{PLACES} drivers of this query use {}; end those that are not needed, or set \
                 onefold.state.localDir to another folder",
                folder.display()
            )));
        };
        check_owner(folder, &lock)?;
        lock.set_modified(SystemTime::now()).map_err(|error| unusable(&place, error))?;
        free.into_iter().for_each(|(_, place, lock)| remove(&place, &lock));
        forget_others(folder, modified(&lock)?);
        Ok(LocalFolder { database: place.join(DATABASE), _lock: lock })
    }

    /// Where the database is.
    pub(super) fn database(&self) -> &Path {
        &self.database
    }
}

fn make(folder: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| unusable(folder, error))
}

/// A place's lock; `None`: somebody holds it.
fn lock(place: &Path) -> Result<Option<File>> {
    let path = place.join(LOCK);
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(|error| unusable(place, error))?;
    match file.try_lock() {
        // Who held it may have removed it meanwhile.
        Ok(()) => Ok(is_at(&file, &path).then_some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(unusable(place, error)),
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let same = |one: std::fs::Metadata, other: std::fs::Metadata| {
        (one.dev(), one.ino()) == (other.dev(), other.ino())
    };
    match (file.metadata(), path.metadata()) {
        (Ok(one), Ok(other)) => same(one, other),
        _ => false,
    }
}

fn modified(lock: &File) -> Result<SystemTime> {
    let time = lock.metadata().and_then(|metadata| metadata.modified());
    time.map_err(|error| Error::unavailable("a lock has no time").because(error))
}

/// In a folder such as /tmp anybody could have made ours before us.
fn check_owner(folder: &Path, own: &File) -> Result<()> {
    let metadata = folder.symlink_metadata().map_err(|error| unusable(folder, error))?;
    let own = own.metadata().map_err(|error| unusable(folder, error))?;
    if metadata.is_symlink() || metadata.uid() != own.uid() {
        return Err(Error::invalid(format!(
            "the folder {} for local state is another user's, or a link; remove it, or set \
             onefold.state.localDir to a folder of your own",
            folder.display()
        )));
    }
    Ok(())
}

/// Removes a place whose lock is held.
fn remove(place: &Path, _lock: &File) {
    if let Err(error) = std::fs::remove_dir_all(place) {
        tracing::warn!("the old local state in {} was not removed: {error}", place.display());
    }
}

/// Removes the folders of queries that did not start for long, as far as they can be had. All that
/// is in them can be built again.
fn forget_others(folder: &Path, now: SystemTime) {
    let Some(entries) = folder.parent().and_then(|root| root.read_dir().ok()) else { return };
    for entry in entries.flatten() {
        let other = entry.path();
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if !ours || other == folder || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let Some(locks) = forgotten(&other, now) else { continue };
        remove(&other, folder, locks);
    }

    fn remove(other: &Path, folder: &Path, locks: Vec<File>) {
        match std::fs::remove_dir_all(other) {
            Ok(()) => {
                tracing::info!(
                    "removed {}, the local state of a query that did not start for a week",
                    other.display()
                );
            }
            Err(error) => {
                tracing::debug!("beside {}: {}: {error}", folder.display(), other.display());
            }
        }
        drop(locks);
    }
}

/// The locks of all places of a folder that nobody holds or has taken for long; `None`: it is in
/// use, or was lately, or is no folder of state.
fn forgotten(folder: &Path, now: SystemTime) -> Option<Vec<File>> {
    let mut locks = Vec::new();
    for entry in folder.read_dir().ok()? {
        let path = entry.ok()?.path().join(LOCK);
        let file = OpenOptions::new().write(true).open(path).ok()?;
        file.try_lock().ok()?;
        let age = now.duration_since(modified(&file).ok()?).ok()?;
        if age < FORGOTTEN {
            return None;
        }
        locks.push(file);
    }
    (!locks.is_empty()).then_some(locks)
}

fn unusable(folder: &Path, error: std::io::Error) -> Error {
    Error::unavailable(format!(
        "cannot use the folder {} for local state; set onefold.state.localDir to a folder that can \
         be written to",
        folder.display()
    ))
    .because(error)
}

#[cfg(test)]
mod tests {
    use super::{FORGOTTEN, LOCK, LocalFolder};
    use std::fs;
    use std::time::{Duration, SystemTime};

    #[test]
    fn a_place_that_is_held_is_left_alone_and_a_free_one_is_taken_again() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("onefold-state-a");
        let zombie = LocalFolder::take(&folder).unwrap();
        fs::create_dir(zombie.database()).unwrap();
        let second = LocalFolder::take(&folder).unwrap();
        assert_ne!(zombie.database(), second.database());
        let place = second.database().to_owned();
        drop(second);
        let third = LocalFolder::take(&folder).unwrap();
        assert_eq!(third.database(), place);
        assert!(zombie.database().exists(), "what is held is not removed");
        let old = zombie.database().to_owned();
        drop((zombie, third));
        // The newest place is the best to go on with, and the other one goes.
        let fourth = LocalFolder::take(&folder).unwrap();
        assert_eq!(fourth.database(), place);
        assert!(!old.parent().unwrap().exists());
    }

    #[test]
    fn as_many_drivers_as_there_are_places_are_told_what_to_do() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("state");
        let held: Vec<_> = (0..8).map(|_| LocalFolder::take(&folder).unwrap()).collect();
        let text = LocalFolder::take(&folder).unwrap_err().to_string();
        assert!(text.contains("onefold.state.localDir"), "{text}");
        assert_eq!(held.len(), 8);
    }

    #[test]
    fn folders_of_queries_that_did_not_start_for_long_go_unless_in_use() {
        let root = tempfile::tempdir().unwrap();
        let folder = |name: &str| root.path().join(format!("onefold-state-{name}"));
        let long_ago = SystemTime::now() - FORGOTTEN - Duration::from_secs(60);
        let age = |name: &str| {
            let lock = fs::File::options().write(true).open(folder(name).join("0").join(LOCK));
            lock.unwrap().set_modified(long_ago).unwrap();
        };
        drop(LocalFolder::take(&folder("new")).unwrap());
        let held = LocalFolder::take(&folder("held")).unwrap();
        drop(LocalFolder::take(&folder("old")).unwrap());
        fs::create_dir_all(root.path().join("onefold-state-foreign/data")).unwrap();
        age("held");
        age("old");
        drop(LocalFolder::take(&folder("mine")).unwrap());
        let left = ["new", "held", "old", "foreign", "mine"].map(|name| folder(name).exists());
        assert_eq!(left, [true, true, false, true, true]);
        drop(held);
    }

    #[test]
    fn a_link_is_not_followed_and_a_file_in_the_way_is_named() {
        let root = tempfile::tempdir().unwrap();
        let (real, link) = (root.path().join("real"), root.path().join("link"));
        fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let text = LocalFolder::take(&link).unwrap_err().to_string();
        assert!(text.contains("a link"), "{text}");
        fs::write(root.path().join("file"), "").unwrap();
        let text = LocalFolder::take(&root.path().join("file")).unwrap_err().chain();
        assert!(text.contains("onefold.state.localDir"), "{text}");
    }
}
