//! What a program sees of its queries: status, ends, listeners, and one query on one checkpoint.

use crate::world::{Host, World};
use arrow::array::AsArray;
use arrow::datatypes::Int32Type;
use onefold_engine::{
    QueryStarted, QueryTerminated, StreamingQueryListener, StreamingQueryProgress,
    StreamingQueryStatus, Trigger,
};
use onefold_types::ErrorKind;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;

const LIMIT: Option<Duration> = Some(Duration::from_secs(60));
const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

fn status(message: &str, available: bool, active: bool) -> StreamingQueryStatus {
    StreamingQueryStatus {
        message: message.to_owned(),
        is_data_available: available,
        is_trigger_active: active,
    }
}

#[test]
fn the_status_of_a_query_says_whether_it_works_waits_or_is_over() {
    let gate = Arc::new(Semaphore::new(0));
    let world = Host::new(false).held_world(2, 2, Some(Arc::clone(&gate)));
    let trigger = Trigger::ProcessingTime(Duration::from_secs(1));
    let query = world.writer(trigger).start_default().unwrap();
    while world.store.names("offsets").is_empty() {
        std::thread::yield_now();
    }
    // The batch is held while it reads.
    while query.status().message == "Getting offsets from sources" {
        std::thread::yield_now();
    }
    assert_eq!(query.status(), status("Processing new data", true, true));
    assert!(query.is_active());
    gate.add_permits(10);
    query.process_all_available().unwrap();
    // The time of the next look does not come, but somebody who waits for data is one more reason.
    while query.status().is_trigger_active {
        std::thread::yield_now();
    }
    assert_eq!(query.status(), status("Waiting for data to arrive", false, false));
    query.stop().unwrap();
    assert_eq!(query.status(), status("Stopped", false, false));
    assert!(!query.is_active());
}

#[test]
fn the_status_of_a_failed_query_says_why() {
    let world = Host::new(true).world(2, 2);
    let query = world.writer_of(&never_fits(&world), Trigger::AvailableNow);
    let query = query.start_default().unwrap();
    let error = query.await_termination(LIMIT).unwrap_err();
    let found = query.status();
    assert!(found.message.starts_with("Terminated with exception: "), "{found:?}");
    assert!(error.to_string().contains(&query.exception().unwrap().message), "{error}");
    assert!(!found.is_data_available && !found.is_trigger_active, "{found:?}");
}

/// Rows that can never be computed.
fn never_fits(world: &World) -> onefold_engine::DataFrame {
    world.frame().select_expr(&["CAST(concat('x', id) AS BIGINT) AS id"]).unwrap()
}

#[test]
fn what_can_never_fit_is_tried_once_and_no_more() {
    let world = Host::new(true).world(2, 2);
    let error = world.run_frame(&never_fits(&world), 1_000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("\"BIGINT\""), "{error}");
    assert_eq!(world.store.names("_onefold/generations"), ["1"], "one try");
    assert!(world.timer.waits.lock().unwrap().is_empty(), "no pause before another one");
    // A schema that the sink does not take.
    let world = Host::new(true).world(2, 2);
    let mut sink = world.sink.clone();
    sink.refuses = Some("the column `id` does not fit".to_owned());
    let writer = world.frame().write_stream().sink(Arc::new(sink.clone()));
    let writer = writer.option("checkpointLocation", world.place.as_str());
    let error = writer
        .option("onefold.retry.maxAttempts", "1000")
        .trigger(Trigger::AvailableNow)
        .start_default()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("the column `id` does not fit"), "{error}");
    assert_eq!(sink.opened.load(std::sync::atomic::Ordering::SeqCst), 1, "one try");
    assert!(world.store.names("offsets").is_empty());
}

#[test]
fn the_end_of_any_query_is_awaited_and_forgotten_on_request() {
    let host = Host::new(true);
    let gate = Arc::new(Semaphore::new(0));
    let (held, other) = (host.held_world(2, 2, Some(Arc::clone(&gate))), host.world(2, 2));
    let streams = held.session.streams();
    let running = held.writer(Trigger::AvailableNow).start_default().unwrap();
    assert!(!streams.await_any_termination(AT_ONCE).unwrap(), "it is held");
    let waits = {
        let streams = streams.clone();
        std::thread::spawn(move || streams.await_any_termination(None))
    };
    other.run(1).unwrap();
    assert!(waits.join().unwrap().unwrap());
    assert!(running.is_active(), "any, not all");
    // An end is known until it is forgotten.
    assert!(streams.await_any_termination(AT_ONCE).unwrap());
    streams.reset_terminated();
    assert!(!streams.await_any_termination(AT_ONCE).unwrap());
    gate.add_permits(10);
    assert!(streams.await_any_termination(LIMIT).unwrap());
    running.await_termination(LIMIT).unwrap();
}

