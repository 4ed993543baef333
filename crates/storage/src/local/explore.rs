//! Every disk that a power cut can leave, for every instant of a create and a reveal.
//!
//! The calls of one act are recorded, and for each prefix of them all disks are built that the
//! rules of POSIX allow: what was synced is there; of the changes to names that were not, any
//! subset; of bytes that were not, all, none or a part. On each of them a final name must hold the
//! whole file or not be there; and after the act was reported done it must be there.

use super::disk::{Disk, RealDisk};
use super::{LocalStore, Store};
use crate::Durability;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

#[derive(Debug, Clone, PartialEq, Eq)]
enum Call {
    Open(PathBuf),
    Write(PathBuf, Vec<u8>),
    Sync(PathBuf),
    Rename(PathBuf, PathBuf),
    Folder(PathBuf),
    SyncFolder(PathBuf),
    Remove(PathBuf),
}

#[derive(Debug, Default)]
struct Recorder {
    real: RealDisk,
    calls: Mutex<Vec<Call>>,
}

impl Recorder {
    fn note(&self, outcome: &io::Result<impl Sized>, call: Call) {
        if outcome.is_ok() {
            self.calls.lock().unwrap().push(call);
        }
    }
}

impl Disk for Recorder {
    fn open_new(&self, path: &Path) -> io::Result<File> {
        let outcome = self.real.open_new(path);
        self.note(&outcome, Call::Open(path.into()));
        outcome
    }
    fn write(&self, file: &File, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let outcome = self.real.write(file, path, bytes);
        self.note(&outcome, Call::Write(path.into(), bytes.to_vec()));
        outcome
    }
    fn sync(&self, file: &File, path: &Path) -> io::Result<()> {
        let outcome = self.real.sync(file, path);
        self.note(&outcome, Call::Sync(path.into()));
        outcome
    }
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        let outcome = self.real.rename_new(from, to);
        self.note(&outcome, Call::Rename(from.into(), to.into()));
        outcome
    }
    fn rename_over(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.real.rename_over(from, to)
    }
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        let outcome = self.real.make_folder(path);
        self.note(&outcome, Call::Folder(path.into()));
        outcome
    }
    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        let outcome = self.real.sync_folder(path);
        self.note(&outcome, Call::SyncFolder(path.into()));
        outcome
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        let outcome = self.real.remove(path);
        self.note(&outcome, Call::Remove(path.into()));
        outcome
    }
}

/// A file or a folder, by the number of its making.
type Node = usize;

/// A change to one name of a folder.
#[derive(Debug, Clone)]
struct NameChange {
    folders: Vec<PathBuf>,
    undo: Vec<PathBuf>,
    set: Option<(PathBuf, Node)>,
}

/// What a sequence of calls leaves: certain, and up to the cut.
#[derive(Debug, Default)]
struct World {
    written: BTreeMap<Node, Vec<u8>>,
    synced: BTreeMap<Node, Vec<u8>>,
    now: BTreeMap<PathBuf, Node>,
    durable: BTreeMap<PathBuf, Node>,
    pending: Vec<NameChange>,
    made: Node,
}

fn folder(path: &Path) -> PathBuf {
    path.parent().unwrap().to_owned()
}

impl World {
    fn change(&mut self, change: NameChange) {
        apply(&mut self.now, &change);
        self.pending.push(change);
    }

    fn make(&mut self, path: &Path) {
        self.made += 1;
        let set = Some((path.to_owned(), self.made));
        self.change(NameChange { folders: vec![folder(path)], undo: Vec::new(), set });
    }

    fn run(calls: &[Call]) -> World {
        let mut world = World::default();
        for call in calls {
            match call {
                Call::Open(path) => {
                    world.make(path);
                    world.written.insert(world.made, Vec::new());
                }
                Call::Folder(path) => world.make(path),
                Call::Write(path, bytes) => {
                    let node = world.now[path];
                    world.written.get_mut(&node).unwrap().extend(bytes);
                }
                Call::Sync(path) => {
                    let node = world.now[path];
                    world.synced.insert(node, world.written[&node].clone());
                }
                Call::Rename(from, to) => {
                    let set = Some((to.clone(), world.now[from]));
                    let folders = vec![folder(from), folder(to)];
                    world.change(NameChange { folders, undo: vec![from.clone()], set });
                }
                Call::Remove(path) => {
                    let folders = vec![folder(path)];
                    world.change(NameChange { folders, undo: vec![path.clone()], set: None });
                }
                Call::SyncFolder(path) => {
                    let (done, left) = std::mem::take(&mut world.pending)
                        .into_iter()
                        .partition(|change| change.folders.contains(path));
                    world.pending = left;
                    let done: Vec<NameChange> = done;
                    done.iter().for_each(|change| apply(&mut world.durable, change));
                }
            }
        }
        world
    }

    /// The bytes that may be under a name after a cut; `None` stands for no such name.
    fn outcomes(&self, name: &Path) -> BTreeSet<Option<Vec<u8>>> {
        let mut outcomes = BTreeSet::new();
        for subset in 0..1_u32 << self.pending.len() {
            let mut names = self.durable.clone();
            for (index, change) in self.pending.iter().enumerate() {
                if subset & (1 << index) != 0 {
                    apply(&mut names, change);
                }
            }
            // A name in a folder that is not there is not there either. The folder that the test
            // made before is.
            let reachable = name
                .ancestors()
                .skip(1)
                .all(|above| names.contains_key(above) || !self.now.contains_key(above));
            match names.get(name).filter(|_| reachable) {
                None => drop(outcomes.insert(None)),
                Some(node) => self.contents(*node, &mut outcomes),
            }
        }
        outcomes
    }

