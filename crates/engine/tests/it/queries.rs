//! Life of queries: fences, retries, triggers, listeners, progress, stopping.

use crate::world::{Fault, Host, World};
use onefold_connector::Clock;
use onefold_engine::{
    QueryIdle, QueryStarted, QueryTerminated, StreamingQueryListener, StreamingQueryProgress,
    Trigger,
};
use onefold_types::ErrorKind;
use serde_json::Value;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;

const LIMIT: Option<Duration> = Some(Duration::from_secs(60));

#[test]
fn available_now_keeps_to_limits_and_ends_when_nothing_is_left() {
    let world = Host::new(true).world(5, 2);
    world.run(1).unwrap();
    assert_eq!(world.seen(), [vec![0, 1], vec![2, 3], vec![4]]);
    world.run(1).unwrap();
    assert_eq!(world.seen().len(), 3, "a second run finds nothing");
}

#[test]
fn once_takes_all_in_one_batch_whatever_the_limits_say() {
    let world = Host::new(true).world(5, 2);
    let query = world.writer(Trigger::Once).start_default().unwrap();
    assert!(query.await_termination(LIMIT).unwrap());
    assert_eq!(world.seen(), [vec![0, 1, 2, 3, 4]]);
}

#[test]
fn a_processing_time_query_looks_when_its_time_has_come() {
    let world = Host::new(false).world(2, 2);
    world.timer.set(1_000_000);
    let trigger = Trigger::ProcessingTime(Duration::from_secs(10));
    let query = world.writer(trigger).start_default().unwrap();
    query.process_all_available().unwrap();
    assert_eq!(world.seen(), [vec![0, 1]]);
    world.source.rows.lock().unwrap().push(2);
    let last = query.last_progress().unwrap();
    // Were it that time before the query waits for it, it would not wait at all.
    while !world.timer.waits.lock().unwrap().contains(&1_010_000) {
        std::thread::yield_now();
    }
    world.timer.set(1_010_000);
    while world.seen().len() < 2 {
        std::thread::yield_now();
    }
    query.stop().unwrap();
    assert_eq!(last.batch_id.0, 0);
}

#[test]
fn a_query_whose_source_notices_what_comes_looks_seldom_and_is_woken() {
    for notices in [true, false] {
        let world = Host::new(false).world(2, 2);
        world.source.notices.store(notices, Ordering::SeqCst);
        let trigger = Trigger::ProcessingTime(Duration::ZERO);
        let query = world.writer(trigger).start_default().unwrap();
        query.process_all_available().unwrap();
        // Each wait is passed until there is a long one, or one after the other was short.
        let mut longest = 0;
        for _ in 0..30 {
            let now = world.timer.now_ms();
            // The query may not have come to its first wait yet.
            let next = || world.timer.waits.lock().unwrap().iter().copied().max().unwrap_or(now);
            while next() <= now {
                std::thread::yield_now();
            }
            longest = next() - now;
            if longest > 100 {
                break;
            }
            world.timer.set(next());
        }
        assert_eq!(longest > 900, notices, "{longest}");
        if notices {
            world.source.rows.lock().unwrap().push(2);
            world.source.arrival.notify_one();
            while world.seen().len() < 2 {
                std::thread::yield_now();
            }
        }
        query.stop().unwrap();
    }
}

#[test]
fn an_outside_failure_is_tried_again_so_often_and_no_more() {
    let world = Host::new(true).world(4, 2);
    // The third durable call after metadata and generation: the batch's staging.
    world.faults.arm(3, Fault::Unavailable);
    world.run(2).unwrap();
    assert!(world.faults.met());
    assert_eq!(world.seen(), [vec![0, 1], vec![2, 3]]);
    assert_eq!(world.store.names("_onefold/generations"), ["1", "2"]);

    let world = Host::new(true).world(4, 2);
    world.faults.arm(3, Fault::DieBefore);
    let error = world.run(4).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let waits = world.timer.waits.lock().unwrap().clone();
    let pauses: Vec<i64> = waits.iter().map(|at| at - 1_700_000_000_000).collect();
    assert_eq!(pauses, [1_000, 3_000, 7_000], "back-off doubles");
}

#[test]
fn a_newer_driver_fences_the_older_by_name() {
    let (old_host, new_host) = (Host::new(true), Host::new(true));
    let gate = Arc::new(Semaphore::new(0));
    let mut old = old_host.held_world(4, 2, Some(Arc::clone(&gate)));
    let mut new = new_host.world(4, 2);
    // Both work on one checkpoint and one sink.
    new.sink = old.sink.clone();
    new.store = Arc::clone(&old.store);
    new_host.adopt(&new);
    old.sink.folder = None;
    let held = old.writer(Trigger::AvailableNow).start_default().unwrap();
    while old.store.names("offsets").is_empty() {
        std::thread::yield_now();
    }
    new.run(1).unwrap();
    assert_eq!(new.seen(), [vec![0, 1], vec![2, 3]]);
    gate.add_permits(10);
    let error = held.await_termination(LIMIT).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced);
    let text = error.to_string();
    assert!(text.contains("generation 2 on host") && text.contains("pid"), "{text}");
    assert!(text.contains("since 2023-"), "{text}");
    assert_eq!(new.seen(), [vec![0, 1], vec![2, 3]], "the older one changed nothing");
}

