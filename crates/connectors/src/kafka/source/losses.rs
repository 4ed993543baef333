//! Losses for ever: a file of JSON lines for each batch that lost records, in a folder of the
//! checkpoint that nothing purges. SQL reads the folder as a table.

use super::loss::Loss;
use chrono::{DateTime, SecondsFormat};
use onefold_storage::{CreateError, Durability, Store};
use onefold_types::{Error, OffsetRange, Result};
use serde::Serialize;

/// The folder, in a checkpoint.
pub const FOLDER: &str = "_onefold/losses";

/// One row.
#[derive(Serialize)]
struct Row<'a> {
    /// The source's id.
    source: &'a str,
    /// When it was written down, UTC.
    time: &'a str,
    #[serde(flatten)]
    loss: &'a Loss,
}

/// Writes the losses of a batch down, under a name that the same ones have again.
///
/// # Errors
/// Those of the checkpoint.
pub(crate) async fn keep(
    store: &dyn Store,
    (source, now_ms): (&str, i64),
    range: &OffsetRange,
    losses: &[Loss],
) -> Result<()> {
    let unfit = |error| Error::internal("losses have no JSON").because(error);
    let named = serde_json::to_vec(&(losses, &range.end)).map_err(unfit)?;
    let hash = xxhash_rust::xxh3::xxh3_64(&named);
    let time = DateTime::from_timestamp_millis(now_ms).unwrap_or_default();
    let time = time.to_rfc3339_opts(SecondsFormat::Millis, true);
    let mut text = String::new();
    for loss in losses {
        let row = Row { source, time: &time, loss };
        text.push_str(&serde_json::to_string(&row).map_err(unfit)?);
        text.push('\n');
    }
    let path = format!("{FOLDER}/{source}-{hash:016x}.json");
    match store.create(&path, text.into(), Durability::Now).await {
        // New, or written before a crash.
        Ok(_) => Ok(()),
        Err(CreateError::NotDone(error) | CreateError::MaybeDone(error)) => Err(error),
    }
}
