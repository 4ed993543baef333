//! Known cases.

use super::{between, exec, harness, names, rows, schema, watermarks, within};
use crate::harness::{Harness, texts};
use crate::{StateBound, StreamJoin, StreamJoinSide};
use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray, StructArray};
use arrow::array::{TimestampMicrosecondArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use arrow::record_batch::RecordBatch;
use datafusion::common::JoinType;
use datafusion::physical_expr::expressions::col;
use std::sync::Arc;

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

fn texts_of(keys: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(keys.to_vec()))
}

/// One key for all rows.
fn same_key(schema: &SchemaRef, given: &[(i64, &str)]) -> Vec<Vec<RecordBatch>> {
    if given.is_empty() {
        return vec![vec![]];
    }
    vec![vec![rows(schema, texts_of(&vec!["p"; given.len()]), given)]]
}

fn step(
    harness: &mut Harness,
    join: &StreamJoin,
    (late, evict): (i64, i64),
    left: &[(i64, &str)],
    right: &[(i64, &str)],
) -> Vec<String> {
    watermarks(harness, late, evict);
    let left = same_key(&join.left.schema, left);
    let right = same_key(&join.right.schema, right);
    names(&harness.batch(exec(join, &left, &right)).unwrap())
}

fn window_schema(prefix: &str) -> SchemaRef {
    let time = || DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let fields = ["start", "end"].map(|name| Field::new(name, time(), false));
    Arc::new(Schema::new(vec![
        Field::new("window", DataType::Struct(Fields::from(fields.to_vec())), false),
        Field::new(format!("{prefix}sum"), DataType::Int64, true),
    ]))
}

fn windows(schema: &SchemaRef, given: &[(i64, i64)]) -> Vec<Vec<RecordBatch>> {
    let time = |seconds: Vec<i64>| -> ArrayRef {
        let micros: Vec<_> = seconds.into_iter().map(|second| second * 1_000_000).collect();
        Arc::new(TimestampMicrosecondArray::from(micros).with_timezone("UTC"))
    };
    let DataType::Struct(fields) = schema.field(0).data_type() else { unreachable!() };
    let starts = time(given.iter().map(|(start, _)| *start).collect());
    let ends = time(given.iter().map(|(start, _)| *start + 10).collect());
    let window = StructArray::new(fields.clone(), vec![starts, ends], None);
    let sums = Int64Array::from(given.iter().map(|(_, sum)| *sum).collect::<Vec<_>>());
    let columns: Vec<ArrayRef> = vec![Arc::new(window), Arc::new(sums)];
    vec![vec![RecordBatch::try_new(Arc::clone(schema), columns).unwrap()]]
}

#[test]
fn rows_that_their_own_batch_evicts_still_meet_each_other() {
    // Windows of ten seconds come out of both aggregations in the batch whose watermark evicts
    // them here too.
    let side = |prefix: &str| {
        let schema = window_schema(prefix);
        let window = col("window", &schema).unwrap();
        StreamJoinSide {
            keys: vec![Arc::clone(&window)],
            event_time: Some(Arc::clone(&window)),
            bound: Some(StateBound { value: window, offset_ms: 0 }),
            schema,
        }
    };
    let join = StreamJoin {
        left: side("l_"),
        right: side("r_"),
        join_type: JoinType::Inner,
        filter: None,
    };
    let mut harness = harness(&join, 2);
    let mut batch = |late, evict, left: &[(i64, i64)], right: &[(i64, i64)]| {
        watermarks(&mut harness, late, evict);
        let left = windows(&join.left.schema, left);
        let right = windows(&join.right.schema, right);
        let rows = harness.batch(exec(&join, &left, &right)).unwrap();
        assert_eq!(harness.rows("left-keyWithIndexToValue"), 0);
        let sums: Vec<_> = rows.iter().map(|rows| rows.project(&[1, 3]).unwrap()).collect();
        texts(&sums)
    };
    assert!(batch(0, 0, &[], &[]).is_empty());
    assert_eq!(batch(-SECOND, 11 * SECOND, &[(0, 6)], &[(0, 14)]), ["6 14"]);
    assert_eq!(batch(11 * SECOND, 95 * SECOND, &[(10, 16)], &[(10, 17)]), ["16 17"]);
}

