//! Every durable act of prepare, snapshot and purge goes wrong in every way.

use crate::specs::operators;
use crate::world::{Model, Opened, config, contents};
use onefold_state::{StateRef, StateStore};
use onefold_storage::Store;
use onefold_testkit::{Fault, FaultPlan, MemoryStore};
use onefold_types::{BatchId, Result};
use std::sync::Arc;

const BATCHES: u64 = 9;

/// What is durable outside of the state: the newest committed version, and all whose records are
/// kept.
#[derive(Default)]
struct Records {
    kept: Vec<StateRef>,
}

/// Runs batches until all are committed; each adds one row and changes another. Any error ends the
/// run, as it ends a driver.
async fn drive(store: Arc<dyn Store>, generation: u64, records: &mut Records) -> Result<()> {
    let mut state = StateStore::open(config(store, generation), records.kept.last()).await?;
    while state.version() < BATCHES {
        let number = state.version();
        let batch = state.begin(BatchId(number))?;
        let mut opened = Opened::new(&batch, operators());
        for (row, value) in changes(number) {
            opened.write(&row, value.as_deref())?;
        }
        drop(opened);
        let at = state.prepare(&batch).await?;
        // Published and committed.
        records.kept.push(at);
        state.apply(&batch).await?;
        state.finish_snapshot().await;
        let from = records.kept.len().saturating_sub(3);
        records.kept.drain(..from);
        state.purge(&records.kept).await?;
    }
    Ok(())
}

fn changes(batch: u64) -> Vec<(crate::world::Row, Option<Vec<u8>>)> {
    let key = |number: u64| (0, 0, u8::try_from(number * 20).unwrap(), vec![b'k'; 3]);
    let mut changes = vec![(key(batch), Some(format!("added by {batch}").into_bytes()))];
    if batch > 0 {
        let value = (!batch.is_multiple_of(3)).then(|| format!("changed by {batch}").into_bytes());
        changes.push((key(batch - 1), value));
    }
    changes
}

fn expected() -> Model {
    let mut model = Model::new();
    for (row, value) in (0..BATCHES).flat_map(changes) {
        match value {
            Some(value) => model.insert(row, value),
            None => model.remove(&row),
        };
    }
    model
}

/// Runs under a plan, restarting after each error; the number of restarts.
async fn run(plan: FaultPlan) -> (u64, MemoryStore) {
    let disk = MemoryStore::default();
    let mut records = Records::default();
    let mut generation = 1;
    let mut store = plan.wrap(Arc::new(disk.clone()));
    while drive(Arc::clone(&store), generation, &mut records).await.is_err() {
        generation += 1;
        assert!(generation < 5, "no progress:\n{}", plan.timeline());
        if plan.dead() {
            disk.cut_power();
            store = Arc::new(disk.clone());
        }
    }
    let config = config(Arc::new(disk.clone()), generation + 1);
    let state = StateStore::open(config, records.kept.last()).await.unwrap();
    let found = contents(&state, &operators()).unwrap();
    assert_eq!(found, expected(), "{}", plan.timeline());
    (generation - 1, disk)
}

#[tokio::test]
async fn any_fault_of_any_durable_act_leaves_the_state_right() {
    let clean = FaultPlan::clean();
    let (restarts, disk) = run(clean.clone()).await;
    assert_eq!(restarts, 0);
    let names: Vec<_> = clean.log().iter().map(|act| act.name).collect();
    for name in ["create", "finish", "create_staged", "delete"] {
        assert!(names.contains(&name), "{}", clean.timeline());
    }
    let files = disk.paths().len();
    let mut restarted = 0;
    for act in 1..=clean.acts() {
        for fault in Fault::ALL {
            let plan = FaultPlan::at(act, *fault);
            let (restarts, disk) = run(plan.clone()).await;
            restarted += restarts;
            let left = disk.paths().len();
            assert!(left <= files + 4, "{left} files stay, not {files}: {:#?}", disk.paths());
        }
    }
    assert!(restarted > 20, "{restarted}");
}
