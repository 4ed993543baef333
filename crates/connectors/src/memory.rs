//! The memory sink: the query's rows as a table of the session. They live as long as the process.

use crate::held_rows::HeldRows;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::DataFusionError;
use datafusion::datasource::MemTable;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use onefold_connector::{
    Attempt, Fence, OutputMode, RowStream, Sink, SinkContext, SinkDefinition, SinkRequest,
    SinkSpec, StagedOutput, fitted,
};
use onefold_types::{BatchId, Delivery, Error, Published, QueryId, Result, Totals};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The memory sink.
pub static SPEC: SinkSpec = SinkSpec {
    name: "memory",
    summary: "a table of the session, under the query's name",
    options: &[],
    define,
};

fn define(request: SinkRequest) -> Result<Arc<dyn SinkDefinition>> {
    if request.query_name.is_none() {
        return Err(Error::invalid(
            "the memory sink needs a name for its table; give it with queryName(name)",
        ));
    }
    Ok(Arc::new(MemoryDefinition { mode: request.output_mode, rows: Arc::default() }))
}

/// The rows of the table.
#[derive(Debug, Default)]
struct Rows {
    /// Known once the query has started.
    schema: Option<SchemaRef>,
    /// The batches, in order; in complete mode only the last one.
    batches: BTreeMap<BatchId, (Published, Vec<RecordBatch>)>,
}

type SharedRows = Arc<Mutex<Rows>>;

fn locked(rows: &SharedRows) -> MutexGuard<'_, Rows> {
    rows.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct MemoryDefinition {
    mode: OutputMode,
    rows: SharedRows,
}

#[async_trait]
impl SinkDefinition for MemoryDefinition {
    fn delivery(&self) -> Delivery {
        Delivery::AtLeastOnce {
            why: "rows and marks are lost with the process, so only a run without a restart sees \
                  each row once"
                .to_owned(),
        }
    }

    fn description(&self) -> String {
        "MemorySink".to_owned()
    }

    fn table(&self) -> Option<Arc<dyn TableProvider>> {
        Some(Arc::new(MemoryTable { rows: Arc::clone(&self.rows) }))
    }

    async fn open(&self, context: SinkContext) -> Result<Arc<dyn Sink>> {
        let held = {
            let mut rows = locked(&self.rows);
            rows.schema = Some(Arc::clone(&context.schema));
            rows.batches.last_key_value().map(|(batch, _)| *batch)
        };
        // As Spark: what an earlier process held is gone, and only a complete result comes back
        // by itself.
        if self.mode != OutputMode::Complete
            && let Some(commit) = context.last_commit
            && held.is_none_or(|held| held < commit)
        {
            return Err(Error::invalid(format!(
                "this query does not support recovering from its checkpoint: batches up to \
                 {commit} were in the memory of an earlier process; delete the checkpoint to \
                 start over, or use output mode complete"
            )));
        }
        Ok(Arc::new(Memory {
            query: context.query,
            schema: context.schema,
            mode: self.mode,
            rows: Arc::clone(&self.rows),
            staged: HeldRows::default(),
        }))
    }
}

#[derive(Debug)]
struct Memory {
    query: QueryId,
    schema: SchemaRef,
    mode: OutputMode,
    rows: SharedRows,
    staged: HeldRows,
}

#[async_trait]
impl Sink for Memory {
    async fn last_mark(&self) -> Result<Option<Published>> {
        let rows = locked(&self.rows);
        let last = rows.batches.last_key_value().map(|(_, (published, _))| *published);
        Ok(last.filter(|published| published.mark.query == Some(self.query)))
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
        self.staged.stage(attempt, partition, rows, usize::MAX).await
    }

    async fn publish(
        &self,
        attempt: &Attempt,
        outputs: Vec<StagedOutput>,
        fence: &dyn Fence,
    ) -> Result<Published> {
        fence.check().await?;
        let batches = self.staged.take(attempt);
        let batches: Vec<RecordBatch> =
            batches.iter().map(|batch| fitted(batch, &self.schema)).collect::<Result<_>>()?;
        let mut rows = locked(&self.rows);
        if let Some((theirs, _)) = rows.batches.get(&attempt.batch)
            && theirs.mark.query == Some(attempt.query)
        {
            return Ok(*theirs);
        }
        let published = crate::noop::published(attempt, &outputs);
        if self.mode == OutputMode::Complete {
            rows.batches.clear();
        }
        rows.batches.insert(attempt.batch, (published, batches));
        Ok(published)
    }

    async fn settle(&self, _: &Published) -> Result<()> {
        Ok(())
    }

    async fn discard(&self, attempt: &Attempt) -> Result<()> {
        self.staged.take(attempt);
        Ok(())
    }

    async fn audit(&self, _: BatchId) -> Result<Option<Totals>> {
        Ok(None)
    }

    fn tells_totals(&self) -> bool {
        true
    }
}

/// The table: each scan sees the batches that are there by then.
#[derive(Debug)]
struct MemoryTable {
    rows: SharedRows,
}

#[async_trait]
impl TableProvider for MemoryTable {
    fn schema(&self) -> SchemaRef {
        locked(&self.rows)
            .schema
            .clone()
            .unwrap_or_else(|| Arc::new(arrow::datatypes::Schema::empty()))
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        let batches: Vec<RecordBatch> = {
            let rows = locked(&self.rows);
            rows.batches.values().flat_map(|(_, batches)| batches.iter().cloned()).collect()
        };
        let table = MemTable::try_new(self.schema(), vec![batches])?;
        table.scan(state, projection, filters, limit).await
    }
}
