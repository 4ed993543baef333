//! Small inputs on which other engines have lost, doubled or mixed rows, on each state provider and
//! with a restart and another number of partitions before each batch.

use crate::world::{Host, Numbers, NumbersDefinition, World};
use onefold_engine::{DataFrame, GroupState, GroupTimeout, OutputMode, Rows, Trigger, UserError};
use std::sync::Arc;

const PROVIDERS: &[&str] = &[
    "memory",
    #[cfg(feature = "rocksdb")]
    "rocksdb",
];

const NOTHING: [i64; 0] = [];

/// A query over one or two sources, started anew for each batch.
struct Run {
    world: World,
    right: Arc<Numbers>,
    mode: OutputMode,
}

impl Run {
    fn left(&self) -> DataFrame {
        self.world.frame()
    }

    fn right(&self) -> DataFrame {
        let definition = Arc::new(NumbersDefinition(Arc::clone(&self.right)));
        self.world.session.read_stream().load_definition(definition).unwrap()
    }

    fn set(&self, name: &str, value: &str) {
        self.world.session.conf().set(name, value).unwrap();
    }

    /// What one more batch of rows gives, with the batches without rows after it.
    fn batch(&self, frame: &DataFrame, left: &[i64], right: &[i64]) -> Vec<i64> {
        self.world.source.rows.lock().unwrap().extend(left);
        self.right.rows.lock().unwrap().extend(right);
        let before = self.world.seen().len();
        self.set("spark.sql.shuffle.partitions", &(1 + before * 2 % 5).to_string());
        let writer = self.world.writer_of(frame, Trigger::AvailableNow).output_mode(self.mode);
        let query = writer.start_default().unwrap();
        assert!(query.await_termination(None).unwrap());
        let mut rows = self.world.seen()[before..].concat();
        rows.sort_unstable();
        rows
    }

    /// As [`Run::batch`], of the left source alone.
    fn rows(&self, frame: &DataFrame, left: &[i64]) -> Vec<i64> {
        self.batch(frame, left, &[])
    }
}

fn each(mode: OutputMode, no_data_batches: bool, check: impl Fn(&Run)) {
    let local = tempfile::tempdir().unwrap();
    let host = Host::new(true);
    for &provider in PROVIDERS {
        let run =
            Run { world: host.world(0, 1_000), right: World::another_source(0..0, 1_000), mode };
        run.set("spark.sql.streaming.stateStore.providerClass", provider);
        run.set("spark.sql.streaming.noDataMicroBatches.enabled", &no_data_batches.to_string());
        run.set("onefold.state.localDir", local.path().to_str().unwrap());
        check(&run);
    }
}

/// Seconds and a value, from a number such as 16_016: second 16, value 16.
fn timed(frame: &DataFrame, delay: &str) -> DataFrame {
    let columns = ["CAST(id DIV 1000 AS TIMESTAMP) AS ts", "id % 1000 AS v"];
    frame.select_expr(&columns).unwrap().with_watermark("ts", delay).unwrap()
}

/// SPARK-49829: windows of both sides meet in the very batch that lets both go.
#[test]
fn windows_that_leave_and_meet_in_one_batch_are_joined() {
    each(OutputMode::Append, true, |run| {
        let sums = |frame: &DataFrame, name: &str| {
            let groups = timed(frame, "5 seconds").group_by(&["window(ts, '10 seconds') AS w"]);
            let sum = groups.agg(&["sum(v) AS s"]).unwrap();
            sum.select_expr(&[&format!("w AS {name}w"), &format!("s AS {name}s")]).unwrap()
        };
        let (left, right) = (sums(&run.left(), "l"), sums(&run.right(), "r"));
        let joined = left.join(&right, "lw = rw", "inner").unwrap();
        let number = "(CAST(lw.end AS BIGINT) * 1000 + ls) * 1000 + rs AS id";
        let joined = joined.select_expr(&[number]).unwrap();
        assert_eq!(run.batch(&joined, &[2_002, 4_004], &[6_006, 8_008]), NOTHING);
        assert_eq!(run.batch(&joined, &[16_016], &[17_017]), [10_006_014]);
        assert_eq!(run.batch(&joined, &[100_001], &[101_001]), [20_016_017]);
    });
}

