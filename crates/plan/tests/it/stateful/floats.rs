//! NaN and zeros with a sign: Spark has NaN above all numbers, and takes both zeros for one.

use super::Running;
use onefold_connector::OutputMode;

/// `x` of a row is its text as a number; `inf - inf` is a NaN with a sign on many machines.
const X: &str = "CASE WHEN k = 'odd' THEN CAST('Infinity' AS DOUBLE) - CAST('Infinity' AS DOUBLE) \
                 ELSE CAST(k AS DOUBLE) END";

async fn query(select: &str) -> Running {
    let text = format!("SELECT {select} FROM (SELECT v, ({X}) AS x FROM events)");
    Running::sql(&text, OutputMode::Complete).await
}

#[tokio::test]
async fn extremes_with_nan_do_not_depend_on_the_order_of_batches() {
    let select = "min(x) AS least, max(x) AS greatest, min_by(v, x) AS a, max_by(v, x) AS b, \
                  count(*) AS n";
    let batches =
        [vec![("NaN", 1), ("1.5", 2)], vec![("odd", 3)], vec![("-2", 4), ("Infinity", 5)]];
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0], [2, 1, 0]] {
        let mut query = query(select).await;
        let mut last = Vec::new();
        for place in order {
            let rows: Vec<(f64, &str, i64)> =
                batches[place].iter().map(|(k, v)| (0.0, *k, *v)).collect();
            last = query.one(&rows).await;
        }
        let wanted = if order == [0, 1, 2] || order == [2, 0, 1] { 3 } else { 1 };
        assert_eq!(last.len(), 1);
        let line = &last[0];
        assert!(line.starts_with("-2.0 NaN 4 ") && line.ends_with(" 5"), "{order:?}: {line}");
        // Of equal ones the later row counts: every NaN is equal.
        assert_eq!(line, &format!("-2.0 NaN 4 {wanted} 5"), "{order:?}");
    }
}

#[tokio::test]
async fn groups_of_floats_sort_with_nan_last_and_zeros_as_one() {
    let text = format!(
        "SELECT x, count(*) AS n FROM (SELECT ({X}) AS x FROM events) GROUP BY x ORDER BY x DESC"
    );
    let mut query = Running::sql(&text, OutputMode::Complete).await;
    let rows = [(0.0, "odd", 1), (0.0, "-0.0", 1), (0.0, "Infinity", 1), (0.0, "NaN", 1)];
    query.one(&rows).await;
    let lines = query.one(&[(0.0, "0.0", 1), (0.0, "-7", 1)]).await;
    assert_eq!(lines, ["NaN 2", "inf 1", "0.0 2", "-7.0 1"]);
}

#[tokio::test]
async fn the_result_of_an_aggregate_sorts_as_spark_sorts_it() {
    let text = format!(
        "SELECT v, max(x) AS x FROM (SELECT v, ({X}) AS x FROM events) GROUP BY v ORDER BY x, v"
    );
    let mut query = Running::sql(&text, OutputMode::Complete).await;
    let rows = [(0.0, "odd", 1), (0.0, "0.0", 2), (0.0, "-0.0", 3), (0.0, "0.0", 4), (0.0, "9", 5)];
    let lines = query.one(&rows).await;
    assert_eq!(lines, ["2 0.0", "3 -0.0", "4 0.0", "5 9.0", "1 NaN"]);
}
