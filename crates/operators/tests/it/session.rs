//! Session windows.

use crate::harness::{Query, aggregate, named, rows, schema, timestamp};
use arrow::array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, StructArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Fields, SchemaRef};
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::functions_aggregate::count::count_udaf;
use onefold_operators::{EmitMode, OperatorContext, SessionAggregate};
use onefold_state::StateStore;
use onefold_types::{BatchId, ErrorKind};
use std::sync::Arc;

pub fn input() -> SchemaRef {
    let window = Fields::from(vec![
        Field::new("start", timestamp(), true),
        Field::new("end", timestamp(), true),
    ]);
    schema(&[("k", DataType::Float64), ("s", DataType::Struct(window)), ("v", DataType::Int64)])
}

/// A row: key, second, gap in seconds, value.
pub type Row = (Option<f64>, Option<i64>, i64, i64);

pub fn batch(data: &[Row]) -> RecordBatch {
    let DataType::Struct(fields) = input().field(1).data_type().clone() else { unreachable!() };
    let times = |gap: bool| -> ArrayRef {
        let times = data.iter().map(|(_, second, length, _)| {
            second.map(|second| (second + if gap { *length } else { 0 }) * 1_000_000)
        });
        Arc::new(TimestampMicrosecondArray::from_iter(times).with_timezone("UTC"))
    };
    let nulls = data.iter().map(|row| row.1.is_some()).collect::<Vec<_>>().into();
    let sessions = StructArray::new(fields, vec![times(false), times(true)], Some(nulls));
    let keys: Float64Array = data.iter().map(|row| row.0).collect();
    let values = Int64Array::from_iter_values(data.iter().map(|row| row.3));
    let keys: ArrayRef = Arc::new(keys);
    rows(&input(), vec![keys, Arc::new(sessions), Arc::new(values)])
}

pub fn operator(group: &[&str]) -> SessionAggregate {
    SessionAggregate {
        group: named(&input(), group),
        session: group.iter().position(|name| *name == "s").unwrap(),
        aggregates: vec![
            aggregate(&input(), count_udaf(), "v"),
            aggregate(&input(), array_agg_udaf(), "v"),
        ],
        filters: vec![None, None],
    }
}

fn query(group: &[&str], mode: EmitMode) -> Query {
    let operator = operator(group);
    let spec = operator.spec(0, "s", &input()).unwrap();
    Query::new(spec, &input(), mode, 2, Box::new(move |i, c| operator.exec(i, c)))
}

fn session(start: i64, end: i64) -> String {
    let time = |second: i64| format!("1970-01-01T00:{:02}:{:02}Z", second / 60, second % 60);
    format!("{{start: {}, end: {}}}", time(start), time(end))
}

const K: Option<f64> = Some(1.0);

#[tokio::test]
async fn sessions_merge_within_and_across_batches() {
    let mut query = query(&["k", "s"], EmitMode::Complete);
    let first = batch(&[(K, Some(10), 5, 1), (K, Some(0), 5, 2), (K, Some(3), 5, 3)]);
    let outcome = query.batch(first, None).await;
    assert_eq!(
        outcome.rows,
        [format!("1.0 {} 2 [2, 3]", session(0, 8)), format!("1.0 {} 1 [1]", session(10, 15)),]
    );
    assert_eq!(query.families(), [2, 2]);
    // It touches both.
    let outcome = query.batch(batch(&[(K, Some(8), 2, 4)]), None).await;
    assert_eq!(outcome.rows, [format!("1.0 {} 4 [2, 3, 4, 1]", session(0, 15))]);
    assert_eq!(query.families(), [1, 1]);
    // One that begins before the kept session takes its place.
    let outcome = query.batch(batch(&[(K, Some(20), 5, 6), (K, Some(16), 2, 5)]), None).await;
    assert_eq!(outcome.rows.len(), 3);
    let outcome = query.batch(batch(&[(K, Some(15), 5, 7)]), None).await;
    assert_eq!(outcome.rows, [format!("1.0 {} 7 [2, 3, 4, 1, 7, 5, 6]", session(0, 25))]);
    assert_eq!(query.families(), [1, 1]);
}

#[tokio::test]
async fn a_session_that_grows_backwards_moves_its_state() {
    let mut query = query(&["k", "s"], EmitMode::Complete);
    query.batch(batch(&[(K, Some(10), 5, 1)]), None).await;
    let outcome = query.batch(batch(&[(K, Some(7), 5, 2)]), None).await;
    assert_eq!(outcome.rows, [format!("1.0 {} 2 [2, 1]", session(7, 15))]);
    assert_eq!((outcome.metrics.rows_removed(), outcome.metrics.rows_total()), (1, 1));
    assert_eq!(query.families(), [1, 1]);
}

