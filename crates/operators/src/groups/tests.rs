//! User functions over groups, in batches.

use super::{GroupFunction, GroupState, GroupTimeout, GroupsWithState, UserError};
use crate::Rows;
use crate::harness::{Harness, input, texts};
use arrow::array::{ArrayRef, Float64Array, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::record_batch::RecordBatch;
use datafusion::physical_expr::expressions::col;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

fn input_schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Millisecond, None);
    Arc::new(Schema::new(vec![Field::new("k", DataType::Utf8, true), Field::new("ts", time, true)]))
}

fn rows(given: &[(&str, i64)]) -> Vec<Vec<RecordBatch>> {
    let keys: ArrayRef =
        Arc::new(StringArray::from(given.iter().map(|(key, _)| *key).collect::<Vec<_>>()));
    let times: Vec<i64> = given.iter().map(|(_, time)| *time).collect();
    let columns = vec![keys, Arc::new(TimestampMillisecondArray::from(times)) as ArrayRef];
    vec![vec![RecordBatch::try_new(input_schema(), columns).unwrap()]]
}

fn schema(fields: &[(&str, DataType)]) -> SchemaRef {
    let fields = fields.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn operator(timeout: GroupTimeout, function: GroupFunction) -> GroupsWithState {
    let schema_in = input_schema();
    GroupsWithState {
        keys: vec![(col("k", &schema_in).unwrap(), "k".to_owned())],
        state: schema(&[("n", DataType::Int64)]),
        output: schema(&[
            ("k", DataType::Utf8),
            ("n", DataType::Int64),
            ("timed_out", DataType::Boolean),
        ]),
        timeout,
        event_time: Some(col("ts", &schema_in).unwrap()),
        function,
    }
}

fn harness(operator: &GroupsWithState, partitions: u32) -> Harness {
    Harness::new(operator.spec(0, "groups", &input_schema()).unwrap(), partitions)
}

fn step(harness: &mut Harness, operator: &GroupsWithState, given: &[(&str, i64)]) -> Vec<String> {
    let source = input(&input_schema(), &rows(given));
    texts(&harness.batch(|context| operator.exec(source, context)).unwrap())
}

/// Counts rows, and gives the count up ten seconds after the newest row.
fn counting() -> GroupFunction {
    GroupFunction::map(
        |key: String, rows: Rows<'_, (String, i64)>, state: &mut GroupState<'_, i64>| {
            let before = state.get()?.unwrap_or(0);
            if state.has_timed_out() {
                assert!(rows.is_empty());
                state.remove();
                return Ok((key, before, true));
            }
            let mut newest = 0;
            let count = before + i64::try_from(rows.len())?;
            for row in rows {
                newest = newest.max(row?.1);
            }
            state.update(&count)?;
            state.set_timeout_timestamp(newest + 10_000)?;
            Ok::<_, UserError>((key, count, false))
        },
    )
}

#[test]
fn a_key_with_rows_in_the_batch_is_not_timed_out_too() {
    let operator = operator(GroupTimeout::EventTime, counting());
    let mut harness = harness(&operator, 2);
    let second = 1_000;
    harness.evict_ms = Some(0);
    assert_eq!(step(&mut harness, &operator, &[("u1", 5 * second)]), ["u1 1 false"]);
    harness.evict_ms = Some(5 * second);
    harness.late_ms = Some(0);
    assert_eq!(step(&mut harness, &operator, &[("u2", 100 * second)]), ["u2 1 false"]);
    harness.evict_ms = Some(100 * second);
    harness.late_ms = Some(5 * second);
    // The timeout at 15 s is before the watermark of 100 s.
    assert_eq!(step(&mut harness, &operator, &[("u1", 101 * second)]), ["u1 2 false"]);
    harness.evict_ms = Some(200 * second);
    assert_eq!(step(&mut harness, &operator, &[]), ["u1 2 true", "u2 1 true"]);
    assert_eq!(harness.metrics.rows_removed(), 2);
    assert_eq!(harness.all_rows(), 0);
}

#[test]
fn a_timeout_at_the_watermark_is_not_over_yet() {
    let operator = operator(GroupTimeout::EventTime, counting());
    let mut harness = harness(&operator, 1);
    step(&mut harness, &operator, &[("a", 1_000)]);
    harness.evict_ms = Some(11_000);
    assert!(step(&mut harness, &operator, &[]).is_empty());
    harness.evict_ms = Some(11_001);
    assert_eq!(step(&mut harness, &operator, &[]), ["a 1 true"]);
}

#[test]
fn late_rows_are_dropped_only_with_timeouts_by_event_time() {
    let plain = || {
        GroupFunction::map(
            |key: String, rows: Rows<'_, (String, i64)>, state: &mut GroupState<'_, i64>| {
                let count = state.get()?.unwrap_or(0) + i64::try_from(rows.len())?;
                state.update(&count)?;
                Ok::<_, UserError>((key, count, false))
            },
        )
    };
    for (timeout, expected, late) in [
        (GroupTimeout::EventTime, "a 1 false", 1),
        (GroupTimeout::None, "a 2 false", 0),
        (GroupTimeout::ProcessingTime, "a 2 false", 0),
    ] {
        let operator = operator(timeout, plain());
        let mut harness = harness(&operator, 2);
        harness.late_ms = Some(50);
        assert_eq!(step(&mut harness, &operator, &[("a", 50), ("a", 51)]), [expected]);
        assert_eq!(harness.metrics.rows_dropped_by_watermark(), late);
        assert_eq!(harness.metrics.rows_total(), 1);
    }
}

#[test]
fn processing_time_goes_by_the_batches_time() {
    let function = GroupFunction::flat_map(
        |key: String, rows: Rows<'_, (String, i64)>, state: &mut GroupState<'_, i64>| {
            if state.has_timed_out() {
                let seen = state.get()?.unwrap_or(-1);
                state.remove();
                return Ok(vec![(key, seen, true)]);
            }
            state.update(&(state.current_processing_time_ms() + i64::try_from(rows.len())?))?;
            state.set_timeout_duration(Duration::from_secs(1))?;
            Ok::<_, UserError>(Vec::new())
        },
    );
    let operator = operator(GroupTimeout::ProcessingTime, function);
    let mut harness = harness(&operator, 3);
    harness.batch_time_ms = 5_000;
    assert!(step(&mut harness, &operator, &[("a", 0), ("a", 1), ("b", 2)]).is_empty());
    harness.batch_time_ms = 6_000;
    harness.partitions = 1;
    // Not over at its very time; the call for "b" puts off its timeout.
    assert!(step(&mut harness, &operator, &[("b", 0)]).is_empty());
    harness.batch_time_ms = 6_001;
    harness.partitions = 4;
    assert_eq!(step(&mut harness, &operator, &[]), ["a 5002 true"]);
    assert_eq!(harness.rows("timeouts"), 1);
}

#[test]
fn a_call_that_sets_no_timeout_leaves_none() {
    let function = GroupFunction::flat_map(
        |_: String, rows: Rows<'_, (String, i64)>, state: &mut GroupState<'_, i64>| {
            assert!(!state.has_timed_out());
            if !state.exists() {
                state.set_timeout_timestamp(10)?;
            }
            state.update(&i64::try_from(rows.len())?)?;
            Ok::<_, UserError>(Vec::<(String, i64, bool)>::new())
        },
    );
    let operator = operator(GroupTimeout::EventTime, function);
    let mut harness = harness(&operator, 1);
    step(&mut harness, &operator, &[("a", 1)]);
    assert_eq!(harness.rows("timeouts"), 1);
    step(&mut harness, &operator, &[("a", 2)]);
    assert_eq!(harness.rows("timeouts"), 0);
    harness.evict_ms = Some(1_000);
    assert!(step(&mut harness, &operator, &[]).is_empty());
}

#[test]
fn a_removed_state_may_keep_a_timeout() {
    let function = GroupFunction::map(
        |key: String, _: Rows<'_, (String, i64)>, state: &mut GroupState<'_, i64>| {
            let (exists, over) = (state.exists(), state.has_timed_out());
            if !over {
                state.update(&1)?;
                state.remove();
                state.set_timeout_timestamp(10)?;
            }
            Ok::<_, UserError>((key, i64::from(exists), over))
        },
    );
    let operator = operator(GroupTimeout::EventTime, function);
    let mut harness = harness(&operator, 1);
    assert_eq!(step(&mut harness, &operator, &[("a", 1)]), ["a 0 false"]);
    harness.evict_ms = Some(11);
    assert_eq!(step(&mut harness, &operator, &[]), ["a 0 true"]);
}

#[test]
fn an_abandoned_batch_runs_again_on_the_same_state() {
    let operator = operator(GroupTimeout::EventTime, counting());
    let mut harness = harness(&operator, 2);
    step(&mut harness, &operator, &[("a", 1), ("b", 2)]);
    let source = input(&input_schema(), &rows(&[("a", 3)]));
    harness.abandoned(|context| operator.exec(source, context)).unwrap();
    assert_eq!(step(&mut harness, &operator, &[("a", 3)]), ["a 2 false"]);
}

#[derive(Serialize, Deserialize, Default)]
struct Total {
    rows: i64,
    names: Vec<String>,
    best: Option<f64>,
}

#[derive(Deserialize)]
struct Point {
    x: Option<f64>,
    name: String,
}

#[derive(Deserialize)]
struct Key {
    x: Option<f64>,
}

#[derive(Serialize)]
struct Out {
    key: Option<f64>,
    total: Total,
}

#[test]
fn structs_go_in_and_out_and_odd_floats_are_one_key() {
    let source = schema(&[("x", DataType::Float64), ("name", DataType::Utf8)]);
    let total = schema(&[
        ("rows", DataType::Int64),
        ("names", DataType::new_list(DataType::Utf8, true)),
        ("best", DataType::Float64),
    ]);
    let function =
        GroupFunction::map(|key: Key, rows: Rows<'_, Point>, state: &mut GroupState<'_, Total>| {
            let mut total = state.get()?.unwrap_or_default();
            for point in rows {
                let point = point?;
                total.rows += 1;
                total.names.push(point.name);
                total.best = point.x;
            }
            state.update(&total)?;
            Ok::<_, UserError>(Out { key: key.x, total })
        });
    let operator = GroupsWithState {
        keys: vec![(col("x", &source).unwrap(), "x".to_owned())],
        output: schema(&[
            ("key", DataType::Float64),
            ("total", DataType::Struct(total.fields().clone())),
        ]),
        state: total,
        timeout: GroupTimeout::None,
        event_time: None,
        function,
    };
    let mut harness = Harness::new(operator.spec(0, "points", &source).unwrap(), 2);
    let odd = f64::from_bits(0xfff8_0000_0000_0001);
    let batch = |points: Vec<(Option<f64>, &str)>| {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Float64Array::from(points.iter().map(|(x, _)| *x).collect::<Vec<_>>())),
            Arc::new(StringArray::from(points.iter().map(|(_, name)| *name).collect::<Vec<_>>())),
        ];
        input(&source, &[vec![RecordBatch::try_new(Arc::clone(&source), columns).unwrap()]])
    };
    let first = batch(vec![(Some(f64::NAN), "a"), (Some(-0.0), "b"), (None, "c")]);
    harness.batch(|context| operator.exec(first, context)).unwrap();
    let second = batch(vec![(Some(odd), "d"), (Some(0.0), "e"), (None, "f")]);
    let out = harness.batch(|context| operator.exec(second, context)).unwrap();
    assert_eq!(
        texts(&out),
        [
            "0.0 {rows: 2, names: [b, e], best: 0.0}",
            "NULL {rows: 2, names: [c, f], best: NULL}",
            "NaN {rows: 2, names: [a, d], best: NaN}",
        ]
    );
    assert_eq!(harness.metrics.rows_total(), 3);
}

