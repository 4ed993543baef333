//! Groups, modes and watermarks of the aggregation.

use crate::harness::{Query, aggregate, column, named, rows, schema, timestamp};
use arrow::array::{
    ArrayRef, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray, StructArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Fields, SchemaRef};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use onefold_operators::{EmitMode, StatefulAggregate};
use onefold_state::Access;
use onefold_types::ErrorKind;
use std::sync::Arc;

fn query(operator: StatefulAggregate, input: &SchemaRef, mode: EmitMode, partitions: u32) -> Query {
    let spec = operator.spec(0, "counts", input).unwrap();
    Query::new(
        spec,
        input,
        mode,
        partitions,
        Box::new(move |input, context| operator.exec(input, context)),
    )
}

fn by_key() -> SchemaRef {
    schema(&[("k", DataType::Utf8), ("v", DataType::Int64)])
}

fn counts(input: &SchemaRef, group: &[&str], event_time: Option<usize>) -> StatefulAggregate {
    StatefulAggregate {
        group: named(input, group),
        aggregates: vec![aggregate(input, count_udaf(), "v"), aggregate(input, sum_udaf(), "v")],
        filters: vec![None, None],
        event_time,
    }
}

fn key_rows(input: &SchemaRef, keys: &[Option<&str>], values: &[Option<i64>]) -> RecordBatch {
    let keys: ArrayRef = Arc::new(StringArray::from(keys.to_vec()));
    rows(input, vec![keys, Arc::new(Int64Array::from(values.to_vec()))])
}

#[tokio::test]
async fn update_mode_gives_the_groups_that_a_batch_touched() {
    let input = by_key();
    let mut query = query(counts(&input, &["k"], None), &input, EmitMode::Update, 3);
    let batch = key_rows(
        &input,
        &[Some("a"), Some("b"), Some("a"), None],
        &[Some(1), Some(2), Some(3), None],
    );
    let outcome = query.batch(batch, None).await;
    assert_eq!(outcome.rows, ["NULL 0 NULL", "a 2 4", "b 1 2"]);
    assert_eq!((outcome.metrics.rows_updated(), outcome.metrics.rows_total()), (3, 3));
    let outcome = query.batch(key_rows(&input, &[Some("b"), None], &[None, Some(7)]), None).await;
    assert_eq!(outcome.rows, ["NULL 1 7", "b 1 2"]);
    assert_eq!((outcome.metrics.rows_updated(), outcome.metrics.rows_total()), (2, 3));
    assert!(query.empty(None).await.rows.is_empty());
    assert_eq!(query.state_rows(), 3);
}

#[tokio::test]
async fn a_new_group_of_nulls_beside_kept_ones_has_no_sum() {
    let input = by_key();
    let mut query = query(counts(&input, &["k"], None), &input, EmitMode::Update, 1);
    query.batch(key_rows(&input, &[Some("a"), Some("b")], &[Some(1), Some(2)]), None).await;
    let batch = key_rows(
        &input,
        &[Some("x"), Some("b"), Some("y"), Some("a"), Some("z")],
        &[None, Some(3), Some(7), Some(4), None],
    );
    let wanted = ["a 2 5", "b 2 5", "x 0 NULL", "y 1 7", "z 0 NULL"];
    assert_eq!(query.batch(batch.clone(), None).await.rows, wanted);
    let wanted = ["a 3 9", "b 3 8", "x 0 NULL", "y 2 14", "z 0 NULL"];
    assert_eq!(query.batch(batch, None).await.rows, wanted);
}

#[tokio::test]
async fn complete_mode_gives_every_group_each_time() {
    let input = by_key();
    let mut query = query(counts(&input, &["k"], None), &input, EmitMode::Complete, 2);
    assert!(query.empty(None).await.rows.is_empty());
    let batch = key_rows(&input, &[Some("a"), Some("b")], &[Some(1), Some(2)]);
    assert_eq!(query.batch(batch, None).await.rows, ["a 1 1", "b 1 2"]);
    let batch = key_rows(&input, &[Some("a")], &[Some(5)]);
    assert_eq!(query.batch(batch, None).await.rows, ["a 2 6", "b 1 2"]);
    assert_eq!(query.empty(None).await.rows, ["a 2 6", "b 1 2"]);
}

