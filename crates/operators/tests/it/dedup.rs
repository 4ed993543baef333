//! Deduplication.

use crate::harness::{Query, column, rows, schema, timestamp};
use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, SchemaRef};
use onefold_operators::{Deduplicate, DeduplicateWithin, EmitMode};
use std::sync::Arc;

fn input() -> SchemaRef {
    schema(&[("k", DataType::Float64), ("t", timestamp()), ("v", DataType::Int64)])
}

/// Rows of key, second and value.
fn batch(data: &[(Option<f64>, Option<i64>, i64)]) -> RecordBatch {
    let keys: Float64Array = data.iter().map(|row| row.0).collect();
    let times = data.iter().map(|row| row.1.map(|second| second * 1_000_000));
    let times = TimestampMicrosecondArray::from_iter(times).with_timezone("UTC");
    let values = Int64Array::from_iter_values(data.iter().map(|row| row.2));
    let keys: ArrayRef = Arc::new(keys);
    rows(&input(), vec![keys, Arc::new(times), Arc::new(values)])
}

fn forever(keys: &[&str], event_time: Option<usize>, late: Option<&str>) -> Query {
    let operator = Deduplicate {
        keys: keys.iter().map(|key| column(&input(), key)).collect(),
        event_time,
        late: late.map(|late| column(&input(), late)),
    };
    let spec = operator.spec(0, "d", &input()).unwrap();
    Query::new(spec, &input(), EmitMode::Append, 2, Box::new(move |i, c| operator.exec(i, c)))
}

fn values(rows: &[String]) -> Vec<i64> {
    let mut values: Vec<i64> =
        rows.iter().map(|row| row.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    values.sort_unstable();
    values
}

#[tokio::test]
async fn each_key_passes_once_over_all_batches() {
    let mut query = forever(&["k"], None, None);
    let outcome = query
        .batch(
            batch(&[
                (Some(0.0), Some(1), 1),
                (Some(-0.0), Some(2), 2),
                (Some(f64::NAN), Some(1), 3),
                (Some(-f64::NAN), Some(1), 4),
                (None, Some(1), 5),
                (None, None, 6),
                (Some(7.5), None, 7),
            ]),
            None,
        )
        .await;
    assert_eq!(values(&outcome.rows), [1, 3, 5, 7]);
    assert_eq!((outcome.metrics.rows_updated(), outcome.metrics.rows_total()), (4, 4));
    assert_eq!(outcome.metrics.rows_dropped_as_duplicates(), 3);
    let more = batch(&[(None, Some(9), 8), (Some(f64::NAN), Some(9), 9), (Some(1.0), Some(9), 10)]);
    assert_eq!(values(&query.batch(more, Some(i64::MAX)).await.rows), [10]);
    assert_eq!(query.empty(Some(i64::MAX)).await.metrics.rows_total(), 5);
}

#[tokio::test]
async fn a_row_passes_as_it_came() {
    let mut query = forever(&["k"], None, None);
    let outcome = query.batch(batch(&[(Some(-0.0), Some(1), 1)]), None).await;
    assert_eq!(outcome.rows, ["-0.0 1970-01-01T00:00:01Z 1"]);
}

#[tokio::test]
async fn a_key_with_event_time_is_forgotten_behind_the_watermark() {
    let mut query = forever(&["k", "t"], Some(1), None);
    let first = batch(&[(Some(1.0), Some(5), 1), (Some(1.0), Some(5), 2), (Some(1.0), Some(6), 3)]);
    assert_eq!(values(&query.batch(first, Some(0)).await.rows), [1, 3]);
    let outcome = query.empty(Some(5_000)).await;
    assert_eq!((outcome.metrics.rows_removed(), outcome.metrics.rows_total()), (1, 1));
    let late = batch(&[(Some(1.0), Some(5), 4), (Some(1.0), Some(6), 5), (Some(2.0), Some(6), 6)]);
    let outcome = query.batch(late, Some(5_000)).await;
    assert_eq!(values(&outcome.rows), [6]);
    assert_eq!(outcome.metrics.rows_dropped_by_watermark(), 1);
    assert_eq!(outcome.metrics.rows_dropped_as_duplicates(), 1);
}

#[tokio::test]
async fn late_rows_are_dropped_though_the_event_time_is_no_key() {
    let mut query = forever(&["k"], None, Some("t"));
    query.batch(batch(&[(Some(1.0), Some(50), 1)]), Some(10_000)).await;
    let outcome = query.batch(batch(&[(Some(2.0), Some(10), 2)]), Some(10_000)).await;
    assert_eq!((outcome.rows.len(), outcome.metrics.rows_dropped_by_watermark()), (0, 1));
    assert_eq!(query.state_rows(), 1);
}

#[tokio::test]
async fn without_keys_one_row_passes_in_all() {
    let mut query = forever(&[], None, None);
    let twice = batch(&[(Some(1.0), None, 1), (Some(2.0), None, 2)]);
    assert_eq!(values(&query.batch(twice.clone(), None).await.rows), [1]);
    assert!(query.batch(twice, None).await.rows.is_empty());
}

fn within(delay_ms: i64) -> Query {
    let operator = DeduplicateWithin {
        keys: vec![column(&input(), "k")],
        event_time: column(&input(), "t"),
        delay_ms,
    };
    let spec = operator.spec(0, "d", &input()).unwrap();
    Query::new(spec, &input(), EmitMode::Append, 2, Box::new(move |i, c| operator.exec(i, c)))
}

#[tokio::test]
async fn within_the_watermark_a_key_is_remembered_from_its_first_row_on() {
    let mut query = within(3_000);
    let outcome =
        query.batch(batch(&[(Some(1.0), Some(10), 1), (Some(1.0), Some(12), 2)]), Some(0));
    assert_eq!(values(&outcome.await.rows), [1]);
    // A later row does not prolong it: it expires at 13.
    let outcome = query.batch(batch(&[(Some(1.0), Some(12), 3)]), Some(12_999)).await;
    assert_eq!((outcome.rows.len(), outcome.metrics.rows_removed()), (0, 0));
    let outcome = query.batch(batch(&[(Some(1.0), Some(13), 4)]), Some(13_000)).await;
    assert_eq!((outcome.rows.len(), outcome.metrics.rows_removed()), (0, 1));
    assert_eq!(query.families(), [0, 0]);
    let outcome = query.batch(batch(&[(Some(1.0), Some(14), 5)]), Some(13_000)).await;
    assert_eq!(values(&outcome.rows), [5]);
    assert_eq!(query.families(), [1, 1]);
    let outcome = query.batch(batch(&[(Some(9.0), Some(13), 6)]), Some(13_000)).await;
    assert_eq!((outcome.rows.len(), outcome.metrics.rows_dropped_by_watermark()), (0, 1));
}

#[tokio::test]
async fn within_the_watermark_odd_keys_are_one_each() {
    let mut query = within(1_000);
    let outcome = query
        .batch(
            batch(&[
                (Some(0.0), Some(5), 1),
                (Some(-0.0), Some(5), 2),
                (Some(f64::NAN), Some(5), 3),
                (Some(-f64::NAN), Some(5), 4),
                (None, Some(5), 5),
                (None, Some(5), 6),
                (Some(3.0), None, 7),
            ]),
            Some(2_000),
        )
        .await;
    assert_eq!(values(&outcome.rows), [1, 3, 5, 7]);
    // Without an event time a key counts from 1970, as in Spark.
    assert_eq!((outcome.metrics.rows_removed(), query.state_rows()), (1, 3));
}
