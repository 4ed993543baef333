//! Copies of a checkpoint: forked into a new query, or carried in one JSON file.

use super::contents::{Contents, Record};
use super::relocate::Relocation;
use super::rewind::create;
use bytes::Bytes;
use onefold_protocol::record::{Commit, Metadata};
use onefold_storage::Store;
use onefold_types::{BatchId, Error, QueryId, Result};
use serde::{Deserialize, Serialize};

/// State of more bytes than this is left out of an export: it goes with a copy of the folder.
const STATE_BYTES_MAX: u64 = 64 << 20;

/// The version of the format of exported checkpoints.
const VERSION: u32 = 1;

/// A checkpoint's records in one JSON object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Archive {
    /// The version of this format.
    pub onefold_export: u32,
    /// Where the checkpoint was.
    pub url: String,
    /// The records, `metadata` last.
    pub files: Vec<ArchivedFile>,
    /// Files that are not in here: state of Spark's, and state of more than 64 MiB.
    pub left_out: Vec<String>,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivedFile {
    /// Its path in the checkpoint.
    pub path: String,
    /// Its content, if it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Its content in hexadecimal digits, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hex: Option<String>,
}

/// Whether a file goes into a copy: hidden files (Hadoop's checksums, temporary files) and backups
/// of rewinds do not.
fn carried(path: &str) -> bool {
    !path.starts_with("_onefold/rewound/") && !path.split('/').any(|part| part.starts_with('.'))
}

/// `metadata` goes last, so that a copy cut short is seen as one.
fn metadata_last(paths: &mut [String]) {
    paths.sort_by_key(|path| path == "metadata");
}

/// Reads a checkpoint into an archive.
///
/// # Errors
/// As the store's; Invalid, when the folder is no checkpoint.
pub async fn export(store: &dyn Store, contents: &Contents) -> Result<Archive> {
    if contents.metadata.is_none() {
        return Err(Error::invalid(format!(
            "{} holds no `metadata`, so it is no whole checkpoint: nothing was exported",
            contents.url
        )));
    }
    let mut paths: Vec<String> =
        contents.files.keys().filter(|path| carried(path)).cloned().collect();
    metadata_last(&mut paths);
    let (state, records): (Vec<String>, Vec<String>) = paths.into_iter().partition(|path| {
        path.starts_with("state/")
            || (path.starts_with("_onefold/state/") && contents.own_state.1 > STATE_BYTES_MAX)
    });
    let mut files = Vec::with_capacity(records.len());
    for path in records {
        let Some(bytes) = store.read(&path).await? else { continue };
        files.push(match String::from_utf8(bytes.to_vec()) {
            Ok(text) => ArchivedFile { path, text: Some(text), hex: None },
            Err(_) => ArchivedFile { path, text: None, hex: Some(to_hex(&bytes)) },
        });
    }
    Ok(Archive { onefold_export: VERSION, url: contents.url.clone(), files, left_out: state })
}

impl Archive {
    /// Reads an archive's JSON.
    ///
    /// # Errors
    /// Invalid: not an archive, or of a newer version, or with a path that leads out of the folder.
    pub fn parse(json: &[u8]) -> Result<Archive> {
        let archive: Archive = serde_json::from_slice(json)
            .map_err(|error| Error::invalid("the file is no exported checkpoint").because(error))?;
        if archive.onefold_export > VERSION {
            return Err(Error::invalid(format!(
                "the file is an export of version {}, this Onefold reads up to {VERSION}: use a \
                 newer one",
                archive.onefold_export
            )));
        }
        let leads_out = |path: &str| {
            path.is_empty() || path.split('/').any(|part| matches!(part, "" | "." | ".."))
        };
        match archive.files.iter().find(|file| leads_out(&file.path)) {
            Some(file) => Err(Error::invalid(format!("the export holds the path `{}`", file.path))),
            None => Ok(archive),
        }
    }

    /// Writes the records into an empty folder, addresses moved.
    ///
    /// # Errors
    /// Invalid: the folder is not empty, or state was left out of the archive; as the store's.
    pub async fn import(&self, store: &dyn Store, relocations: &[Relocation]) -> Result<()> {
        must_be_empty(store).await?;
        if let Some(first) = self.left_out.first() {
            return Err(Error::invalid(format!(
                "the export left out {} files of state ({first} …), without which the query would \
                 start with empty state: copy the whole checkpoint folder instead",
                self.left_out.len()
            )));
        }
        for file in &self.files {
            let bytes = match (&file.text, &file.hex) {
                (Some(text), _) => Bytes::from(relocated(&file.path, text, relocations)),
                (None, Some(hex)) => Bytes::from(from_hex(hex).ok_or_else(|| {
                    Error::invalid(format!("`{}` in the export is not hexadecimal", file.path))
                })?),
                (None, None) => Bytes::new(),
            };
            create(store, &file.path, bytes).await?;
        }
        Ok(())
    }
}

/// Records that name files. Others may carry checksums of their own text and keep their bytes.
fn relocated(path: &str, text: &str, relocations: &[Relocation]) -> String {
    let names_files = ["offsets/", "sources/", "_onefold/sources/", "_onefold/generations/"];
    if !names_files.iter().any(|folder| path.starts_with(folder)) {
        return text.to_owned();
    }
    relocations.iter().fold(text.to_owned(), |text, relocation| relocation.record(&text))
}

async fn must_be_empty(store: &dyn Store) -> Result<()> {
    match store.list_deep("", true).await?.first() {
        None => Ok(()),
        Some(entry) => Err(Error::invalid(format!(
            "{} is not empty (it holds {}): name a new folder",
            store.url(),
            entry.path
        ))),
    }
}