#[test]
fn what_a_function_does_wrong_is_said() {
    let fails = |function: GroupFunction, timeout| {
        let operator = operator(timeout, function);
        let mut harness = harness(&operator, 1);
        harness.evict_ms = Some(1_000);
        let source = input(&input_schema(), &rows(&[("a", 2_000)]));
        let error = harness.batch(|context| operator.exec(source, context)).unwrap_err();
        crate::failure::planning(error).chain()
    };
    type In<'a> = Rows<'a, (String, i64)>;
    let text = fails(
        GroupFunction::map(|_: String, _: In<'_>, state: &mut GroupState<'_, i64>| {
            state.set_timeout_timestamp(999)?;
            Ok::<_, UserError>(("", 0, false))
        }),
        GroupTimeout::EventTime,
    );
    assert!(text.contains("999 is before the watermark 1000"), "{text}");
    let text = fails(
        GroupFunction::map(|_: String, _: In<'_>, state: &mut GroupState<'_, i64>| {
            state.set_timeout_duration(Duration::from_secs(1))?;
            Ok::<_, UserError>(("", 0, false))
        }),
        GroupTimeout::EventTime,
    );
    assert!(text.contains("needs the timeout ProcessingTime"), "{text}");
    let text = fails(
        GroupFunction::map(|_: i64, _: In<'_>, _: &mut GroupState<'_, i64>| {
            Ok::<_, UserError>(("", 0, false))
        }),
        GroupTimeout::None,
    );
    assert!(text.contains("the key of a group does not have the type"), "{text}");
    let text = fails(
        GroupFunction::map(|_: String, _: In<'_>, _: &mut GroupState<'_, i64>| {
            Ok::<_, UserError>((0, 0, false, 1))
        }),
        GroupTimeout::None,
    );
    assert!(text.contains("4 values where its schema has 3 columns"), "{text}");
    let text = fails(
        GroupFunction::map(|_: String, _: In<'_>, state: &mut GroupState<'_, String>| {
            state.update(&"text".to_owned())?;
            Ok::<_, UserError>(("", 0, false))
        }),
        GroupTimeout::None,
    );
    assert!(text.contains("the state of a group has text"), "{text}");
    let text = fails(
        GroupFunction::map(|_: String, _: In<'_>, _: &mut GroupState<'_, i64>| {
            Err::<(String, i64, bool), UserError>("no luck".into())
        }),
        GroupTimeout::None,
    );
    assert!(text.contains("a user function failed: no luck"), "{text}");
}
