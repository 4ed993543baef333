//! A partition of a stateful aggregation in a batch.

use super::layout::Layout;
use super::merge::{FAMILY, Merger, results_of};
use crate::context::{EmitMode, OperatorContext};
use crate::event_time::last_late_tick;
use crate::failure::external;
use crate::output::{CHUNK, Output, number, spawn};
use crate::sweep::Sweep;
use crate::unary::Unary;
use arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::SendableRecordBatchStream;
use futures::StreamExt;
use onefold_state::{PartitionState, StateRow};
use std::sync::Arc;

/// Merges partial aggregates into the state and emits results.
#[derive(Debug)]
pub(super) struct SaveAggregate {
    layout: Arc<Layout>,
    context: OperatorContext,
}

impl SaveAggregate {
    pub(super) fn new(layout: Arc<Layout>, context: OperatorContext) -> Self {
        SaveAggregate { layout, context }
    }
}

impl Unary for SaveAggregate {
    fn name(&self) -> &'static str {
        "StatefulAggregateExec"
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
    mut input: SendableRecordBatchStream,
    output: Output,
) -> Result<()> {
    let metrics = &context.metrics;
    let mut state = context.state.open(context.id, number(partition)?).map_err(external)?;
    let mut merger = Merger::new(&layout, &input.schema())?;
    while let Some(batch) = input.next().await {
        let batch = batch?;
        let _timer = metrics.update_time().timer();
        merger.take(&batch, state.as_mut())?;
    }
    let touched = {
        let _timer = metrics.update_time().timer();
        if layout.global() {
            merger.touch_global(state.as_mut())?;
        }
        merger.save(state.as_mut())?
    };
    metrics.updated(touched.len());
    if context.mode == EmitMode::Update {
        for chunk in touched.chunks() {
            output.send(chunk.results(&layout)?).await;
        }
    }
    drop(touched);
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
    metrics.partition_done(state.rows(FAMILY));
    Ok(())
}

/// The results of all groups kept.
fn all(layout: &Layout, state: &mut dyn PartitionState) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    let mut rows: Vec<StateRow> = Vec::new();
    let mut failed = None;
    let mut finish = |rows: &mut Vec<StateRow>| {
        let borrowed: Vec<(&[u8], &[u8])> =
            rows.iter().map(|row| (row.key.as_ref(), row.value.as_ref())).collect();
        let batch = results_of(layout, &borrowed);
        drop(borrowed);
        rows.clear();
        match batch {
            Ok(batch) => batches.push(batch),
            Err(error) => failed = failed.take().or(Some(error)),
        }
    };
    let visited = state.for_each(FAMILY, &mut |_, key, value| {
        rows.push(StateRow { key: key.into(), value: value.into() });
        if rows.len() == CHUNK {
            finish(&mut rows);
        }
        Ok(())
    });
    visited.map_err(external)?;
    if !rows.is_empty() {
        finish(&mut rows);
    }
    failed.map_or(Ok(batches), Err)
}

/// Removes the groups that the watermark is done with; emits them in append mode.
async fn evict(
    layout: &Layout,
    context: &OperatorContext,
    state: &mut dyn PartitionState,
    output: &Output,
) -> Result<()> {
    let (Some(unit), Some(evict_ms)) = (layout.key.unit, context.evict_ms) else {
        return Ok(());
    };
    let mut sweep = Sweep::new(FAMILY, last_late_tick(evict_ms, unit), state.groups());
    loop {
        let results = {
            let _timer = context.metrics.removal_time().timer();
            let rows = sweep.next(state)?;
            if rows.is_empty() {
                return Ok(());
            }
            context.metrics.removed(rows.len());
            let rows: Vec<(&[u8], &[u8])> =
                rows.iter().map(|(_, row)| (row.key.as_ref(), row.value.as_ref())).collect();
            match context.mode {
                EmitMode::Append => Some(results_of(layout, &rows)?),
                EmitMode::Update | EmitMode::Complete => None,
            }
        };
        if let Some(results) = results {
            output.send(results).await;
        }
    }
}
