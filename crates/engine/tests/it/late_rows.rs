//! Rows that are dropped as late go to a second sink, each once, in the batch that drops them.

use crate::two_sinks::{self, batches, rows};
use crate::world::{Fault, Host, Shelves, World};
use onefold_engine::{DataFrame, DataStreamWriter, Explanation, OutputMode, Trigger};
use onefold_types::{BatchId, Result};
use std::sync::Arc;

/// Numbers that come in disorder: their time is so many seconds.
const NUMBERS: [i64; 24] =
    [0, 10, 3, 20, 25, 5, 11, 30, 12, 25, 40, 4, 41, 13, 42, 2, 60, 33, 61, 1, 70, 71, 62, 9];

/// Numbers with their time as an event time, two seconds late at most.
fn timed(world: &World) -> DataFrame {
    let rows = world.frame().select_expr(&["id", "CAST(id AS TIMESTAMP) AS ts"]).unwrap();
    rows.with_watermark("ts", "2 seconds").unwrap()
}

/// Lets through every number that is not late.
fn each(world: &World) -> DataFrame {
    timed(world).drop_duplicates(&["id", "ts"]).unwrap()
}

/// Counts by window and by a random number; late numbers carry theirs.
fn counts(world: &World) -> DataFrame {
    let rows = world.frame().select_expr(&["id", "CAST(id AS TIMESTAMP) AS ts", "rand() AS r"]);
    let rows = rows.unwrap().select_expr(&["id * 10 + CAST(r * 3 AS BIGINT) AS id", "ts"]).unwrap();
    let rows = rows.with_watermark("ts", "2 seconds").unwrap();
    let groups = rows.group_by(&["window(ts, '5 seconds')", "id % 10 AS r"]);
    let counts = groups.agg(&["count(*) AS n"]).unwrap();
    counts.select_expr(&["CAST(window.start AS BIGINT) * 10000 + r * 100 + n AS id"]).unwrap()
}

fn world_of(host: &Host, numbers: &[i64], per_batch: usize) -> World {
    let world = host.world(0, per_batch);
    *world.source.rows.lock().unwrap() = numbers.to_vec();
    world
}

fn run(world: &World, frame: &DataFrame, late: &Shelves, attempts: u64) -> Result<()> {
    two_sinks::run(world, frame, (DataStreamWriter::late_rows, late), attempts)
}

#[test]
fn a_late_row_is_in_the_second_sink_in_the_batch_that_drops_it() {
    let host = Host::new(true);
    let world = world_of(&host, &NUMBERS, 4);
    let late = world.second_sink();
    let query = world.writer_of(&each(&world), Trigger::AvailableNow);
    let query = query.late_rows(Arc::new(late.clone())).start_default().unwrap();
    query.await_termination(None).unwrap();
    // The watermark is 0 at first; that of batch 0, 18 s, makes late from batch 2 on.
    let by_batch: Vec<Vec<i64>> = batches(&late).into_iter().map(|(_, rows)| rows).collect();
    assert_eq!(by_batch[..6], [vec![0], vec![], vec![4, 12], vec![2, 13], vec![1, 33], vec![9]]);
    for progress in query.recent_progress() {
        let metrics = &progress.state_operators[0];
        let [further] = progress.further_sinks.as_slice() else { panic!("one further sink") };
        assert_eq!(further.rows, metrics.custom_metrics["numLateRows"]);
        assert_eq!(further.rows, metrics.num_rows_dropped_by_watermark);
        assert_eq!(further.name, "late rows");
    }
}

#[test]
fn both_sinks_hold_each_batch_by_the_same_driver_after_a_fault_at_any_durable_call() {
    walk("memory");
    #[cfg(feature = "rocksdb")]
    walk("rocksdb");
}

fn walk(provider: &str) {
    let host = Host::new(true);
    let local = tempfile::tempdir().unwrap();
    let set = |name: &str, value: &str| host.session().conf().set(name, value).unwrap();
    set("spark.sql.streaming.stateStore.providerClass", provider);
    set("spark.sql.streaming.stateStore.minDeltasForSnapshot", "2");
    set("onefold.state.localDir", local.path().to_str().unwrap());
    let faults: &[(Fault, usize)] = match provider {
        "memory" => &[
            (Fault::DieBefore, 2),
            (Fault::DieAfter, 1),
            (Fault::ReplyLost, 2),
            (Fault::NotDoneUnknown, 3),
            (Fault::Unavailable, 3),
        ],
        _ => &[(Fault::DieAfter, 3)],
    };
    let fresh = || world_of(&host, &NUMBERS, 6);
    let (wanted, cases) = two_sinks::walk(&fresh, counts, DataStreamWriter::late_rows, faults);
    assert!(wanted[1].iter().flatten().count() >= 4, "{wanted:?}");
    assert!(cases >= if provider == "memory" { 100 } else { 10 }, "{cases} cases");
}

