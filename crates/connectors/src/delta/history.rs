//! The commits of a table, as `DESCRIBE HISTORY` shows them.

use super::commit::Commit;
use super::known::{commit_of, commits};
use super::table::{Table, commit_path};
use arrow::array::{
    ArrayRef, BooleanArray, Int64Array, MapBuilder, RecordBatch, StringArray, StringBuilder,
    TimestampMicrosecondArray,
};
use onefold_types::{Error, Result};
use serde_json::Value;
use std::sync::Arc;

/// One commit.
struct Row {
    version: u64,
    time_ms: i64,
    commit: Commit,
}

impl Row {
    fn value(&self, name: &str) -> Option<&Value> {
        self.commit.info.as_ref()?.get(name)
    }

    fn text(&self, name: &str) -> Option<String> {
        self.value(name)?.as_str().map(str::to_owned)
    }
}

/// The commits that are still there, newest first.
///
/// # Errors
/// Corrupt: one is damaged.
pub(crate) async fn rows(table: &Table, limit: Option<usize>) -> Result<RecordBatch> {
    let mut rows = Vec::new();
    for version in commits(table).await?.into_iter().rev().take(limit.unwrap_or(usize::MAX)) {
        let Some(commit) = commit_of(table, version).await? else { continue };
        let noted = commit.info.as_ref().and_then(|info| info.get("timestamp")?.as_i64());
        let time_ms = match noted {
            Some(time) => time,
            None => {
                let entry = table.store.stat(&commit_path(version)).await?;
                entry.map_or(0, |entry| entry.modified_ms)
            }
        };
        rows.push(Row { version, time_ms, commit });
    }
    shown(&rows)
}

fn shown(rows: &[Row]) -> Result<RecordBatch> {
    let texts = |name: &str| -> ArrayRef {
        Arc::new(rows.iter().map(|row| row.text(name)).collect::<StringArray>())
    };
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let versions: Int64Array = rows.iter().map(|row| Some(number(row.version))).collect();
    let times: TimestampMicrosecondArray =
        rows.iter().map(|row| Some(row.time_ms.saturating_mul(1_000))).collect();
    let read: Int64Array =
        rows.iter().map(|row| row.value("readVersion").and_then(Value::as_i64)).collect();
    let blind: BooleanArray =
        rows.iter().map(|row| row.value("isBlindAppend").and_then(Value::as_bool)).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("version", Arc::new(versions)),
        ("timestamp", Arc::new(times.with_timezone("UTC"))),
        ("userId", texts("userId")),
        ("userName", texts("userName")),
        ("operation", texts("operation")),
        ("operationParameters", maps(rows, "operationParameters")?),
        ("readVersion", Arc::new(read)),
        ("isolationLevel", texts("isolationLevel")),
        ("isBlindAppend", Arc::new(blind)),
        ("operationMetrics", maps(rows, "operationMetrics")?),
        ("userMetadata", texts("userMetadata")),
        ("engineInfo", texts("engineInfo")),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, it)| (name, it, true)))
        .map_err(|error| Error::internal("a history cannot be shown").because(error))
}

/// Objects as maps from text to text.
fn maps(rows: &[Row], name: &str) -> Result<ArrayRef> {
    let mut maps = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for row in rows {
        let found = row.value(name).and_then(Value::as_object);
        for (key, value) in found.into_iter().flatten() {
            maps.keys().append_value(key);
            match value {
                Value::String(text) => maps.values().append_value(text),
                Value::Null => maps.values().append_null(),
                other => maps.values().append_value(other.to_string()),
            }
        }
        maps.append(found.is_some())
            .map_err(|error| Error::internal("a history cannot be shown").because(error))?;
    }
    Ok(Arc::new(maps.finish()))
}
