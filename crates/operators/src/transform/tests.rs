//! Processors, in batches.

use super::{
    ExpiredTimer, ListState, MapState, Processor, ProcessorContext, StatefulProcessor, TimeMode,
    TransformWithState, ValueState, Variables,
};
use crate::harness::{Harness, input, texts};
use crate::{Rows, UserError};
use arrow::array::{ArrayRef, Int64Array, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::record_batch::RecordBatch;
use datafusion::physical_expr::expressions::col;
use std::sync::Arc;
use std::time::Duration;

type In = (String, i64, i64);

fn input_schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Millisecond, None);
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Utf8, true),
        Field::new("ts", time, true),
        Field::new("v", DataType::Int64, true),
    ]))
}

fn operator(mode: TimeMode, processor: impl StatefulProcessor) -> TransformWithState {
    let schema = input_schema();
    let output = ["k", "n"].into_iter().zip([DataType::Utf8, DataType::Int64]);
    let output = output.map(|(name, kind)| Field::new(name, kind, true));
    TransformWithState {
        keys: vec![(col("k", &schema).unwrap(), "k".to_owned())],
        output: Arc::new(Schema::new(output.collect::<Vec<_>>())),
        mode,
        event_time: Some(col("ts", &schema).unwrap()),
        initial: None,
        processor: Processor::new(processor),
    }
}

fn harness(operator: &TransformWithState, partitions: u32) -> Harness {
    Harness::new(operator.spec(0, "processor", &input_schema()).unwrap(), partitions)
}

fn step(
    harness: &mut Harness,
    operator: &TransformWithState,
    given: &[(&str, i64, i64)],
) -> Vec<String> {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(given.iter().map(|row| row.0).collect::<Vec<_>>())),
        Arc::new(TimestampMillisecondArray::from(
            given.iter().map(|row| row.1).collect::<Vec<_>>(),
        )),
        Arc::new(Int64Array::from(given.iter().map(|row| row.2).collect::<Vec<_>>())),
    ];
    let rows = RecordBatch::try_new(input_schema(), columns).unwrap();
    let source = input(&input_schema(), &[vec![rows]]);
    texts(&harness.batch(|context| operator.exec(source, None, context)).unwrap())
}

/// Count, list and map, and a timer a minute after the watermark: the processor of a run of Spark.
#[derive(Clone, Default)]
struct All {
    count: ValueState<i64>,
    seen: ListState<i64>,
    by_value: MapState<String, i64>,
}

impl StatefulProcessor for All {
    type Key = String;
    type Input = In;
    type Initial = ();
    type Output = (String, i64);

    fn init(&mut self, variables: &mut Variables) -> Result<(), UserError> {
        self.count = variables.value("cnt", DataType::Int64, None)?;
        self.seen = variables.list("seen", DataType::Int64, None)?;
        self.by_value = variables.map("m", DataType::Utf8, DataType::Int64, None)?;
        Ok(())
    }

    fn handle_input_rows(
        &mut self,
        key: String,
        rows: Rows<'_, In>,
        context: &mut ProcessorContext<'_>,
    ) -> Result<Vec<(String, i64)>, UserError> {
        let count = self.count.get(context)?.unwrap_or(0) + i64::try_from(rows.len())?;
        for row in rows {
            let (_, _, value) = row?;
            self.seen.append(context, &value)?;
            self.by_value.update(context, &value.to_string(), &count)?;
        }
        self.count.update(context, &count)?;
        context.register_timer(context.current_watermark_ms() + 60_000)?;
        Ok(vec![(key, count)])
    }

    fn handle_expired_timer(
        &mut self,
        key: String,
        timer: ExpiredTimer,
        _context: &mut ProcessorContext<'_>,
    ) -> Result<Vec<(String, i64)>, UserError> {
        Ok(vec![(format!("{key}!"), timer.expiry_ms)])
    }
}

