//! The crash walk over queries with state, on each provider, also with random values in the query:
//! what comes out, and the state that is left, are those of a run without a fault.

use crate::world::{Fault, Host, World};
use onefold_engine::{DataFrame, GroupState, GroupTimeout, OutputMode, Rows, UserError};
use std::collections::BTreeMap;

const PROVIDER: &str = "spark.sql.streaming.stateStore.providerClass";
const LOCAL: &str = "onefold.state.localDir";

/// A query over the numbers, and whether a start may have another number of partitions.
struct Case {
    frame: fn(&World) -> DataFrame,
    partitions: [&'static str; 2],
}

/// Rows are counted by window and by a random number: both groups and counts are in what comes out.
fn random_groups(world: &World) -> DataFrame {
    let frame = world.frame();
    let rows = frame.select_expr(&["CAST(id AS TIMESTAMP) AS ts", "rand() AS r"]).unwrap();
    let rows = rows.select_expr(&["ts", "CAST(r * 3 AS BIGINT) AS r"]).unwrap();
    let rows = rows.with_watermark("ts", "2 seconds").unwrap();
    let groups = rows.group_by(&["window(ts, '5 seconds')", "r"]);
    let counts = groups.agg(&["count(*) AS n"]).unwrap();
    counts.select_expr(&["CAST(window.start AS BIGINT) * 10000 + r * 100 + n AS id"]).unwrap()
}

/// Deduplication, then a join of the stream with itself.
fn chained(world: &World) -> DataFrame {
    let side = |name: &str, other: &str| {
        let rows = world.frame().select_expr(&["id % 11 AS k", "CAST(id AS TIMESTAMP) AS ts"]);
        let rows = rows.unwrap().with_watermark("ts", "1 second").unwrap();
        let rows = rows.drop_duplicates_within_watermark(&["k"]).unwrap();
        let columns = [format!("k AS {name}"), format!("ts AS {other}")];
        rows.select_expr(&[columns[0].as_str(), columns[1].as_str()]).unwrap()
    };
    let joined = side("a", "t")
        .join(&side("b", "u"), "a = b AND u >= t AND u <= t + INTERVAL 12 SECONDS", "inner")
        .unwrap();
    joined.select_expr(&["a * 10000 + CAST(t AS BIGINT) * 100 + CAST(u AS BIGINT) AS id"]).unwrap()
}

/// Counts of a key's rows, given out with each row and, above a million, once the watermark is
/// five seconds behind the newest.
fn own(world: &World) -> DataFrame {
    let count = |k: i64, rows: Rows<'_, (i64, i64)>, state: &mut GroupState<'_, (i64,)>| {
        let (mut count,) = state.get()?.unwrap_or_default();
        if state.has_timed_out() {
            state.remove();
            return Ok::<_, UserError>(vec![1_000_000 + k * 100 + count]);
        }
        let mut newest = 0;
        for row in rows {
            count += 1;
            newest = newest.max(row?.1 / 1_000);
        }
        state.update(&(count,))?;
        state.set_timeout_timestamp(newest + 5_000)?;
        Ok(vec![k * 100 + count])
    };
    let rows = world.frame().select_expr(&["id / 3 AS k", "CAST(id AS TIMESTAMP) AS ts"]).unwrap();
    let rows = rows.select_expr(&["CAST(k AS BIGINT) AS k", "ts"]).unwrap();
    let groups = rows.with_watermark("ts", "1 second").unwrap().group_by(&["k"]);
    let (append, by_time) = (OutputMode::Append, GroupTimeout::EventTime);
    groups.flat_map_groups_with_state("n BIGINT", "id BIGINT", append, by_time, count).unwrap()
}

const OWN: Case = Case { frame: own, partitions: ["2", "3"] };
const RANDOM: Case = Case { frame: random_groups, partitions: ["2", "2"] };
/// Random values are the same for the same rows in the same partitions of the source, however many
/// partitions the state has.
const RANDOM_REPARTITIONED: Case = Case { frame: random_groups, partitions: ["3", "2"] };
const CHAINED: Case = Case { frame: chained, partitions: ["2", "3"] };

struct Walk {
    provider: &'static str,
    host: Host,
    local: tempfile::TempDir,
}

impl Walk {
    fn new(provider: &'static str) -> Self {
        let walk = Walk { provider, host: Host::new(true), local: tempfile::tempdir().unwrap() };
        walk.set("spark.sql.streaming.stateStore.minDeltasForSnapshot", "2");
        walk
    }

    fn set(&self, option: &str, value: &str) {
        self.host.session().conf().set(option, value).unwrap();
    }

