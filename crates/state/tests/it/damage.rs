//! A damaged byte anywhere in any file is an error that names the file, or is made good; it is
//! never a wrong row.

use crate::world::{Model, World, contents};
use bytes::Bytes;
use onefold_state::{StateReader, StateStore, check_files};
use onefold_storage::{Durability, Store};
use onefold_types::{ErrorKind, Result};
use std::sync::Arc;

async fn overwrite(world: &World, path: &str, bytes: Bytes) {
    world.store.delete(path).await.unwrap();
    world.store.create(path, bytes, Durability::Now).await.unwrap();
}

async fn open(world: &mut World) -> Result<Model> {
    world.restart().await?;
    contents(&world.state, &world.config.operators)
}

#[tokio::test]
async fn a_flipped_byte_is_never_a_wrong_row() {
    let mut world = World::new().await;
    world.batches(8).await;
    world.state.finish_snapshot().await;
    world.batches(1).await;
    let all: Vec<String> = world.refs.last().unwrap().paths().into_iter().collect();
    let (mut refused, mut made_good) = (0, 0);
    for path in all {
        let good = world.store.read(&path).await.unwrap().unwrap();
        let step = (good.len() / 97).max(1);
        let ends = (0..16).chain(good.len() - 40..good.len());
        for at in ends.chain((0..good.len()).step_by(step)) {
            let mut bytes = good.to_vec();
            bytes[at] ^= 0x10;
            overwrite(&world, &path, bytes.into()).await;
            match open(&mut world).await {
                Ok(found) => {
                    assert_eq!(found, world.model, "{path} at {at}");
                    made_good += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{}", error.chain());
                    assert!(error.to_string().contains(&path), "{error}");
                    refused += 1;
                }
            }
        }
        for length in [0, 1, 31, 32, good.len() / 2, good.len() - 1] {
            overwrite(&world, &path, good.slice(..length)).await;
            match open(&mut world).await {
                Ok(found) => assert_eq!(found, world.model),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt),
            }
        }
        overwrite(&world, &path, good).await;
    }
    assert!(refused > 100 && made_good > 100, "{refused} refused, {made_good} made good");
}

#[tokio::test]
async fn a_lost_snapshot_is_read_from_what_it_was_made_from_and_made_again() {
    let mut world = World::new().await;
    world.batches(9).await;
    world.state.finish_snapshot().await;
    world.batches(1).await;
    let newest = world.refs.last().unwrap().clone();
    world.state.purge(std::slice::from_ref(&newest)).await.unwrap();
    let snapshots: Vec<_> =
        world.store.paths().into_iter().filter(|path| path.contains("snapshots/")).collect();
    // The oldest one may be a part of the newest; the newest one is named last.
    let lost =
        newest.paths().into_iter().filter(|path| snapshots.contains(path)).max_by_key(|path| {
            path.rsplit('/').next().unwrap().split('-').nth(1).unwrap().parse::<u64>().unwrap()
        });
    world.store.delete(&lost.clone().unwrap()).await.unwrap();
    world.restart().await.unwrap();
    world.check();
    // The next versions name other files, and the state goes on.
    world.batches(4).await;
    world.state.finish_snapshot().await;
    world.batches(1).await;
    assert!(!world.refs.last().unwrap().paths().contains(&lost.unwrap()));
    world.restart().await.unwrap();
    world.check();
    // A reader does the same.
    let reader = StateReader::open(Arc::new(world.store.clone()), &newest).await.unwrap();
    assert_eq!(reader.version(), newest.version());
}

#[tokio::test]
async fn a_lost_changelog_is_named_with_what_to_do() {
    let mut world = World::new().await;
    world.batches(2).await;
    let path = world.refs[1].paths().into_iter().find(|path| path.contains("changes/2")).unwrap();
    world.store.delete(&path).await.unwrap();
    let error = StateStore::open(world.config.clone(), world.refs.last()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let text = error.to_string();
    assert!(text.contains(&path) && text.contains("rewind"), "{text}");
    // The version before does not need it.
    StateStore::open(world.config.clone(), world.refs.first()).await.unwrap();
}

#[tokio::test]
async fn checking_all_files_names_each_damaged_one_and_says_what_can_take_its_place() {
    let mut world = World::new().await;
    world.batches(8).await;
    world.state.finish_snapshot().await;
    world.batches(1).await;
    let store: Arc<dyn Store> = Arc::new(world.store.clone());
    let kept = world.refs.split_off(world.refs.len() - 2);
    let whole = check_files(&store, &kept).await.unwrap();
    assert_eq!(whole.damaged, []);
    let paths: Vec<String> = kept.iter().flat_map(|at| at.paths()).collect();
    let (mut replaced, mut lost) = (0, 0);
    for path in &paths {
        let good = world.store.read(path).await.unwrap().unwrap();
        let mut bytes = good.to_vec();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        overwrite(&world, path, bytes.into()).await;
        let found = check_files(&store, &kept).await.unwrap();
        let [damaged] = &found.damaged[..] else { panic!("{path}: {:?}", found.damaged) };
        assert_eq!(&damaged.path, path);
        assert!(damaged.text.contains(path), "{}", damaged.text);
        assert_eq!(found.files, whole.files);
        // A start says the same.
        let mut starts = Vec::new();
        for at in &kept {
            starts.push(StateStore::open(world.config.clone(), Some(at)).await.is_ok());
        }
        assert_eq!(damaged.replaceable, starts.iter().all(|starts| *starts), "{path}");
        if damaged.replaceable {
            replaced += 1
        } else {
            lost += 1
        }
        overwrite(&world, path, good).await;
    }
    assert!(replaced > 0 && lost > 0, "{replaced} replaced, {lost} lost");
}
