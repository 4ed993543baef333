//! Queries with state: crashes, restarts, watermarks, batches without input.

use crate::world::{Fault, Host, World};
use onefold_engine::{DataFrame, Trigger};
use serde_json::Value;
use std::sync::Arc;

/// Counts per window of 5 seconds, where the number is the event time in seconds. A row of the
/// output is the window's begin in milliseconds plus the count.
fn windows(world: &World) -> DataFrame {
    world
        .frame()
        .select_expr(&["CAST(id AS TIMESTAMP) AS ts"])
        .unwrap()
        .with_watermark("ts", "2 seconds")
        .unwrap()
        .group_by(&["window(ts, '5 seconds')"])
        .agg(&["count(*) AS n"])
        .unwrap()
        .select_expr(&["CAST(window.start AS BIGINT) * 1000 + n AS id"])
        .unwrap()
}

/// Rows 0 … 15 in batches of 4: windows [0,5) and [5,10) are over once the watermark is 10; the
/// batch without input brings it from 9 to 13.
const WHOLE: [&[i64]; 5] = [&[], &[], &[5], &[], &[5_005]];

fn watermarks(world: &World, folder: &str, field: &str) -> Vec<i64> {
    let files = world.store.files.lock().unwrap();
    let mut found: Vec<(u64, i64)> = files
        .iter()
        .filter_map(|(path, bytes)| {
            let batch = path.strip_prefix(folder)?.strip_prefix('/')?.parse().ok()?;
            let text = std::str::from_utf8(bytes).unwrap();
            let json: Value = serde_json::from_str(text.split('\n').nth(1).unwrap()).unwrap();
            Some((batch, json[field].as_i64().unwrap()))
        })
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, ms)| ms).collect()
}

fn check_whole(world: &World, case: &str) {
    assert_eq!(world.seen(), WHOLE, "{case}");
    let in_force = watermarks(world, "offsets", "batchWatermarkMs");
    assert_eq!(in_force, [0, 1_000, 5_000, 9_000, 13_000], "{case}");
    let next = watermarks(world, "commits", "nextBatchWatermarkMs");
    assert_eq!(next, [1_000, 5_000, 9_000, 13_000, 13_000], "{case}");
    let shelf = world.sink.shelf.lock().unwrap();
    assert!(shelf.staged.is_empty(), "{case}: {:?} is left behind", shelf.staged);
}

#[test]
fn windows_come_out_once_the_watermark_has_passed_and_a_last_batch_has_no_input() {
    let world = Host::new(true).world(16, 4);
    world.run_frame(&windows(&world), 1).unwrap();
    check_whole(&world, "without faults");
    world.run_frame(&windows(&world), 1).unwrap();
    check_whole(&world, "nothing is left to do");
}

fn run_into(world: &World, call: u64, fault: Fault) -> bool {
    world.faults.arm(call, fault);
    let attempts = if fault.dies() { 1 } else { 3 };
    let outcome = world.run_frame(&windows(world), attempts);
    let met = world.faults.met();
    world.faults.disarm();
    assert!(met || outcome.is_ok(), "without a fault the query ends well: {outcome:?}");
    met
}

fn finish(world: &World, case: &str) {
    let outcome = world.run_frame(&windows(world), 1);
    outcome.unwrap_or_else(|error| panic!("{case}: {}", error.chain()));
    check_whole(world, case);
}

fn walk(tells_totals: bool, partitions: [&str; 2]) -> u64 {
    let host = Host::new(true);
    let mut cases = 0;
    for fault in Fault::ALL {
        for call in 0.. {
            let mut world = host.world(16, 4);
            world.sink.tells_totals = tells_totals;
            world.session.conf().set("spark.sql.shuffle.partitions", partitions[0]).unwrap();
            let met = run_into(&world, call, fault);
            world.session.conf().set("spark.sql.shuffle.partitions", partitions[1]).unwrap();
            finish(&world, &format!("{fault:?} at call {call}"));
            if !met {
                break;
            }
            cases += 1;
        }
    }
    cases
}

#[test]
fn a_fault_at_any_durable_call_changes_no_batch_of_a_query_with_state() {
    assert!(walk(true, ["2", "2"]) >= 5 * 30);
}

#[test]
fn a_restart_with_other_partitions_after_any_fault_changes_nothing() {
    assert!(walk(false, ["3", "5"]) >= 5 * 30);
}

