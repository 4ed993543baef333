//! Queries with a second sink, whatever rows it gets.

use crate::world::{Fault, Shelves, World};
use onefold_connector::SinkDefinition;
use onefold_engine::{DataFrame, DataStreamWriter, Trigger};
use onefold_types::{Mark, Result};
use std::sync::Arc;

/// Gives a query its second sink.
pub type Attach = fn(DataStreamWriter, Arc<dyn SinkDefinition>) -> DataStreamWriter;

/// Rows of a sink, by batch.
pub type Rows = Vec<Vec<i64>>;

pub fn run(
    world: &World,
    frame: &DataFrame,
    (attach, second): (Attach, &Shelves),
    attempts: u64,
) -> Result<()> {
    attach(world.writer_of(frame, Trigger::AvailableNow), Arc::new(second.clone()))
        .option("onefold.retry.maxAttempts", attempts.to_string())
        .start_default()?
        .await_termination(None)
        .map(|ended| assert!(ended))
}

pub fn batches(sink: &Shelves) -> Vec<(Mark, Vec<i64>)> {
    sink.shelf.lock().unwrap().batches.clone()
}

pub fn rows(sink: &Shelves) -> Vec<i64> {
    let mut rows: Vec<i64> = batches(sink).into_iter().flat_map(|(_, rows)| rows).collect();
    rows.sort_unstable();
    rows
}

fn rows_by_batch(sink: &Shelves) -> Rows {
    batches(sink).into_iter().map(|(_, rows)| rows).collect()
}

/// Runs a query with each fault at each (or each so many) of its durable calls, and again: both sinks
/// hold what they hold without a fault, each batch by the same driver. Gives what they hold, and how
/// many faults were met.
pub fn walk(
    fresh: &dyn Fn() -> World,
    frame: fn(&World) -> DataFrame,
    attach: Attach,
    faults: &[(Fault, usize)],
) -> ([Rows; 2], usize) {
    let clean = fresh();
    let clean_second = clean.second_sink();
    run(&clean, &frame(&clean), (attach, &clean_second), 1).unwrap();
    let wanted = [&clean.sink, &clean_second].map(rows_by_batch);
    let mut cases = 0;
    for (fault, step) in faults {
        for call in (0..).step_by(*step) {
            let world = fresh();
            let metadata = clean.store.files.lock().unwrap()["metadata"].clone();
            world.store.files.lock().unwrap().insert("metadata".to_owned(), metadata);
            let second = world.second_sink();
            world.faults.arm(call, *fault);
            let attempts = if fault.dies() { 1 } else { 3 };
            let outcome = run(&world, &frame(&world), (attach, &second), attempts);
            let met = world.faults.met();
            world.faults.disarm();
            assert!(met || outcome.is_ok(), "without a fault the query ends well: {outcome:?}");
            let text = format!("{fault:?} at call {call}");
            let outcome = run(&world, &frame(&world), (attach, &second), 1);
            outcome.unwrap_or_else(|error| panic!("{text}: {}", error.chain()));
            assert_eq!([&world.sink, &second].map(rows_by_batch), wanted, "{text}");
            let marks = |sink: &Shelves| -> Vec<Mark> {
                batches(sink).into_iter().map(|(mark, _)| mark).collect()
            };
            assert_eq!(marks(&world.sink), marks(&second), "{text}");
            if !met {
                break;
            }
            cases += 1;
        }
    }
    (wanted, cases)
}
