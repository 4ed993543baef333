//! Staging a batch: every partition of the plan as a task of its own.

use crate::fault::from_datafusion;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use onefold_connector::{Attempt, Sink, StagedOutput};
use onefold_types::{Error, Result};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};

/// Stages all partitions, at most `at_once` at the same time, in the order of partitions.
///
/// # Cancellation
/// Dropping the future aborts the tasks; what they staged is garbage until discarded.
pub(crate) async fn stage_all(
    sink: &Arc<dyn Sink>,
    attempt: &Attempt,
    plan: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
    at_once: usize,
) -> Result<Vec<StagedOutput>> {
    let slots = Arc::new(Semaphore::new(at_once.max(1)));
    let mut tasks = JoinSet::new();
    for partition in 0..plan.output_partitioning().partition_count() {
        let (sink, plan, context) = (Arc::clone(sink), Arc::clone(plan), Arc::clone(context));
        let (slots, attempt) = (Arc::clone(&slots), *attempt);
        tasks.spawn(async move {
            // The semaphore is never closed.
            let _slot = slots.acquire_owned().await;
            let number = u32::try_from(partition).map_err(|_| {
                Error::invalid(format!("partition {partition} is more than a batch can have"))
            })?;
            let rows = plan.execute(partition, context).map_err(from_datafusion)?;
            sink.stage(&attempt, number, rows).await
        });
    }
    let mut outputs = Vec::with_capacity(tasks.len());
    while let Some(joined) = tasks.join_next().await {
        match joined {
            Ok(staged) => outputs.push(staged?),
            Err(error) => return Err(panicked(attempt, error)),
        }
    }
    outputs.sort_by_key(|output| output.partition);
    Ok(outputs)
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