#[test]
fn a_query_stops_promptly_while_a_batch_runs_and_goes_on_later() {
    let gate = Arc::new(Semaphore::new(0));
    let world = Host::new(true).held_world(4, 2, Some(Arc::clone(&gate)));
    let query = world.writer(Trigger::default()).start_default().unwrap();
    while world.store.names("offsets").is_empty() {
        std::thread::yield_now();
    }
    assert!(query.is_active());
    query.stop().unwrap();
    assert!(!query.is_active());
    assert!(query.exception().is_none());
    assert!(world.seen().is_empty());
    gate.add_permits(10);
    world.run(1).unwrap();
    assert_eq!(world.seen(), [vec![0, 1], vec![2, 3]]);
}

#[test]
fn names_are_unique_and_a_restart_stops_the_older_run() {
    let host = Host::new(true);
    let world = host.world(2, 2);
    let first = world.writer(Trigger::default()).query_name("q").start_default().unwrap();
    let second = world.writer(Trigger::default()).query_name("q").start_default().unwrap();
    assert!(!first.is_active());
    assert_eq!(first.id(), second.id());
    assert_ne!(first.run_id(), second.run_id());
    let other = host.world(2, 2);
    let error = other.writer(Trigger::default()).query_name("q").start_default().unwrap_err();
    assert!(error.to_string().contains("`q`"), "{error}");
    assert_eq!(world.session.streams().active().len(), 1);
    assert!(world.session.streams().get(second.id()).is_some());
    world.session.stop().unwrap();
    assert!(world.session.streams().active().is_empty());
}

/// Sends on what it hears; panics at every progress.
struct Ears(Mutex<Sender<String>>);

impl Ears {
    fn tell(&self, text: String) {
        let _ = self.0.lock().unwrap().send(text);
    }
}

impl StreamingQueryListener for Ears {
    fn on_query_started(&self, event: &QueryStarted) {
        self.tell(format!("started {}", event.name.clone().unwrap_or_default()));
    }

    fn on_query_progress(&self, progress: &StreamingQueryProgress) {
        self.tell(format!("progress {}", progress.batch_id));
        panic!("a listener of the user's");
    }

    fn on_query_idle(&self, _event: &QueryIdle) {
        self.tell("idle".to_owned());
    }

    fn on_query_terminated(&self, event: &QueryTerminated) {
        self.tell(format!("terminated {:?}", event.exception));
    }
}

#[test]
fn listeners_hear_everything_in_order_and_their_panics_harm_nothing() {
    let world = Host::new(true).world(4, 2);
    let (send, heard) = channel();
    let id = world.session.streams().add_listener(Arc::new(Ears(Mutex::new(send))));
    let query = world.writer(Trigger::AvailableNow).query_name("n").start_default().unwrap();
    assert_eq!(heard.recv().unwrap(), "started n", "told before start returns");
    query.await_termination(LIMIT).unwrap();
    let rest: Vec<String> = (0..3).map(|_| heard.recv().unwrap()).collect();
    assert_eq!(rest, ["progress 0", "progress 1", "terminated None"]);
    world.session.streams().remove_listener(id);
    world.run(1).unwrap();
    assert!(heard.recv().is_err(), "a removed listener hears no more");
}

#[test]
fn an_idle_query_says_so_once_an_interval() {
    let world = Host::new(false).world(2, 2);
    let (send, heard) = channel();
    world.session.streams().add_listener(Arc::new(Ears(Mutex::new(send))));
    let trigger = Trigger::ProcessingTime(Duration::from_secs(1));
    world.timer.set(1_000_000);
    let query = world.writer(trigger).start_default().unwrap();
    query.process_all_available().unwrap();
    for second in 1..=10 {
        world.timer.set(1_000_000 + second * 1_000);
        query.process_all_available().unwrap();
    }
    query.stop().unwrap();
    let heard: Vec<String> = std::iter::from_fn(|| heard.recv_timeout(LIMIT.unwrap()).ok())
        .take_while(|text| !text.starts_with("terminated"))
        .collect();
    assert_eq!(heard, ["started ", "progress 0", "idle"]);
}