/// Rows within 30 seconds of each other; a row that comes out alone has 0 for the other side.
fn near(run: &Run, how: &str) -> DataFrame {
    let side = |frame: &DataFrame, name: &str| {
        let side = timed(frame, "0 seconds");
        side.select_expr(&[&format!("ts AS {name}ts"), &format!("v AS {name}v")]).unwrap()
    };
    let left = side(&run.left(), "l").with_column("lk", "1").unwrap();
    let right = side(&run.right(), "r").with_column("rk", "1").unwrap();
    let on = "lk = rk AND lts BETWEEN rts - INTERVAL 30 SECONDS AND rts + INTERVAL 30 SECONDS";
    let joined = left.join(&right, on, how).unwrap();
    joined.select_expr(&["coalesce(lv, 0) * 1000 + coalesce(rv, 0) AS id"]).unwrap()
}

/// SPARK-38684: rows of a key come in the batch that lets older ones of it go.
#[test]
fn rows_that_come_while_others_of_their_key_go_are_kept() {
    each(OutputMode::Append, false, |run| {
        let joined = near(run, "left");
        let at = |minutes: i64, seconds: i64, v: i64| (minutes * 60 + seconds) * 1_000 + v;
        assert_eq!(run.batch(&joined, &[at(600, 0, 1)], &[at(601, 0, 1)]), NOTHING);
        assert_eq!(run.batch(&joined, &[at(660, 0, 2)], &[at(661, 0, 2)]), NOTHING);
        assert_eq!(run.batch(&joined, &[at(690, 0, 3)], &[]), [1_000]);
        assert_eq!(run.batch(&joined, &[], &[at(690, 20, 3)]), [2_000, 3_003]);
    });
}

/// SPARK-32148: rows of one key keep their own payloads.
#[test]
fn rows_of_one_key_in_one_batch_are_not_mixed() {
    each(OutputMode::Append, true, |run| {
        let joined = near(run, "left");
        let day = 86_400_000;
        let left = [day + 1, 2 * day + 2, 2 * day + 3_600_003];
        let right = [2 * day + 10_002, 2 * day + 3_599_003];
        assert_eq!(run.batch(&joined, &left, &right), [1_000, 2_002, 3_003]);
        assert_eq!(run.batch(&joined, &[3 * day + 4], &[3 * day + 90_005]), NOTHING);
    });
}

/// Gives the newest second of a key, or, once its time is over, minus that.
fn newest(
    _key: i64,
    rows: Rows<'_, (i64, i64)>,
    state: &mut GroupState<'_, (i64,)>,
) -> Result<Vec<i64>, UserError> {
    if state.has_timed_out() {
        let (second,) = state.get()?.unwrap_or_default();
        state.remove();
        return Ok(vec![-second]);
    }
    let mut newest = 0;
    for row in rows {
        newest = newest.max(row?.1);
    }
    state.update(&(newest,))?;
    state.set_timeout_timestamp((newest + 10) * 1_000)?;
    Ok(vec![newest])
}

/// SPARK-38320: a key that has rows in a batch does not time out in it as well.
#[test]
fn a_key_with_rows_is_not_called_for_its_old_timeout_too() {
    each(OutputMode::Append, false, |run| {
        let rows = timed(&run.left(), "0 seconds");
        let rows = rows.select_expr(&["v AS k", "CAST(ts AS BIGINT) AS s", "ts"]).unwrap();
        let (append, time) = (OutputMode::Append, GroupTimeout::EventTime);
        let groups = rows.group_by(&["k"]);
        let frame =
            groups.flat_map_groups_with_state("s BIGINT", "id BIGINT", append, time, newest);
        let frame = frame.unwrap();
        assert_eq!(run.rows(&frame, &[5_001]), [5]);
        assert_eq!(run.rows(&frame, &[100_002]), [100]);
        assert_eq!(run.rows(&frame, &[101_001]), [101]);
        assert_eq!(run.rows(&frame, &[200_003]), [200]);
        assert_eq!(run.rows(&frame, &[201_003]), [-101, -100, 201]);
    });
}

