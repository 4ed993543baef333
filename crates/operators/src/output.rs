//! A partition of a stateful operator as a task that writes to a stream.

use crate::failure;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use std::future::Future;
use tokio::sync::mpsc::Sender;

/// Batches that may wait for their reader.
const WAITING: usize = 2;

/// How many rows an operator takes out of its state, or puts into a batch of output, at a time.
pub(crate) const CHUNK: usize = 8192;

/// Where an operator's rows go.
#[derive(Debug)]
pub(crate) struct Output(Sender<Result<RecordBatch>>);

impl Output {
    /// Gives rows to the reader. When there is none any more they are dropped: the operator goes on
    /// for its state.
    pub(crate) async fn send(&self, batch: RecordBatch) {
        if batch.num_rows() > 0 {
            let _ = self.0.send(Ok(batch)).await;
        }
    }
}

/// A stream of what the task sends, ending with the task; its error ends the stream.
pub(crate) fn spawn<F>(
    schema: SchemaRef,
    task: impl FnOnce(Output) -> F,
) -> SendableRecordBatchStream
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let mut builder = RecordBatchReceiverStreamBuilder::new(schema, WAITING);
    let output = Output(builder.tx());
    builder.spawn(task(output));
    builder.build()
}

/// An operator's partition as the state numbers it.
pub(crate) fn number(partition: usize) -> Result<u32> {
    u32::try_from(partition).map_err(|_| failure::internal("a partition out of range"))
}
