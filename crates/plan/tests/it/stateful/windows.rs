use super::{NOTHING, Running};
use onefold_connector::OutputMode;

const COUNT: &str = "SELECT unix_timestamp(window.start) AS s, k, count(*) AS n \
                     FROM events WATERMARK ts DELAY OF INTERVAL 5 SECONDS \
                     GROUP BY window(ts, '10 seconds'), k";

#[tokio::test]
async fn append_emits_a_window_once_when_the_watermark_has_passed_its_end() {
    let mut query = Running::sql(COUNT, OutputMode::Append).await;
    assert_eq!(query.sorted(&[(1.0, "a", 1), (4.0, "b", 1), (12.0, "a", 1)]).await, NOTHING);
    // The watermark is 7: nothing is late yet, since that of the batch before was 0.
    assert_eq!(query.sorted(&[(3.0, "a", 1), (15.0, "a", 1)]).await, NOTHING);
    assert!(query.wants_more());
    assert_eq!(query.sorted(&[]).await, ["0 a 2", "0 b 1"]);
    assert!(!query.wants_more());
    assert_eq!(query.sorted(&[(9.0, "a", 1), (14.0, "b", 1), (26.0, "b", 1)]).await, NOTHING);
    assert_eq!(query.late, [1]);
    assert_eq!(query.sorted(&[]).await, ["10 a 2", "10 b 1"]);
    assert_eq!(query.total, [1]);
}

#[tokio::test]
async fn update_emits_what_changed_and_forgets_what_is_past() {
    let mut query = Running::sql(COUNT, OutputMode::Update).await;
    assert_eq!(query.sorted(&[(1.0, "a", 1), (4.0, "b", 1)]).await, ["0 a 1", "0 b 1"]);
    assert_eq!(query.sorted(&[(2.0, "a", 1), (17.0, "a", 1)]).await, ["0 a 2", "10 a 1"]);
    assert!(query.wants_more());
    assert_eq!(query.sorted(&[]).await, NOTHING);
    assert_eq!(query.total, [1]);
    assert_eq!(query.sorted(&[(3.0, "a", 1)]).await, NOTHING);
    assert_eq!(query.late, [1]);
}

#[tokio::test]
async fn complete_emits_everything_in_the_order_asked_for_and_takes_late_rows() {
    let text = format!("{COUNT} ORDER BY n DESC, k LIMIT 2");
    let mut query = Running::sql(&text, OutputMode::Complete).await;
    assert_eq!(query.one(&[(1.0, "b", 1), (4.0, "a", 1)]).await, ["0 a 1", "0 b 1"]);
    let later = [(90.0, "c", 1), (91.0, "c", 1), (92.0, "c", 1)];
    assert_eq!(query.one(&later).await, ["90 c 3", "0 a 1"]);
    assert_eq!(query.one(&[]).await, ["90 c 3", "0 a 1"]);
    assert!(!query.wants_more());
    assert_eq!(query.one(&[(2.0, "b", 1)]).await, ["90 c 3", "0 b 2"]);
}

#[tokio::test]
async fn a_row_falls_into_each_sliding_window() {
    let text = "SELECT unix_timestamp(window.start) AS s, unix_timestamp(window.end) AS e, \
                sum(v) AS v FROM events GROUP BY window(ts, '10 seconds', '5 seconds')";
    let mut query = Running::sql(text, OutputMode::Complete).await;
    let lines = query.sorted(&[(12.0, "a", 3), (4.0, "a", 4), (-1.0, "a", 5)]).await;
    assert_eq!(lines, ["-10 0 5", "-5 5 9", "0 10 4", "10 20 3", "5 15 3"]);
}

#[tokio::test]
async fn windows_before_1970_begin_where_the_grid_says() {
    // 1969-12-31T23:59:52Z, 23:59:57Z and 1965-03-04T05:06:07Z.
    let old = [(-8.0, "a", 1), (-3.0, "a", 1), (-152_391_233.0, "a", 1)];
    let text = "SELECT CAST(window.start AS STRING) AS s, CAST(window.end AS STRING) AS e, \
                count(*) AS n FROM events GROUP BY window(ts, '10 seconds', '10 seconds', START)";
    let with_start = text.replace("START", "'5 seconds'");
    let mut query = Running::sql(&with_start, OutputMode::Complete).await;
    let wanted = [
        "1965-03-04 05:06:05 1965-03-04 05:06:15 1",
        "1969-12-31 23:59:45 1969-12-31 23:59:55 1",
        "1969-12-31 23:59:55 1970-01-01 00:00:05 1",
    ];
    assert_eq!(query.sorted(&old).await, wanted);
    let plain = text.replace("START", "'0 seconds'");
    let mut query = Running::sql(&plain, OutputMode::Complete).await;
    let wanted =
        ["1965-03-04 05:06:00 1965-03-04 05:06:10 1", "1969-12-31 23:59:50 1970-01-01 00:00:00 2"];
    assert_eq!(query.sorted(&old).await, wanted);
}

