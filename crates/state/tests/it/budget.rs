//! The memory that state may take.

use crate::world::World;
use onefold_state::{BatchState, MemoryBudget, StateStore};
use onefold_types::{BatchId, ErrorKind};

#[tokio::test]
async fn state_over_the_limit_is_refused_in_a_batch_and_at_start_and_given_back() {
    let mut world = World::new().await;
    world.config.budget = MemoryBudget::new(2 << 20);
    world.restart().await.unwrap();
    let batch = world.state.begin(BatchId(0)).unwrap();
    let mut state = batch.open(0, 0).unwrap();
    let mut number = 0_u32;
    let error = loop {
        match state.put(0, 3, &number.to_be_bytes(), &[0; 100]) {
            Ok(()) => number += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("onefold.state.memoryLimit"), "{error}");
    assert!((5_000..20_000).contains(&number), "{number}");
    drop(state);
    drop(batch);
    assert_eq!(world.config.budget.used(), 0);

    // As many rows as fit, applied: they count on, and the next start wants them too.
    let batch = world.state.begin(BatchId(0)).unwrap();
    let mut state = batch.open(0, 0).unwrap();
    for number in 0..5_000_u32 {
        state.put(0, 3, &number.to_be_bytes(), &[0; 100]).unwrap();
    }
    drop(state);
    let at = world.state.prepare(&batch).await.unwrap();
    world.state.apply(&batch).await.unwrap();
    drop(batch);
    let used = world.config.budget.used();
    assert!((5_000 * 104..5_000 * 250).contains(&used), "{used}");
    world.config.budget = MemoryBudget::new(100_000);
    let error = StateStore::open(world.config.clone(), Some(&at)).await.unwrap_err();
    assert!(error.to_string().contains("rocksdb"), "{error}");
    assert_eq!(world.config.budget.used(), 0);
}

#[tokio::test]
async fn state_that_grows_by_small_batches_is_refused_too() {
    let mut world = World::new().await;
    world.config.budget = MemoryBudget::new(200_000);
    world.restart().await.unwrap();
    let mut batches = 0_u64;
    let error = loop {
        let batch = match world.state.begin(BatchId(batches)) {
            Ok(batch) => batch,
            Err(error) => break error,
        };
        let mut state = batch.open(0, 0).unwrap();
        for row in 0..100_u64 {
            state.put(0, 3, &(batches * 100 + row).to_be_bytes(), &[0; 8]).unwrap();
        }
        drop(state);
        world.state.prepare(&batch).await.unwrap();
        world.state.apply(&batch).await.unwrap();
        batches += 1;
        assert!(batches < 1_000, "no batch is refused");
    };
    assert!(error.to_string().contains("onefold.state.memoryLimit"), "{error}");
    assert!(batches > 5, "{batches}");
}