#[test]
fn a_key_may_be_stored_and_evicted_in_one_batch() {
    let join = within(DataType::Utf8, JoinType::Left, -30 * SECOND, 30 * SECOND);
    let mut harness = harness(&join, 3);
    let ten = 10 * HOUR;
    let mut step = |marks, left: &[(i64, &str)], right: &[(i64, &str)]| {
        step(&mut harness, &join, marks, left, right)
    };
    assert!(step((0, 0), &[(ten, "L1")], &[(ten + MINUTE, "R1")]).is_empty());
    let eleven = ten + HOUR;
    assert!(step((0, ten), &[(eleven, "L2")], &[(eleven + MINUTE, "R2")]).is_empty());
    let half = eleven + 30 * MINUTE;
    assert_eq!(step((ten, eleven), &[(half, "L3")], &[]), ["L1 NULL"]);
    let last = step((eleven, eleven + MINUTE), &[], &[(half + 20 * SECOND, "R3")]);
    assert_eq!(last, ["L2 NULL", "L3 R3"]);
}

#[test]
fn rows_of_one_key_keep_their_own_payloads() {
    let join = within(DataType::Utf8, JoinType::Left, -30 * SECOND, 30 * SECOND);
    let mut harness = harness(&join, 1);
    let (first, second) = (24 * HOUR, 48 * HOUR);
    let left = [(first, "alone"), (second, "a"), (second + HOUR, "b")];
    let right = [(second + 10 * SECOND, "A"), (second + HOUR - SECOND, "B")];
    assert_eq!(step(&mut harness, &join, (0, 0), &left, &right), ["a A", "b B"]);
    let watermark = second + HOUR - SECOND;
    assert_eq!(step(&mut harness, &join, (0, watermark), &[], &[]), ["alone NULL"]);
    assert_eq!(step(&mut harness, &join, (watermark, i64::MAX), &[], &[]), Vec::<String>::new());
    assert_eq!(harness.rows("left-keyWithIndexToValue"), 0);
    assert_eq!(harness.rows("left-expiry"), 0);
}

#[test]
fn a_row_matched_after_it_was_stored_does_not_come_out_alone() {
    for join_type in [JoinType::Left, JoinType::Right, JoinType::Full] {
        let join = within(DataType::Utf8, join_type, -SECOND, SECOND);
        let mut harness = harness(&join, 2);
        assert!(step(&mut harness, &join, (0, 0), &[(9_000, "l")], &[]).is_empty());
        assert_eq!(step(&mut harness, &join, (0, 0), &[], &[(9_500, "r")]), ["l r"]);
        assert_eq!(step(&mut harness, &join, (0, 0), &[(9_600, "m")], &[]), ["m r"]);
        assert!(step(&mut harness, &join, (0, 60_000), &[], &[]).is_empty());
        assert_eq!(harness.rows("right-keyWithIndexToValue"), 0);
    }
}

#[test]
fn a_semi_join_gives_a_left_row_once_in_the_batch_of_its_first_match() {
    let join = within(DataType::Utf8, JoinType::LeftSemi, -SECOND, SECOND);
    let mut harness = harness(&join, 2);
    let rights = [(1_000, "r"), (1_001, "s")];
    assert_eq!(step(&mut harness, &join, (0, 0), &[(1_500, "a")], &rights), ["a"]);
    assert_eq!(step(&mut harness, &join, (0, 0), &[(1_600, "b"), (9_000, "c")], &[]), ["b"]);
    // As in Spark: a row that has met another is not stored, one that waits is.
    assert_eq!(harness.rows("left-keyWithIndexToValue"), 1);
    assert_eq!(step(&mut harness, &join, (0, 0), &[], &[(1_700, "t"), (9_100, "u")]), ["c"]);
    // What waited goes with its match.
    assert_eq!(harness.rows("left-keyWithIndexToValue"), 0);
    assert_eq!(harness.rows("left-expiry"), 0);
    assert_eq!(harness.metrics.rows_removed(), 1);
    assert!(step(&mut harness, &join, (0, 60_000), &[], &[]).is_empty());
    assert_eq!(harness.rows("left-keyWithIndexToValue"), 0);
}

#[test]
fn late_rows_of_both_sides_are_dropped_and_counted() {
    let join = within(DataType::Utf8, JoinType::Full, -SECOND, SECOND);
    let mut harness = harness(&join, 2);
    let left = [(5_000, "late"), (5_001, "in time")];
    let right = [(4_999, "late"), (5_000, "late too")];
    assert!(step(&mut harness, &join, (5_000, 0), &left, &right).is_empty());
    assert_eq!(harness.metrics.rows_dropped_by_watermark(), 3);
    assert_eq!(harness.metrics.late_rows(), 3);
    assert_eq!(harness.metrics.rows_total(), 1);
    assert_eq!(step(&mut harness, &join, (5_000, 7_000), &[], &[]), ["in time NULL"]);
}