#[test]
fn variables_and_timers_are_as_in_sparks_run() {
    let operator = operator(TimeMode::EventTime, All::default());
    let mut harness = harness(&operator, 2);
    // Batch `i` has two rows of key `k(i % 2)` in minute `i`; delay 30 s. Watermarks are relative to
    // the first minute, which is a round time in Spark's run too.
    let start = 1_767_225_600_000_i64;
    let mark = |seconds: i64| start + seconds * 1_000;
    let marks = [0, mark(-29), mark(31), mark(91), mark(151)];
    let expected: [(&[&str], u64, u64); 5] = [
        (&["k0 2"], 3, 5),
        (&["k0! 60000", "k1 2"], 6, 5),
        (&["k0 4", "k1! 1767225631000"], 7, 5),
        (&["k0! 1767225691000", "k1 4"], 8, 5),
        (&["k1! 1767225751000"], 8, 0),
    ];
    for (batch, (out, total, updated)) in expected.into_iter().enumerate() {
        harness.evict_ms = Some(marks[batch]);
        let minute = i64::try_from(batch).unwrap();
        let key = format!("k{}", batch % 2);
        let row = |second| (key.as_str(), mark(60 * minute + second), minute);
        let given = if batch == 4 { vec![] } else { vec![row(0), row(1)] };
        assert_eq!(step(&mut harness, &operator, &given), out, "batch {batch}");
        assert_eq!(harness.metrics.rows_total(), total, "batch {batch}");
        assert_eq!(harness.metrics.rows_updated(), updated, "batch {batch}");
    }
    assert_eq!(harness.rows("$eventTimers_keyToTimestamp"), 0);
    assert_eq!(harness.rows("$eventTimers_timestampToKey"), 0);
}

/// Remembers for a while: what each call sees comes out as text.
#[derive(Clone, Default)]
struct Forgetful {
    value: ValueState<i64>,
    list: ListState<i64>,
    map: MapState<f64, i64>,
}

impl StatefulProcessor for Forgetful {
    type Key = String;
    type Input = In;
    type Initial = ();
    type Output = (String, Option<i64>);

    fn init(&mut self, variables: &mut Variables) -> Result<(), UserError> {
        let ttl = Some(Duration::from_millis(100));
        self.value = variables.value("value", DataType::Int64, ttl)?;
        self.list = variables.list("list", DataType::Int64, ttl)?;
        self.map = variables.map("map", DataType::Float64, DataType::Int64, ttl)?;
        Ok(())
    }

    fn handle_input_rows(
        &mut self,
        _key: String,
        rows: Rows<'_, In>,
        context: &mut ProcessorContext<'_>,
    ) -> Result<Vec<(String, Option<i64>)>, UserError> {
        let value = self.value.get(context)?;
        let list = self.list.get(context)?;
        let map = self.map.entries(context)?;
        for row in rows {
            let (_, _, value) = row?;
            if value >= 0 {
                self.value.update(context, &value)?;
                self.list.append(context, &value)?;
                let key = if value % 2 == 0 { f64::NAN } else { -0.0 };
                self.map.update(context, &key, &value)?;
            }
        }
        Ok(vec![(format!("{list:?} {map:?}"), value)])
    }
}

#[test]
fn what_is_older_than_its_ttl_is_neither_seen_nor_kept() {
    let operator = operator(TimeMode::ProcessingTime, Forgetful::default());
    let mut harness = harness(&operator, 2);
    let mut at = |time: i64, value: i64| {
        harness.batch_time_ms = time;
        let out = step(&mut harness, &operator, &[("a", 0, value)]);
        (out[0].clone(), harness.metrics.rows_total(), harness.all_rows())
    };
    // Rows and expiries of three variables, and the list's size.
    assert_eq!(at(1_000, 1), ("[] [] NULL".to_owned(), 3, 7));
    assert_eq!(at(1_050, 2).0, "[1] [(0.0, 1)] 1");
    // At its very expiry a value is gone; the newer ones stay.
    assert_eq!(at(1_100, -1), ("[2] [(NaN, 2)] 2".to_owned(), 3, 7));
    assert_eq!(at(1_149, 4).0, "[2] [(NaN, 2)] 2");
    assert_eq!(at(1_150, -1).0, "[4] [(NaN, 4)] 4");
    assert_eq!(at(2_000, -1), ("[] [] NULL".to_owned(), 0, 0));
}

