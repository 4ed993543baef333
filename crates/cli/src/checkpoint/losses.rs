//! `onefold checkpoint losses`.

use crate::args::LossesArgs;
use crate::exit::Failure;
use crate::{sink_lookup, terminal};
use onefold::types::Error;
use onefold_connectors::kafka::LOSSES_FOLDER;
use onefold_storage::Store;
use serde_json::Value;
use std::sync::Arc;

/// Lists what a query went on without.
///
/// # Errors
/// Corrupt, for a file that holds something else; as the store's.
pub fn list(args: &LossesArgs) -> Result<(), Failure> {
    let store = sink_lookup::open_store(&args.checkpoint, &args.reach)?;
    let mut rows = sink_lookup::runtime()?.block_on(rows(store))?;
    let text = |row: &Value, key: &str| match row.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "-".to_owned(),
    };
    rows.sort_by_key(|row| (text(row, "time"), text(row, "topic"), text(row, "partition")));
    if args.json {
        rows.iter().for_each(|row| terminal::line(&row.to_string()));
        return Ok(());
    }
    if rows.is_empty() {
        terminal::line("no records were lost");
    }
    for row in &rows {
        let [time, topic, partition, from, to, reason] =
            ["time", "topic", "partition", "from", "to", "reason"].map(|key| text(row, key));
        terminal::line(&format!("{time}  {topic}-{partition}  {from} to {to}  {reason}"));
    }
    Ok(())
}

async fn rows(store: Arc<dyn Store>) -> onefold::types::Result<Vec<Value>> {
    let mut rows = Vec::new();
    for entry in store.list(LOSSES_FOLDER).await? {
        let Some(bytes) = store.read(&entry.path).await? else { continue };
        for line in String::from_utf8_lossy(&bytes).lines() {
            rows.push(serde_json::from_str(line).map_err(|error| {
                Error::corrupt(format!("{} holds no losses", entry.path)).because(error)
            })?);
        }
    }
    Ok(rows)
}