#[test]
fn keys_that_spark_takes_for_equal_meet_and_null_meets_nothing() {
    let odd_nan = f64::from_bits(0x7ff8_0000_0000_0001);
    let keys = |keys: [Option<f64>; 3]| -> ArrayRef { Arc::new(Float64Array::from(keys.to_vec())) };
    let given = |names: [&'static str; 3]| names.map(|name| (1_000, name));
    let join = within(DataType::Float64, JoinType::Full, -SECOND, SECOND);
    let mut harness = harness(&join, 3);
    let left = rows(
        &join.left.schema,
        keys([Some(f64::NAN), Some(-0.0), None]),
        &given(["nan", "zero", "null"]),
    );
    let right = rows(
        &join.right.schema,
        keys([Some(-odd_nan), Some(0.0), None]),
        &given(["NAN", "ZERO", "NULLS"]),
    );
    watermarks(&mut harness, 0, 0);
    let first = harness.batch(exec(&join, &[vec![left]], &[vec![]])).unwrap();
    assert!(names(&first).is_empty());
    let second = harness.batch(exec(&join, &[vec![]], &[vec![right]])).unwrap();
    assert_eq!(names(&second), ["nan NAN", "zero ZERO"]);
    // The NULLs wait in the state, as in Spark, and come out when they are evicted.
    assert_eq!(harness.metrics.rows_total(), 6);
    watermarks(&mut harness, 0, 60_000);
    let last = harness.batch(exec(&join, &[vec![]], &[vec![]])).unwrap();
    assert_eq!(names(&last), ["NULL NULLS", "null NULL"]);
    assert_eq!(harness.metrics.rows_total(), 0);
}

#[test]
fn null_keys_of_an_inner_side_are_not_stored() {
    let join = within(DataType::Float64, JoinType::Inner, -SECOND, SECOND);
    let mut harness = harness(&join, 1);
    let keys = || -> ArrayRef { Arc::new(Float64Array::from(vec![None, Some(1.0)])) };
    let left = rows(&join.left.schema, keys(), &[(1, "a"), (1, "b")]);
    let right = rows(&join.right.schema, keys(), &[(1, "A"), (1, "B")]);
    let out = harness.batch(exec(&join, &[vec![left]], &[vec![right]])).unwrap();
    assert_eq!(names(&out), ["b B"]);
    assert_eq!(harness.metrics.rows_total(), 2);
}

#[test]
fn an_outer_row_that_a_condition_on_its_side_excludes_comes_out_at_once() {
    use datafusion::common::JoinSide;
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{binary, lit};
    use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
    let mut join = within(DataType::Utf8, JoinType::Left, -SECOND, SECOND);
    let time = between(-SECOND, SECOND);
    let mut fields: Vec<_> = time.schema().fields().iter().map(|f| f.as_ref().clone()).collect();
    fields.extend(["l_name", "r_name"].map(|name| Field::new(name, DataType::Utf8, true)));
    let schema = Arc::new(Schema::new(fields));
    let not = |column: &str, value: &str| {
        binary(col(column, &schema).unwrap(), Operator::NotEq, lit(value), &schema).unwrap()
    };
    let both = binary(not("l_name", "x"), Operator::And, not("r_name", "X"), &schema).unwrap();
    let all = binary(Arc::clone(time.expression()), Operator::And, both, &schema).unwrap();
    let mut columns = time.column_indices().to_vec();
    columns.push(ColumnIndex { index: 3, side: JoinSide::Left });
    columns.push(ColumnIndex { index: 3, side: JoinSide::Right });
    join.filter = Some(JoinFilter::new(all, columns, schema));
    let mut harness = harness(&join, 1);
    let left = [(1_000, "x"), (1_000, "y")];
    let right = [(1_000, "X"), (1_000, "Z")];
    assert_eq!(step(&mut harness, &join, (0, 0), &left, &right), ["x NULL", "y Z"]);
    assert_eq!(harness.metrics.rows_total(), 2);
    assert!(step(&mut harness, &join, (0, 60_000), &[], &[]).is_empty());
}

#[test]
fn an_outer_row_without_a_time_comes_out_at_once() {
    let join = within(DataType::Utf8, JoinType::Left, -SECOND, SECOND);
    let mut harness = harness(&join, 1);
    let columns: Vec<ArrayRef> = vec![
        texts_of(&["p"]),
        Arc::new(TimestampMillisecondArray::from(vec![None])),
        Arc::new(Int64Array::from(vec![None])),
        texts_of(&["timeless"]),
    ];
    let left = RecordBatch::try_new(schema("l_", DataType::Utf8), columns).unwrap();
    watermarks(&mut harness, 0, 0);
    let out = harness.batch(exec(&join, &[vec![left]], &[vec![]])).unwrap();
    assert_eq!(names(&out), ["timeless NULL"]);
    assert_eq!(harness.all_rows(), 0);
}

/// The inputs of a run of Spark 4.2 (inner join, `r.ts between l.ts and l.ts + 90 s`): file `i` of
/// the left side has keys 0, 1, 2 at 0, 10 and 20 seconds of minute `i`, the right one keys 1, 2, 3
/// at 40, 50 and 60 seconds. Rows in state, rows removed and rows out are what Spark counted.
#[test]
fn state_rows_are_those_that_spark_counted() {
    let join = within(DataType::Int64, JoinType::Inner, -90 * SECOND, 0);
    let mut harness = harness(&join, 2);
    let file = |schema: &SchemaRef, minute: i64, first: i64, second: i64| {
        let times = [0, 10, 20].map(|after| minute * MINUTE + (second + after) * SECOND);
        let given = times.map(|time| (time, "row"));
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![first, first + 1, first + 2]));
        vec![vec![rows(schema, keys, &given)]]
    };
    // Watermarks of the batches in minutes, as Spark's progress has them: before any data 1970.
    let marks = [i64::MIN / MINUTE, -1, 0, 1, 2, 3, 4];
    let expected = [(6, 0), (12, 0), (18, 0), (22, 2), (22, 6), (22, 6), (16, 6)];
    let mut out = 0;
    for (batch, (total, removed)) in expected.into_iter().enumerate() {
        let before = marks[batch.saturating_sub(1)];
        watermarks(&mut harness, before * MINUTE, marks[batch] * MINUTE);
        let minute = i64::try_from(batch).unwrap();
        let (left, right) = match batch {
            6 => (vec![vec![]], vec![vec![]]),
            _ => (file(&join.left.schema, minute, 0, 0), file(&join.right.schema, minute, 1, 40)),
        };
        let rows = harness.batch(exec(&join, &left, &right)).unwrap();
        out += rows.iter().map(RecordBatch::num_rows).sum::<usize>();
        assert_eq!(harness.metrics.rows_total(), total, "batch {batch}");
        assert_eq!(harness.metrics.rows_removed(), removed, "batch {batch}");
        assert_eq!(harness.metrics.rows_updated(), if batch == 6 { 0 } else { 6 });
    }
    assert_eq!(out, 22);
}