/// Does what the rows say with timers.
#[derive(Clone, Default)]
struct Alarm {
    fired: ValueState<i64>,
}

impl StatefulProcessor for Alarm {
    type Key = (String,);
    type Input = In;
    type Initial = ();
    type Output = (String, i64);

    fn init(&mut self, variables: &mut Variables) -> Result<(), UserError> {
        self.fired = variables.value("fired", DataType::Int64, None)?;
        Ok(())
    }

    fn handle_input_rows(
        &mut self,
        (key,): (String,),
        rows: Rows<'_, In>,
        context: &mut ProcessorContext<'_>,
    ) -> Result<Vec<(String, i64)>, UserError> {
        for row in rows {
            let (_, _, time) = row?;
            if time > 0 {
                context.register_timer(time)?;
            } else {
                context.delete_timer(-time)?;
            }
        }
        Ok(context.list_timers()?.into_iter().map(|time| (key.clone(), time)).collect())
    }

    fn handle_expired_timer(
        &mut self,
        (key,): (String,),
        timer: ExpiredTimer,
        context: &mut ProcessorContext<'_>,
    ) -> Result<Vec<(String, i64)>, UserError> {
        assert!(!context.list_timers()?.contains(&timer.expiry_ms));
        let fired = self.fired.get(context)?.unwrap_or(0) + 1;
        self.fired.update(context, &fired)?;
        if fired == 1 {
            // Due already, but registered while timers are handled.
            context.register_timer(timer.expiry_ms + 1)?;
            context.register_timer(timer.expiry_ms)?;
            context.delete_timer(30)?;
        }
        Ok(vec![(format!("{key} fires"), timer.expiry_ms)])
    }
}

#[test]
fn timers_are_registered_listed_deleted_and_fire_once() {
    let operator = operator(TimeMode::ProcessingTime, Alarm::default());
    let mut harness = harness(&operator, 3);
    harness.batch_time_ms = 5;
    let given = [("a", 0, 20), ("a", 0, 10), ("a", 0, 20), ("a", 0, 15), ("a", 0, -15)];
    assert_eq!(step(&mut harness, &operator, &given), ["a 10", "a 20"]);
    assert_eq!(step(&mut harness, &operator, &[("a", 0, 30)]), ["a 10", "a 20", "a 30"]);
    harness.partitions = 2;
    harness.batch_time_ms = 40;
    // 11 and 10 wait: a timer's handling makes them. 30 is deleted by it, though due.
    assert_eq!(step(&mut harness, &operator, &[]), ["a fires 10", "a fires 20"]);
    assert_eq!(step(&mut harness, &operator, &[]), ["a fires 10", "a fires 11"]);
    assert_eq!(harness.rows("$procTimers_keyToTimestamp"), 0);
    assert!(step(&mut harness, &operator, &[]).is_empty());
}

/// Writes, reads, removes and clears within one call.
#[derive(Clone, Default)]
struct Busy {
    list: ListState<(i64, String)>,
    map: MapState<i64, Vec<i64>>,
}

impl StatefulProcessor for Busy {
    type Key = String;
    type Input = In;
    type Initial = ();
    type Output = (String, i64);

    fn init(&mut self, variables: &mut Variables) -> Result<(), UserError> {
        let fields = [("n", DataType::Int64), ("s", DataType::Utf8)];
        let fields = fields.map(|(name, kind)| Field::new(name, kind, true));
        self.list = variables.list("list", DataType::Struct(fields.to_vec().into()), None)?;
        let numbers = DataType::new_list(DataType::Int64, true);
        self.map = variables.map("map", DataType::Int64, numbers, None)?;
        Ok(())
    }

