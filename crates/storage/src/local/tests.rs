//! The local store against a disk that fails where it is told to.

use super::disk::{Disk, RealDisk};
use super::{LocalStore, Store};
use crate::{CreateError, Created, Durability, Recorded, create_record};
use bytes::Bytes;
use onefold_types::ErrorKind;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Fails one kind of call, the n-th time it is made.
#[derive(Debug)]
pub(super) struct FailingDisk {
    real: RealDisk,
    call: &'static str,
    countdown: AtomicUsize,
    errno: i32,
    calls: AtomicUsize,
}

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

impl FailingDisk {
    fn at(call: &'static str, nth: usize, errno: i32) -> Arc<Self> {
        let real = RealDisk::default();
        let countdown = AtomicUsize::new(nth);
        Arc::new(FailingDisk { real, call, countdown, errno, calls: AtomicUsize::new(0) })
    }

    fn reach(&self, call: &str) -> io::Result<()> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if call == self.call && self.countdown.fetch_sub(1, Ordering::SeqCst) == 1 {
            return Err(io::Error::from_raw_os_error(self.errno));
        }
        Ok(())
    }
}

impl Disk for FailingDisk {
    fn open_new(&self, path: &Path) -> io::Result<File> {
        self.reach("open").and_then(|()| self.real.open_new(path))
    }
    fn write(&self, file: &File, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.reach("write").and_then(|()| self.real.write(file, path, bytes))
    }
    fn sync(&self, file: &File, path: &Path) -> io::Result<()> {
        self.reach("sync").and_then(|()| self.real.sync(file, path))
    }
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.reach("rename").and_then(|()| self.real.rename_new(from, to))
    }
    fn rename_over(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.real.rename_over(from, to)
    }
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.reach("mkdir").and_then(|()| self.real.make_folder(path))
    }
    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.reach("sync folder").and_then(|()| self.real.sync_folder(path))
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.reach("remove").and_then(|()| self.real.remove(path))
    }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = match std::fs::read_dir(folder) {
        Ok(items) => items.map(|item| item.unwrap().file_name().into_string().unwrap()).collect(),
        Err(_) => Vec::new(),
    };
    names.sort();
    names
}

async fn create(store: &LocalStore, path: &str, text: &str) -> Result<Created, CreateError> {
    store.create(path, Bytes::copy_from_slice(text.as_bytes()), Durability::Now).await
}

#[tokio::test]
async fn a_failed_sync_of_the_file_leaves_nothing_and_poisons() {
    let temp = tempfile::tempdir().unwrap();
    let disk = FailingDisk::at("sync", 1, EIO);
    let store = LocalStore::with_disk(temp.path(), disk).unwrap();
    let Err(CreateError::NotDone(error)) = create(&store, "offsets/0", "a").await else {
        panic!("the name cannot be there");
    };
    assert_eq!(error.kind(), ErrorKind::Restart);
    assert!(error.to_string().contains("offsets/.0."), "{error}");
    assert!(names(&temp.path().join("offsets")).is_empty());
    let Err(CreateError::NotDone(error)) = create(&store, "offsets/1", "a").await else {
        panic!("a poisoned store creates nothing");
    };
    assert_eq!(error.kind(), ErrorKind::Restart);
    assert!(error.to_string().contains("sync failed"), "{error}");
    assert!(store.delete("offsets/0").await.is_err());
    assert!(store.stage("x", "t").await.is_err());
    assert!(LocalStore::new(temp.path()).unwrap().stage("x", "t").await.is_ok());
}

#[tokio::test]
async fn a_failed_sync_of_the_folder_is_maybe_done_and_reading_back_proves_nothing() {
    let temp = tempfile::tempdir().unwrap();
    // Root's parent, root, then the folder itself.
    let disk = FailingDisk::at("sync folder", 3, EIO);
    let store = LocalStore::with_disk(temp.path(), disk).unwrap();
    let outcome = create_record(&store, "offsets/0", Bytes::from("a"), Durability::Now).await;
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Restart);
    assert_eq!(names(&temp.path().join("offsets")), ["0"]);
}