#[test]
fn progress_has_sparks_fields_in_sparks_order_and_phases_add_up() {
    let world = Host::new(true).world(3, 2);
    world.timer.tick();
    world.run(1).unwrap();
    let query = world.writer(Trigger::AvailableNow).start_default().unwrap();
    query.await_termination(LIMIT).unwrap();
    assert!(query.last_progress().is_none(), "no batch, no progress");
    world.source.rows.lock().unwrap().extend([7, 8]);
    let query = world.writer(Trigger::AvailableNow).start_default().unwrap();
    query.await_termination(LIMIT).unwrap();
    let progress = query.last_progress().unwrap();
    let json: Value = serde_json::from_str(&progress.json()).unwrap();
    let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "id",
            "runId",
            "name",
            "timestamp",
            "batchId",
            "batchDuration",
            "numInputRows",
            "inputRowsPerSecond",
            "processedRowsPerSecond",
            "durationMs",
            "stateOperators",
            "sources",
            "sink"
        ]
    );
    let source = json["sources"][0].as_object().unwrap();
    let keys: Vec<&String> = source.keys().collect();
    assert_eq!(
        keys,
        [
            "description",
            "startOffset",
            "endOffset",
            "latestOffset",
            "numInputRows",
            "inputRowsPerSecond",
            "processedRowsPerSecond"
        ]
    );
    assert_eq!((&source["startOffset"], &source["endOffset"]), (&Value::from(3), &Value::from(5)));
    assert_eq!(json["numInputRows"], 2);
    assert_eq!(json["inputRowsPerSecond"], 0.0, "the first look has no time before it");
    assert_eq!(json["sink"]["numOutputRows"], -1);
    assert_eq!(json["sink"]["metrics"]["rows"], "2");
    let phases = json["durationMs"].as_object().unwrap();
    let names: Vec<&String> = phases.keys().collect();
    assert_eq!(
        names,
        [
            "addBatch",
            "commitOffsets",
            "getBatch",
            "latestOffset",
            "queryPlanning",
            "triggerExecution",
            "walCommit"
        ]
    );
    let total = phases["triggerExecution"].as_i64().unwrap();
    let sum: i64 = phases.values().map(|ms| ms.as_i64().unwrap()).sum();
    assert_eq!(sum, 2 * total);
    assert_eq!(json["batchDuration"], total);
    assert!(total > 0);
    let back: StreamingQueryProgress = serde_json::from_value(json).unwrap();
    assert_eq!(&back, progress.as_ref());
}

#[test]
fn a_query_that_must_be_exactly_once_and_is_not_does_not_start() {
    let mut world = Host::new(true).world(2, 2);
    world.sink.keeps_marks = false;
    let writer = world.writer(Trigger::AvailableNow).option("requireExactlyOnce", "true");
    let report = writer.explain().unwrap();
    assert!(!report.guarantee.whole.exactly_once());
    let error = writer.start_default().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("it has no memory"), "{error}");
    assert!(world.store.files.lock().unwrap().is_empty(), "nothing was touched");
}

#[test]
fn an_output_within_the_input_is_refused() {
    let mut world = Host::new(true).world(2, 2);
    world.sink.folder = Some("memory:///in/out".to_owned());
    let error = world.writer(Trigger::AvailableNow).start_default().unwrap_err();
    assert!(error.to_string().contains("memory:///in/out"), "{error}");
}

#[test]
fn a_checkpoint_without_metadata_is_not_taken_for_a_new_one() {
    let world = Host::new(true).world(4, 2);
    world.run(1).unwrap();
    world.store.files.lock().unwrap().remove("metadata");
    let error = world.run(1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("metadata"), "{error}");
    assert_eq!(world.seen().len(), 2);
}

#[test]
fn a_sink_of_another_query_is_named() {
    let host = Host::new(true);
    let mut world = host.world(4, 2);
    let theirs = world.sink.clone();
    world.run(1).unwrap();
    world = host.world(4, 2);
    world.sink.shelf = theirs.shelf;
    let error = world.run(1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("query"), "{error}");
}

#[test]
fn a_damaged_intent_is_named_with_its_path() {
    let world = Host::new(true).world(4, 2);
    world.run(1).unwrap();
    world.store.files.lock().unwrap().insert("offsets/1".to_owned(), "v1\n{".into());
    let error = world.run(1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("offsets/1"), "{error}");
}

#[test]
fn old_logs_are_purged_and_the_steady_state_lists_nothing() {
    let world = Host::new(true).world(30, 1);
    let run = || {
        let writer = world.writer(Trigger::AvailableNow);
        let writer = writer.option("spark.sql.streaming.minBatchesToRetain", "5");
        writer.start_default().unwrap().await_termination(LIMIT).unwrap();
    };
    run();
    assert_eq!(world.seen().len(), 30);
    let lists = world.store.lists.load(std::sync::atomic::Ordering::SeqCst);
    assert!(lists <= 8, "{lists} lists for thirty batches");
    // One purge at a time: what a slow one left, the first of the next run takes, whose end waits.
    world.source.rows.lock().unwrap().extend([99, 100, 101]);
    run();
    assert_eq!(world.seen().last().unwrap(), &[101]);
    let kept = world.store.names("offsets").len();
    assert!((6..=8).contains(&kept), "{kept} intents are kept");
}