#[test]
fn the_first_failure_since_the_reset_is_the_one_that_is_told() {
    let host = Host::new(true);
    let streams = host.world(0, 1).session.streams();
    let failing = host.world(2, 2);
    assert!(failing.run_frame(&never_fits(&failing), 1).is_err());
    host.world(2, 2).run(1).unwrap();
    for _ in 0..2 {
        let error = streams.await_any_termination(AT_ONCE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("CAST_INVALID_INPUT"), "{error}");
    }
    streams.reset_terminated();
    host.world(2, 2).run(1).unwrap();
    assert!(streams.await_any_termination(AT_ONCE).unwrap());
}

/// Writes down what it hears, with its own name.
struct Ear(&'static str, Mutex<Sender<String>>);

impl Ear {
    fn tell(&self, text: &str) {
        let _ = self.1.lock().unwrap().send(format!("{} {text}", self.0));
    }
}

impl StreamingQueryListener for Ear {
    fn on_query_started(&self, event: &QueryStarted) {
        self.tell(&format!("started {}", event.name.clone().unwrap_or_default()));
    }

    fn on_query_progress(&self, progress: &StreamingQueryProgress) {
        let name = progress.name.clone().unwrap_or_default();
        self.tell(&format!("progress {name} {}", progress.batch_id));
    }

    fn on_query_terminated(&self, event: &QueryTerminated) {
        self.tell(&format!("terminated {}", event.exception.is_some()));
    }
}

#[test]
fn listeners_hear_each_event_in_the_order_in_which_they_were_added() {
    let host = Host::new(true);
    let world = host.world(4, 2);
    let streams = world.session.streams();
    let (send, heard) = channel();
    streams.add_listener(Arc::new(Ear("a", Mutex::new(send.clone()))));
    streams.add_listener(Arc::new(Ear("b", Mutex::new(send))));
    let first = world.writer(Trigger::AvailableNow).query_name("one").start_default().unwrap();
    first.await_termination(LIMIT).unwrap();
    let heard_of = |events: &[&str]| {
        for event in events {
            for listener in ["a", "b"] {
                assert_eq!(
                    heard.recv_timeout(LIMIT.unwrap()).unwrap(),
                    format!("{listener} {event}")
                );
            }
        }
    };
    heard_of(&["started one", "progress one 0", "progress one 1", "terminated false"]);
    let failing = host.world(2, 2);
    assert!(failing.run_frame(&never_fits(&failing), 1).is_err());
    heard_of(&["started ", "terminated true"]);
}

#[test]
fn a_query_that_is_active_in_the_process_is_not_started_twice() {
    let host = Host::new(false);
    let neighbour = host.neighbour();
    let world = host.world(2, 2);
    let first = world.writer(Trigger::default()).query_name("one").start_default().unwrap();
    first.process_all_available().unwrap();
    for session in [&host, &neighbour] {
        let again = session.sharing(&world);
        let writer = again.writer(Trigger::default());
        let writer = writer.option("spark.sql.streaming.stopActiveRunOnRestart", "false");
        let error = writer.start_default().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let text = error.to_string();
        assert!(text.contains("another query with same id is already active"), "{text}");
        assert!(text.contains(&first.run_id().to_string()) && text.contains("`one`"), "{text}");
        assert!(text.contains("memory:///checkpoint"), "{text}");
    }
    assert!(first.is_active());
    assert_eq!(world.store.names("_onefold/generations"), ["1"], "nothing was touched");
    first.stop().unwrap();
    let again = neighbour.sharing(&world);
    let writer = again.writer(Trigger::AvailableNow);
    let writer = writer.option("spark.sql.streaming.stopActiveRunOnRestart", "false");
    writer.start_default().unwrap().await_termination(LIMIT).unwrap();
}

#[test]
fn a_restart_in_another_session_stops_the_older_run_first() {
    let host = Host::new(false);
    let world = host.world(2, 2);
    let first = world.writer(Trigger::default()).start_default().unwrap();
    first.process_all_available().unwrap();
    let neighbour = host.neighbour();
    let again = neighbour.sharing(&world);
    let second = again.writer(Trigger::default()).start_default().unwrap();
    assert!(!first.is_active() && first.exception().is_none());
    assert_eq!(first.id(), second.id());
    assert!(world.session.streams().active().is_empty());
    again.source.rows.lock().unwrap().push(2);
    second.process_all_available().unwrap();
    assert_eq!(again.seen(), [vec![0, 1], vec![2]]);
    second.stop().unwrap();
}

#[test]
fn rows_of_one_partition_stay_in_their_order_however_many_there_are() {
    let host = Host::new(true);
    let session = host.session();
    let rows = session
        .sql("SELECT n * 2 AS n FROM (SELECT explode(sequence(1, 200000)) AS n) WHERE n % 3 = 0");
    let rows = rows.unwrap().collect().unwrap();
    let all = rows
        .iter()
        .flat_map(|batch| batch.column(0).as_primitive::<Int32Type>().values().iter().copied());
    let wanted = (1..=200_000).filter(|n| n % 3 == 0).map(|n| n * 2);
    assert!(all.eq(wanted));
}