#[test]
fn a_second_crash_in_the_recovery_of_a_first_changes_no_batch_of_a_query_with_state() {
    let host = Host::new(true);
    let mut cases = 0;
    for (first, second) in
        [(Fault::DieBefore, Fault::DieAfter), (Fault::DieAfter, Fault::DieBefore)]
    {
        for call in (0..).step_by(3) {
            let mut met_first = false;
            for call_again in (0..).step_by(2) {
                let world = host.world(16, 4);
                met_first = run_into(&world, call, first);
                let met_again = met_first && run_into(&world, call_again, second);
                finish(&world, &format!("{first:?} at {call}, then {second:?} at {call_again}"));
                if !met_again {
                    break;
                }
                cases += 1;
            }
            if !met_first {
                break;
            }
        }
    }
    assert!(cases > 50, "{cases}");
}

#[test]
fn a_no_data_batch_that_was_planned_and_not_run_is_run_once() {
    let world = Host::new(true).world(16, 4);
    world.run_frame(&windows(&world), 1).unwrap();
    // As a kill right after the intent of the batch without input leaves it.
    world.store.files.lock().unwrap().remove("commits/4");
    world.sink.shelf.lock().unwrap().batches.pop();
    let intent = world.store.files.lock().unwrap()["offsets/4"].clone();
    world.run_frame(&windows(&world), 1).unwrap();
    check_whole(&world, "planned, killed, run");
    assert_eq!(world.store.files.lock().unwrap()["offsets/4"], intent, "not planned again");
}

#[test]
fn without_no_data_batches_state_waits_for_input() {
    let world = Host::new(true).world(16, 4);
    let run = || {
        world
            .writer_of(&windows(&world), Trigger::AvailableNow)
            .option("spark.sql.streaming.noDataMicroBatches.enabled", "false")
            .start_default()
            .unwrap()
            .await_termination(None)
            .unwrap()
    };
    run();
    assert_eq!(world.seen(), WHOLE[..4]);
    run();
    assert_eq!(world.seen(), WHOLE[..4]);
    world.run_frame(&windows(&world), 1).unwrap();
    check_whole(&world, "a later start may make one");
}

#[test]
fn adopting_a_batch_keeps_its_state_and_its_watermark() {
    let world = Host::new(true).world(16, 4);
    world.run_frame(&windows(&world), 1).unwrap();
    world.store.files.lock().unwrap().remove("commits/4");
    let query = world.writer_of(&windows(&world), Trigger::AvailableNow).start_default().unwrap();
    query.await_termination(None).unwrap();
    check_whole(&world, "adopted");
    let progress = query.last_progress().unwrap();
    assert_eq!((progress.batch_id.0, progress.num_input_rows), (4, 0));
    assert_eq!(progress.state_operators[0].num_rows_total, 2, "[10,15) and [15,20) are open");
    assert_eq!(progress.event_time["watermark"], "1970-01-01T00:00:13.000Z");
    assert_eq!(Arc::strong_count(&progress), 2);
}

#[test]
fn progress_says_what_spark_says_of_event_times_and_state() {
    let world = Host::new(true).world(16, 4);
    world.session.conf().set("spark.sql.shuffle.partitions", "2").unwrap();
    let query = world.writer_of(&windows(&world), Trigger::AvailableNow).start_default().unwrap();
    query.await_termination(None).unwrap();
    let all = query.recent_progress();
    let json: Value = serde_json::from_str(&all[2].json()).unwrap();
    let expected = serde_json::json!({
        "avg": "1970-01-01T00:00:09.500Z",
        "max": "1970-01-01T00:00:11.000Z",
        "min": "1970-01-01T00:00:08.000Z",
        "watermark": "1970-01-01T00:00:05.000Z"
    });
    assert_eq!(json["eventTime"], expected);
    let state = json["stateOperators"][0].as_object().unwrap();
    let keys: Vec<&String> = state.keys().collect();
    assert_eq!(
        keys,
        [
            "operatorName",
            "numRowsTotal",
            "numRowsUpdated",
            "allUpdatesTimeMs",
            "numRowsRemoved",
            "allRemovalsTimeMs",
            "commitTimeMs",
            "memoryUsedBytes",
            "numRowsDroppedByWatermark",
            "numShufflePartitions",
            "numStateStoreInstances",
            "customMetrics"
        ]
    );
    assert_eq!(state["operatorName"], "stateStoreSave");
    let counts: Vec<(u64, u64, u64)> = all
        .iter()
        .map(|it| &it.state_operators[0])
        .map(|it| (it.num_rows_total, it.num_rows_updated, it.num_rows_removed))
        .collect();
    assert_eq!(counts, [(1, 1, 0), (2, 2, 0), (2, 2, 1), (3, 2, 0), (2, 0, 1)]);
    assert_eq!(
        (&state["numShufflePartitions"], &state["numStateStoreInstances"]),
        (&2.into(), &2.into())
    );
    let last: Value = serde_json::from_str(&all[4].json()).unwrap();
    assert_eq!(last["eventTime"], serde_json::json!({"watermark": "1970-01-01T00:00:13.000Z"}));
    assert_eq!(last["watermarks"][0]["column"], "ts");
}
