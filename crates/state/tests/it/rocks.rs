//! The local database: used again, caught up, built anew.

use crate::world::World;
use onefold_state::{BatchState, MemoryBudget, Provider, StateStore};
use onefold_types::BatchId;
use std::ops::Bound;
use std::path::Path;

async fn world(folder: &Path) -> World {
    let mut world = World::new().await;
    world.config.provider = Provider::RocksDb;
    world.config.local_dir = Some(folder.join("state"));
    world.state = StateStore::open(world.config.clone(), None).await.unwrap();
    world
}

/// Lets the database go, as a process that ends does.
fn close(world: &mut World) {
    world.state = StateStore::in_memory(Vec::new(), 1).unwrap();
}

async fn restart(world: &mut World) {
    close(world);
    world.restart().await.unwrap();
    world.check();
}

/// Removes all changelogs and snapshots: only what is local can be read.
async fn remove_files(world: &World) {
    use onefold_storage::Store;
    for path in world.store.paths().iter().filter(|path| !path.contains("/schemas/")) {
        world.store.delete(path).await.unwrap();
    }
}

#[tokio::test]
async fn a_database_that_holds_the_version_is_used_without_reading_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(folder.path()).await;
    world.batches(5).await;
    world.check();
    remove_files(&world).await;
    restart(&mut world).await;
}

#[tokio::test]
async fn a_database_that_lags_catches_up_from_changelogs_even_behind_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(folder.path()).await;
    world.batches(4).await;
    world.batch(&[]).await;
    close(&mut world);
    // Another machine goes on meanwhile.
    let local = world.config.local_dir.replace(folder.path().join("other"));
    world.restart().await.unwrap();
    world.batches(3).await;
    world.state.finish_snapshot().await;
    world.batches(2).await;
    world.config.local_dir = local;
    restart(&mut world).await;
    world.batches(1).await;
    remove_files(&world).await;
    restart(&mut world).await;
}

#[tokio::test]
async fn a_database_of_another_history_or_a_damaged_one_is_built_anew() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(folder.path()).await;
    world.batches(6).await;
    // A rewound checkpoint: the database is ahead.
    world.refs.truncate(3);
    close(&mut world);
    world.model.clear();
    world.config.provider = Provider::Memory;
    world.restart().await.unwrap();
    world.model = crate::world::contents(&world.state, &world.config.operators).unwrap();
    world.config.provider = Provider::RocksDb;
    restart(&mut world).await;
    close(&mut world);
    for entry in std::fs::read_dir(folder.path().join("state/0/db")).unwrap() {
        let path = entry.unwrap().path();
        if path.to_str().unwrap().contains("MANIFEST") {
            std::fs::write(&path, b"rubbish").unwrap();
        }
    }
    restart(&mut world).await;
    world.batches(2).await;
    restart(&mut world).await;
}

#[tokio::test]
async fn scans_of_the_first_and_last_group_stay_in_their_group() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(folder.path()).await;
    let row = |group: u8, key: &[u8]| (0, 1, group, key.to_vec());
    let keys: [&[u8]; 4] = [b"", b"\0", b"\xff", b"\xff\xff"];
    let groups = [0, 1, 254, 255];
    let rows: Vec<_> = groups
        .iter()
        .flat_map(|group| keys.map(|key| (row(*group, key), Some(&b"v"[..]))))
        .collect();
    world.batch(&rows).await;
    world.check();
    let batch = world.state.begin(BatchId(1)).unwrap();
    for (partition, groups) in [(0, [0, 1]), (1, [254, 255])] {
        let mut state = batch.open(0, partition).unwrap();
        for group in groups {
            let found = state.scan(1, group, Bound::Unbounded, Bound::Unbounded, 100).unwrap();
            let found: Vec<_> = found.iter().map(|row| &*row.key).collect();
            assert_eq!(found, keys);
            let some = state.scan(1, group, Bound::Excluded(b""), Bound::Excluded(b"\xff"), 9);
            assert_eq!(some.unwrap().len(), 1);
        }
    }
}

#[tokio::test]
async fn state_larger_than_the_budget_is_kept_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(folder.path()).await;
    world.config.budget = MemoryBudget::new(16 << 20);
    close(&mut world);
    world.state = StateStore::open(world.config.clone(), None).await.unwrap();
    for batch in 0..12_u32 {
        let begun = world.state.begin(BatchId(u64::from(batch))).unwrap();
        let mut state = begun.open(0, 0).unwrap();
        for number in 0..10_000_u32 {
            let key = (batch * 10_000 + number).to_be_bytes();
            state.put(0, 3, &key, &[7; 100]).unwrap();
        }
        drop(state);
        world.state.prepare(&begun).await.unwrap();
        world.state.apply(&begun).await.unwrap();
    }
    let report = world.state.report();
    assert_eq!((report[0].rows, report[0].bytes), (120_000, 120_000 * 104));
    assert!(world.config.budget.used() < 16 << 20);
}

