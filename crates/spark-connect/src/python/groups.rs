//! `applyInPandasWithState`: a function over the rows and the state of groups
//! (`ApplyInPandasWithStateSerializer` of PySpark).
//!
//! The state is kept as the worker pickles it; what it means only the function knows.

use super::function::PythonFunction;
use super::pool::PythonPool;
use super::task::Task;
use super::udf::{offsets, stream, taken};
use crate::rows::{plain_batch, plain_schema};
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Int32Array, RecordBatch, StringArray,
    StructArray, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Fields, Int32Type, Schema};
use arrow::error::ArrowError;
use onefold_plan::stream::{
    GroupCalls, GroupCode, GroupReturns, GroupRun, GroupTimeout, StateChange,
};
use onefold_types::{Error, Result};
use serde::Deserialize;
use serde_json::json;
use std::io::Write;
use std::sync::Arc;

/// The columns of the state.
pub(crate) fn state_schema() -> Schema {
    Schema::new(vec![Field::new("object", DataType::Binary, true)])
}

/// A function with what all its calls have in common.
#[derive(Debug, Clone)]
pub(crate) struct StatefulFunction {
    pub(crate) function: PythonFunction,
    pub(crate) pool: Arc<PythonPool>,
    /// How many columns at the beginning of the rows are the key.
    pub(crate) keys: usize,
    /// The user's columns of the state, as Spark's JSON.
    pub(crate) state: String,
    /// Whether the rows have a watermark.
    pub(crate) watermarked: bool,
}

/// What the worker says of a state after the call.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Properties {
    updated: bool,
    removed: bool,
    timeout_timestamp: i64,
}

fn broken(error: ArrowError) -> Error {
    Error::internal("groups do not take the form that a Python worker wants").because(error)
}

impl GroupCode for StatefulFunction {
    fn start(&self) -> Result<Box<dyn GroupRun>> {
        Ok(Box::new(self.clone()))
    }

    fn operator_name(&self) -> &'static str {
        "applyInPandasWithState"
    }
}

impl GroupRun for StatefulFunction {
    fn call(&mut self, calls: &GroupCalls) -> Result<GroupReturns> {
        let rows = if calls.timed_out { keys_alone(calls)? } else { calls.groups.rows.clone() };
        let rows = plain_batch(&rows, &plain_schema(&rows.schema()))
            .map_err(|failure| Error::internal(failure.message().to_owned()))?;
        let batch = self.with_states(&rows, calls)?;
        let input = |out: &mut dyn Write| stream(out, std::slice::from_ref(&batch));
        let task = Task {
            function: &self.function,
            partition: 0,
            batch: None,
            arguments: Some(offsets(self.keys, rows.num_columns())),
            eval_conf: vec![("state_value_schema".to_owned(), self.state.clone())],
        };
        self.returns(&task.run(&self.pool, &input)?, calls)
    }
}

/// A row for each group without rows: its key, with NULL in all other columns.
fn keys_alone(calls: &GroupCalls) -> Result<RecordBatch> {
    let count = calls.groups.len();
    let fields: Fields = calls
        .groups
        .rows
        .schema()
        .fields()
        .iter()
        .map(|field| field.as_ref().clone().with_nullable(true))
        .collect();
    let mut columns: Vec<ArrayRef> = calls.groups.keys.columns().to_vec();
    let others = fields.iter().skip(columns.len());
    columns.extend(others.map(|field| new_null_array(field.data_type(), count)));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(broken)
}

fn number(value: usize) -> Result<i32> {
    i32::try_from(value).map_err(|_| Error::invalid("groups have too many rows in one batch"))
}

