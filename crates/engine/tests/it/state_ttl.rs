//! State that nothing bounds is let go by the time of the batches, if asked.

use crate::world::{Fault, Host, NumbersDefinition, World};
use onefold_connector::Clock;
use onefold_engine::{DataFrame, OutputMode, Trigger};
use onefold_types::Result;
use std::sync::Arc;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

/// Each number times 100 and how often it came.
fn counts(world: &World) -> DataFrame {
    let counts = world.frame().group_by(&["id"]).agg(&["count(*) AS n"]).unwrap();
    counts.select_expr(&["id * 100 + n AS id"]).unwrap()
}

struct Query<'a> {
    world: &'a World,
    frame: DataFrame,
    mode: OutputMode,
    ttl: Option<(&'a str, &'a str)>,
}

impl Query<'_> {
    fn run(&self) -> Result<()> {
        let writer = self.world.writer_of(&self.frame, Trigger::AvailableNow);
        let writer = writer.output_mode(self.mode).option("onefold.retry.maxAttempts", "1");
        let writer = match self.ttl {
            Some((name, value)) => writer.option(name, value),
            None => writer,
        };
        writer.start_default()?.await_termination(None).map(|ended| assert!(ended))
    }

    /// Rows of a batch of these numbers, so long after the batch before.
    fn after(&self, ms: i64, numbers: &[i64]) -> Vec<i64> {
        self.world.timer.set(self.world.timer.now_ms() + ms);
        self.world.source.rows.lock().unwrap().extend(numbers);
        let before = self.world.seen().len();
        self.run().unwrap();
        self.world.seen().split_off(before).concat()
    }
}

fn counting(world: &World) -> Query<'_> {
    let ttl = Some(("onefold.state.ttl", "1 hour"));
    Query { world, frame: counts(world), mode: OutputMode::Update, ttl }
}

#[test]
fn a_group_that_was_not_touched_for_the_time_begins_anew() {
    for provider in ["memory", "rocksdb"] {
        if provider == "rocksdb" && cfg!(not(feature = "rocksdb")) {
            continue;
        }
        let host = Host::new(true);
        let local = tempfile::tempdir().unwrap();
        let set = |name: &str, value: &str| host.session().conf().set(name, value).unwrap();
        set("spark.sql.streaming.stateStore.providerClass", provider);
        set("onefold.state.localDir", local.path().to_str().unwrap());
        let world = host.world(0, 10);
        let query = counting(&world);
        assert_eq!(query.after(0, &[1, 1, 2]), [102, 201]);
        set("spark.sql.shuffle.partitions", "3");
        assert_eq!(query.after(50 * MINUTE, &[1]), [103], "{provider}");
        // 2 was let go, 1 was touched 40 minutes ago.
        assert_eq!(query.after(40 * MINUTE, &[1, 2]), [104, 201], "{provider}");
        set("spark.sql.shuffle.partitions", "2");
        assert_eq!(query.after(2 * HOUR, &[1]), [101], "{provider}");
        let report = world.store.files.lock().unwrap().clone();
        let newest = report.iter().rfind(|(path, _)| path.starts_with("_onefold/prepared/3-"));
        let text = String::from_utf8(newest.unwrap().1.to_vec()).unwrap();
        let json: serde_json::Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
        let families = json["state"]["operators"][0]["families"].as_array().unwrap();
        let rows: Vec<u64> = families.iter().map(|it| it["rows"].as_u64().unwrap()).collect();
        assert_eq!(rows, [1, 1, 1], "what is let go leaves nothing behind: {families:?}");
    }
}