    /// A world with the identity of another one, so that its random values are the same.
    fn world(&self, like: Option<&World>) -> World {
        let world = self.host.world(16, 4);
        if let Some(like) = like {
            let metadata = like.store.files.lock().unwrap()["metadata"].clone();
            world.store.files.lock().unwrap().insert("metadata".to_owned(), metadata);
        }
        self.set(PROVIDER, self.provider);
        let local = self.local.path().join(&world.place);
        self.set(LOCAL, local.to_str().unwrap());
        world
    }

    /// Runs the case into each of the faults at each durable call, then to the end.
    fn run(&self, case: &Case, faults: &[Fault], step: usize) -> u64 {
        let [first, then] = case.partitions;
        let clean = self.world(None);
        self.set("spark.sql.shuffle.partitions", first);
        clean.run_frame(&(case.frame)(&clean), 1).unwrap();
        let wanted = (clean.seen(), rows_of_state(&clean));
        assert!(wanted.0.iter().flatten().count() >= 3, "{:?}", wanted.0);
        let mut cases = 0;
        for &fault in faults {
            for call in (0..).step_by(step) {
                let world = self.world(Some(&clean));
                self.set("spark.sql.shuffle.partitions", first);
                world.faults.arm(call, fault);
                let attempts = if fault.dies() { 1 } else { 3 };
                let outcome = world.run_frame(&(case.frame)(&world), attempts);
                let met = world.faults.met();
                world.faults.disarm();
                assert!(met || outcome.is_ok(), "without a fault the query ends well: {outcome:?}");
                self.set("spark.sql.shuffle.partitions", then);
                let text = format!("{fault:?} at call {call} with {}", self.provider);
                let outcome = world.run_frame(&(case.frame)(&world), 1);
                outcome.unwrap_or_else(|error| panic!("{text}: {}", error.chain()));
                assert_eq!((world.seen(), rows_of_state(&world)), wanted, "{text}");
                if !met {
                    break;
                }
                cases += 1;
            }
        }
        cases
    }
}

/// Rows and bytes of state after each batch, by what its record says.
fn rows_of_state(world: &World) -> BTreeMap<u64, Vec<(String, u64, u64)>> {
    let files = world.store.files.lock().unwrap();
    let mut told = BTreeMap::new();
    for (path, bytes) in files.iter() {
        let Some(name) = path.strip_prefix("_onefold/prepared/") else { continue };
        let batch: u64 = name.split('-').next().unwrap().parse().unwrap();
        let text = std::str::from_utf8(bytes).unwrap();
        let json = text.lines().find_map(|line| serde_json::from_str(line).ok());
        let json: serde_json::Value = json.unwrap();
        let operators = json["state"]["operators"].as_array().unwrap();
        let mut families = Vec::new();
        for operator in operators {
            for family in operator["families"].as_array().unwrap() {
                let name = format!("{} {}", operator["label"], family["name"]);
                let count = |of: &str| family[of].as_u64().unwrap();
                families.push((name, count("rows"), count("bytes")));
            }
        }
        // Several drivers may have prepared a batch: all the same.
        let before = told.insert(batch, families.clone());
        assert!(before.is_none_or(|before| before == families), "{path}");
    }
    assert!(!told.is_empty());
    told
}

/// Every act may be the last one of a process; what a living one does about the other faults is
/// walked without state and with windows too.
const LAST: [Fault; 2] = [Fault::DieBefore, Fault::DieAfter];
const OTHERS: [Fault; 3] = [Fault::ReplyLost, Fault::NotDoneUnknown, Fault::Unavailable];

#[test]
fn random_values_survive_a_fault_at_any_durable_call() {
    let walk = Walk::new("memory");
    assert!(walk.run(&RANDOM, &LAST, 1) >= 2 * 30);
    assert!(walk.run(&RANDOM, &OTHERS, 3) >= 3 * 10);
    assert!(walk.run(&RANDOM_REPARTITIONED, &[Fault::DieAfter], 2) >= 15);
}

#[test]
fn a_chain_of_operators_survives_a_fault_at_any_durable_call() {
    let walk = Walk::new("memory");
    assert!(walk.run(&CHAINED, &LAST, 2) >= 2 * 15);
}

#[test]
fn state_of_ones_own_survives_a_fault_at_any_durable_call() {
    let walk = Walk::new("memory");
    assert!(walk.run(&OWN, &LAST, 2) >= 2 * 15);
}

#[cfg(feature = "rocksdb")]
#[test]
fn state_in_a_rocksdb_survives_a_fault_at_any_durable_call() {
    let walk = Walk::new("rocksdb");
    assert!(walk.run(&RANDOM, &LAST, 1) >= 2 * 30);
    assert!(walk.run(&RANDOM_REPARTITIONED, &OTHERS, 5) >= 3 * 6);
    assert!(walk.run(&CHAINED, &[Fault::DieAfter], 3) >= 10);
    assert!(walk.run(&OWN, &[Fault::DieAfter], 3) >= 10);
}