    fn handle_input_rows(
        &mut self,
        key: String,
        _rows: Rows<'_, In>,
        context: &mut ProcessorContext<'_>,
    ) -> Result<Vec<(String, i64)>, UserError> {
        self.list.put(context, &[(1, "x".to_owned()), (2, "y".to_owned())])?;
        self.list.append(context, &(3, "z".to_owned()))?;
        assert_eq!(self.list.get(context)?.last(), Some(&(3, "z".to_owned())));
        self.list.put(context, &[(4, "w".to_owned())])?;
        assert_eq!(self.list.get(context)?, [(4, "w".to_owned())]);
        assert!(!self.map.exists(context)?);
        self.map.update(context, &7, &vec![1, 2])?;
        self.map.update(context, &-7, &vec![])?;
        self.map.update(context, &7, &vec![3])?;
        assert_eq!(self.map.entries(context)?, [(-7, vec![]), (7, vec![3])]);
        self.map.remove(context, &-7)?;
        assert!(!self.map.contains(context, &-7)?);
        let found = self.map.get(context, &7)?.unwrap_or_default();
        if key == "clears" {
            self.map.clear(context)?;
            self.list.clear(context)?;
            assert!(!self.list.exists(context)?);
        }
        Ok(vec![(key, found[0])])
    }
}

#[test]
fn writes_are_seen_within_the_batch_and_keys_are_apart() {
    let operator = operator(TimeMode::None, Busy::default());
    let mut harness = harness(&operator, 1);
    let given = [("clear", 0, 0), ("clears", 0, 0), ("clearsx", 0, 0)];
    assert_eq!(step(&mut harness, &operator, &given), ["clear 3", "clears 3", "clearsx 3"]);
    // A list, its size and an entry for each of the two that did not clear.
    assert_eq!(harness.rows("list"), 2);
    assert_eq!(harness.rows("$rowCounter_list"), 2);
    assert_eq!(harness.rows("map"), 2);
}

#[derive(Clone)]
struct Wrong(fn(&mut Variables) -> Result<(), UserError>);

impl StatefulProcessor for Wrong {
    type Key = String;
    type Input = In;
    type Initial = ();
    type Output = (String, i64);

    fn init(&mut self, variables: &mut Variables) -> Result<(), UserError> {
        (self.0)(variables)
    }

    fn handle_input_rows(
        &mut self,
        _key: String,
        _rows: Rows<'_, In>,
        context: &mut ProcessorContext<'_>,
    ) -> Result<Vec<(String, i64)>, UserError> {
        ValueState::<i64>::default().update(context, &1)?;
        Ok(Vec::new())
    }
}

#[test]
fn declarations_that_cannot_be_are_refused() {
    let refused = |mode, init| {
        let operator = operator(mode, Wrong(init));
        operator.spec(0, "wrong", &input_schema()).unwrap_err().to_string()
    };
    let text = refused(TimeMode::EventTime, |variables| {
        variables.value::<i64>("v", DataType::Int64, Some(Duration::from_secs(1)))?;
        Ok(())
    });
    assert!(text.contains("needs the time mode ProcessingTime"), "{text}");
    let text = refused(TimeMode::None, |variables| {
        variables.value::<i64>("v", DataType::Int64, None)?;
        variables.list::<i64>("v", DataType::Int64, None)?;
        Ok(())
    });
    assert!(text.contains("declared twice"), "{text}");
    let text = refused(TimeMode::None, |variables| {
        variables.value::<i64>("$v", DataType::Int64, None)?;
        Ok(())
    });
    assert!(text.contains("no name for a variable"), "{text}");
}

#[test]
fn a_variable_that_was_not_declared_is_an_error() {
    let operator = operator(TimeMode::None, Wrong(|_| Ok(())));
    let mut harness = harness(&operator, 1);
    let schema = input_schema();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec!["a"])),
        Arc::new(TimestampMillisecondArray::from(vec![0])),
        Arc::new(Int64Array::from(vec![0])),
    ];
    let rows = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    let source = input(&schema, &[vec![rows]]);
    let error = harness.batch(|context| operator.exec(source, None, context)).unwrap_err();
    let text = crate::failure::planning(error).to_string();
    assert!(text.contains("init did not declare"), "{text}");
}
