//! The suite's rows as records: the id in text as the value.

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use onefold_connector::{Attempt, Fence, RowStream, Sink, StagedOutput};
use onefold_types::{BatchId, Published, Result, Totals};
use std::sync::Arc;

/// The columns that the sink gets.
pub(super) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("value", DataType::Utf8, true)]))
}

/// A sink that takes ids.
#[derive(Debug)]
pub(super) struct Numbers(pub(super) Arc<dyn Sink>);

#[async_trait]
impl Sink for Numbers {
    async fn last_mark(&self) -> Result<Option<Published>> {
        self.0.last_mark().await
    }

    async fn conceal(&self, batch: BatchId) -> Result<()> {
        self.0.conceal(batch).await
    }

    async fn stage(
        &self,
        attempt: &Attempt,
        partition: u32,
        rows: RowStream,
    ) -> Result<StagedOutput> {
        let rows = rows.map(|batch| {
            let batch = batch?;
            let ids = batch.column(0).as_primitive::<Int64Type>().values();
            let texts: ArrayRef =
                Arc::new(StringArray::from_iter_values(ids.iter().map(i64::to_string)));
            Ok(RecordBatch::try_new(schema(), vec![texts])?)
        });
        self.0
            .stage(attempt, partition, Box::pin(RecordBatchStreamAdapter::new(schema(), rows)))
            .await
    }

    async fn publish(
        &self,
        attempt: &Attempt,
        outputs: Vec<StagedOutput>,
        fence: &dyn Fence,
    ) -> Result<Published> {
        self.0.publish(attempt, outputs, fence).await
    }

    async fn settle(&self, published: &Published) -> Result<()> {
        self.0.settle(published).await
    }

    async fn discard(&self, attempt: &Attempt) -> Result<()> {
        self.0.discard(attempt).await
    }

    async fn audit(&self, batch: BatchId) -> Result<Option<Totals>> {
        self.0.audit(batch).await
    }

    fn tells_totals(&self) -> bool {
        self.0.tells_totals()
    }
}
