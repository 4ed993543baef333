//! The sink that gives each batch to a function of the user, as Spark's `foreachBatch`.
//!
//! The rows of a batch are computed once, before the function is called, whatever the function does
//! with them. The function may be called again with the same batch number after a crash. What it writes
//! into files and into tables that keep a log is there once nevertheless (see [`crate::batch_writes`]);
//! what it writes elsewhere is exactly-once only if it uses that number.

use crate::batch_writes::BatchWrites;
use crate::fault::from_datafusion;
use crate::frame::DataFrame;
use crate::session::Session;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::logical_expr::{LogicalPlanBuilder, UNNAMED_TABLE};
use futures::TryStreamExt;
use onefold_connector::{
    Attempt, Fence, RowStream, Sink, SinkContext, SinkDefinition, StagedOutput, fitted,
};
use onefold_types::{BatchId, Delivery, Error, Mark, Published, Result, Totals};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is called with each batch: its rows and its number. It runs on a thread of its own and may
/// block.
pub type BatchFunction = Arc<dyn Fn(DataFrame, BatchId) -> Result<()> + Send + Sync>;

/// A `foreachBatch` sink.
pub(crate) struct ForeachBatch {
    pub(crate) session: Session,
    pub(crate) function: BatchFunction,
}

impl fmt::Debug for ForeachBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ForeachBatchSink")
    }
}

#[async_trait]
impl SinkDefinition for ForeachBatch {
    fn delivery(&self) -> Delivery {
        Delivery::AtLeastOnce {
            why: "the function is called again for a batch that was not committed; what it writes \
                  into files and Delta tables is there once, elsewhere it must use the batch number"
                .to_owned(),
        }
    }

    fn description(&self) -> String {
        "ForeachBatchSink".to_owned()
    }

    async fn open(&self, context: SinkContext) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(OpenForeachBatch {
            session: self.session.clone(),
            function: Arc::clone(&self.function),
            schema: context.schema,
            staged: Mutex::default(),
        }))
    }
}

/// The rows of each partition of the attempts under way.
type Staged = HashMap<Attempt, Vec<(u32, Vec<RecordBatch>)>>;

struct OpenForeachBatch {
    session: Session,
    function: BatchFunction,
    schema: SchemaRef,
    staged: Mutex<Staged>,
}

impl fmt::Debug for OpenForeachBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ForeachBatchSink")
    }
}

impl OpenForeachBatch {
    fn staged(&self) -> MutexGuard<'_, Staged> {
        // Each change is one call: a panic elsewhere leaves it usable.
        self.staged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows of an attempt as a frame, partitions in order.
    fn frame(&self, attempt: &Attempt) -> Result<DataFrame> {
        let mut parts = self.staged().remove(attempt).unwrap_or_default();
        parts.sort_by_key(|(partition, _)| *partition);
        let mut batches: Vec<Vec<RecordBatch>> = parts.into_iter().map(|(_, rows)| rows).collect();
        if batches.is_empty() {
            batches.push(Vec::new());
        }
        let table =
            MemTable::try_new(Arc::clone(&self.schema), batches).map_err(from_datafusion)?;
        let plan =
            LogicalPlanBuilder::scan(UNNAMED_TABLE, provider_as_source(Arc::new(table)), None)
                .and_then(LogicalPlanBuilder::build)
                .map_err(from_datafusion)?;
        Ok(DataFrame::new(self.session.clone(), plan))
    }
}

#[async_trait]
impl Sink for OpenForeachBatch {
    async fn last_mark(&self) -> Result<Option<Published>> {
        Ok(None)
    }

    async fn conceal(&self, _: BatchId) -> Result<()> {
        Ok(())
    }

    async fn stage(
        &self,
        attempt: &Attempt,
        partition: u32,
        rows: RowStream,
    ) -> Result<StagedOutput> {
        let batches: Vec<RecordBatch> = rows.try_collect().await.map_err(from_datafusion)?;
        let batches: Vec<RecordBatch> =
            batches.iter().map(|batch| fitted(batch, &self.schema)).collect::<Result<_>>()?;
        let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        self.staged().entry(*attempt).or_default().push((partition, batches));
        let totals = Totals { rows, ..Totals::default() };
        Ok(StagedOutput { partition, totals, detail: serde_json::Value::Null })
    }

    async fn publish(
        &self,
        attempt: &Attempt,
        outputs: Vec<StagedOutput>,
        fence: &dyn Fence,
    ) -> Result<Published> {
        fence.check().await?;
        let frame = self.frame(attempt)?;
        let (function, batch) = (Arc::clone(&self.function), attempt.batch);
        let writes = BatchWrites::new(attempt.query, batch);
        let called =
            tokio::task::spawn_blocking(move || writes.within(|| function(frame, batch))).await;
        called.unwrap_or_else(|_| {
            Err(Error::invalid(format!("the function of foreachBatch panicked in batch {batch}")))
        })?;
        let totals = outputs.iter().fold(Totals::default(), |sum, it| sum.plus(it.totals));
        let Attempt { query, batch, generation } = *attempt;
        let mark = Mark { query: Some(query), batch, generation: Some(generation) };
        Ok(Published { mark, totals: Some(totals) })
    }

    async fn settle(&self, _: &Published) -> Result<()> {
        Ok(())
    }

    async fn discard(&self, attempt: &Attempt) -> Result<()> {
        self.staged().remove(attempt);
        Ok(())
    }

    async fn audit(&self, _: BatchId) -> Result<Option<Totals>> {
        Ok(None)
    }

    fn tells_totals(&self) -> bool {
        // It has none to tell after a restart, and needs none.
        true
    }
}
