//! The sink without transactions: rows of a batch that runs again are written again.

use super::cluster::{Failure, Producer};
use super::columns::Columns;
use super::exactly_once::{no_topic, not_written, until_room};
use super::letters::Letters;
use super::row::Row;
use super::transaction::{Call, Next, Trouble, after};
use crate::file_sink::plan_failed;
use crate::noop::published;
use async_trait::async_trait;
use futures::StreamExt;
use onefold_connector::{Attempt, Fence, RowStream, Sink, StagedOutput};
use onefold_types::{BatchId, Published, Result, Totals};
use std::sync::Arc;

/// A Kafka sink that keeps no marks.
#[derive(Debug)]
pub(crate) struct AtLeastOnce {
    pub(crate) producer: Arc<dyn Producer>,
    pub(crate) columns: Columns,
    pub(crate) letters: Option<Letters>,
}

impl AtLeastOnce {
    async fn send(&self, attempt: &Attempt, row: &Row<'_>) -> Result<()> {
        let mut tries = 1;
        loop {
            match self.producer.send(&row.record) {
                Ok(true) => return Ok(()),
                Ok(false) => until_room().await,
                Err(failure) => {
                    trouble(attempt, (Call::Send, tries), failure)?;
                    tries += 1;
                }
            }
        }
    }

    /// Hands rows over, whose columns are these.
    async fn hand_over(
        &self,
        attempt: &Attempt,
        partition: u32,
        mut rows: RowStream,
        columns: &Columns,
    ) -> Result<StagedOutput> {
        let mut totals = Totals::default();
        while let Some(batch) = rows.next().await {
            let batch = batch.map_err(plan_failed)?;
            let rows = columns.rows(&batch)?;
            let mut room = Vec::new();
            for at in 0..batch.num_rows() {
                let row = Row::of(&rows, at, &mut room, (partition, totals.rows))?;
                totals = totals.plus(row.totals());
                self.send(attempt, &row).await?;
            }
        }
        self.flush(attempt).await?;
        Ok(StagedOutput { partition, totals, detail: serde_json::Value::Null })
    }

    async fn flush(&self, attempt: &Attempt) -> Result<()> {
        let mut tries = 1;
        while let Err(failure) = self.producer.call(Call::Flush).await {
            trouble(attempt, (Call::Flush, tries), failure)?;
            tries += 1;
        }
        match self.producer.rejected() {
            Some(Failure { trouble: Trouble::Retriable, error }) => {
                let failure = Failure { trouble: Trouble::MustAbort, error };
                trouble(attempt, (Call::Flush, 1), failure)
            }
            Some(failure) => trouble(attempt, (Call::Flush, 1), failure),
            None => Ok(()),
        }
    }
}

/// Whether to make a call again: else an error.
fn trouble(attempt: &Attempt, (call, tries): (Call, u32), failure: Failure) -> Result<()> {
    match after(call, failure.trouble, tries) {
        Next::CallAgain => Ok(()),
        Next::Void => {
            Err(not_written(attempt, onefold_types::ErrorKind::Unavailable, failure.error))
        }
        Next::GiveUp { kind, .. } => Err(not_written(attempt, kind, failure.error)),
    }
}

#[async_trait]
impl Sink for AtLeastOnce {
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
        if self.letters.as_ref().is_some_and(|it| it.alone) {
            return self.stage_dead_letters(attempt, partition, rows).await;
        }
        self.hand_over(attempt, partition, rows, &self.columns).await
    }

    async fn stage_dead_letters(
        &self,
        attempt: &Attempt,
        partition: u32,
        letters: RowStream,
    ) -> Result<StagedOutput> {
        let to = self.letters.as_ref().ok_or_else(no_topic)?;
        let (records, columns) = to.records(letters)?;
        self.hand_over(attempt, partition, records, &columns).await
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