/// Tells an empty output folder of a file sink that it starts after a batch: a compacted manifest
/// entry of that batch which names no file.
///
/// # Errors
/// Invalid: the folder is not empty; as the store's.
pub async fn mark_empty_output(store: &dyn Store, batch: BatchId) -> Result<()> {
    must_be_empty(store).await?;
    create(store, &format!("_spark_metadata/{batch}.compact"), Bytes::from_static(b"v1")).await
}

/// What a fork made.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fork {
    /// The folder.
    pub url: String,
    /// The new query.
    pub query: QueryId,
    /// The query it was copied from, where that is known.
    pub forked_from: Option<QueryId>,
    /// The newest batch of the copy.
    pub at_batch: Option<BatchId>,
    /// Files copied.
    pub files: usize,
}

/// Copies a checkpoint under a new query id. A batch that is planned but not committed stays
/// behind: the copy plans it anew. The generations stay behind too: the caller takes the next one
/// ([`super::take_generation`]).
///
/// # Errors
/// Invalid: no whole checkpoint, or the new folder is not empty; as the stores'.
pub async fn fork(from: &dyn Store, contents: &Contents, to: &dyn Store) -> Result<Fork> {
    let query = QueryId(uuid::Uuid::new_v4());
    let forked_from = identity(contents)?;
    must_be_empty(to).await?;
    let last_commit = contents.commit_ids.last().copied();
    let copied = |path: &str| {
        let uncommitted = path
            .strip_prefix("offsets/")
            .and_then(super::contents::decimal)
            .is_some_and(|id| last_commit.is_none_or(|last| id > last.0));
        // What a committed batch left of state is in its record; others are of no use to the copy.
        let unneeded = path.strip_prefix("_onefold/prepared/").is_some_and(|name| {
            let batch = name.split('-').next().and_then(super::contents::decimal);
            batch.is_none_or(|id| last_commit.is_none_or(|last| id > last.0))
        });
        let generation = path.starts_with("_onefold/generations/");
        // Calls and marks are the old query's.
        let effects =
            ["_onefold/effects/", "_onefold/refused/"].iter().any(|it| path.starts_with(it));
        carried(path) && !uncommitted && !unneeded && !generation && !effects
    };
    let mut paths: Vec<String> =
        contents.files.keys().filter(|path| copied(path)).cloned().collect();
    paths.retain(|path| path != "metadata");
    for path in &paths {
        let Some(bytes) = from.read(path).await? else { continue };
        let bytes = forked(path, bytes, forked_from, query);
        create(to, path, bytes).await?;
    }
    // Last, so that a copy cut short is seen as one.
    create(to, "metadata", Bytes::from(Metadata { id: query }.encode())).await?;
    Ok(Fork {
        url: to.url().to_owned(),
        query,
        forked_from,
        at_batch: last_commit,
        files: paths.len() + 1,
    })
}

/// A record as the copy has it: under the new query's id, and without the totals of commits, since
/// what they count is in the old query's sink.
fn forked(path: &str, bytes: Bytes, old: Option<QueryId>, new: QueryId) -> Bytes {
    let Ok(text) = std::str::from_utf8(&bytes) else { return bytes };
    if path.starts_with("commits/") {
        return match Commit::parse(text) {
            Ok(commit) => {
                let sinks = std::collections::BTreeMap::new();
                Bytes::from(Commit { totals: None, sinks, ..commit }.encode())
            }
            Err(_) => bytes,
        };
    }
    match old {
        // Beside `metadata` the id stands in the settings of intents alone.
        Some(old) if path.starts_with("offsets/") => {
            Bytes::from(text.replace(&old.to_string(), &new.to_string()))
        }
        _ => bytes,
    }
}

/// Whose checkpoint it is; where `metadata` was lost, what the intents say, if they do.
fn identity(contents: &Contents) -> Result<Option<QueryId>> {
    match contents.metadata.as_ref().map(|record| &record.content) {
        Some(Ok(metadata)) => Ok(Some(metadata.id)),
        Some(Err(error)) => {
            Err(Error::corrupt(format!("metadata cannot be read: {}", error.chain())))
        }
        None if contents.intent_ids.is_empty() => Err(Error::invalid(format!(
            "{} holds neither `metadata` nor offsets, so it is no checkpoint",
            contents.url
        ))),
        None => {
            let intents = contents.intents.values().filter_map(Record::ok);
            Ok(intents.filter_map(|intent| intent.query).next_back())
        }
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_goes_both_ways() {
        assert_eq!(from_hex(&to_hex(b"\0v1\xff")), Some(b"\0v1\xff".to_vec()));
        assert_eq!(from_hex("0"), None);
        assert_eq!(from_hex("0g"), None);
    }

    #[test]
    fn an_export_cannot_write_outside_its_folder() {
        for path in ["../x", "/etc/x", "a//b", "", "a/./b"] {
            let json = serde_json::json!({
                "onefoldExport": 1, "url": "u", "leftOut": [],
                "files": [{ "path": path, "text": "" }],
            });
            assert!(Archive::parse(json.to_string().as_bytes()).is_err(), "{path}");
        }
        let newer = br#"{"onefoldExport":2,"url":"u","files":[],"leftOut":[]}"#;
        assert!(Archive::parse(newer).is_err());
        assert!(Archive::parse(b"PK").is_err());
    }

    #[test]
    fn temporary_files_checksums_and_backups_are_not_carried() {
        assert!(carried("offsets/7"));
        assert!(!carried("offsets/.7.crc"));
        assert!(!carried("_onefold/rewound/3/offsets/7"));
    }
}
