//! A partition of an aggregation by sessions in a batch.

use super::layout::{Kept, Layout};
use super::merge::{BY_END, Merger, SESSIONS, session_key};
use crate::context::{EmitMode, OperatorContext};
use crate::event_time::last_late_tick;
use crate::failure::external;
use crate::output::{CHUNK, Output, number, spawn};
use crate::sweep::Sweep;
use crate::unary::Unary;
use arrow::compute::concat_batches;
use arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::SendableRecordBatchStream;
use futures::TryStreamExt;
use onefold_state::{KeyGroup, PartitionState, StateRow};
use std::sync::Arc;

/// Merges sessions into the state and emits results.
#[derive(Debug)]
pub(super) struct SaveSessions {
    layout: Arc<Layout>,
    context: OperatorContext,
}

impl SaveSessions {
    pub(super) fn new(layout: Arc<Layout>, context: OperatorContext) -> Self {
        SaveSessions { layout, context }
    }
}

impl Unary for SaveSessions {
    fn name(&self) -> &'static str {
        "SessionAggregateExec"
    }

    fn describe(&self) -> String {
        format!("operator={}, mode={:?}", self.context.id, self.context.mode)
    }

    fn run(
        &self,
        partition: usize,
        input: SendableRecordBatchStream,
        _task: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let (layout, context) = (Arc::clone(&self.layout), self.context.clone());
        let schema = Arc::clone(&layout.output);
        Ok(spawn(schema, move |output| run(layout, context, partition, input, output)))
    }
}

async fn run(
    layout: Arc<Layout>,
    context: OperatorContext,
    partition: usize,
    input: SendableRecordBatchStream,
    output: Output,
) -> Result<()> {
    let metrics = &context.metrics;
    let mut state = context.state.open(context.id, number(partition)?).map_err(external)?;
    let schema = input.schema();
    // A session can span all rows of its key, so the batch is taken as a whole.
    let batches: Vec<RecordBatch> = input.try_collect().await?;
    {
        let _timer = metrics.update_time().timer();
        let batch = concat_batches(&schema, &batches)?;
        drop(batches);
        Merger::merge(&layout, metrics, state.as_mut(), &batch)?;
    }
    match context.mode {
        EmitMode::Complete => {
            for batch in all(&layout, state.as_mut())? {
                output.send(batch).await;
            }
        }
        EmitMode::Append | EmitMode::Update => {
            evict(&layout, &context, state.as_mut(), &output).await?;
        }
    }
    metrics.partition_done(state.rows(SESSIONS));
    Ok(())
}

/// The results of all sessions kept.
fn all(layout: &Layout, state: &mut dyn PartitionState) -> Result<Vec<RecordBatch>> {
    let mut rows: Vec<StateRow> = Vec::new();
    let visited = state.for_each(SESSIONS, &mut |_, key, value| {
        rows.push(StateRow { key: key.into(), value: value.into() });
        Ok(())
    });
    visited.map_err(external)?;
    rows.chunks(CHUNK).map(|rows| results(layout, rows)).collect()
}

fn results(layout: &Layout, rows: &[StateRow]) -> Result<RecordBatch> {
    let sessions = rows.iter().map(|row| Kept::parse(&row.key, &row.value));
    layout.results(&sessions.collect::<Result<Vec<_>>>()?)
}

/// Removes and emits the sessions that the watermark is done with.
async fn evict(
    layout: &Layout,
    context: &OperatorContext,
    state: &mut dyn PartitionState,
    output: &Output,
) -> Result<()> {
    let Some(evict_ms) = context.evict_ms else { return Ok(()) };
    let last = last_late_tick(evict_ms, layout.unit);
    let mut sweep = Sweep::new(BY_END, last, state.groups());
    loop {
        let results = {
            let _timer = context.metrics.removal_time().timer();
            let due = sweep.next(state)?;
            if due.is_empty() {
                return Ok(());
            }
            let rows = take(state, &due)?;
            context.metrics.removed(rows.len());
            results(layout, &rows)?
        };
        output.send(results).await;
    }
}

/// Removes the sessions that rows by end stand for, and gives them.
fn take(state: &mut dyn PartitionState, due: &[(KeyGroup, StateRow)]) -> Result<Vec<StateRow>> {
    let wanted: Vec<(KeyGroup, &[u8])> =
        due.iter().map(|(group, row)| (*group, session_key(&row.key))).collect();
    let found = state.get(SESSIONS, &wanted).map_err(external)?;
    let mut rows = Vec::with_capacity(wanted.len());
    for ((group, key), value) in wanted.into_iter().zip(found) {
        if let Some(value) = value {
            state.remove(SESSIONS, group, key).map_err(external)?;
            rows.push(StateRow { key: key.into(), value });
        }
    }
    Ok(rows)
}
