//! Code that handles whole partitions.

use super::code::{DueTimers, ProcessorCode, ProcessorStart};
use super::partition::{PartitionKeys, PartitionRows, PartitionRun};
use super::{Processor, TimeMode, TransformWithState, Variables};
use crate::harness::{Harness, input, texts};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion::physical_expr::expressions::col;
use onefold_types::Result;
use std::sync::Arc;

/// Counts each key's rows; a key that is due twice is told once and its state goes.
#[derive(Debug)]
struct Counter;

fn columns(names: [&str; 2]) -> SchemaRef {
    let kinds = [DataType::Utf8, DataType::Int64];
    let fields = names.into_iter().zip(kinds).map(|(name, kind)| Field::new(name, kind, true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn out(rows: Vec<(String, i64)>) -> RecordBatch {
    let (keys, counts): (Vec<String>, Vec<i64>) = rows.into_iter().unzip();
    let arrays: Vec<ArrayRef> =
        vec![Arc::new(StringArray::from(keys)), Arc::new(Int64Array::from(counts))];
    RecordBatch::try_new(columns(["k", "n"]), arrays).unwrap()
}

impl ProcessorCode for Counter {
    fn declare(&self, variables: &mut Variables) -> Result<()> {
        variables.value::<i64>("count", DataType::Int64, None)?;
        variables.deleted(1);
        Ok(())
    }

    fn start(&self) -> Result<ProcessorStart> {
        Ok(ProcessorStart::Whole(Box::new(Counter)))
    }
}

impl PartitionRun for Counter {
    fn run(
        &mut self,
        rows: &PartitionRows,
        keys: &mut PartitionKeys<'_>,
    ) -> Result<Vec<RecordBatch>> {
        let mut given = Vec::new();
        for batch in rows.rows() {
            let batch = batch?;
            for row in 0..batch.num_rows() {
                let key = batch.column(0).slice(row, 1);
                keys.begin(&[Arc::clone(&key)])?;
                let now = keys.current_processing_time_ms();
                let mut context = keys.context()?;
                let count =
                    context.value(0)?.map_or(0, |it| it.as_primitive::<Int64Type>().value(0));
                let count: ArrayRef = Arc::new(Int64Array::from(vec![count + 1]));
                context.set_value(0, &count)?;
                context.register_timer(now + 10)?;
                context.register_timer(now + 20)?;
                given.push((key.as_string::<i32>().value(0).to_owned(), 0));
            }
        }
        keys.leave();
        assert!(keys.context().is_err(), "state without a key");
        while let Some(DueTimers { keys: due, expiries_ms }) = keys.due(100)? {
            let names = due.column(0).as_string::<i32>();
            let mut seen: Vec<&str> = names.iter().flatten().collect();
            seen.dedup();
            assert_eq!(seen.len(), due.num_rows(), "a key is due twice at once");
            for (row, expiry) in expiries_ms.into_iter().enumerate() {
                keys.begin(&[due.column(0).slice(row, 1)])?;
                let now = keys.current_processing_time_ms();
                let mut context = keys.context()?;
                let count =
                    context.value(0)?.map_or(-1, |it| it.as_primitive::<Int64Type>().value(0));
                context.clear(0)?;
                // One that is registered now waits, however due it is; the other one goes.
                context.register_timer(now - 1)?;
                context.delete_timer(expiry)?;
                context.delete_timer(expiry + 10)?;
                given.push((format!("{}!", names.value(row)), count));
            }
        }
        Ok(vec![out(given)])
    }
}

fn operator() -> TransformWithState {
    let schema = columns(["k", "v"]);
    TransformWithState {
        keys: vec![(col("k", &schema).unwrap(), "k".to_owned())],
        output: columns(["k", "n"]),
        mode: TimeMode::ProcessingTime,
        event_time: None,
        initial: None,
        processor: Processor::code(Arc::new(Counter)),
    }
}

fn step(harness: &mut Harness, operator: &TransformWithState, keys: &[&str]) -> Vec<String> {
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(keys.to_vec())),
        Arc::new(Int64Array::from(vec![0; keys.len()])),
    ];
    let rows = RecordBatch::try_new(columns(["k", "v"]), arrays).unwrap();
    let source = input(&columns(["k", "v"]), &[vec![rows]]);
    texts(&harness.batch(|context| operator.exec(source, None, context)).unwrap())
}

#[test]
fn code_over_a_whole_partition_asks_for_keys_and_timers_by_itself() {
    let operator = operator();
    let spec = operator.spec(0, "counter", &columns(["k", "v"])).unwrap();
    let mut harness = Harness::new(spec, 3);
    harness.batch_time_ms = 1_000;
    assert_eq!(step(&mut harness, &operator, &["a", "b", "a"]), ["a 0", "a 0", "b 0"]);
    let counted: Vec<_> = harness.metrics.variables().collect();
    assert_eq!(counted, [("numDeletedStateVars", 1), ("numValueStateVars", 1)]);
    harness.batch_time_ms = 1_020;
    harness.partitions = 2;
    // Both timers of each key are due: the first takes the second with it.
    assert_eq!(step(&mut harness, &operator, &[]), ["a! 2", "b! 1"]);
    assert_eq!(harness.rows("count"), 0);
    // Those that were registered meanwhile.
    harness.batch_time_ms = 1_030;
    assert_eq!(step(&mut harness, &operator, &[]), ["a! -1", "b! -1"]);
}
