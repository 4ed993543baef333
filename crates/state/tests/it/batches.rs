//! What a batch sees, and what it leaves.

use crate::specs::operators;
use crate::world::World;
use onefold_state::{BatchState, KEY_GROUPS, StateRow, StateStore, groups_of};
use onefold_types::BatchId;
use std::ops::Bound;

fn keys(rows: &[StateRow]) -> Vec<&[u8]> {
    rows.iter().map(|row| &*row.key).collect()
}

#[tokio::test]
async fn a_batch_sees_its_own_writes_and_the_next_one_sees_them_once_applied() {
    let mut store = StateStore::in_memory(operators(), 2).unwrap();
    let batch = store.begin(BatchId(0)).unwrap();
    let mut state = batch.open(0, 0).unwrap();
    assert_eq!(state.groups(), groups_of(0, 2));
    state.put(0, 7, b"a", b"1").unwrap();
    state.put(0, 7, b"a", b"two").unwrap();
    state.put(0, 8, b"a", b"other group").unwrap();
    state.remove(0, 9, b"never there").unwrap();
    let found = state.get(0, &[(7, b"a"), (7, b"b"), (8, b"a")]).unwrap();
    assert_eq!(found, [Some(b"two"[..].into()), None, Some(b"other group"[..].into())]);
    assert_eq!((state.rows(0), state.rows_in(0, 7), state.rows_in(0, 9)), (2, 1, 0));
    drop(state);
    store.apply(&batch).await.unwrap();

    let batch = store.begin(BatchId(1)).unwrap();
    let mut state = batch.open(0, 0).unwrap();
    state.remove(0, 7, b"a").unwrap();
    let mut rows = Vec::new();
    let mut each = |group, key: &[u8], value: &[u8]| {
        rows.push((group, key.to_vec(), value.to_vec()));
        Ok(())
    };
    state.for_each(0, &mut each).unwrap();
    assert_eq!(rows, [(8, b"a".to_vec(), b"other group".to_vec())]);
    assert_eq!(state.rows(0), 1);
    drop(state);
    let before = store.report();
    assert_eq!((before[0].rows, before[0].bytes), (2, 16));
    store.apply(&batch).await.unwrap();
    let after = store.report();
    assert_eq!((after[0].rows, after[0].bytes, after[0].partitions), (1, 12, 2));
    assert_eq!(after[1].partitions, 1);
}

#[tokio::test]
async fn scans_merge_base_and_writes_and_go_on_after_the_last_key() {
    let mut store = StateStore::in_memory(operators(), 1).unwrap();
    let batch = store.begin(BatchId(0)).unwrap();
    let mut state = batch.open(0, 0).unwrap();
    for key in [b"b", b"d", b"f", b"h"] {
        state.put(1, 3, key, b"base").unwrap();
    }
    drop(state);
    store.apply(&batch).await.unwrap();

    let batch = store.begin(BatchId(1)).unwrap();
    let mut state = batch.open(0, 0).unwrap();
    state.remove(1, 3, b"b").unwrap();
    state.remove(1, 3, b"d").unwrap();
    state.put(1, 3, b"a", b"new").unwrap();
    state.put(1, 3, b"f", b"changed").unwrap();
    state.put(1, 3, b"i", b"new").unwrap();
    let first = state.scan(1, 3, Bound::Unbounded, Bound::Unbounded, 2).unwrap();
    assert_eq!(keys(&first), [b"a", b"f"]);
    assert_eq!(&*first[1].value, b"changed");
    // Written between two calls, past the last key: the next call gives it.
    state.put(1, 3, b"g", b"between").unwrap();
    let rest = state.scan(1, 3, Bound::Excluded(b"f"), Bound::Unbounded, 10).unwrap();
    assert_eq!(keys(&rest), [b"g", b"h", b"i"]);
    let none = state.scan(1, 3, Bound::Excluded(b"x"), Bound::Excluded(b"a"), 10).unwrap();
    assert!(none.is_empty());
    let part = state.scan(1, 3, Bound::Included(b"f"), Bound::Excluded(b"h"), 10).unwrap();
    assert_eq!(keys(&part), [b"f", b"g"]);
    assert!(state.scan(0, 3, Bound::Unbounded, Bound::Unbounded, 1).is_err());
}

#[tokio::test]
async fn a_partition_opens_once_and_only_its_own_groups() {
    let mut store = StateStore::in_memory(operators(), 4).unwrap();
    let batch = store.begin(BatchId(0)).unwrap();
    let mut state = batch.open(0, 1).unwrap();
    assert!(batch.open(0, 1).unwrap_err().to_string().contains("twice"));
    assert!(batch.open(0, 4).is_err());
    assert!(batch.open(2, 0).is_err());
    assert!(state.put(0, 0, b"k", b"v").is_err());
    assert!(state.get(5, &[(64, b"k")]).is_err());
    assert_eq!(batch.open(1, 0).unwrap().groups(), 0..KEY_GROUPS);
    let open = store.apply(&batch).await.unwrap_err().to_string();
    assert!(open.contains("open"), "{open}");
    drop(state);
    store.apply(&batch).await.unwrap();
    assert!(store.apply(&batch).await.is_err());
    assert!(store.begin(BatchId(3)).is_err());
}

#[tokio::test]
async fn a_batch_that_several_threads_pack_and_apply_leaves_what_it_wrote() {
    let mut world = World::new().await;
    let value = [7; 20];
    let rows = |step: usize| -> Vec<_> {
        let keys = (0..30_000_u32).step_by(step);
        let row = |key: u32| (0, 1, key.to_le_bytes()[0], key.to_be_bytes().to_vec());
        keys.map(row).collect()
    };
    let put: Vec<_> = rows(1).into_iter().map(|row| (row, Some(&value[..]))).collect();
    world.batch(&put).await;
    world.check();
    // Some go, some change, and there is a second family and a second operator.
    let mut changes: Vec<_> = rows(1).into_iter().map(|row| (row, Some(&value[..3]))).collect();
    changes.iter_mut().step_by(3).for_each(|(_, value)| *value = None);
    changes.extend(rows(5).into_iter().map(|row| ((0, 0, row.2, row.3), Some(&value[..1]))));
    changes.push(((1, 0, 200, b"total".to_vec()), Some(&value[..])));
    world.batch(&changes).await;
    world.check();
    world.restart().await.unwrap();
    world.check();
}