impl StatefulFunction {
    /// The rows, and beside them, from the first row on, what is known of each group.
    fn with_states(&self, rows: &RecordBatch, calls: &GroupCalls) -> Result<RecordBatch> {
        let (groups, count) = (calls.groups.len(), rows.num_rows());
        let kept = calls.states.columns().first().map(|column| column.as_binary_opt::<i32>());
        let kept = kept.flatten().ok_or_else(|| Error::internal("a state is no bytes"))?;
        let (mut texts, mut objects) = (Vec::new(), Vec::new());
        let (mut starts, mut lengths) = (Vec::new(), Vec::new());
        for group in 0..groups {
            let there = calls.states.is_valid(group) && kept.is_valid(group);
            texts.push(Some(self.properties(calls, there)));
            objects.push(there.then(|| kept.value(group)));
            let range = match calls.timed_out {
                true => group..group + 1,
                false => calls.groups.rows_of(group),
            };
            starts.push(Some(number(range.start)?));
            lengths.push(Some(number(range.len())?));
        }
        // Every group has a row, so that there are no more groups than rows.
        texts.resize(count, None);
        objects.resize(count, None);
        starts.resize(count, None);
        lengths.resize(count, None);
        let first = |place: usize| place < groups;
        let key_rows: BinaryArray =
            (0..count).map(|place| first(place).then_some(&b""[..])).collect();
        let last: BooleanArray = (0..count).map(|place| first(place).then_some(true)).collect();
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("properties", Arc::new(texts.into_iter().collect::<StringArray>())),
            ("keyRowAsUnsafe", Arc::new(key_rows)),
            ("object", Arc::new(objects.into_iter().collect::<BinaryArray>())),
            ("startOffset", Arc::new(Int32Array::from(starts))),
            ("numRows", Arc::new(Int32Array::from(lengths))),
            ("isLastChunk", Arc::new(last)),
        ];
        let fields: Fields = columns
            .iter()
            .map(|(name, column)| Field::new(*name, column.data_type().clone(), true))
            .collect();
        let arrays = columns.into_iter().map(|(_, column)| column).collect();
        let nulls: NullBuffer = (0..count).map(first).collect::<Vec<bool>>().into();
        let state = StructArray::try_new(fields, arrays, Some(nulls)).map_err(broken)?;
        let mut fields: Vec<Field> =
            rows.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
        fields.push(Field::new("__state", state.data_type().clone(), true));
        let mut columns = rows.columns().to_vec();
        columns.push(Arc::new(state));
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(broken)
    }

    fn properties(&self, calls: &GroupCalls, defined: bool) -> String {
        json!({
            "batchProcessingTimeMs": calls.batch_time_ms,
            "eventTimeWatermarkMs": calls.watermark_ms,
            "timeoutConf": match calls.timeout {
                GroupTimeout::None => "NoTimeout",
                GroupTimeout::ProcessingTime => "ProcessingTimeTimeout",
                GroupTimeout::EventTime => "EventTimeTimeout",
            },
            "hasTimedOut": calls.timed_out,
            "watermarkPresent": self.watermarked,
            "defined": defined,
            "updated": false,
            "removed": false,
            "timeoutTimestamp": -1,
        })
        .to_string()
    }

    /// The rows, and what becomes of each group's state: groups come back in their order.
    fn returns(&self, given: &[RecordBatch], calls: &GroupCalls) -> Result<GroupReturns> {
        let DataType::Struct(fields) = &self.function.output else {
            return Err(Error::invalid("applyInPandasWithState gives rows, not single values"));
        };
        let wrong = || Error::internal("a worker gave groups in an unknown form");
        let (mut output, mut objects) = (Vec::new(), Vec::new());
        let (mut changes, mut timeouts_ms) = (Vec::new(), Vec::new());
        for batch in given {
            let [counts, data, states] = batch.columns() else { return Err(wrong()) };
            let counts = counts.as_struct_opt().ok_or_else(wrong)?;
            let count = |place: usize| -> Result<usize> {
                let column = counts.columns().get(place).ok_or_else(wrong)?;
                let column = column.as_primitive_opt::<Int32Type>().ok_or_else(wrong)?;
                Ok(usize::try_from(column.value(0)).unwrap_or(0))
            };
            let rows = RecordBatch::from(data.as_struct_opt().ok_or_else(wrong)?.clone());
            output.push(taken(&rows.slice(0, count(0)?.min(rows.num_rows())), fields)?);
            let states = states.as_struct_opt().ok_or_else(wrong)?;
            let texts = states.column_by_name("properties").ok_or_else(wrong)?;
            let texts = texts.as_string_opt::<i32>().ok_or_else(wrong)?;
            let pickled = states.column_by_name("object").ok_or_else(wrong)?;
            let pickled = pickled.as_binary_opt::<i32>().ok_or_else(wrong)?;
            for place in 0..count(1)?.min(states.len()) {
                let properties: Properties =
                    serde_json::from_str(texts.value(place)).map_err(|error| {
                        Error::internal("the state of a group does not parse").because(error)
                    })?;
                let there = pickled.is_valid(place);
                changes.push(match (properties.removed, properties.updated && there) {
                    (true, _) => StateChange::Remove,
                    (false, true) => StateChange::Update,
                    (false, false) => StateChange::Keep,
                });
                objects.push(there.then(|| pickled.value(place).to_vec()));
                let until = properties.timeout_timestamp;
                let waits = until >= 0 && calls.timeout != GroupTimeout::None;
                timeouts_ms.push(waits.then_some(until));
            }
        }
        if changes.len() != calls.groups.len() {
            return Err(wrong());
        }
        let objects: BinaryArray = objects.iter().map(|it| it.as_deref()).collect();
        let fields = state_schema().fields().clone();
        let states = StructArray::try_new(fields, vec![Arc::new(objects)], None).map_err(broken)?;
        Ok(GroupReturns { output, states, changes, timeouts_ms })
    }
}