#[tokio::test]
async fn a_global_aggregate_has_its_row_before_any_input() {
    let input = by_key();
    for mode in [EmitMode::Complete, EmitMode::Update] {
        let mut query = query(counts(&input, &[], None), &input, mode, 4);
        assert_eq!(query.empty(None).await.rows, ["0 NULL"]);
        let batch = key_rows(&input, &[Some("a"), None], &[Some(1), Some(2)]);
        let two = vec![vec![batch.clone()], vec![batch]];
        assert_eq!(query.try_batch(two, None).await.unwrap().rows, ["4 6"]);
        let outcome = query.empty(None).await;
        assert_eq!(outcome.rows, ["4 6"]);
        assert_eq!((outcome.metrics.rows_total(), outcome.metrics.rows_updated()), (1, 1));
    }
}

fn windowed() -> SchemaRef {
    let window = Fields::from(vec![
        Field::new("start", timestamp(), true),
        Field::new("end", timestamp(), true),
    ]);
    schema(&[("w", DataType::Struct(window)), ("k", DataType::Utf8), ("v", DataType::Int64)])
}

fn times(seconds: &[Option<i64>]) -> ArrayRef {
    let micros = seconds.iter().map(|second| second.map(|second| second * 1_000_000));
    Arc::new(TimestampMicrosecondArray::from_iter(micros).with_timezone("UTC"))
}

/// Rows in windows of 10 s that start at these seconds, with key and value.
fn window_rows(input: &SchemaRef, windows: &[(Option<i64>, &str, i64)]) -> RecordBatch {
    let DataType::Struct(fields) = input.field(0).data_type() else { unreachable!() };
    let starts: Vec<_> = windows.iter().map(|(start, ..)| *start).collect();
    let ends: Vec<_> = starts.iter().map(|start| start.map(|start| start + 10)).collect();
    let nulls = starts.iter().map(Option::is_some).collect::<Vec<_>>().into();
    let window = StructArray::new(fields.clone(), vec![times(&starts), times(&ends)], Some(nulls));
    let keys: Vec<_> = windows.iter().map(|(_, key, _)| *key).collect();
    let values: Vec<_> = windows.iter().map(|(.., value)| *value).collect();
    rows(
        input,
        vec![
            Arc::new(window),
            Arc::new(StringArray::from(keys)),
            Arc::new(Int64Array::from(values)),
        ],
    )
}

fn window(start: i64) -> String {
    let time = |second: i64| format!("1970-01-01T00:{:02}:{:02}Z", second / 60, second % 60);
    format!("{{start: {}, end: {}}}", time(start), time(start + 10))
}

#[tokio::test]
async fn append_mode_gives_a_window_once_the_watermark_reaches_its_end() {
    let input = windowed();
    let operator = counts(&input, &["w", "k"], Some(0));
    let spec = operator.spec(0, "counts", &input).unwrap();
    assert_eq!(spec.families[0].access, Access::Ordered);
    assert_eq!(spec.families[0].key.field(0).name(), "w.end");
    let mut query = query(operator, &input, EmitMode::Append, 2);
    let first = window_rows(&input, &[(Some(0), "a", 1), (Some(0), "a", 2), (Some(10), "b", 3)]);
    assert!(query.batch(first, Some(0)).await.rows.is_empty());
    let outcome = query.empty(Some(9_999)).await;
    assert_eq!((outcome.rows.len(), outcome.metrics.rows_total()), (0, 2));
    let outcome = query.empty(Some(10_000)).await;
    assert_eq!(outcome.rows, [format!("{} a 2 3", window(0))]);
    assert_eq!((outcome.metrics.rows_removed(), outcome.metrics.rows_total()), (1, 1));
    // Late now: two rows of one group, and one of another; a window that is open is not.
    let late = window_rows(
        &input,
        &[(Some(0), "a", 9), (Some(0), "a", 9), (Some(0), "c", 9), (Some(10), "b", 4)],
    );
    let outcome = query.batch(late, Some(20_000)).await;
    assert_eq!(outcome.rows, [format!("{} b 2 7", window(10))]);
    assert_eq!(outcome.metrics.rows_dropped_by_watermark(), 2);
    assert_eq!(outcome.metrics.late_rows(), 3);
    assert_eq!(query.state_rows(), 0);
}

#[tokio::test]
async fn a_window_between_the_two_watermarks_of_its_batch_is_given_in_it() {
    let input = windowed();
    let mut query = query(counts(&input, &["w", "k"], Some(0)), &input, EmitMode::Append, 1);
    query.empty(Some(5_000)).await;
    let batch = window_rows(&input, &[(Some(0), "a", 1)]);
    let outcome = query.batch(batch, Some(30_000)).await;
    assert_eq!(outcome.rows, [format!("{} a 1 1", window(0))]);
    assert_eq!(outcome.metrics.rows_dropped_by_watermark(), 0);
}

