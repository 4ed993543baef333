use super::{NOTHING, Running, streams};
use datafusion::logical_expr::LogicalPlanBuilder;
use onefold_connector::OutputMode;
use onefold_plan::sql;
use onefold_plan::stream::{StreamingPlan, drop_duplicates, with_watermark};

async fn deduplicated(
    watermark: Option<&str>,
    columns: Option<&[&str]>,
    within: bool,
    limit: Option<usize>,
) -> Running {
    let context = streams();
    let mut plan = sql::query(&context, "SELECT k, v, ts FROM events").await.unwrap();
    if let Some(delay) = watermark {
        plan = with_watermark(plan, "TS", delay).unwrap();
    }
    plan = drop_duplicates(plan, columns, within).unwrap();
    let builder = LogicalPlanBuilder::from(plan);
    let builder = match limit {
        Some(rows) => builder.limit(0, Some(rows)).unwrap(),
        None => builder,
    };
    let plan = builder
        .project(vec![datafusion::prelude::col("k"), datafusion::prelude::col("v")])
        .unwrap()
        .build()
        .unwrap();
    Running::new(context, StreamingPlan::new(plan, OutputMode::Append).unwrap())
}

#[tokio::test]
async fn a_key_comes_out_once() {
    let mut query = deduplicated(None, Some(&["k"]), false, None).await;
    assert!(query.plan.warnings()[0].contains("`deduplicate by k` keeps every key for ever"));
    assert_eq!(query.sorted(&[(1.0, "a", 1), (2.0, "b", 1)]).await, ["a 1", "b 1"]);
    assert_eq!(query.sorted(&[(1.0, "a", 2), (2.0, "c", 2)]).await, ["c 2"]);
    assert_eq!(query.total, [3]);
}

#[tokio::test]
async fn keys_with_the_event_time_are_forgotten_when_the_watermark_passes() {
    let mut query = deduplicated(Some("2 seconds"), Some(&["k", "ts"]), false, None).await;
    assert!(query.plan.warnings().is_empty());
    assert_eq!(query.sorted(&[(1.0, "a", 1), (10.0, "b", 1)]).await, ["a 1", "b 1"]);
    assert!(query.wants_more());
    assert_eq!(query.sorted(&[]).await, NOTHING);
    assert_eq!(query.total, [1]);
    assert_eq!(query.sorted(&[(1.0, "a", 2), (10.0, "b", 2)]).await, NOTHING);
    assert_eq!(query.late, [1]);
}

#[tokio::test]
async fn within_the_watermark_a_key_expires_by_its_first_row() {
    let mut query = deduplicated(Some("10 seconds"), Some(&["k"]), true, None).await;
    assert_eq!(query.sorted(&[(1.0, "a", 1)]).await, ["a 1"]);
    assert_eq!(query.sorted(&[(5.0, "a", 2), (25.0, "b", 2)]).await, ["b 2"]);
    assert_eq!(query.sorted(&[]).await, NOTHING);
    assert_eq!(query.total, [1]);
    assert_eq!(query.sorted(&[(26.0, "a", 3)]).await, ["a 3"]);
}

#[tokio::test]
async fn distinct_is_deduplication_by_all_columns() {
    let text = "SELECT DISTINCT k FROM events UNION SELECT k FROM others";
    let mut query = Running::sql(text, OutputMode::Append).await;
    let (first, second) = ([(1.0, "a", 1), (1.0, "a", 2)], [(1.0, "b", 1), (1.0, "a", 1)]);
    let mut lines = query.batch(&[&first, &second]).await;
    lines.sort();
    assert_eq!(lines, ["a", "b"]);
    assert_eq!(query.batch(&[&second, &first]).await, NOTHING);
}

#[tokio::test]
async fn a_limit_is_one_for_all_batches_and_what_is_below_sees_all_rows() {
    let mut query = deduplicated(None, Some(&["k"]), false, Some(2)).await;
    let first = [(1.0, "a", 1), (1.0, "b", 1), (1.0, "c", 1)];
    assert_eq!(query.one(&first).await.len(), 2);
    // Parent first: the limit, then the deduplication.
    assert_eq!(query.total, [1, 3]);
    assert_eq!(query.one(&[(1.0, "c", 1), (1.0, "d", 1)]).await, NOTHING);
    assert_eq!(query.total, [1, 4]);
}

#[tokio::test]
async fn a_limit_below_a_complete_aggregation_counts_over_all_batches() {
    let text = "SELECT count(*) AS n FROM (SELECT v FROM events LIMIT 3)";
    let mut query = Running::sql(text, OutputMode::Complete).await;
    assert_eq!(query.one(&[(1.0, "", 1), (1.0, "", 2)]).await, ["2"]);
    let rest = [(1.0, "", 3), (1.0, "", 4), (1.0, "", 5)];
    assert_eq!(query.one(&rest).await, ["3"]);
}

#[tokio::test]
async fn an_empty_batch_keeps_the_limits_operator() {
    let mut query = Running::sql("SELECT v FROM events LIMIT 1", OutputMode::Append).await;
    assert_eq!(query.one(&[]).await, NOTHING);
    assert_eq!(query.one(&[(1.0, "", 7)]).await, ["7"]);
    assert_eq!(query.one(&[(1.0, "", 8)]).await, NOTHING);
}
