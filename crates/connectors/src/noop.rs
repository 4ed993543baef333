//! The noop sink: runs the query and drops its rows.

use async_trait::async_trait;
use onefold_connector::{
    Attempt, Fence, RowStream, Sink, SinkContext, SinkDefinition, SinkRequest, SinkSpec,
    StagedOutput,
};
use onefold_types::{BatchId, Delivery, Mark, Published, Result, Totals};
use std::sync::Arc;

/// The noop sink.
pub static SPEC: SinkSpec =
    SinkSpec { name: "noop", summary: "drops every row", options: &[], define };

fn define(_: SinkRequest) -> Result<Arc<dyn SinkDefinition>> {
    Ok(Arc::new(Noop))
}

#[derive(Debug)]
struct Noop;

#[async_trait]
impl SinkDefinition for Noop {
    fn delivery(&self) -> Delivery {
        Delivery::AtLeastOnce { why: "it keeps no mark; rows of a batch may run again".to_owned() }
    }

    fn description(&self) -> String {
        "NoopSink".to_owned()
    }

    async fn open(&self, _: SinkContext) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(Noop))
    }
}

#[async_trait]
impl Sink for Noop {
    async fn last_mark(&self) -> Result<Option<Published>> {
        Ok(None)
    }

    async fn conceal(&self, _: BatchId) -> Result<()> {
        Ok(())
    }

    async fn stage(&self, _: &Attempt, partition: u32, rows: RowStream) -> Result<StagedOutput> {
        crate::held_rows::drain(partition, rows, |_| ()).await
    }

    async fn publish(
        &self,
        attempt: &Attempt,
        outputs: Vec<StagedOutput>,
        fence: &dyn Fence,
    ) -> Result<Published> {
        fence.check().await?;
        Ok(published(attempt, &outputs))
    }

    async fn settle(&self, _: &Published) -> Result<()> {
        Ok(())
    }

    async fn discard(&self, _: &Attempt) -> Result<()> {
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

/// The mark of a batch in a sink that stores none.
pub(crate) fn published(attempt: &Attempt, outputs: &[StagedOutput]) -> Published {
    let totals = outputs.iter().fold(Totals::default(), |sum, output| sum.plus(output.totals));
    let Attempt { query, batch, generation } = *attempt;
    let mark = Mark { query: Some(query), batch, generation: Some(generation) };
    Published { mark, totals: Some(totals) }
}
