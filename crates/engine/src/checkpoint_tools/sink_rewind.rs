//! Taking the newest batches out of a file sink's folder.
//!
//! The manifest (`_spark_metadata/`) says which files belong to which batch. They move, with their
//! manifest entries, to `_onefold/rewound/G/` in the same folder, where neither a reader of the
//! manifest nor a plain listing looks (names that start with `_` are no data). So do files of later
//! batches that no entry names: a driver died before it published them, or the entry is lost. The
//! query would not know them after the rewind, and a plain listing would show their rows twice.

use super::contents::{decimal, entry_number, read_text};
use super::rewind::{kept_at, move_away};
use super::text_log::TextLog;
use onefold_storage::Store;
use onefold_types::{BatchId, Error, Generation, QueryId, Result};
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
    /// Data files that go, relative to the folder, hidden ones included.
    pub data: Vec<String>,
    /// Manifest entries that go, newest first.
    pub entries: Vec<String>,
}

impl SinkRewind {
    /// Whether nothing goes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.data.is_empty() && self.entries.is_empty()
    }

    /// How many files go that readers of the folder see, or that its manifest names.
    #[must_use]
    pub fn seen(&self) -> usize {
        self.data.iter().filter(|path| !file_name(path).starts_with('.')).count()
    }
}

/// Reads the manifest and the names of all files, and decides what goes: the entries of batches
/// after `to_batch`, the files that they name, and files of `query` whose names tell such a batch.
/// `None` if it is no file sink's folder: it has neither a manifest nor files of the query. A sink that
/// `joins_later` need not have the query's first batches.
///
/// # Errors
/// Corrupt: the manifest is lost, or an entry cannot be read; Invalid: what must stay stands only
/// in an entry that must go.
pub async fn plan_sink_rewind(
    store: &dyn Store,
    query: Option<QueryId>,
    to_batch: BatchId,
    joins_later: bool,
) -> Result<Option<SinkRewind>> {
    let mut entries: BTreeMap<(u64, bool), String> = BTreeMap::new();
    for entry in store.list(MANIFEST).await? {
        if let Some(number) = entry_number(file_name(&entry.path)) {
            entries.insert(number, entry.path.clone());
        }
    }
    let own = own_files(store, query).await?;
    if entries.is_empty() && own.is_empty() {
        return Ok(None);
    }
    if entries.is_empty() {
        return Err(Error::corrupt(format!(
            "{}/{MANIFEST} is lost, but data files of the query are there: make it again first, \
             with `onefold checkpoint repair`",
            store.url()
        )));
    }
    let (stay, go): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|((number, _), _)| *number <= to_batch.0);
    if !go.is_empty() {
        let compact_goes = go.iter().any(|((_, compact), _)| *compact);
        let joined =
            joins_later.then(|| stay.iter().chain(&go).map(|((number, _), _)| *number).min());
        check_complete(&stay, compact_goes, (joined.flatten(), to_batch), store.url())?;
    }
    let mut gone = files_of(store, &go).await?;
    gone.extend(own.into_iter().filter(|(_, batch)| *batch > to_batch).map(|(path, _)| path));
    let data = if gone.is_empty() {
        Vec::new()
    } else {
        let kept = files_of(store, &stay).await?;
        gone.difference(&kept).cloned().collect()
    };
    let entries = go.into_iter().rev().map(|(_, path)| path).collect();
    Ok(Some(SinkRewind { url: store.url().to_owned(), data, entries }))
}

/// Every data file of a query, however it lies, with the batch that its name tells. None for a query
/// that is not known, and none of Spark's, whose names tell neither query nor batch.
async fn own_files(store: &dyn Store, query: Option<QueryId>) -> Result<BTreeMap<String, BatchId>> {
    let Some(query) = query else { return Ok(BTreeMap::new()) };
    let aside =
        |path: &str| ["_onefold/", "_spark_metadata/"].iter().any(|it| path.starts_with(it));
    let paths = store.names_deep("", true).await?.into_iter().filter(|path| !aside(path));
    Ok(paths.filter_map(|path| batch_of(&path, query).map(|batch| (path, batch))).collect())
}

/// The batch of a query's data file `part-00003-QUERY-b12-g3-c000.EXT`, or of a hidden file that holds
/// that name.
fn batch_of(path: &str, query: QueryId) -> Option<BatchId> {
    let name = file_name(path);
    let rest = name.strip_prefix('.').unwrap_or(name).strip_prefix("part-")?;
    let (partition, rest) = rest.split_once('-')?;
    decimal_or_padded(partition)?;
    let rest = rest.strip_prefix(&query.to_string())?.strip_prefix("-b")?;
    let (batch, rest) = rest.split_once("-g")?;
    rest.starts_with(|letter: char| letter.is_ascii_digit()).then_some(())?;
    decimal(batch).map(BatchId)
}

/// A partition's number, which has zeros before it.
fn decimal_or_padded(text: &str) -> Option<()> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(())
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

type ManifestEntry = ((u64, bool), String);