/// SPARK-30658: a limit below an aggregation counts over all batches.
#[test]
fn a_limit_below_a_count_is_not_per_batch() {
    each(OutputMode::Complete, true, |run| {
        let count = run.left().limit(3).unwrap().agg(&["count(*) AS id"]).unwrap();
        assert_eq!(run.rows(&count, &[1, 2]), [2]);
        assert_eq!(run.rows(&count, &[3, 4, 5]), [3]);
        assert_eq!(run.rows(&count, &[6]), [3]);
    });
}

/// SPARK-30657, SPARK-32776: what is below a limit that is met remembers its rows all the same, and
/// the limit stays when a batch is empty.
#[test]
fn a_limit_that_is_met_leaves_the_state_below_it_whole() {
    each(OutputMode::Append, true, |run| {
        let limited = run.left().drop_duplicates(&["id"]).unwrap().limit(2).unwrap();
        assert_eq!(run.rows(&limited, &[1, 2, 3]), [1, 2]);
        assert_eq!(run.rows(&limited, &[3, 4]), NOTHING);
        assert_eq!(run.rows(&limited, &[]), NOTHING);
        assert_eq!(run.rows(&limited, &[5]), NOTHING);
        let found = |limited: &DataFrame| {
            let writer = run.world.writer_of(limited, Trigger::AvailableNow);
            run.world.source.rows.lock().unwrap().push(6);
            let query = writer.start_default().unwrap();
            query.await_termination(None).unwrap();
            let progress = query.last_progress().unwrap();
            progress.state_operators.iter().map(|it| it.num_rows_total).collect::<Vec<_>>()
        };
        assert_eq!(found(&limited), [1, 6]);
    });
}

/// SPARK-31990, SPARK-39650: the key of the state is in the order that was asked for, and columns
/// beside it do not matter.
#[test]
fn keys_of_duplicates_are_found_again_in_whichever_order_they_are_named() {
    each(OutputMode::Append, true, |run| {
        let columns = ["id % 10 AS c1", "CAST(id DIV 10 AS STRING) AS c2", "id"];
        let rows = run.left().select_expr(&columns).unwrap();
        let first = rows.drop_duplicates(&["c2", "c1"]).unwrap().select_expr(&["id"]).unwrap();
        assert_eq!(run.rows(&first, &[11]), [11]);
        assert_eq!(run.rows(&first, &[11, 12]), [12]);
        let wider = rows.with_column("more", "id + 1").unwrap();
        let wider = wider.drop_duplicates(&["c2", "c1"]).unwrap().select_expr(&["id"]).unwrap();
        assert_eq!(run.rows(&wider, &[11, 12, 21]), [21]);
    });
}

/// SPARK-39347: windows before 1970 begin where the others do.
#[test]
fn windows_before_1970_begin_where_others_do() {
    for (start, wanted) in
        [("5 seconds", [-152_391_295, -15, -5]), ("0 seconds", [-152_391_300, -10, -10])]
    {
        each(OutputMode::Complete, true, |run| {
            let rows = run.left().select_expr(&["CAST(id AS TIMESTAMP) AS ts", "id"]).unwrap();
            let window = format!("window(ts, '10 seconds', '10 seconds', '{start}') AS w");
            let groups = rows.group_by(&[&window, "id"]).agg(&["count(*) AS n"]).unwrap();
            let begins = groups.select_expr(&["CAST(w.start AS BIGINT) AS id"]).unwrap();
            assert_eq!(run.rows(&begins, &[-8, -3, -152_391_293]), wanted);
        });
    }
}

/// SPARK-49836: an aggregation of windows by windows keeps both operators.
#[test]
fn windows_of_windows_in_sql_keep_both_operators() {
    each(OutputMode::Append, true, |run| {
        timed(&run.left(), "0 seconds").create_or_replace_temp_view("events").unwrap();
        let frame = run.world.session.sql(
            "SELECT CAST(window.start AS BIGINT) * 1000 + sum(n) AS id FROM \
             (SELECT window, count(*) AS n FROM events GROUP BY window(ts, '1 minute')) \
             GROUP BY window(window, '5 minutes')",
        );
        let frame = frame.unwrap();
        assert_eq!(run.rows(&frame, &[10_000, 20_000, 60_000, 299_000]), NOTHING);
        assert_eq!(run.rows(&frame, &[360_000]), [4]);
        assert_eq!(run.rows(&frame, &[3_600_000]), [300_001]);
    });
}