    fn contents(&self, node: Node, outcomes: &mut BTreeSet<Option<Vec<u8>>>) {
        let written = self.written[&node].clone();
        if self.synced.get(&node) != Some(&written) {
            outcomes.insert(Some(Vec::new()));
            outcomes.insert(Some(vec![0; written.len()]));
            outcomes.insert(Some(written[..written.len() / 2].to_vec()));
        }
        outcomes.insert(Some(written));
    }
}

fn apply(names: &mut BTreeMap<PathBuf, Node>, change: &NameChange) {
    for path in &change.undo {
        names.remove(path);
    }
    if let Some((path, node)) = &change.set {
        names.insert(path.clone(), *node);
    }
}

/// The first instant at which a power cut breaks the promise, if there is one.
fn broken_at(calls: &[Call], name: &Path, whole: &[u8]) -> Option<String> {
    for cut in 0..=calls.len() {
        let outcomes = World::run(&calls[..cut]).outcomes(name);
        let torn = outcomes.iter().flatten().any(|bytes| bytes != whole);
        let lost = cut == calls.len() && outcomes.contains(&None);
        if torn || lost {
            return Some(format!("after {cut} of {calls:?}: {outcomes:?}"));
        }
    }
    None
}

fn without(calls: &[Call], skip: impl Fn(&Call) -> bool) -> Vec<Call> {
    calls.iter().filter(|call| !skip(call)).cloned().collect()
}

/// The calls of one act on a folder that is not there yet.
async fn record(act: impl AsyncFnOnce(&LocalStore)) -> (Vec<Call>, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let disk = Arc::new(Recorder::default());
    let root = temp.path().join("new/checkpoint");
    let store = LocalStore::with_disk(&root, disk.clone()).unwrap();
    act(&store).await;
    let calls = disk.calls.lock().unwrap().clone();
    (calls, root)
}

#[tokio::test]
async fn a_created_file_is_whole_or_absent_after_a_power_cut_at_any_instant() {
    let (calls, root) = record(async |store| {
        let bytes = Bytes::from("whole");
        store.create("offsets/0", bytes, Durability::Now).await.unwrap();
    })
    .await;
    let name = root.join("offsets/0");
    assert_eq!(broken_at(&calls, &name, b"whole"), None);
    // The explorer sees what each sync is for.
    for (index, call) in calls.iter().enumerate() {
        let parent_of_root = matches!(call, Call::SyncFolder(path) if !path.starts_with(&root));
        if matches!(call, Call::Sync(_) | Call::SyncFolder(_)) {
            let mut fewer = calls.clone();
            fewer.remove(index);
            let seen = broken_at(&fewer, &name, b"whole").is_some();
            assert!(seen || parent_of_root, "nobody needs {call:?}");
        }
    }
    let unsynced = without(&calls, |call| matches!(call, Call::SyncFolder(_)));
    assert!(broken_at(&unsynced, &name, b"whole").is_some());
}

#[tokio::test]
async fn a_revealed_file_is_whole_or_absent_after_a_power_cut_at_any_instant() {
    let (calls, root) = record(async |store| {
        let mut writer = store.stage("k=1/a", "t").await.unwrap();
        writer.write(Bytes::from("wh")).await.unwrap();
        writer.write(Bytes::from("ole")).await.unwrap();
        let staged = writer.finish().await.unwrap();
        store.reveal(&[staged]).await.unwrap();
    })
    .await;
    let name = root.join("k=1/a");
    assert_eq!(broken_at(&calls, &name, b"whole"), None);
    let unsynced = without(&calls, |call| matches!(call, Call::Sync(_)));
    assert!(broken_at(&unsynced, &name, b"whole").is_some());
}

#[tokio::test]
async fn a_deleted_file_does_not_come_back_after_a_power_cut() {
    let (calls, root) = record(async |store| {
        let bytes = Bytes::from("whole");
        store.create("commits/0", bytes, Durability::Now).await.unwrap();
        store.delete("commits/0").await.unwrap();
    })
    .await;
    let name = root.join("commits/0");
    assert_eq!(World::run(&calls).outcomes(&name), BTreeSet::from([None]));
}

#[tokio::test]
async fn a_file_created_without_a_sync_is_whole_once_it_was_synced() {
    for staged in [false, true] {
        let (calls, root) = record(async |store| {
            if staged {
                let mut writer = store.stage_record("sources/0/9.compact", "t").await.unwrap();
                writer.write(Bytes::from("wh")).await.unwrap();
                writer.write(Bytes::from("ole")).await.unwrap();
                writer.create_later().await.unwrap();
            } else {
                let bytes = Bytes::from("whole");
                store.create("sources/0/9.compact", bytes, Durability::Later).await.unwrap();
            }
            store.sync(&["sources/0/9.compact".to_owned()]).await.unwrap();
        })
        .await;
        let name = root.join("sources/0/9.compact");
        let whole = BTreeSet::from([Some(b"whole".to_vec())]);
        assert_eq!(World::run(&calls).outcomes(&name), whole);
        let named = calls.iter().position(|call| matches!(call, Call::Rename(..))).unwrap();
        assert!(!calls[..named].iter().any(|call| matches!(call, Call::Sync(_))));
        assert!(World::run(&calls[..=named]).outcomes(&name).len() > 2);
    }
}