#[test]
fn a_batch_that_runs_again_lets_go_by_the_time_of_its_intent() {
    let host = Host::new(true);
    let mut outcomes = [0, 0];
    for call in 0.. {
        let world = host.world(0, 10);
        let query = counting(&world);
        let began = world.timer.now_ms();
        query.after(0, &[1, 1]);
        world.source.rows.lock().unwrap().push(1);
        world.timer.set(began + 30 * MINUTE);
        world.faults.arm(call, Fault::DieAfter);
        let _ = query.run();
        let met = world.faults.met();
        world.faults.disarm();
        world.timer.set(began + 10 * HOUR);
        query.run().unwrap();
        let intent = world.store.files.lock().unwrap()["offsets/1"].clone();
        let in_time = String::from_utf8(intent.to_vec())
            .unwrap()
            .contains(&format!("\"batchTimestampMs\":{}", began + 30 * MINUTE));
        assert_eq!(world.seen()[1], [if in_time { 103 } else { 101 }], "call {call}");
        outcomes[usize::from(in_time)] += 1;
        if !met {
            break;
        }
    }
    assert!(outcomes[0] > 0 && outcomes[1] > 5, "{outcomes:?}");
}

#[test]
fn a_duplicate_passes_again_once_its_key_is_let_go() {
    let host = Host::new(true);
    let world = host.world(0, 10);
    let frame = world.frame().drop_duplicates(&["id"]).unwrap();
    let ttl = Some(("onefold.state.ttl.deduplicate by id", "1 hour"));
    let query = Query { world: &world, frame, mode: OutputMode::Append, ttl };
    assert_eq!(query.after(0, &[1, 2, 1]), [1, 2]);
    // A duplicate does not keep its key.
    assert_eq!(query.after(40 * MINUTE, &[1, 3]), [3]);
    assert_eq!(query.after(40 * MINUTE, &[1, 3]), [1]);
}

#[test]
fn rows_of_a_join_without_a_bound_are_let_go() {
    let host = Host::new(true);
    let world = host.world(0, 10);
    let right = World::another_source(0..0, 10);
    let definition = Arc::new(NumbersDefinition(Arc::clone(&right)));
    let other = world.session.read_stream().load_definition(definition).unwrap();
    let other = other.select_expr(&["id AS other"]).unwrap();
    let frame = world.frame().join(&other, "id = other", "inner").unwrap();
    let frame = frame.select_expr(&["id"]).unwrap();
    let ttl = Some(("onefold.state.ttl", "1h"));
    let query = Query { world: &world, frame, mode: OutputMode::Append, ttl };
    assert_eq!(query.after(0, &[1, 2]), [0_i64; 0]);
    right.rows.lock().unwrap().push(1);
    assert_eq!(query.after(30 * MINUTE, &[]), [1]);
    right.rows.lock().unwrap().extend([1, 2]);
    assert_eq!(query.after(HOUR, &[]), [0_i64; 0]);
    assert_eq!(query.after(MINUTE, &[2]), [2], "rows of the right side are still there");
}

#[test]
fn a_time_to_live_may_be_given_to_a_query_that_runs() {
    let host = Host::new(true);
    let world = host.world(0, 10);
    let mut query = counting(&world);
    query.ttl = None;
    assert_eq!(query.after(0, &[1, 2]), [101, 201]);
    query.ttl = Some(("onefold.state.ttl", "1h"));
    assert_eq!(query.after(5 * HOUR, &[1]), [102], "what was there counts from now on");
    assert_eq!(query.after(50 * MINUTE, &[1, 2]), [103, 202]);
    assert_eq!(query.after(2 * HOUR, &[1, 2]), [101, 201]);
    query.ttl = None;
    let error = query.run().unwrap_err().chain();
    assert!(error.contains("is gone"), "{error}");
}

#[test]
fn a_time_to_live_bounds_what_is_warned_of_and_names_operators_that_have_none() {
    let host = Host::new(true);
    let world = host.world(0, 10);
    let writer = || world.writer_of(&counts(&world), Trigger::AvailableNow);
    let writer = || writer().output_mode(OutputMode::Update);
    assert_eq!(writer().explain().unwrap().warnings.len(), 1);
    let with = writer().option("onefold.state.ttl", "1 hour").explain().unwrap();
    assert_eq!(with.warnings, Vec::<String>::new());
    let wrong = writer().option("onefold.state.ttl.aggregate by x", "1 hour").explain();
    let error = wrong.unwrap_err().to_string();
    assert!(error.contains("there is no operator `aggregate by x`"), "{error}");
    assert!(error.contains("are `aggregate by id`"), "{error}");
}
