//! A query whose result goes into two sinks: computed once, and in both or in neither, whatever fails.

use crate::two_sinks::{self, batches, rows};
use crate::world::{Fault, Host, World};
use onefold_connector::SinkDefinition;
use onefold_engine::{DataFrame, DataStreamWriter, Trigger};
use std::sync::Arc;

fn all(world: &World) -> DataFrame {
    world.frame()
}

fn attach(writer: DataStreamWriter, second: Arc<dyn SinkDefinition>) -> DataStreamWriter {
    writer.also_into("archive", second)
}

#[test]
fn both_sinks_hold_the_same_rows_in_the_same_batches() {
    let host = Host::new(true);
    let world = host.world(7, 3);
    let second = world.second_sink();
    two_sinks::run(&world, &all(&world), (attach, &second), 1).unwrap();
    assert_eq!(batches(&world.sink), batches(&second));
    assert_eq!(rows(&second), (0..7).collect::<Vec<i64>>());
}

#[test]
fn a_fault_at_any_durable_call_leaves_both_sinks_whole() {
    let host = Host::new(true);
    let fresh = || host.world(5, 2);
    let faults = &[
        (Fault::DieBefore, 1),
        (Fault::DieAfter, 1),
        (Fault::ReplyLost, 1),
        (Fault::NotDoneUnknown, 1),
        (Fault::Unavailable, 1),
    ];
    let (wanted, cases) = two_sinks::walk(&fresh, all, attach, faults);
    assert_eq!(wanted[0], wanted[1]);
    assert!(cases > 60, "{cases}");
}

#[test]
fn a_second_sink_may_come_later_and_is_named_in_progress() {
    let host = Host::new(true);
    let world = host.world(2, 2);
    world.run(1).unwrap();
    world.source.rows.lock().unwrap().extend([7, 8]);
    let second = world.second_sink();
    let query =
        attach(world.writer_of(&all(&world), Trigger::AvailableNow), Arc::new(second.clone()))
            .start_default()
            .unwrap();
    query.await_termination(None).unwrap();
    assert_eq!(rows(&second), [7, 8]);
    let progress = query.last_progress().unwrap();
    let [further] = progress.further_sinks.as_slice() else { panic!("one further sink") };
    assert_eq!((further.name.as_str(), further.rows), ("archive", 2));
}

#[test]
fn what_cannot_be_a_sinks_name_is_refused() {
    let host = Host::new(true);
    let world = host.world(1, 1);
    let second: Arc<dyn SinkDefinition> = Arc::new(world.second_sink());
    for name in ["", "late rows", "a/b", "a.b"] {
        let writer = world.writer(Trigger::AvailableNow).also_into(name, Arc::clone(&second));
        let error = writer.start_default().unwrap_err().to_string();
        assert!(error.contains("cannot be the name of a sink"), "{name}: {error}");
    }
}