/// SPARK-28067: the sum of decimals that has overflowed stays NULL, or fails by name.
#[test]
fn a_sum_of_decimals_that_has_overflowed_does_not_come_back() {
    let big = "CAST(sign(id) AS DECIMAL(38,18)) * CAST('10000000000000000000' AS DECIMAL(20,0))";
    let big = format!("CAST({big} AS DECIMAL(38,18)) AS d");
    each(OutputMode::Complete, true, |run| {
        let rows = run.left().select_expr(&[&big]).unwrap();
        let sum = "coalesce(CAST(CAST(s AS DOUBLE) / 1e19 AS BIGINT), -1)";
        let sum = rows.agg(&["try_sum(d) AS s"]).unwrap().select_expr(&[&format!("{sum} AS id")]);
        let sum = sum.unwrap();
        assert_eq!(run.rows(&sum, &[1; 9]), [9]);
        assert_eq!(run.rows(&sum, &[1; 3]), [-1]);
        assert_eq!(run.rows(&sum, &[-1; 5]), [-1]);
    });
    each(OutputMode::Complete, true, |run| {
        let rows = run.left().select_expr(&[&big]).unwrap();
        let sum = rows.agg(&["sum(d) AS s"]).unwrap();
        let sum = sum.select_expr(&["CAST(s > 0 AS BIGINT) AS id"]).unwrap();
        assert_eq!(run.rows(&sum, &[1; 9]), [1]);
        run.world.source.rows.lock().unwrap().extend([1; 3]);
        let writer = run.world.writer_of(&sum, Trigger::AvailableNow);
        let query = writer.output_mode(OutputMode::Complete).start_default().unwrap();
        let error = query.await_termination(None).unwrap_err().chain();
        assert!(error.contains("[ARITHMETIC_OVERFLOW]"), "{error}");
    });
}

/// Values of a key, by number: 0 is NULL, 1 and 2 are NaN with either sign, 3 and 4 zero with
/// either sign, others are themselves.
fn odd(float: &str) -> String {
    format!(
        "CASE id % 10 WHEN 0 THEN CAST(NULL AS {float}) WHEN 1 THEN CAST('NaN' AS {float}) \
         WHEN 2 THEN -CAST('NaN' AS {float}) WHEN 3 THEN CAST(0 AS {float}) \
         WHEN 4 THEN -CAST(0 AS {float}) ELSE CAST(id % 10 AS {float}) END"
    )
}

/// Each shape that a key with a float in it can have.
fn odd_keys() -> Vec<String> {
    let shapes = |float: &str| {
        let key = odd(float);
        [
            key.clone(),
            format!("named_struct('a', {key}, 'b', 1)"),
            format!("array(CAST(1 AS {float}), {key})"),
            format!("named_struct('a', array(named_struct('x', {key})))"),
        ]
    };
    ["DOUBLE", "FLOAT"].into_iter().flat_map(shapes).collect()
}

fn keyed(frame: &DataFrame, key: &str) -> DataFrame {
    let key = format!("{key} AS k");
    let columns = [key.as_str(), "CAST(1000 + id DIV 10 AS TIMESTAMP) AS ts", "id % 10 AS n"];
    frame.select_expr(&columns).unwrap().with_watermark("ts", "10 seconds").unwrap()
}

/// A row of each odd key, then one of each again.
const ODD: [i64; 6] = [0, 1, 2, 3, 4, 5];

/// apache/datafusion#17979 and its siblings.
#[test]
fn odd_floats_are_one_group_each() {
    for key in odd_keys() {
        each(OutputMode::Complete, true, |run| {
            let groups = keyed(&run.left(), &key).group_by(&["k"]);
            let counts = groups.agg(&["count(*) * 100 + min(n) AS id"]).unwrap();
            let counts = counts.select_expr(&["id"]).unwrap();
            assert_eq!(run.rows(&counts, &ODD), [100, 105, 201, 203], "{key}");
            assert_eq!(run.rows(&counts, &ODD), [200, 205, 401, 403], "{key}");
        });
    }
}

