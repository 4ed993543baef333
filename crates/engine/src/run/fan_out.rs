//! One partition of a batch for several sinks: it is computed once, and each sink gets all rows.

use arrow::record_batch::RecordBatch;
use datafusion::error::Result as PlanResult;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::future::{join_all, try_join_all};
use futures::{Stream, StreamExt, stream};
use onefold_connector::{Attempt, RowStream, Sink, StagedOutput};
use onefold_types::Result;
use std::sync::Arc;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Batches of rows that wait for a sink that is slower than the others.
const WAITING: usize = 2;

/// Stages the rows of one partition in all sinks; gives what each staged, in their order.
///
/// # Errors
/// The first error of a sink, or of what gives the rows.
pub(super) async fn stage_in_all(
    sinks: &[Arc<dyn Sink>],
    attempt: &Attempt,
    partition: u32,
    rows: SendableRecordBatchStream,
) -> Result<Vec<StagedOutput>> {
    if let [only] = sinks {
        return Ok(vec![only.stage(attempt, partition, rows).await?]);
    }
    let schema = rows.schema();
    let (to, from): (Vec<_>, Vec<_>) = sinks.iter().map(|_| channel(WAITING)).unzip();
    let staging = sinks.iter().zip(from).map(|(sink, from)| {
        let rows = RecordBatchStreamAdapter::new(Arc::clone(&schema), received(from));
        let rows: RowStream = Box::pin(rows);
        sink.stage(attempt, partition, rows)
    });
    let staging = try_join_all(staging);
    tokio::pin!(staging);
    let handing_over = hand_over(rows, to);
    tokio::pin!(handing_over);
    // A sink that fails ends all at once; else the rows are handed over to their end.
    tokio::select! {
        biased;
        staged = &mut staging => staged,
        () = &mut handing_over => staging.await,
    }
}

fn received(
    from: Receiver<PlanResult<RecordBatch>>,
) -> impl Stream<Item = PlanResult<RecordBatch>> {
    stream::unfold(from, |mut from| async move { from.recv().await.map(|batch| (batch, from)) })
}

/// Gives each batch of rows to all sinks. An error goes to the first one alone: the others wait,
/// without an end that they could take for a good one, until it ends them.
async fn hand_over(mut rows: SendableRecordBatchStream, to: Vec<Sender<PlanResult<RecordBatch>>>) {
    while let Some(batch) = rows.next().await {
        match batch {
            Ok(batch) => {
                // A sink that takes no more has failed, which its staging tells.
                let sent = to.iter().map(|it| it.send(Ok(batch.clone())));
                join_all(sent).await;
            }
            Err(error) => {
                if let Some(first) = to.first() {
                    let _ = first.send(Err(error)).await;
                }
                std::future::pending::<()>().await;
            }
        }
    }
}
