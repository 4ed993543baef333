//! Checkpoints of a table's log, and the cleanup of what they replace.

use super::table::{Table, failed};
use deltalake_core::{DeltaTable, checkpoints};
use onefold_types::Result;

/// Writes the checkpoint of a version where the table wants one there, and deletes commits that are
/// older than the table keeps them.
///
/// # Errors
/// As the store's. The log is whole all the same.
pub(crate) async fn write(table: &Table, version: u64) -> Result<()> {
    let what = || format!("version {version} of {} got no checkpoint", table.url());
    let mut loaded = DeltaTable::new(table.log.clone());
    loaded.load_version(version).await.map_err(|error| failed(&what(), error))?;
    let settings = loaded
        .snapshot()
        .map(|snapshot| snapshot.metadata().configuration().clone())
        .map_err(|error| failed(&what(), error))?;
    let interval = settings.get("delta.checkpointInterval").and_then(|it| it.parse().ok());
    if !version.is_multiple_of(interval.filter(|it| *it > 0).unwrap_or(10_u64)) {
        return Ok(());
    }
    checkpoints::create_checkpoint(&loaded, None).await.map_err(|error| failed(&what(), error))?;
    let keeps = settings.get("delta.enableExpiredLogCleanup").is_some_and(|it| it == "false");
    if !keeps {
        let cleaned = checkpoints::cleanup_metadata(&loaded, None).await;
        cleaned.map_err(|error| failed("old commits were not deleted", error))?;
    }
    Ok(())
}