#[test]
fn odd_floats_are_one_duplicate_each() {
    for key in odd_keys() {
        each(OutputMode::Append, true, |run| {
            let rows = keyed(&run.left(), &key).with_column("m", "1").unwrap();
            let rows =
                rows.drop_duplicates(&["k", "m"]).unwrap().select_expr(&["n AS id"]).unwrap();
            assert_eq!(run.rows(&rows, &ODD), [0, 1, 3, 5], "{key}");
            assert_eq!(run.rows(&rows, &ODD), NOTHING, "{key}");
        });
        each(OutputMode::Append, true, |run| {
            let rows = keyed(&run.left(), &key);
            let rows = rows.drop_duplicates_within_watermark(&["k"]).unwrap();
            let rows = rows.select_expr(&["n AS id"]).unwrap();
            assert_eq!(run.rows(&rows, &ODD), [0, 1, 3, 5], "{key}");
            assert_eq!(run.rows(&rows, &ODD), NOTHING, "{key}");
        });
    }
}

#[test]
fn odd_floats_meet_in_a_join_and_null_meets_nothing() {
    for key in odd_keys() {
        // Within a struct or an array NULL is a value that equals itself.
        let whole = key.starts_with("CASE");
        each(OutputMode::Append, true, |run| {
            let left = keyed(&run.left(), &key).select_expr(&["k AS lk", "n AS ln"]).unwrap();
            let right = keyed(&run.right(), &key).select_expr(&["k AS rk", "n AS rn"]).unwrap();
            let joined = left.join(&right, "lk = rk", "inner").unwrap();
            let joined = joined.select_expr(&["ln * 10 + rn AS id"]).unwrap();
            assert_eq!(run.batch(&joined, &ODD, &[]), NOTHING, "{key}");
            let mut wanted = vec![11, 12, 21, 22, 33, 34, 43, 44, 55];
            if !whole {
                wanted.insert(0, 0);
            }
            assert_eq!(run.batch(&joined, &[], &ODD), wanted, "{key}");
        });
    }
}

#[test]
fn odd_floats_have_one_session_each() {
    for key in odd_keys() {
        each(OutputMode::Complete, true, |run| {
            let groups =
                keyed(&run.left(), &key).group_by(&["session_window(ts, '5 seconds')", "k"]);
            let counts = groups.agg(&["count(*) * 100 + min(n) AS id"]).unwrap();
            let counts = counts.select_expr(&["id"]).unwrap();
            assert_eq!(run.rows(&counts, &ODD), [100, 105, 201, 203], "{key}");
            let later: Vec<i64> = ODD.iter().map(|number| number + 30).collect();
            assert_eq!(run.rows(&counts, &later), [200, 205, 401, 403], "{key}");
        });
    }
}

/// Spark has one NaN, equal to itself and above all numbers, and one zero.
#[test]
fn odd_floats_compare_as_spark_compares_them() {
    let host = Host::new(true);
    for float in ["DOUBLE", "FLOAT"] {
        for (condition, wanted) in [
            ("k > 1e30", vec![1, 2]),
            ("k < 6", vec![3, 4, 5]),
            ("k = 0", vec![3, 4]),
            ("k <> 0", vec![1, 2, 5]),
            ("k >= 0", vec![1, 2, 3, 4, 5]),
            ("k = CAST('NaN' AS DOUBLE)", vec![1, 2]),
            ("k BETWEEN 0 AND 5", vec![3, 4, 5]),
            ("k IN (0, CAST('NaN' AS DOUBLE))", vec![1, 2, 3, 4]),
            ("k <=> CAST(0 AS DOUBLE)", vec![3, 4]),
            ("CASE k WHEN 0 THEN true ELSE false END", vec![3, 4]),
        ] {
            let world = host.world(0, 100);
            world.source.rows.lock().unwrap().extend(ODD);
            let rows = world.frame().select_expr(&[&format!("{} AS k", odd(float)), "id"]);
            let found = rows.unwrap().filter(condition).unwrap().select_expr(&["id"]).unwrap();
            world.run_frame(&found, 1).unwrap();
            assert_eq!(world.seen().concat(), wanted, "{float}: {condition}");
        }
    }
}