#[tokio::test]
async fn a_full_disk_is_named_and_leaves_no_file_at_all() {
    for call in ["write", "sync", "rename", "open", "mkdir"] {
        let temp = tempfile::tempdir().unwrap();
        // The first folder made is the root, which exists.
        let nth = if call == "mkdir" { 2 } else { 1 };
        let store = LocalStore::with_disk(temp.path(), FailingDisk::at(call, nth, ENOSPC)).unwrap();
        let Err(CreateError::NotDone(error)) = create(&store, "offsets/0", "a").await else {
            panic!("{call} failed, so nothing can be there");
        };
        assert!(error.chain().contains("the disk is full"), "{call}: {error:?}");
        assert!(error.chain().contains("offsets"), "{call}: {error:?}");
        assert!(names(&temp.path().join("offsets")).is_empty(), "{call}");
    }
}

#[tokio::test]
async fn a_rename_with_an_unclear_error_is_maybe_done_and_then_resolved() {
    let temp = tempfile::tempdir().unwrap();
    let store = LocalStore::with_disk(temp.path(), FailingDisk::at("rename", 1, EIO)).unwrap();
    assert!(matches!(create(&store, "a", "1").await, Err(CreateError::MaybeDone(_))));
    let store = LocalStore::with_disk(temp.path(), FailingDisk::at("rename", 1, EIO)).unwrap();
    let mine = create_record(&store, "b", Bytes::from("1"), Durability::Now).await.unwrap();
    assert_eq!(mine, Recorded::Mine);
    assert_eq!(names(temp.path()), ["b"]);
}

#[tokio::test]
async fn a_create_in_a_known_folder_costs_five_calls() {
    let temp = tempfile::tempdir().unwrap();
    let disk = FailingDisk::at("none", 0, 0);
    let store = LocalStore::with_disk(temp.path(), disk.clone()).unwrap();
    create(&store, "offsets/0", "a").await.unwrap();
    let before = disk.calls.load(Ordering::SeqCst);
    create(&store, "offsets/1", "a").await.unwrap();
    // Open, write, sync, rename, sync of the folder.
    assert_eq!(disk.calls.load(Ordering::SeqCst) - before, 5);
}

#[tokio::test]
async fn a_folder_removed_meanwhile_is_made_again() {
    let temp = tempfile::tempdir().unwrap();
    let store = LocalStore::new(temp.path().join("x/y")).unwrap();
    create(&store, "a/b/0", "1").await.unwrap();
    std::fs::remove_dir_all(temp.path().join("x")).unwrap();
    assert_eq!(create(&store, "a/b/0", "1").await.unwrap(), Created::New);
}

#[tokio::test]
async fn a_disk_without_rename_new_refuses_a_taken_name_too() {
    let temp = tempfile::tempdir().unwrap();
    let store =
        LocalStore::with_disk(temp.path(), Arc::new(RealDisk::without_rename_new())).unwrap();
    assert_eq!(create(&store, "a", "1").await.unwrap(), Created::New);
    assert_eq!(create(&store, "a", "2").await.unwrap(), Created::Exists(Bytes::from("1")));
    assert_eq!(names(temp.path()), ["a"]);
}

#[tokio::test]
async fn a_folder_in_the_place_of_a_record_is_named() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(temp.path().join("offsets/7")).unwrap();
    let store = LocalStore::new(temp.path()).unwrap();
    let Err(CreateError::NotDone(error)) = create(&store, "offsets/7", "a").await else {
        panic!("a folder has the name");
    };
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("offsets/7"), "{error}");
    assert!(store.list("offsets").await.unwrap().is_empty());
    assert_eq!(store.stat("offsets/7").await.unwrap(), None);
}
