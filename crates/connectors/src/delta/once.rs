//! Commands that a table does once: who does them and their number stand in the commit.

use super::known;
use super::table::{Table, failed};
use deltalake_core::kernel::transaction::{CommitBuilder, CommitProperties};
use deltalake_core::kernel::{EagerSnapshot, Transaction};
use deltalake_core::protocol::{DeltaOperation, OutputMode};
use deltalake_core::{DeltaTable, DeltaTableError};
use onefold_types::Result;

/// Who does a command, and its number among his.
#[derive(Debug, Clone)]
pub(super) struct Once(pub(super) Option<(String, i64)>);

impl Once {
    /// Whether the table has the command, or a later one.
    ///
    /// # Errors
    /// Corrupt: the log cannot be read.
    pub(super) async fn is_done(&self, table: &Table, snapshot: &EagerSnapshot) -> Result<bool> {
        let Some((app, number)) = &self.0 else { return Ok(false) };
        let newest = known::remembered(table, snapshot, app).await?;
        Ok(newest.is_some_and(|newest| newest >= *number))
    }

    /// What the commit of the command holds beside its changes.
    pub(super) fn properties(&self) -> CommitProperties {
        let noted = self.0.iter().map(|(app, number)| Transaction::new(app, *number));
        CommitProperties::default().with_application_transactions(noted.collect())
    }

    /// Notes a command that changed nothing, for which the library makes no commit: done again
    /// behind the commands that follow it, it might change something.
    ///
    /// # Errors
    /// The store's.
    pub(super) async fn note_alone(
        &self,
        after: &DeltaTable,
        before: Option<u64>,
        what: &str,
    ) -> Result<()> {
        let Some((app, number)) = &self.0 else { return Ok(()) };
        if after.version() != before {
            return Ok(());
        }
        let unchanged = |error: DeltaTableError| failed(what, error);
        let operation = DeltaOperation::StreamingUpdate {
            output_mode: OutputMode::Append,
            query_id: app.clone(),
            epoch_id: *number,
        };
        let snapshot = after.snapshot().map_err(unchanged)?;
        let commit = CommitBuilder::from(self.properties())
            .build(Some(snapshot), after.log_store(), operation)
            .await;
        commit.map(|_| ()).map_err(unchanged)
    }
}