#[test]
fn a_sink_of_late_rows_may_come_later_but_not_twice() {
    let host = Host::new(true);
    let world = world_of(&host, &NUMBERS[..12], 6);
    world.run_frame(&each(&world), 1).unwrap();
    let more = |rows: &[i64]| world.source.rows.lock().unwrap().extend(rows);
    more(&NUMBERS[12..18]);
    let late = world.second_sink();
    run(&world, &each(&world), &late, 1).unwrap();
    let first = batches(&late)[0].0.batch;
    assert!(first > BatchId(1), "{first}");
    more(&NUMBERS[18..]);
    world.run_frame(&each(&world), 1).unwrap();
    more(&[80, 81]);
    let error = run(&world, &each(&world), &late, 1).unwrap_err().chain();
    assert!(error.contains("in its sink of late rows: this sink holds batch"), "{error}");
    run(&world, &each(&world), &world.second_sink(), 1).unwrap();
}

#[test]
fn the_second_sink_decides_where_the_first_forgets() {
    let host = Host::new(true);
    for call in 0.. {
        let mut world = world_of(&host, &NUMBERS, 6);
        let late = world.second_sink();
        world.sink.keeps_marks = false;
        world.faults.arm(call, Fault::DieAfter);
        let _ = run(&world, &each(&world), &late, 1);
        let met = world.faults.met();
        world.faults.disarm();
        run(&world, &each(&world), &late, 1).unwrap();
        let mut all = rows(&world.sink);
        all.dedup();
        all.extend(rows(&late));
        all.sort_unstable();
        let mut wanted = NUMBERS.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        all.dedup();
        assert_eq!(all, wanted, "call {call}");
        assert_eq!(rows(&late).len(), 5, "call {call}: the second sink gets each row once");
        if !met {
            break;
        }
    }
}

#[test]
fn a_query_that_drops_nothing_has_no_late_rows_to_give() {
    let host = Host::new(true);
    let world = world_of(&host, &NUMBERS, 6);
    let late = world.second_sink();
    let error = run(&world, &world.frame(), &late, 1).unwrap_err().to_string();
    assert!(error.contains("no operator of this query drops late rows"), "{error}");
    let all = timed(&world).group_by(&["window(ts, '5 seconds')"]).agg(&["count(*) AS id"]);
    let all = all.unwrap().select_expr(&["id"]).unwrap();
    let writer = world.writer_of(&all, Trigger::AvailableNow).output_mode(OutputMode::Complete);
    let error = writer.late_rows(Arc::new(late)).start_default().unwrap_err().to_string();
    assert!(error.contains("no operator of this query drops late rows"), "{error}");
}

#[test]
fn explain_names_the_second_sink_and_what_it_promises() {
    let host = Host::new(true);
    let world = world_of(&host, &NUMBERS, 6);
    let mut late = world.second_sink();
    let explained = |late: &Shelves| -> Explanation {
        let writer = world.writer_of(&each(&world), Trigger::AvailableNow);
        writer.late_rows(Arc::new(late.clone())).explain().unwrap()
    };
    let told = explained(&late).to_string();
    assert!(told.contains("\nlate rows Shelf  exactly once"), "{told}");
    late.keeps_marks = false;
    let told = explained(&late).guarantee;
    assert!(!told.whole.exactly_once() && told.sink.delivery.exactly_once());
}

/// The next of a row of numbers that look random.
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

#[test]
fn what_comes_out_and_what_comes_late_are_all_rows() {
    let host = Host::new(true);
    let mut seen_late = 0;
    for seed in 1..=24_u64 {
        let mut random = seed;
        let mut numbers: Vec<i64> = (0..60).collect();
        for place in (1..numbers.len()).rev() {
            numbers.swap(place, usize::try_from(next(&mut random)).unwrap() % (place + 1));
        }
        let per_batch = 1 + usize::try_from(next(&mut random) % 11).unwrap();
        let partitions = (1 + next(&mut random) % 4).to_string();
        host.session().conf().set("spark.sql.shuffle.partitions", partitions).unwrap();
        let world = world_of(&host, &numbers, per_batch);
        let late = world.second_sink();
        run(&world, &each(&world), &late, 1).unwrap();
        let mut all = rows(&late);
        seen_late += all.len();
        all.extend(rows(&world.sink));
        all.sort_unstable();
        assert_eq!(all, (0..60).collect::<Vec<i64>>(), "seed {seed}");
    }
    assert!(seen_late > 300, "{seen_late}");
}
