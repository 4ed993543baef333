//! The way of rows out of a batch's plan beside its result: late rows, dead letters.

use crate::failure;
use arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Batches of rows that may wait for their reader.
const WAITING: usize = 4;

/// Takes such rows of all operators of a batch.
pub type SideSender = Sender<RecordBatch>;

/// Gives such rows of all operators of a batch.
pub type SideReceiver = Receiver<RecordBatch>;

/// A way out. Few wait on it: who sends waits for who reads.
#[must_use]
pub fn side_rows() -> (SideSender, SideReceiver) {
    channel(WAITING)
}

/// Sends rows out; waits while too many wait.
pub(crate) async fn send(to: &SideSender, rows: RecordBatch) -> Result<()> {
    let gone = |_| failure::internal("nobody takes rows beside the result any more");
    to.send(rows).await.map_err(gone)
}
