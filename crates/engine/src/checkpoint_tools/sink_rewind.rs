//! Taking the newest batches out of a file sink's folder.
//!
//! The manifest (`_spark_metadata/`) says which files belong to which batch. They move, with their
//! manifest entries, to `_onefold/rewound/G/` in the same folder, where neither a reader of the
//! manifest nor a plain listing looks (names that start with `_` are no data).

use super::contents::{decimal, entry_number, read_text};
use super::rewind::{kept_at, move_away};
use super::text_log::TextLog;
use onefold_storage::Store;
use onefold_types::{BatchId, Error, Generation, Result};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const MANIFEST: &str = "_spark_metadata";

/// Bytes copied at a time.
const CHUNK_BYTES: u64 = 4 * 1024 * 1024;

/// What goes from a file sink's folder.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SinkRewind {
    /// The folder.
    pub url: String,
    /// Data files that go, relative to the folder.
    pub data: Vec<String>,
    /// Manifest entries that go, newest first.
    pub entries: Vec<String>,
}

/// Reads the manifest and decides what goes.
///
/// # Errors
/// Invalid: the folder has no manifest, or what must stay stands only in an entry that must go;
/// Corrupt: an entry cannot be read.
pub async fn plan_sink_rewind(store: &dyn Store, to_batch: BatchId) -> Result<SinkRewind> {
    let mut entries: BTreeMap<(u64, bool), String> = BTreeMap::new();
    for entry in store.list(MANIFEST).await? {
        let name = entry.path.rsplit('/').next().unwrap_or_default();
        if let Some(number) = entry_number(name) {
            entries.insert(number, entry.path.clone());
        }
    }
    if entries.is_empty() {
        return Err(Error::invalid(format!(
            "{} holds no manifest, so it is not the folder of a file sink: only those can be \
             taken back, say --later-marks leave",
            store.url()
        )));
    }
    let (stay, go): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|((number, _), _)| *number <= to_batch.0);
    check_complete(&stay, to_batch, store.url())?;
    let kept = files_of(store, &stay).await?;
    let gone = files_of(store, &go).await?;
    let data = gone.difference(&kept).cloned().collect();
    let entries = go.into_iter().rev().map(|(_, path)| path).collect();
    Ok(SinkRewind { url: store.url().to_owned(), data, entries })
}

type ManifestEntry = ((u64, bool), String);

/// Every batch up to the target must be told by the entries that stay.
fn check_complete(stay: &[ManifestEntry], to_batch: BatchId, url: &str) -> Result<()> {
    let numbers: BTreeSet<u64> = stay.iter().map(|((number, _), _)| *number).collect();
    let compact = stay.iter().rev().find(|((_, compact), _)| *compact).map(|((n, _), _)| *n);
    let first = compact.unwrap_or(0);
    match (first..=to_batch.0).find(|number| !numbers.contains(number)) {
        None => Ok(()),
        Some(missing) => Err(Error::invalid(format!(
            "{url}/{MANIFEST} tells batch {missing} only in an entry after batch {to_batch}, \
             which would have to go: choose a batch that has not been compacted away"
        ))),
    }
}

/// The data files that manifest entries name, relative to the folder.
async fn files_of(store: &dyn Store, entries: &[ManifestEntry]) -> Result<BTreeSet<String>> {
    let mut files = BTreeSet::new();
    for (_, path) in entries {
        let text = read_text(store, path).await?.and_then(|text| TextLog::parse(&text));
        let log = text.map_err(|error| {
            Error::corrupt(format!("{}/{path} cannot be read", store.url())).because(error)
        })?;
        for object in log.objects() {
            if let Some(relative) = object.get("path").and_then(Value::as_str) {
                files.extend(relative_to(relative, store.url()));
            }
        }
    }
    Ok(files)
}

/// The path of a file below a folder, both as URLs; `None` if it lies elsewhere.
fn relative_to(file: &str, folder: &str) -> Option<String> {
    let plain = |url: &str| match url.strip_prefix("file:") {
        Some(path) => format!("/{}", path.trim_start_matches('/')),
        None => url.to_owned(),
    };
    let (file, folder) = (plain(file), plain(folder));
    let rest = file.strip_prefix(folder.trim_end_matches('/'))?.strip_prefix('/')?;
    onefold_storage::location::decode_path(rest).ok()
}

/// Carries it out. What is gone already is fine, so that it can be done again after a crash.
///
/// # Errors
/// As the store's.
pub async fn apply_sink_rewind(
    store: &dyn Store,
    plan: &SinkRewind,
    generation: Generation,
) -> Result<()> {
    for path in &plan.data {
        copy(store, path, &kept_at(path, generation)).await?;
        store.delete(path).await?;
    }
    for path in &plan.entries {
        move_away(store, path, generation).await?;
    }
    Ok(())
}

/// Copies a file of any size in bounded memory.
async fn copy(store: &dyn Store, from: &str, to: &str) -> Result<()> {
    let Some(entry) = store.stat(from).await? else { return Ok(()) };
    if store.stat(to).await?.is_some_and(|copied| copied.size == entry.size) {
        return Ok(());
    }
    let mut writer = store.stage(to, "rewind").await?;
    let mut position = 0;
    while position < entry.size {
        let bytes = store.read_range(from, position, CHUNK_BYTES).await?;
        if bytes.is_empty() {
            let text = format!("{}/{from} became shorter while it was copied", store.url());
            return Err(Error::corrupt(text));
        }
        position = position.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        writer.write(bytes).await?;
    }
    let staged = writer.finish().await?;
    store.reveal(&[staged]).await
}

/// The newest batch in a file sink's manifest, for checkpoints that do not say what their sink is.
///
/// # Errors
/// As the store's.
pub async fn newest_manifest_batch(store: &dyn Store) -> Result<Option<BatchId>> {
    let entries = store.list(MANIFEST).await?;
    let numbers = entries.iter().filter_map(|entry| {
        let name = entry.path.rsplit('/').next()?;
        decimal(name.strip_suffix(".compact").unwrap_or(name))
    });
    Ok(numbers.max().map(BatchId))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_below_its_folder_whatever_the_spelling() {
        assert_eq!(relative_to("file:///out/a%20b/x", "file:///out"), Some("a b/x".into()));
        assert_eq!(relative_to("file:/out/x", "file:///out"), Some("x".into()));
        assert_eq!(relative_to("file:///out2/x", "file:///out"), None);
        assert_eq!(relative_to("s3://b/out/k=1/x", "s3://b/out"), Some("k=1/x".into()));
    }

    #[test]
    fn what_stays_must_be_told_by_what_stays() {
        let entry = |number, compact| ((number, compact), String::new());
        let stay = [entry(9, true), entry(10, false), entry(11, false)];
        assert!(check_complete(&stay, BatchId(11), "u").is_ok());
        assert!(check_complete(&stay, BatchId(12), "u").is_err());
        assert!(check_complete(&stay[1..], BatchId(11), "u").is_err());
    }
}