#[tokio::test]
async fn update_mode_forgets_old_windows_and_complete_mode_none() {
    let input = windowed();
    for (mode, left) in [(EmitMode::Update, 1), (EmitMode::Complete, 3)] {
        let mut query = query(counts(&input, &["w", "k"], Some(0)), &input, mode, 2);
        let first = window_rows(&input, &[(Some(0), "a", 1), (Some(10), "b", 3)]);
        assert_eq!(query.batch(first, Some(10_000)).await.rows.len(), 2);
        let late = window_rows(&input, &[(Some(0), "c", 1)]);
        let outcome = query.batch(late, Some(10_000)).await;
        let dropped = if mode == EmitMode::Update { 1 } else { 0 };
        assert_eq!(outcome.metrics.rows_dropped_by_watermark(), dropped);
        assert_eq!(query.state_rows(), left, "{mode:?}");
    }
}

#[tokio::test]
async fn a_group_without_event_time_is_neither_late_nor_done_with() {
    let input = windowed();
    let mut query = query(counts(&input, &["w", "k"], Some(0)), &input, EmitMode::Append, 2);
    let batch = window_rows(&input, &[(None, "a", 1), (Some(0), "a", 1)]);
    query.batch(batch.clone(), Some(1_000_000)).await;
    let outcome = query.batch(batch, Some(i64::MAX)).await;
    assert!(outcome.rows.is_empty());
    assert_eq!((outcome.metrics.rows_dropped_by_watermark(), query.state_rows()), (1, 1));
}

#[tokio::test]
async fn a_plain_timestamp_groups_and_ends_to_the_microsecond() {
    let input = schema(&[("k", DataType::Utf8), ("t", timestamp()), ("v", DataType::Int64)]);
    let mut query = query(counts(&input, &["k", "t"], Some(1)), &input, EmitMode::Append, 2);
    let at = |micros: i64| {
        let times = TimestampMicrosecondArray::from(vec![micros]).with_timezone("UTC");
        let keys: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        rows(&input, vec![keys, Arc::new(times), Arc::new(Int64Array::from(vec![1]))])
    };
    assert!(query.batch(at(-1), Some(-1)).await.rows.is_empty());
    query.batch(at(5_000_000), Some(-1)).await;
    query.batch(at(5_000_001), Some(-1)).await;
    let outcome = query.empty(Some(5_000)).await;
    assert_eq!(outcome.rows, ["a 1969-12-31T23:59:59.999999Z 1 1", "a 1970-01-01T00:00:05Z 1 1"]);
    assert_eq!(query.state_rows(), 1);
}

