//! `LIMIT` over a stream: so many rows in all batches together.

use crate::context::OperatorContext;
use crate::exchange::KeyGroupExchangeExec;
use crate::failure::{self, external};
use crate::keys::state_schema;
use crate::output::{Output, number, spawn};
use crate::sweep::{decode_tick, encode_tick};
use crate::unary::{Unary, UnaryExec};
use arrow::datatypes::{DataType, Field};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use futures::StreamExt;
use onefold_state::{Access, FamilySpec, KeyGroup, OperatorId, OperatorSpec, key_group};
use onefold_types::{Error, Result as OwnResult};
use std::sync::Arc;

/// Spark's name for the operator.
const KIND: &str = "globalLimit";

const FAMILY: usize = 0;

/// Passes so many rows on, counted from the query's beginning, and reads the rest to its end: what
/// is below has state to keep.
#[derive(Debug, Clone, Copy)]
pub struct GlobalLimit {
    /// How many rows.
    pub limit: u64,
}

impl GlobalLimit {
    /// The state that it keeps: how many rows it has passed on.
    #[must_use]
    pub fn spec(&self, id: OperatorId, label: impl Into<String>) -> OperatorSpec {
        let family = FamilySpec {
            name: "default".to_owned(),
            key: state_schema([]),
            value: state_schema([Arc::new(Field::new("value", DataType::Int64, true))]),
            access: Access::Point,
            counted: true,
        };
        OperatorSpec {
            id,
            kind: KIND.to_owned(),
            label: label.into(),
            families: vec![family],
            single: true,
        }
    }

    /// The operator over a batch's input: one partition with the input's columns.
    ///
    /// # Errors
    /// Internal only.
    pub fn exec(
        &self,
        input: Arc<dyn ExecutionPlan>,
        context: OperatorContext,
    ) -> OwnResult<Arc<dyn ExecutionPlan>> {
        let schema = input.schema();
        let gathered = Arc::new(KeyGroupExchangeExec::try_new(input, Vec::new(), 1)?);
        let exec = GlobalLimitExec { limit: self.limit, context };
        Ok(UnaryExec::over(gathered, schema, Arc::new(exec)))
    }
}

#[derive(Debug)]
struct GlobalLimitExec {
    limit: u64,
    context: OperatorContext,
}

impl Unary for GlobalLimitExec {
    fn name(&self) -> &'static str {
        "GlobalLimitExec"
    }

    fn describe(&self) -> String {
        format!("operator={}, limit={}", self.context.id, self.limit)
    }

    fn run(
        &self,
        partition: usize,
        input: SendableRecordBatchStream,
        _task: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let (limit, context) = (self.limit, self.context.clone());
        Ok(spawn(input.schema(), move |output| run(limit, context, partition, input, output)))
    }
}

async fn run(
    limit: u64,
    context: OperatorContext,
    partition: usize,
    mut input: SendableRecordBatchStream,
    output: Output,
) -> Result<()> {
    let mut state = context.state.open(context.id, number(partition)?).map_err(external)?;
    let group: KeyGroup = key_group(&[]);
    let kept = state.get(FAMILY, &[(group, &[])]).map_err(external)?;
    let before = match kept.into_iter().next().flatten() {
        None => 0,
        Some(value) => count(&value).map_err(external)?,
    };
    let mut passed = before;
    while let Some(batch) = input.next().await {
        let batch = batch?;
        let room = usize::try_from(limit.saturating_sub(passed)).unwrap_or(usize::MAX);
        let rows = room.min(batch.num_rows());
        if rows > 0 {
            passed += u64::try_from(rows).unwrap_or(u64::MAX);
            output.send(batch.slice(0, rows)).await;
        }
    }
    if passed > before {
        let value = i64::try_from(passed).map_err(|_| failure::internal("a count out of range"))?;
        state.put(FAMILY, group, &[], &encode_tick(value)).map_err(external)?;
        context.metrics.updated(1);
    }
    context.metrics.partition_done(state.rows(FAMILY));
    Ok(())
}

fn count(value: &[u8]) -> OwnResult<u64> {
    let count = decode_tick(value).and_then(|count| u64::try_from(count).ok());
    count.ok_or_else(|| {
        Error::corrupt("the state of a limit is no count; restore an older version of the state")
    })
}
