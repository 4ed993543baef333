use super::{NOTHING, Running};
use onefold_connector::OutputMode;

const LEFT: &str = "events WATERMARK ts DELAY OF INTERVAL 0 SECONDS AS l";
const RIGHT: &str = "others WATERMARK ts DELAY OF INTERVAL 0 SECONDS AS r";

async fn joined(kind: &str, seconds: u32) -> Running {
    let text = format!(
        "SELECT l.k, r.k AS rk FROM {LEFT} {kind} JOIN {RIGHT} ON l.v = r.v \
         AND l.ts >= r.ts - INTERVAL {seconds} SECONDS AND l.ts <= r.ts + INTERVAL {seconds} SECONDS"
    );
    Running::sql(&text, OutputMode::Append).await
}

async fn sorted(query: &mut Running, sides: &[&[(f64, &str, i64)]]) -> Vec<String> {
    let mut lines = query.batch(sides).await;
    lines.sort();
    lines
}

#[tokio::test]
async fn windows_of_both_sides_meet_in_the_batch_that_lets_them_go() {
    let side = |table: &str| {
        format!(
            "(SELECT window, sum(v) AS s FROM {table} WATERMARK ts DELAY OF INTERVAL 5 SECONDS \
             GROUP BY window(ts, '10 seconds'))"
        )
    };
    let text = format!(
        "SELECT unix_timestamp(l.window.end) AS e, l.s AS ls, r.s AS rs \
         FROM {} l JOIN {} r ON l.window = r.window",
        side("events"),
        side("others")
    );
    let mut query = Running::sql(&text, OutputMode::Append).await;
    assert!(query.plan.warnings().is_empty(), "{:?}", query.plan.warnings());
    let first: [&[(f64, &str, i64)]; 2] =
        [&[(2.0, "", 2), (4.0, "", 4)], &[(6.0, "", 6), (8.0, "", 8)]];
    assert_eq!(sorted(&mut query, &first).await, NOTHING);
    assert_eq!(sorted(&mut query, &[&[(16.0, "", 16)], &[(17.0, "", 17)]]).await, NOTHING);
    assert!(query.wants_more());
    assert_eq!(sorted(&mut query, &[&[], &[]]).await, ["10 6 14"]);
    assert_eq!(sorted(&mut query, &[&[(100.0, "", 1)], &[(101.0, "", 1)]]).await, NOTHING);
    assert_eq!(sorted(&mut query, &[&[], &[]]).await, ["20 16 17"]);
    assert_eq!(sorted(&mut query, &[&[], &[]]).await, NOTHING);
}

#[tokio::test]
async fn an_outer_join_keeps_what_comes_in_the_batch_that_lets_the_key_go() {
    let mut query = joined("LEFT", 30).await;
    let hour = |hour: f64, second: f64| hour * 3600.0 + second;
    let left = [(hour(10.0, 0.0), "L1", 1)];
    assert_eq!(sorted(&mut query, &[&left, &[(hour(10.0, 60.0), "R1", 1)]]).await, NOTHING);
    let left = [(hour(11.0, 0.0), "L2", 1)];
    let right = [(hour(11.0, 60.0), "R2", 1)];
    let second = sorted(&mut query, &[&left, &right]).await;
    let third = sorted(&mut query, &[&[(hour(11.5, 0.0), "L3", 1)], &[]]).await;
    assert_eq!([second, third].concat(), ["L1 "]);
    let fourth = sorted(&mut query, &[&[], &[(hour(11.5, 20.0), "R3", 1)]]).await;
    let rest = sorted(&mut query, &[&[], &[]]).await;
    assert_eq!([fourth, rest].concat(), ["L2 ", "L3 R3"]);
}

#[tokio::test]
async fn unmatched_rows_come_out_whole() {
    let mut query = joined("LEFT", 30).await;
    let day = |day: f64, second: f64| day * 86_400.0 + second;
    let left = [(day(1.0, 0.0), "alone", 1), (day(2.0, 0.0), "a", 1), (day(2.0, 3600.0), "b", 1)];
    let right = [(day(2.0, 10.0), "A", 1), (day(2.0, 3599.0), "B", 1)];
    let mut lines = sorted(&mut query, &[&left, &right]).await;
    lines.extend(sorted(&mut query, &[&[], &[]]).await);
    lines.sort();
    assert_eq!(lines, ["a A", "alone ", "b B"]);
}