#[test]
fn append_mode_without_an_event_time_is_refused() {
    let input = by_key();
    let operator = counts(&input, &["k"], None);
    let store =
        onefold_state::StateStore::in_memory(vec![operator.spec(0, "c", &input).unwrap()], 1)
            .unwrap();
    let context = onefold_operators::OperatorContext {
        id: 0,
        state: store.begin(onefold_types::BatchId(0)).unwrap(),
        late_ms: None,
        evict_ms: None,
        batch_time_ms: 0,
        mode: EmitMode::Append,
        metrics: Arc::default(),
        late_rows: None,
    };
    let none = datafusion::datasource::memory::MemorySourceConfig::try_new_exec(
        &[vec![]],
        Arc::clone(&input),
        None,
    );
    let error = operator.exec(none.unwrap(), context).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn nan_in_one_of_several_keys_is_one_group() {
    // Case B13: DataFusion compares grouping floats with ==.
    let input = schema(&[("f", DataType::Float32), ("k", DataType::Int64), ("v", DataType::Int64)]);
    let mut query = query(counts(&input, &["f", "k"], None), &input, EmitMode::Complete, 2);
    let odd = f32::from_bits(f32::NAN.to_bits() | 1);
    for _ in 0..2 {
        let floats = Float32Array::from(vec![f32::NAN, odd, -f32::NAN, 1.0, 0.0, -0.0]);
        let ones: ArrayRef = Arc::new(Int64Array::from(vec![1; 6]));
        let batch = rows(&input, vec![Arc::new(floats), Arc::clone(&ones), ones]);
        query.batch(batch, None).await;
    }
    let outcome = query.empty(None).await;
    assert_eq!(outcome.rows, ["0.0 1 4 4", "1.0 1 2 2", "NaN 1 6 6"]);
}

#[tokio::test]
async fn floats_inside_structs_group_like_others() {
    let point = Fields::from(vec![Field::new("x", DataType::Float64, true)]);
    let input = schema(&[("p", DataType::Struct(point.clone())), ("v", DataType::Int64)]);
    let mut query = query(counts(&input, &["p"], None), &input, EmitMode::Complete, 2);
    let floats = vec![Some(0.0), Some(-0.0), Some(f64::NAN), Some(-f64::NAN), None, None];
    let points = StructArray::new(
        point,
        vec![Arc::new(Float64Array::from(floats))],
        Some(vec![true, true, true, true, true, false].into()),
    );
    let ones = Int64Array::from(vec![1; 6]);
    let batch = rows(&input, vec![Arc::new(points), Arc::new(ones)]);
    query.batch(batch.clone(), None).await;
    let outcome = query.batch(batch, None).await;
    assert_eq!(outcome.rows, ["NULL 2 2", "{x: 0.0} 4 4", "{x: NULL} 2 2", "{x: NaN} 4 4"]);
}

#[tokio::test]
async fn only_rows_that_pass_a_filter_are_aggregated() {
    let input = by_key();
    let positive = datafusion::physical_expr::expressions::binary(
        column(&input, "v"),
        datafusion::logical_expr::Operator::Gt,
        datafusion::physical_expr::expressions::lit(0_i64),
        &input,
    );
    let mut operator = counts(&input, &["k"], None);
    operator.filters = vec![None, Some(positive.unwrap())];
    let mut query = query(operator, &input, EmitMode::Complete, 2);
    let batch = key_rows(&input, &[Some("a"), Some("a")], &[Some(-1), Some(2)]);
    query.batch(batch.clone(), None).await;
    assert_eq!(query.batch(batch, None).await.rows, ["a 4 4"]);
}

#[tokio::test]
async fn a_grouping_expression_is_computed_and_named() {
    let input = by_key();
    let doubled = datafusion::physical_expr::expressions::binary(
        column(&input, "v"),
        datafusion::logical_expr::Operator::Plus,
        column(&input, "v"),
        &input,
    );
    let mut operator = counts(&input, &["k"], None);
    operator.group = vec![(doubled.unwrap(), "twice".to_owned())];
    let schema = operator.schema(&input).unwrap();
    assert_eq!(schema.field(0).name(), "twice");
    let mut query = query(operator, &input, EmitMode::Complete, 2);
    let batch = key_rows(&input, &[Some("a"), Some("b"), None], &[Some(1), Some(1), Some(3)]);
    assert_eq!(query.batch(batch, None).await.rows, ["2 2 2", "6 1 3"]);
}

#[tokio::test]
async fn groups_alone_are_kept_without_a_value() {
    let input = by_key();
    let mut operator = counts(&input, &["k"], None);
    operator.aggregates.clear();
    operator.filters.clear();
    let mut query = query(operator, &input, EmitMode::Update, 2);
    let batch = key_rows(&input, &[Some("a"), None, Some("a")], &[None, None, None]);
    assert_eq!(query.batch(batch, None).await.rows, ["NULL", "a"]);
    assert_eq!(query.state_rows(), 2);
}

#[tokio::test]
async fn more_groups_than_a_chunk_holds_are_all_kept_and_given() {
    let input = schema(&[("k", DataType::Int64), ("v", DataType::Int64)]);
    let mut query = query(counts(&input, &["k"], None), &input, EmitMode::Complete, 1);
    let keys: Vec<i64> = (0..20_000).collect();
    let keys: ArrayRef = Arc::new(Int64Array::from(keys));
    let batch = rows(&input, vec![Arc::clone(&keys), keys]);
    query.batch(batch.clone(), None).await;
    let outcome = query.batch(batch, None).await;
    assert_eq!((outcome.rows.len(), outcome.metrics.rows_total()), (20_000, 20_000));
    assert!(outcome.rows.contains(&"19999 2 39998".to_owned()));
}

#[test]
fn the_states_schema_is_nullable_whatever_the_input_is() {
    let spec = |nullable: bool| {
        let fields = vec![
            Field::new("k", DataType::Utf8, nullable),
            Field::new("v", DataType::Int64, nullable),
        ];
        let input = Arc::new(arrow::datatypes::Schema::new(fields));
        counts(&input, &["k"], None).spec(0, "counts", &input).unwrap()
    };
    assert_eq!(spec(true), spec(false));
    assert!(spec(false).families[0].key.field(0).is_nullable());
}