#[tokio::test]
async fn rows_without_a_session_or_gap_are_dropped() {
    let mut query = query(&["k", "s"], EmitMode::Complete);
    let outcome =
        query.batch(batch(&[(K, Some(1), 0, 1), (K, Some(1), -5, 2), (K, None, 5, 3)]), None).await;
    assert!(outcome.rows.is_empty());
    assert_eq!(outcome.metrics.late_rows(), 0);
}

#[tokio::test]
async fn each_row_has_its_own_gap_and_the_longest_counts() {
    let mut query = query(&["k", "s"], EmitMode::Complete);
    let outcome = query
        .batch(batch(&[(K, Some(0), 30, 1), (K, Some(5), 2, 2), (K, Some(29), 3, 3)]), None)
        .await;
    assert_eq!(outcome.rows, [format!("1.0 {} 3 [1, 2, 3]", session(0, 32))]);
}

#[tokio::test]
async fn odd_keys_have_one_session_each() {
    let mut query = query(&["s", "k"], EmitMode::Complete);
    let data = [Some(0.0), Some(-0.0), Some(f64::NAN), Some(-f64::NAN), None, None];
    let data: Vec<Row> = data.iter().map(|key| (*key, Some(0), 5, 1)).collect();
    query.batch(batch(&data), None).await;
    let outcome = query.batch(batch(&data), None).await;
    assert_eq!(
        outcome.rows,
        [
            format!("{} 0.0 4 [1, 1, 1, 1]", session(0, 5)),
            format!("{} NULL 4 [1, 1, 1, 1]", session(0, 5)),
            format!("{} NaN 4 [1, 1, 1, 1]", session(0, 5)),
        ]
    );
}

#[tokio::test]
async fn append_mode_gives_a_session_once_the_watermark_reaches_its_end() {
    // The inputs of a run of Spark 4.2: gap 5 s, delay 10 s, files of four rows 30 s apart.
    let mut query = query(&["k", "s"], EmitMode::Append);
    let other = Some(2.0);
    let mut watermark = 0;
    let mut given = Vec::new();
    let mut facts = Vec::new();
    for file in 0..5 {
        let at = |second: i64| Some(file * 30 + second);
        let data = [(K, at(0), 5, 1), (other, at(3), 5, 1), (K, at(6), 5, 1), (other, at(9), 5, 1)];
        let outcome = query.batch(batch(&data), Some(watermark)).await;
        let metrics = &outcome.metrics;
        facts.push((metrics.rows_total(), metrics.rows_updated(), metrics.rows_removed()));
        given.extend(outcome.rows);
        watermark = (file * 30 + 9 - 10) * 1000;
    }
    let outcome = query.empty(Some(watermark)).await;
    assert_eq!((outcome.metrics.rows_removed(), outcome.metrics.rows_total()), (4, 4));
    given.extend(outcome.rows);
    assert_eq!(facts, [(4, 4, 0), (8, 8, 0), (8, 12, 4), (8, 12, 4), (8, 12, 4)]);
    assert_eq!(given.len(), 16);
    assert!(given.contains(&format!("1.0 {} 1 [1]", session(96, 101))));
    assert_eq!(query.families(), [4, 4]);
}

#[tokio::test]
async fn a_row_is_late_by_its_own_session_even_where_a_kept_one_would_take_it() {
    let mut query = query(&["k", "s"], EmitMode::Append);
    query.batch(batch(&[(K, Some(10), 30, 1)]), Some(20_000)).await;
    let outcome = query.batch(batch(&[(K, Some(12), 5, 2), (K, Some(12), 9, 3)]), Some(20_000));
    let outcome = outcome.await;
    assert_eq!(outcome.metrics.rows_dropped_by_watermark(), 1);
    let outcome = query.empty(Some(40_000)).await;
    assert_eq!(outcome.rows, [format!("1.0 {} 2 [1, 3]", session(10, 40))]);
    assert_eq!(query.families(), [0, 0]);
}

#[tokio::test]
async fn sessions_without_keys_are_of_all_rows() {
    let mut query = query(&["s"], EmitMode::Complete);
    query.batch(batch(&[(K, Some(0), 5, 1), (None, Some(50), 5, 2)]), None).await;
    let outcome = query.batch(batch(&[(None, Some(4), 5, 3)]), None).await;
    assert_eq!(
        outcome.rows,
        [format!("{} 2 [1, 3]", session(0, 9)), format!("{} 1 [2]", session(50, 55)),]
    );
}

#[test]
fn update_mode_is_refused() {
    let operator = operator(&["k", "s"]);
    let spec = operator.spec(0, "s", &input()).unwrap();
    let store = StateStore::in_memory(vec![spec], 1).unwrap();
    let context = OperatorContext {
        id: 0,
        state: store.begin(BatchId(0)).unwrap(),
        late_ms: None,
        evict_ms: None,
        batch_time_ms: 0,
        mode: EmitMode::Update,
        metrics: Arc::default(),
        late_rows: None,
    };
    let none =
        datafusion::datasource::memory::MemorySourceConfig::try_new_exec(&[vec![]], input(), None);
    let error = operator.exec(none.unwrap(), context).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}
