//! Staging a batch: every partition of the plan as a task of its own.

use super::fan_out::stage_in_all;
use crate::fault::from_datafusion;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::error::Result as PlanResult;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, SendableRecordBatchStream,
};
use futures::{Stream, StreamExt, stream};
use onefold_connector::{Attempt, RowStream, Sink, StagedOutput};
use onefold_plan::stream::SideReceiver;
use onefold_types::{Error, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinError, JoinSet};

/// Knows when the rows of all partitions have been read: then operators have written all of their
/// state, while the sink may still be making the rows durable.
#[derive(Debug, Clone)]
pub(crate) struct AllRead {
    partitions: usize,
    left: Arc<watch::Sender<usize>>,
}

impl AllRead {
    pub(crate) fn new(partitions: usize) -> Self {
        AllRead { partitions, left: Arc::new(watch::Sender::new(partitions)) }
    }

    /// How many there are.
    pub(crate) fn partitions(&self) -> usize {
        self.partitions
    }

    /// Waits until every partition is read to its end.
    pub(crate) async fn wait(&self) {
        // The sender lives in `self`, so that waiting ends only by the condition.
        let _ = self.left.subscribe().wait_for(|left| *left == 0).await;
    }

    fn watched(&self, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        let schema = rows.schema();
        let rows = Watched { rows: Some(rows), all: self.clone() };
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }
}

/// The rows of one partition. At their end they are dropped, so that all that they hold is handed
/// back, and only then is the end told.
struct Watched {
    rows: Option<SendableRecordBatchStream>,
    all: AllRead,
}

impl Stream for Watched {
    type Item = PlanResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(rows) = &mut self.rows else { return Poll::Ready(None) };
        let next = std::task::ready!(rows.poll_next_unpin(cx));
        if next.is_none() {
            self.rows = None;
            self.all.left.send_modify(|left| *left = left.saturating_sub(1));
        }
        Poll::Ready(next)
    }
}

/// Stages all partitions in all of these sinks, at most `at_once` partitions at the same time. Gives
/// what each sink staged, in the order of partitions.
///
/// # Cancellation
/// Dropping the future aborts the tasks; what they staged is garbage until discarded.
pub(crate) async fn stage_all(
    sinks: &Arc<[Arc<dyn Sink>]>,
    attempt: &Attempt,
    plan: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
    at_once: usize,
    all: &AllRead,
) -> Result<Vec<Vec<StagedOutput>>> {
    let slots = Arc::new(Semaphore::new(at_once.max(1)));
    let mut tasks = JoinSet::new();
    for partition in 0..plan.output_partitioning().partition_count() {
        let (sinks, plan, context) = (Arc::clone(sinks), Arc::clone(plan), Arc::clone(context));
        let (slots, attempt, all) = (Arc::clone(&slots), *attempt, all.clone());
        tasks.spawn(async move {
            // The semaphore is never closed.
            let _slot = slots.acquire_owned().await;
            let number = u32::try_from(partition).map_err(|_| {
                Error::invalid(format!("partition {partition} is more than a batch can have"))
            })?;
            let rows = plan.execute(partition, context).map_err(from_datafusion)?;
            stage_in_all(&sinks, &attempt, number, all.watched(rows)).await
        });
    }
    let mut outputs = vec![Vec::with_capacity(tasks.len()); sinks.len()];
    while let Some(joined) = tasks.join_next().await {
        let staged = joined.map_err(|error| panicked(attempt, error))??;
        for (all, output) in outputs.iter_mut().zip(staged) {
            all.push(output);
        }
    }
    outputs.iter_mut().for_each(|all| all.sort_by_key(|output| output.partition));
    Ok(outputs)
}

/// Rows that leave the plan beside its result, until the result is read.
pub(crate) fn leaving(schema: SchemaRef, rows: SideReceiver, all: &AllRead) -> RowStream {
    // The plan, which can send, outlives the batch; so the end is told by what was read.
    let rows = stream::unfold((rows, all.clone(), false), |(mut rows, all, mut over)| async move {
        if !over {
            tokio::select! {
                biased;
                batch = rows.recv() => return batch.map(|batch| (Ok(batch), (rows, all, over))),
                () = all.wait() => over = true,
            }
            rows.close();
        }
        rows.recv().await.map(|batch| (Ok(batch), (rows, all, over)))
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

fn panicked(attempt: &Attempt, error: JoinError) -> Error {
    let batch = attempt.batch;
    let Ok(panic) = error.try_into_panic() else {
        return Error::internal(format!("a task of batch {batch} was cancelled"));
    };
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    Error::internal(format!("a task of batch {batch} panicked: {text}"))
}