/// Copies a folder, as it is when a process dies.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[tokio::test]
async fn what_a_process_that_died_had_in_memory_only_comes_from_the_newest_changelogs() {
    use onefold_storage::Store;
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(folder.path()).await;
    // Little memory, so that the rows of the third batch go to the database as one file.
    world.config.budget = MemoryBudget::new(16 << 20);
    world.config.snapshots.changelogs = 1_000;
    close(&mut world);
    world.state = StateStore::open(world.config.clone(), None).await.unwrap();
    world.batches(2).await;
    let keys: Vec<_> = (0..20_000_u32).map(|key| (0, 0, 7, key.to_be_bytes().to_vec())).collect();
    let rows: Vec<_> = keys.iter().map(|row| (row.clone(), Some(&[7_u8; 100][..]))).collect();
    world.batch(&rows).await;
    // Some of them change or go, in memory only.
    let rows: Vec<_> = keys.iter().step_by(999).map(|row| (row.clone(), None)).collect();
    world.batch(&rows).await;
    world.batches(2).await;
    world.check();
    let died = folder.path().join("died");
    copy(&folder.path().join("state"), &died);
    close(&mut world);
    for path in world.store.paths() {
        let name = path.rsplit('/').next().unwrap();
        if ["1-", "2-", "3-"].iter().any(|version| name.starts_with(version)) {
            world.store.delete(&path).await.unwrap();
        }
    }
    world.config.local_dir = Some(died);
    restart(&mut world).await;
    world.batches(12).await;
    world.check();
}

#[tokio::test]
async fn a_driver_that_was_thought_dead_is_in_nobodys_way() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(folder.path()).await;
    world.batches(3).await;
    let left = |place: &str| folder.path().join("state").join(place).exists();
    // It holds its database open, and even goes on with a batch that it will not publish.
    let mut zombie =
        std::mem::replace(&mut world.state, StateStore::in_memory(Vec::new(), 1).unwrap());
    let begun = zombie.begin(BatchId(3)).unwrap();
    begun.open(0, 0).unwrap().put(0, 3, b"never", b"published").unwrap();
    world.restart().await.unwrap();
    world.check();
    world.batches(2).await;
    assert!(left("0") && left("1"));
    zombie.prepare(&begun).await.unwrap();
    zombie.apply(&begun).await.unwrap();
    drop((begun, zombie));
    world.check();
    restart(&mut world).await;
    assert!(!left("0") && left("1"), "the newer place goes on, what is left over goes");
    close(&mut world);
    restart(&mut world).await;
}

/// What a few batches wrote, in one group, and what they asked for in vain.
#[tokio::test]
async fn keys_are_found_whether_a_filter_was_there_when_they_came_or_was_made_later() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(folder.path()).await;
    let key = |number: u32| number.to_be_bytes().to_vec();
    let puts = |numbers: std::ops::Range<u32>| -> Vec<_> {
        numbers.map(|number| ((0, 0, 9, key(number)), Some(&b"v"[..]))).collect()
    };
    // The database gets its rows when it is let go, and has no filter of them afterwards.
    world.batch(&puts(0..300)).await;
    restart(&mut world).await;
    let mut next = 300;
    for turn in 0..30 {
        {
            // Asking in vain makes a filter; further rows are added to it as they are spilled.
            let batch = world.state.begin(BatchId(world.state.version())).unwrap();
            let mut state = batch.open(0, 0).unwrap();
            let keys: Vec<Vec<u8>> = (0..next + 50).map(key).collect();
            let asked: Vec<(u8, &[u8])> = keys.iter().map(|key| (9, &**key)).collect();
            let found = state.get(0, &asked).unwrap();
            let there = |(number, value): (usize, &Option<Box<[u8]>>)| {
                assert_eq!(value.is_some(), number < next as usize, "{number} in turn {turn}");
            };
            found.iter().enumerate().for_each(there);
        }
        world.batch(&puts(next..next + 20)).await;
        next += 20;
        if turn % 10 == 9 {
            restart(&mut world).await;
        }
    }
    world.check();
}
