//! The same on a real disk.

use crate::specs::operators;
use crate::world::{Model, Opened, config, contents};
use onefold_state::{StateRef, StateStore};
use onefold_storage::LocalStore;
use onefold_types::{BatchId, Generation};
use std::path::Path;
use std::sync::Arc;

fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path.to_str().unwrap().to_owned());
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_lives_through_restarts_and_what_dead_drivers_left_goes_away() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept: Vec<StateRef> = Vec::new();
    let mut model = Model::new();
    for generation in 1..=4 {
        let mut config = config(Arc::new(LocalStore::new(folder.path()).unwrap()), generation);
        config.partitions = u32::try_from(generation).unwrap();
        let mut state = StateStore::open(config.clone(), kept.last()).await.unwrap();
        assert_eq!(contents(&state, &operators()).unwrap(), model);
        for _ in 0..5 {
            let number = state.version();
            let batch = state.begin(BatchId(number)).unwrap();
            let mut opened = Opened::new(&batch, operators());
            for user in 0..200_u8 {
                let row = (0, 0, user, vec![user; 3]);
                let value = number.to_be_bytes().to_vec();
                let keep = !(u64::from(user) + number).is_multiple_of(7);
                opened.write(&row, keep.then_some(&*value)).unwrap();
                if keep {
                    model.insert(row, value)
                } else {
                    model.remove(&row)
                };
            }
            drop(opened);
            kept.push(state.prepare(&batch).await.unwrap());
            state.apply(&batch).await.unwrap();
            state.finish_snapshot().await;
        }
        kept.drain(..kept.len() - 2);
        state.purge(&kept).await.unwrap();
        // The driver dies while it writes a snapshot.
        let version = state.version();
        let hidden = format!(".0-{version}-g{generation}-{:032x}.snapshot.x.staged", 7);
        let place = folder.path().join("_onefold/state/snapshots").join(hidden);
        std::fs::File::create(place).unwrap();
    }
    let config = config(Arc::new(LocalStore::new(folder.path()).unwrap()), 5);
    let config = onefold_state::StateConfig { generation: Generation(5), ..config };
    let mut state = StateStore::open(config, kept.last()).await.unwrap();
    assert_eq!(contents(&state, &operators()).unwrap(), model);
    state.purge(&kept).await.unwrap();
    let left = files(folder.path());
    assert!(!left.iter().any(|path| path.contains("staged")), "{left:#?}");
    let needed: Vec<String> = kept.iter().flat_map(StateRef::paths).collect();
    assert!(left.iter().all(|path| needed.iter().any(|it| path.ends_with(it))), "{left:#?}");
}