#[test]
fn what_a_driver_left_that_slept_through_a_purge_is_no_hole_and_is_deleted() {
    let world = Host::new(true).world(12, 1);
    let run = |retained: &str| {
        let writer = world.writer(Trigger::AvailableNow);
        let writer = writer.option("spark.sql.streaming.minBatchesToRetain", retained);
        writer.start_default().unwrap().await_termination(LIMIT).unwrap()
    };
    run("2");
    for (left, of) in [("offsets/1", "offsets/11"), ("commits/2", "commits/11")] {
        let mut files = world.store.files.lock().unwrap();
        let record = files[of].clone();
        assert!(files.insert(left.to_owned(), record).is_none(), "{left} was not purged");
    }
    world.source.rows.lock().unwrap().push(99);
    // Everything is kept from now on, so that the ids between would be holes.
    run("100");
    assert_eq!(world.seen().last().unwrap(), &[99]);
    assert!(!world.store.names("offsets").contains(&"1".to_owned()));
    assert!(!world.store.names("commits").contains(&"2".to_owned()));
}

#[test]
fn what_is_committed_is_released_and_nothing_else() {
    let world = Host::new(true).world(4, 2);
    // Generation, intent, stage, publish and settle have gone; the commit does not.
    world.faults.arm(6, Fault::DieBefore);
    let _ = world.run(1);
    world.faults.disarm();
    assert!(world.store.names("commits").is_empty());
    assert!(world.source.released.lock().unwrap().is_empty());
    world.run(1).unwrap();
    assert_eq!(*world.source.released.lock().unwrap(), [2, 4]);
}

#[test]
fn a_sink_without_memory_runs_the_last_batch_again() {
    let mut world = Host::new(true).world(2, 2);
    world.sink.keeps_marks = false;
    world.faults.arm(6, Fault::DieBefore);
    let _ = world.run(1);
    world.faults.disarm();
    world.run(1).unwrap();
    assert_eq!(world.seen(), [vec![0, 1], vec![0, 1]], "at least once");
}

#[test]
fn a_named_source_may_be_added_or_move_at_a_restart_but_not_be_dropped() {
    let world = Host::new(true).world(0, 1);
    let alpha = World::another_source(0..2, 2);
    let beta = World::another_source(10..12, 2);
    let gamma = World::another_source(20..22, 2);
    world.run_named(&[("alpha", &alpha), ("beta", &beta)]).unwrap();
    let intent = world.store.files.lock().unwrap()["offsets/0"].clone();
    assert!(intent.starts_with(b"v2\n"), "{intent:?}");
    // In another order, and with a third one, which starts at its beginning.
    alpha.rows.lock().unwrap().push(2);
    world.run_named(&[("gamma", &gamma), ("beta", &beta), ("alpha", &alpha)]).unwrap();
    let mut seen = world.seen();
    seen.iter_mut().for_each(|batch| batch.sort_unstable());
    assert_eq!(seen, [vec![0, 1, 10, 11], vec![2, 20, 21]]);
    let before = world.store.files.lock().unwrap().clone();
    let error = world.run_named(&[("alpha", &alpha), ("gamma", &gamma)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("beta"), "{error}");
    let after = world.store.files.lock().unwrap().clone();
    let logs = |files: &std::collections::BTreeMap<String, bytes::Bytes>| -> Vec<String> {
        files.keys().filter(|path| !path.starts_with("_onefold/")).cloned().collect()
    };
    assert_eq!(logs(&before), logs(&after), "a refused start leaves the logs alone");
    gamma.rows.lock().unwrap().push(22);
    world.run_named(&[("alpha", &alpha), ("beta", &beta), ("gamma", &gamma)]).unwrap();
    assert_eq!(world.seen().last().unwrap(), &[22]);
}

#[test]
fn what_a_dead_driver_left_half_written_goes_at_the_next_start() {
    let world = Host::new(true).world(4, 2);
    world.run(1).unwrap();
    let left = ["offsets/.9.8b6a1f0e.tmp", "sources/0/.9.compact.8b6a1f0e.staged"];
    let kept = "offsets/.0.crc";
    for path in left.iter().chain([&kept]) {
        world.store.files.lock().unwrap().insert((*path).to_owned(), "x".into());
    }
    world.run(1).unwrap();
    let files = world.store.files.lock().unwrap();
    assert!(left.iter().all(|path| !files.contains_key(*path)), "{:?}", files.keys());
    assert!(files.contains_key(kept));
}