/// Every batch up to the target must be told by the entries that stay. If one of those that go is
/// compact, it may be what tells the missing one; otherwise that is lost.
fn check_complete(
    stay: &[ManifestEntry],
    compact_goes: bool,
    (joined, to_batch): (Option<u64>, BatchId),
    url: &str,
) -> Result<()> {
    let numbers: BTreeSet<u64> = stay.iter().map(|((number, _), _)| *number).collect();
    let compact = stay.iter().rev().find(|((_, compact), _)| *compact).map(|((n, _), _)| *n);
    let first = compact.or(joined).unwrap_or(0);
    match (first..=to_batch.0).find(|number| !numbers.contains(number)) {
        None => Ok(()),
        Some(missing) if !compact_goes => Err(Error::corrupt(format!(
            "{url}/{MANIFEST} lacks batch {missing}: make its entry again first, with `onefold \
             checkpoint repair`"
        ))),
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
    use onefold_storage::Durability;
    use onefold_testkit::{MemoryStore, S3Server};

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
        assert!(check_complete(&stay, true, (None, BatchId(11)), "u").is_ok());
        assert!(check_complete(&stay, true, (None, BatchId(12)), "u").is_err());
        let compacted = check_complete(&stay[1..], true, (None, BatchId(11)), "u").unwrap_err();
        assert!(compacted.to_string().contains("compacted"), "{compacted}");
        let lost = check_complete(&stay[1..], false, (None, BatchId(11)), "u").unwrap_err();
        assert!(lost.to_string().contains("checkpoint repair"), "{lost}");
    }

    const QUERY: &str = "6fa0ab59-0d2c-4b1e-9d5c-1f2d3c4b5a69";
    const OTHER: &str = "11111111-0d2c-4b1e-9d5c-1f2d3c4b5a69";

    fn file(query: &str, batch: u64) -> String {
        format!("part-00000-{query}-b{batch}-g2-c000.snappy.parquet")
    }

    #[test]
    fn a_file_tells_its_batch_also_while_it_is_hidden() {
        let query: QueryId = QUERY.parse().unwrap();
        for path in [
            file(QUERY, 12),
            format!("k=1/{}", file(QUERY, 12)),
            format!("k=part-0/.{}.g2.staged", file(QUERY, 12)),
            format!(".{}.concealed.staged", file(QUERY, 12)),
        ] {
            assert_eq!(batch_of(&path, query), Some(BatchId(12)), "{path}");
        }
        for path in [
            file(OTHER, 12),
            format!("part-00000-{QUERY}-c000.snappy.parquet"),
            format!("x{}", file(QUERY, 12)),
            format!("{}/x.parquet", file(QUERY, 12)),
            format!("part-00000-{QUERY}-b-g1-c000.parquet"),
            String::new(),
        ] {
            assert_eq!(batch_of(&path, query), None, "{path}");
        }
    }

    /// Fills a sink whose manifest tells batches 0 to 2 with files of two later ones as well.
    async fn fill(store: &dyn Store) {
        for batch in 0..=2 {
            let (url, file) = (store.url(), file(QUERY, batch));
            let text = format!("v1\n{{\"path\":\"{url}/{file}\"}}\n");
            put(store, &format!("{MANIFEST}/{batch}"), &text).await;
        }
        for name in [
            file(QUERY, 0),
            file(QUERY, 1),
            file(QUERY, 2),
            format!("k=1/{}", file(QUERY, 3)),
            format!("k=1/.{}.g2.staged", file(QUERY, 4)),
            file(OTHER, 7),
            format!("_onefold/rewound/1/{}", file(QUERY, 9)),
        ] {
            put(store, &name, "x").await;
        }
    }

    async fn put(store: &dyn Store, path: &str, text: &str) {
        let bytes = bytes::Bytes::copy_from_slice(text.as_bytes());
        store.create(path, bytes, Durability::Now).await.unwrap();
    }

    async fn planned(store: &dyn Store, to_batch: u64) -> Result<Option<SinkRewind>> {
        plan_sink_rewind(store, Some(QUERY.parse().unwrap()), BatchId(to_batch), false).await
    }

    #[tokio::test]
    async fn files_of_later_batches_go_though_no_entry_names_them() {
        take_back(&MemoryStore::new("out")).await;
    }

    #[tokio::test]
    async fn files_of_later_batches_go_from_an_object_store_too() {
        let server = S3Server::start().unwrap();
        let store = onefold_storage::open(&server.url("out"), &server.options()).unwrap();
        take_back(store.as_ref()).await;
    }

    async fn take_back(store: &dyn Store) {
        fill(store).await;
        let unpublished =
            [format!("k=1/.{}.g2.staged", file(QUERY, 4)), format!("k=1/{}", file(QUERY, 3))];
        let newest = planned(store, 2).await.unwrap().unwrap();
        assert_eq!((newest.data.as_slice(), newest.seen()), (unpublished.as_slice(), 1));
        assert!(newest.entries.is_empty());
        let older = planned(store, 1).await.unwrap().unwrap();
        assert_eq!(older.data, [&unpublished[..], &[file(QUERY, 2)]].concat());
        assert_eq!(older.entries, ["_spark_metadata/2"]);

        apply_sink_rewind(store, &older, Generation(5)).await.unwrap();
        let left = store.names_deep("", true).await.unwrap();
        assert!(!left.iter().any(|path| older.data.contains(path)), "{left:?}");
        for path in &older.data {
            assert!(left.contains(&format!("_onefold/rewound/5/{path}")), "{path}: {left:?}");
        }
        assert!(left.contains(&file(OTHER, 7)) && left.contains(&file(QUERY, 1)), "{left:?}");
        assert!(planned(store, 1).await.unwrap().unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_lost_manifest_is_made_again_before_a_rewind() {
        let store = MemoryStore::new("out");
        fill(&store).await;
        store.delete("_spark_metadata/2").await.unwrap();
        let newest_lost = planned(&store, 1).await.unwrap().unwrap();
        assert_eq!(newest_lost.data.len(), 3, "{newest_lost:?}");
        store.delete("_spark_metadata/0").await.unwrap();
        store.delete("_spark_metadata/1").await.unwrap();
        let error = planned(&store, 1).await.unwrap_err();
        assert!(error.to_string().contains("checkpoint repair"), "{error}");
        let empty = MemoryStore::new("elsewhere");
        assert_eq!(planned(&empty, 1).await.unwrap(), None);
    }
}
