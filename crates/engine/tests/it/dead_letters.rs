//! Records that cannot be processed go to a second sink, each once, in the batch that meets them.

use crate::two_sinks::{self, batches, rows};
use crate::world::{Fault, Host, World};
use onefold_engine::{DataFrame, DataStreamWriter, Trigger};
use onefold_types::Result;
use std::sync::Arc;

/// Numbers of which each that 4 divides cannot be processed.
fn picky(world: &World) -> DataFrame {
    let text = "IF(id % 4 = 0, concat('x', CAST(id AS STRING)), CAST(id AS STRING)) AS text";
    let rows = world.frame().select_expr(&[text]).unwrap();
    rows.select_expr(&["CAST(text AS BIGINT) AS id"]).unwrap()
}

/// The same below an operator with state.
fn counted(world: &World) -> DataFrame {
    let rows = picky(world).select_expr(&["id", "CAST(id AS TIMESTAMP) AS ts"]).unwrap();
    let rows = rows.with_watermark("ts", "1 second").unwrap();
    rows.drop_duplicates(&["id", "ts"]).unwrap().select_expr(&["id"]).unwrap()
}

fn world_of(host: &Host) -> World {
    let world = host.world(0, 5);
    *world.source.rows.lock().unwrap() = (1..=20).collect();
    world
}

fn start(world: &World, frame: &DataFrame) -> Result<()> {
    let dead = world.second_sink();
    two_sinks::run(world, frame, (DataStreamWriter::dead_letters, &dead), 1)
}

#[test]
fn a_record_that_cannot_be_processed_is_in_the_second_sink_and_the_query_goes_on() {
    let host = Host::new(true);
    for frame in [picky, counted] {
        let world = world_of(&host);
        let dead = world.second_sink();
        let query = world.writer_of(&frame(&world), Trigger::AvailableNow);
        let query = query.dead_letters(Arc::new(dead.clone())).start_default().unwrap();
        query.await_termination(None).unwrap();
        let by_batch: Vec<Vec<i64>> = batches(&dead).into_iter().map(|(_, rows)| rows).collect();
        assert_eq!(by_batch[..4], [vec![4], vec![8], vec![12], vec![16, 20]]);
        assert_eq!(rows(&world.sink), (1..=20).filter(|it| it % 4 != 0).collect::<Vec<i64>>());
        for progress in query.recent_progress().iter().take(4) {
            let [further] = progress.further_sinks.as_slice() else { panic!("one further sink") };
            assert_eq!(further.name, "dead letters");
            assert_eq!(further.rows, by_batch[progress.batch_id.0 as usize].len() as u64);
        }
    }
}

#[test]
fn both_sinks_hold_each_batch_by_the_same_driver_after_a_fault_at_any_durable_call() {
    let host = Host::new(true);
    let faults = [
        (Fault::DieBefore, 1),
        (Fault::DieAfter, 1),
        (Fault::ReplyLost, 1),
        (Fault::NotDoneUnknown, 1),
        (Fault::Unavailable, 1),
    ];
    let fresh = || world_of(&host);
    let (wanted, cases) = two_sinks::walk(&fresh, picky, DataStreamWriter::dead_letters, &faults);
    assert_eq!(wanted[1].iter().flatten().count(), 5, "{wanted:?}");
    assert!(cases >= 100, "{cases} cases");
}

#[test]
fn without_a_sink_for_it_a_bad_record_stops_the_query() {
    let host = Host::new(true);
    let world = world_of(&host);
    let error = world.run_frame(&picky(&world), 1).unwrap_err().chain();
    assert!(error.contains("'x4'"), "{error}");
}

#[test]
fn a_query_that_cannot_fail_for_a_record_has_no_dead_letters_to_give() {
    let host = Host::new(true);
    let world = world_of(&host);
    let random = world.frame().select_expr(&["CAST(id + rand() AS BIGINT) AS id"]).unwrap();
    for frame in [world.frame(), random] {
        let error = start(&world, &frame).unwrap_err().chain();
        assert!(error.contains("no step of this query can send a single record away"), "{error}");
    }
}

#[test]
fn explain_names_the_sink_of_dead_letters_and_the_steps_that_give_them() {
    let host = Host::new(true);
    let world = world_of(&host);
    let writer = world.writer_of(&picky(&world), Trigger::AvailableNow);
    let dead = Arc::new(world.second_sink());
    let told = writer.dead_letters(dead).explain().unwrap().to_string();
    assert!(told.contains("\ndead letters Shelf  exactly once"), "{told}");
    assert!(told.contains("GuardedProjection"), "{told}");
}
