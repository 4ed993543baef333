//! Rows of more folders than may be open at once: sorted by folder, on disk where they are many,
//! and written one folder after another.

use super::stage::plan_failed;
use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use futures::StreamExt;
use onefold_types::{Error, Result};
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Memory of the sort; past it, rows go to temporary files.
const SORT_BYTES: usize = 128 << 20;

/// A sort that takes rows while others are written.
pub(crate) struct Rest {
    rows: mpsc::Sender<RecordBatch>,
    sorted: JoinHandle<Result<Primed>>,
}

/// The sorted rows; the first batch was pulled to make the sort run.
struct Primed {
    first: Option<RecordBatch>,
    rest: SendableRecordBatchStream,
}

impl Rest {
    /// Starts a sort by the columns of `partitionBy`.
    pub(crate) fn start(schema: SchemaRef, folders: &[(usize, String)]) -> Result<Rest> {
        let (sender, receiver) = mpsc::channel(2);
        let input = Once { schema: Arc::clone(&schema), rows: Mutex::new(Some(receiver)) };
        let table = StreamingTableExec::try_new(
            schema,
            vec![Arc::new(input)],
            None,
            Vec::<LexOrdering>::new(),
            false,
            None,
        )
        .map_err(plan_failed)?;
        let order = LexOrdering::new(folders.iter().map(|(at, name)| {
            PhysicalSortExpr::new(Arc::new(Column::new(name, *at)), SortOptions::default())
        }))
        .ok_or_else(|| Error::internal("no column to sort by"))?;
        let sort = SortExec::new(order, Arc::new(table));
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(FairSpillPool::new(SORT_BYTES)))
            .build_arc()
            .map_err(plan_failed)?;
        let task = Arc::new(TaskContext::default().with_runtime(runtime));
        let mut stream = sort.execute(0, task).map_err(plan_failed)?;
        let sorted = tokio::spawn(async move {
            let first = stream.next().await.transpose().map_err(plan_failed)?;
            Ok(Primed { first, rest: stream })
        });
        Ok(Rest { rows: sender, sorted })
    }

    /// Adds rows.
    pub(crate) async fn push(&mut self, rows: RecordBatch) -> Result<()> {
        if self.rows.send(rows).await.is_ok() {
            return Ok(());
        }
        // The sort ended early: its error says why.
        let ended = (&mut self.sorted).await.map_err(cut_off)?;
        Err(ended.err().unwrap_or_else(|| Error::internal("the sort of rows ended early")))
    }

    /// Ends the input; gives the rows sorted by folder.
    pub(crate) async fn finish(self) -> Result<SendableRecordBatchStream> {
        drop(self.rows);
        let Primed { first, rest } = self.sorted.await.map_err(cut_off)??;
        let schema = rest.schema();
        let all = futures::stream::iter(first.map(Ok)).chain(rest);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, all)))
    }
}

fn cut_off(error: tokio::task::JoinError) -> Error {
    Error::unavailable("the sort of rows was cut off").because(error)
}

/// Rows from a channel, as the one partition of a table.
#[derive(Debug)]
struct Once {
    schema: SchemaRef,
    rows: Mutex<Option<mpsc::Receiver<RecordBatch>>>,
}

impl PartitionStream for Once {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let receiver = self.rows.lock().ok().and_then(|mut rows| rows.take());
        let rows = futures::stream::unfold(receiver, |receiver| async move {
            let mut receiver = receiver?;
            let batch = receiver.recv().await?;
            Some((Ok(batch), Some(receiver)))
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
    }
}
