//! Rules at the very edge of a watermark, as runs of Spark 4.2 over the same rows showed them.

use crate::golden_state::{Case, PROVIDERS};
use onefold::{DataFrame, Session, StreamingQueryProgress};
use serde_json::{Value, json};
use std::sync::Arc;

/// A second after the first file of all.
fn second(second: i64) -> String {
    format!("2026-01-01T00:{:02}:{:02}Z", second / 60, second % 60)
}

fn session(provider: &str) -> Session {
    let session = onefold::session().threads(2).conf("spark.sql.shuffle.partitions", "2");
    let session = session.conf("spark.sql.streaming.stateStore.providerClass", provider);
    let local = std::env::temp_dir().join(format!("onefold-rules-{}", std::process::id()));
    session.conf("onefold.state.localDir", local.to_str().unwrap()).build().unwrap()
}

/// Rows of state after each batch, and rows dropped as late in it.
fn counts(progress: &[Arc<StreamingQueryProgress>]) -> Vec<(u64, u64)> {
    let of = |it: &Arc<StreamingQueryProgress>| {
        let operator = &it.state_operators[0];
        (operator.num_rows_total, operator.num_rows_dropped_by_watermark)
    };
    progress.iter().map(of).collect()
}

fn numbers(case: &Case, column: &str) -> Vec<i64> {
    let rows = case.rows();
    let rows = rows.iter().map(|row| serde_json::from_str::<Value>(row).unwrap());
    let mut found: Vec<i64> = rows.filter_map(|row| row[column].as_i64()).collect();
    found.sort_unstable();
    found
}

#[test]
fn rows_without_a_match_leave_a_full_join_at_the_instant_at_which_they_leave_sparks() {
    // The last watermark is 10 s. With `<=` a row that could only match a row at the watermark is
    // still kept, with `<` it is not.
    for (condition, left, right, kept) in [
        ("rts >= lts AND rts <= lts + INTERVAL 4 SECONDS", 0..6, 100..110, [26, 26, 12]),
        ("rts > lts AND rts < lts + INTERVAL 4 SECONDS", 0..7, 100..111, [26, 25, 10]),
    ] {
        for &provider in PROVIDERS {
            let case = Case::of_rows();
            let row = |at: i64, time: &str, key: &str, base: i64| json!({time: second(at), key: base + at});
            let rows = |time: &str, key: &str, base: i64| -> Vec<Value> {
                (0..13).map(|at| row(at, time, key, base)).collect()
            };
            case.put("left", 0, &rows("lts", "lk", 0));
            case.put("left", 1, &[row(20, "lts", "lk", 500)]);
            case.put("right", 0, &rows("rts", "rk", 100));
            case.put("right", 1, &[row(20, "rts", "rk", 600)]);
            let session = session(provider);
            let side = |folder: &str, time: &str, schema: &str| {
                let rows = case.read(&session, folder, schema);
                rows.with_watermark(time, "10 seconds").unwrap()
            };
            let left_side = side("left", "lts", "lts TIMESTAMP, lk BIGINT");
            let right_side = side("right", "rts", "rts TIMESTAMP, rk BIGINT");
            let on = format!("lk = rk AND {condition}");
            let joined = left_side.join(&right_side, on.as_str(), "full").unwrap();
            let progress = case.run(&joined, &[]);
            assert_eq!(numbers(&case, "lk"), left.clone().collect::<Vec<_>>(), "{condition}");
            assert_eq!(numbers(&case, "rk"), right.clone().collect::<Vec<_>>(), "{condition}");
            assert_eq!(counts(&progress), kept.map(|rows| (rows, 0)), "{condition}");
        }
    }
}

/// What comes out of rows of three batches whose watermarks are 0, 50 and 51 seconds.
fn late(provider: &str, query: impl Fn(&DataFrame) -> DataFrame) -> (Vec<i64>, Vec<(u64, u64)>) {
    let case = Case::of_rows();
    for (file, keys) in [&[50, 60][..], &[10, 61], &[11, 62, 50]].into_iter().enumerate() {
        let rows: Vec<Value> =
            keys.iter().map(|k| json!({"ts": second(*k), "k": k, "v": 1})).collect();
        case.put("input", u64::try_from(file).unwrap(), &rows);
    }
    let rows = case.read(&session(provider), "input", "ts TIMESTAMP, k BIGINT, v BIGINT");
    let rows = rows.with_watermark("ts", "10 seconds").unwrap();
    let progress = case.run(&query(&rows), &[]);
    (numbers(&case, "k"), counts(&progress))
}

#[test]
fn deduplication_drops_late_rows_whether_or_not_the_event_time_is_among_its_keys() {
    for &provider in PROVIDERS {
        let (out, counts) = late(provider, |rows| rows.drop_duplicates(&["k"]).unwrap());
        assert_eq!(out, [10, 50, 60, 61, 62]);
        assert_eq!(counts, [(2, 0), (4, 0), (5, 2), (5, 0)]);
        let (out, counts) = late(provider, |rows| rows.distinct().unwrap());
        assert_eq!(out, [10, 50, 60, 61, 62]);
        assert_eq!(counts, [(2, 0), (2, 0), (3, 2), (3, 0)]);
    }
}