#[tokio::test]
async fn windows_of_windows_keep_both_operators() {
    let text = "SELECT unix_timestamp(window.start) AS s, sum(n) AS n FROM (\
                SELECT window, count(*) AS n \
                FROM events WATERMARK ts DELAY OF INTERVAL 0 SECONDS \
                GROUP BY window(ts, '1 minute')) GROUP BY window(window, '5 minutes')";
    let mut query = Running::sql(text, OutputMode::Append).await;
    assert_eq!(query.plan.operators(&super::streams().state()).unwrap().len(), 2);
    let first = [(10.0, "", 1), (20.0, "", 1), (60.0, "", 1), (360.0, "", 1)];
    assert_eq!(query.sorted(&first).await, NOTHING);
    // The inner windows that end by 6:00 come out; the outer one that ends at 5:00 with them.
    assert_eq!(query.sorted(&[(3600.0, "", 1)]).await, ["0 3"]);
    assert_eq!(query.sorted(&[]).await, ["300 1"]);
}

#[tokio::test]
async fn the_time_of_a_window_goes_into_a_further_window() {
    let text = "SELECT unix_timestamp(window.start) AS s, k, sum(n) AS n FROM (\
                SELECT window_time(window) AS t, k, count(*) AS n \
                FROM events WATERMARK ts DELAY OF INTERVAL 0 SECONDS \
                GROUP BY window(ts, '10 seconds'), k) GROUP BY window(t, '20 seconds'), k";
    let mut query = Running::sql(text, OutputMode::Append).await;
    let first = [(1.0, "a", 1), (11.0, "a", 1), (19.0, "b", 1), (21.0, "a", 1)];
    assert_eq!(query.sorted(&first).await, NOTHING);
    assert_eq!(query.sorted(&[]).await, ["0 a 2", "0 b 1"]);
}

#[tokio::test]
async fn the_watermark_is_that_of_rows_that_a_filter_lets_through() {
    let text = "SELECT unix_timestamp(window.start) AS s, count(*) AS n \
                FROM (SELECT * FROM events WATERMARK ts DELAY OF INTERVAL 0 SECONDS) \
                WHERE v > 0 GROUP BY window(ts, '10 seconds') HAVING count(*) > 1";
    let mut query = Running::sql(text, OutputMode::Append).await;
    let first = [(1.0, "", 1), (2.0, "", 1), (11.0, "", 1), (99.0, "", 0)];
    assert_eq!(query.sorted(&first).await, NOTHING);
    assert_eq!(query.sorted(&[(25.0, "", 1)]).await, ["0 2"]);
    // [10, 20) has one row only.
    assert_eq!(query.sorted(&[]).await, NOTHING);
    assert_eq!(query.total, [1]);
}

#[tokio::test]
async fn aggregates_of_many_kinds_carry_over_batches() {
    let text = "SELECT k, count(DISTINCT v) AS d, sum(v) FILTER (WHERE v > 2) AS f, avg(v) AS a, \
                min(v) AS lo, max(v) AS hi FROM events GROUP BY k";
    let mut query = Running::sql(text, OutputMode::Update).await;
    assert_eq!(query.plan.warnings().len(), 1);
    query.one(&[(1.0, "a", 1), (1.0, "a", 2), (1.0, "b", 7)]).await;
    let lines = query.sorted(&[(1.0, "a", 2), (1.0, "a", 3)]).await;
    assert_eq!(lines, ["a 3 3 2.0 1 3"]);
}

#[tokio::test]
async fn a_global_aggregate_has_a_row_without_input() {
    let mut query = Running::sql("SELECT count(*) AS n FROM events", OutputMode::Complete).await;
    assert!(query.plan.warnings().is_empty());
    assert_eq!(query.one(&[]).await, ["0"]);
    assert_eq!(query.one(&[(1.0, "", 1), (2.0, "", 1)]).await, ["2"]);
    assert_eq!(query.one(&[(1.0, "", 1)]).await, ["3"]);
}

#[tokio::test]
async fn grouping_sets_count_each_row_once_for_each_set() {
    let text = "SELECT k, v, grouping(k) AS g, count(*) AS n, sum(v) AS s FROM events \
                GROUP BY CUBE(k, v)";
    let mut query = Running::sql(text, OutputMode::Update).await;
    let lines = query.sorted(&[(1.0, "a", 1), (1.0, "a", 2)]).await;
    let wanted = [" 1 1 1 1", " 2 1 1 2", "  1 2 3", "a 1 0 1 1", "a 2 0 1 2", "a  0 2 3"];
    let mut wanted = wanted.map(str::to_owned);
    wanted.sort();
    assert_eq!(lines, wanted);
    let lines = query.sorted(&[(1.0, "a", 2)]).await;
    let mut wanted = [" 2 1 2 4", "  1 3 5", "a 2 0 2 4", "a  0 3 5"].map(str::to_owned);
    wanted.sort();
    assert_eq!(lines, wanted);
    assert_eq!(query.total, [6]);
}