#[tokio::test]
async fn each_kind_of_join_gives_what_matched_and_what_never_will() {
    let left = [(10.0, "both", 1), (11.0, "left", 2)];
    let right = [(12.0, "BOTH", 1), (13.0, "RIGHT", 3)];
    for (kind, wanted) in [
        ("INNER", vec!["both BOTH"]),
        ("LEFT", vec!["both BOTH", "left "]),
        ("RIGHT", vec![" RIGHT", "both BOTH"]),
        ("FULL", vec![" RIGHT", "both BOTH", "left "]),
    ] {
        let mut query = joined(kind, 5).await;
        let mut lines = sorted(&mut query, &[&left, &[]]).await;
        lines.extend(sorted(&mut query, &[&[], &right]).await);
        let flush = [(1000.0, "", 9)];
        lines.extend(sorted(&mut query, &[&flush, &[(1000.0, "", 8)]]).await);
        lines.extend(sorted(&mut query, &[&[], &[]]).await);
        lines.sort();
        assert_eq!(lines, wanted, "{kind}");
    }
}

#[tokio::test]
async fn a_semi_join_gives_a_row_once() {
    let text = format!(
        "SELECT l.k FROM {LEFT} LEFT SEMI JOIN {RIGHT} ON l.v = r.v \
         AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 5 SECONDS"
    );
    let mut query = Running::sql(&text, OutputMode::Append).await;
    let left = [(10.0, "a", 1), (10.0, "b", 2)];
    assert_eq!(sorted(&mut query, &[&left, &[]]).await, NOTHING);
    assert_eq!(sorted(&mut query, &[&[], &[(11.0, "", 1), (12.0, "", 1)]]).await, ["a"]);
    assert_eq!(sorted(&mut query, &[&[], &[(13.0, "", 1)]]).await, NOTHING);
}

#[tokio::test]
async fn what_follows_a_join_waits_for_the_rows_that_the_join_keeps() {
    let text = format!(
        "SELECT unix_timestamp(window.start) AS s, count(*) AS n FROM (\
         SELECT l.ts FROM {LEFT} JOIN {RIGHT} ON l.v = r.v \
         AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 30 SECONDS) \
         GROUP BY window(ts, '10 seconds')"
    );
    let mut query = Running::sql(&text, OutputMode::Append).await;
    assert!(query.plan.warnings().is_empty(), "{:?}", query.plan.warnings());
    let rows = [(5.0, "", 1), (8.0, "", 2)];
    assert_eq!(sorted(&mut query, &[&rows, &[(6.0, "", 1)]]).await, NOTHING);
    // The watermark is 25: a row at 26 may still find the left one at 8.
    let (left, right) = ([(25.0, "", 9)], [(25.0, "", 8)]);
    assert_eq!(sorted(&mut query, &[&left, &right]).await, NOTHING);
    assert_eq!(sorted(&mut query, &[&[], &[(26.0, "", 2)]]).await, NOTHING);
    let (left, right) = ([(60.0, "", 9)], [(60.0, "", 8)]);
    assert_eq!(sorted(&mut query, &[&left, &right]).await, NOTHING);
    assert_eq!(sorted(&mut query, &[&[], &[]]).await, ["0 2"]);
}

#[tokio::test]
async fn null_keys_meet_where_the_condition_says_so() {
    let text = |kind: &str, equal: &str| {
        format!(
            "SELECT l.k, r.k AS rk FROM {LEFT} {kind} JOIN {RIGHT} \
             ON nullif(l.v, 0) {equal} nullif(r.v, 0) AND r.ts BETWEEN l.ts \
             AND l.ts + INTERVAL 5 SECONDS"
        )
    };
    let (left, right) = ([(1.0, "a", 1), (500.0, "none", 0)], [(2.0, "A", 1), (501.0, "NONE", 0)]);
    let mut query = Running::sql(&text("INNER", "="), OutputMode::Append).await;
    assert_eq!(sorted(&mut query, &[&left, &right]).await, ["a A"]);
    let mut query = Running::sql(&text("INNER", "<=>"), OutputMode::Append).await;
    assert_eq!(sorted(&mut query, &[&left, &[]]).await, NOTHING);
    assert_eq!(sorted(&mut query, &[&[], &right]).await, ["a A", "none NONE"]);
}