#[test]
fn many_rows_of_one_key_are_joined_in_pieces() {
    let join = within(DataType::Utf8, JoinType::Full, -HOUR, HOUR);
    let mut harness = harness(&join, 1);
    let given: Vec<(i64, &str)> = (0..1_500).map(|time| (time, "l")).collect();
    assert!(step(&mut harness, &join, (-1, -1), &given, &[]).is_empty());
    let right: Vec<(i64, &str)> = (0..20).map(|time| (time, "r")).collect();
    let out = step(&mut harness, &join, (-1, -1), &[], &right);
    assert_eq!(out.len(), 1_500 * 20);
    assert!(out.iter().all(|row| row == "l r"));
    assert!(step(&mut harness, &join, (-1, 2 * HOUR), &[], &[]).is_empty());
    assert_eq!(harness.metrics.rows_removed(), 1_520);
}

#[test]
fn a_join_without_an_equality_is_refused() {
    let mut join = within(DataType::Utf8, JoinType::Inner, 0, 0);
    join.left.keys.clear();
    join.right.keys.clear();
    let error = join.spec(0, "join").unwrap_err();
    assert!(error.to_string().contains("needs an equality"), "{error}");
    let anti = within(DataType::Utf8, JoinType::LeftAnti, 0, 0);
    assert!(anti.spec(0, "join").unwrap_err().to_string().contains("is not supported"));
}
