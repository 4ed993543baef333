//! What stands in a checkpoint, read once: each record with its content or with what is wrong.

use super::text_log::TextLog;
use crate::checkpoint::left_behind_paths;
use futures::stream::{self, StreamExt, TryStreamExt};
use onefold_protocol::record::{Commit, GenerationRecord, Intent, Metadata, Prepared};
use onefold_protocol::retention::take_left_behind;
use onefold_storage::{Entry, Store};
use onefold_types::{BatchId, Error, Generation, Result};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Records read at the same time.
const READS_AT_ONCE: usize = 16;

/// How much of the logs is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// The newest intents and commits, this many of each; ids of the rest. Enough to say what a
    /// restart would do.
    Newest(usize),
    /// Every record.
    All,
}

/// What kind of folder it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Layout {
    /// A whole checkpoint.
    Checkpoint,
    /// A folder of intents alone, as in `offsets/`.
    OffsetLog,
    /// A folder of commits alone, as in `commits/`.
    CommitLog,
    /// A file source's own log, as in `sources/0/`.
    FileSourceLog,
    /// A file sink's manifest, as in `_spark_metadata/`.
    FileSinkLog,
    /// Nothing that is known.
    Unknown,
}

/// One record: what it says, or why it cannot be read.
#[derive(Debug)]
pub struct Record<T> {
    /// Its path in the checkpoint.
    pub path: String,
    /// Its content.
    pub content: Result<T>,
}

impl<T> Record<T> {
    /// The content, if it could be read.
    pub fn ok(&self) -> Option<&T> {
        self.content.as_ref().ok()
    }
}

/// A log of a source of its own (`sources/ID/`).
#[derive(Debug, Default)]
pub struct SourceLog {
    /// Entries by number; `N.compact` counts as entry N.
    pub entries: BTreeMap<u64, SourceEntry>,
    /// Names that are no entry.
    pub others: Vec<String>,
}

/// One file of a source's log.
#[derive(Debug)]
pub struct SourceEntry {
    /// Its path in the checkpoint.
    pub path: String,
    /// Whether it holds all entries before it too.
    pub compact: bool,
    /// Its content, where it was read.
    pub content: Option<Result<TextLog>>,
}

/// A checkpoint as found.
#[derive(Debug)]
pub struct Contents {
    /// Where it is.
    pub url: String,
    /// What kind of folder it is.
    pub layout: Layout,
    /// Every file, hidden ones included, by path.
    pub files: BTreeMap<String, Entry>,
    /// `metadata`.
    pub metadata: Option<Record<Metadata>>,
    /// Ids in `offsets/`, those left behind aside.
    pub intent_ids: BTreeSet<BatchId>,
    /// Ids in `commits/`, those left behind aside.
    pub commit_ids: BTreeSet<BatchId>,
    /// Intents and commits that drivers left which slept through the purge of their batch, by path:
    /// nobody reads them.
    pub left_behind: Vec<String>,
    /// The intents that were read.
    pub intents: BTreeMap<BatchId, Record<Intent>>,
    /// The commits that were read.
    pub commits: BTreeMap<BatchId, Record<Commit>>,
    /// `_onefold/generations/`.
    pub generations: BTreeMap<Generation, Record<GenerationRecord>>,
    /// `_onefold/prepared/`.
    pub prepared: BTreeMap<(BatchId, Generation), Record<Prepared>>,
    /// `sources/`, by source id.
    pub sources: BTreeMap<String, SourceLog>,
    /// Files of Spark's state by operator: how many, and bytes.
    pub state: BTreeMap<String, (u64, u64)>,
    /// Files of our state (`_onefold/state/`): how many, and bytes.
    pub own_state: (u64, u64),
    /// Files that no known part of a checkpoint has, hidden ones aside.
    pub unknown: Vec<String>,
}

impl Contents {
    /// Reads a checkpoint. Records that cannot be understood do not stop it.
    ///
    /// # Errors
    /// Unavailable, when the store cannot be listed or a file cannot be read; Invalid, when there
    /// is nothing at all.
    pub async fn gather(store: &dyn Store, depth: Depth) -> Result<Contents> {
        let files: BTreeMap<String, Entry> = store
            .list_deep("", true)
            .await?
            .into_iter()
            .map(|entry| (entry.path.clone(), entry))
            .collect();
        if files.is_empty() {
            return Err(Error::invalid(format!(
                "{} holds no file, so it is no checkpoint: check the path",
                store.url()
            )));
        }
        let mut contents = Contents::empty(store.url(), files);
        contents.sort_names();
        contents.layout = contents.find_layout(store).await?;
        contents.read_records(store, depth).await?;
        Ok(contents)
    }

    fn empty(url: &str, files: BTreeMap<String, Entry>) -> Self {
        Contents {
            url: url.to_owned(),
            layout: Layout::Unknown,
            files,
            metadata: None,
            intent_ids: BTreeSet::new(),
            commit_ids: BTreeSet::new(),
            left_behind: Vec::new(),
            intents: BTreeMap::new(),
            commits: BTreeMap::new(),
            generations: BTreeMap::new(),
            prepared: BTreeMap::new(),
            sources: BTreeMap::new(),
            state: BTreeMap::new(),
            own_state: (0, 0),
            unknown: Vec::new(),
        }
    }

    /// Puts each file's name where it belongs.
    fn sort_names(&mut self) {
        let paths: Vec<(String, u64)> =
            self.files.values().map(|entry| (entry.path.clone(), entry.size)).collect();
        for (path, size) in paths {
            let parts: Vec<&str> = path.split('/').collect();
            let known = match parts.as_slice() {
                [.., name] if name.starts_with('.') => true,
                ["metadata"] => true,
                ["offsets", id] => batch_id(id).map(|id| self.intent_ids.insert(id)).is_some(),
                ["commits", id] => batch_id(id).map(|id| self.commit_ids.insert(id)).is_some(),
                ["sources", source, name] => {
                    let log = self.sources.entry((*source).to_owned()).or_default();
                    match entry_number(name) {
                        Some((number, compact)) => {
                            let entry = SourceEntry { path: path.clone(), compact, content: None };
                            // A compact entry holds what the plain one of the same number does.
                            let slot = log.entries.entry(number);
                            let slot = slot.or_insert_with(|| SourceEntry {
                                path: path.clone(),
                                compact: false,
                                content: None,
                            });
                            if compact {
                                *slot = entry;
                            }
                        }
                        None => log.others.push((*name).to_owned()),
                    }
                    true
                }
                ["state", operator, ..] => {
                    let sums = self.state.entry((*operator).to_owned()).or_default();
                    sums.0 += 1;
                    sums.1 = sums.1.saturating_add(size);
                    true
                }
                ["_onefold", "generations", number] => decimal(number).is_some(),
                ["_onefold", "prepared", name] => prepared_name(name).is_some(),
                ["_onefold", "state", ..] => {
                    self.own_state.0 += 1;
                    self.own_state.1 = self.own_state.1.saturating_add(size);
                    true
                }
                ["_onefold", "accepted", name] => accepted_name(name),
                ["_onefold", "effects", name] => super::effects::batch_of(name).is_some(),
                ["_onefold", "sources" | "rewound" | "refused" | "losses", ..] => true,
                _ => false,
            };
            if !known {
                self.unknown.push(path);
            }
        }
    }

    /// A checkpoint has known folders; a bare log has numbered files at its root.
    async fn find_layout(&self, store: &dyn Store) -> Result<Layout> {
        let known = self.files.len() > self.unknown.len()
            && self.files.keys().any(|path| {
                path == "metadata"
                    || ["offsets/", "commits/", "_onefold/", "sources/"]
                        .iter()
                        .any(|folder| path.starts_with(folder))
            });
        if known {
            return Ok(Layout::Checkpoint);
        }
        let Some(path) = self
            .unknown
            .iter()
            .find(|path| !path.contains('/') && entry_number(path).is_some())
            .or_else(|| self.unknown.iter().find(|path| !path.contains('/')))
        else {
            return Ok(Layout::Unknown);
        };
        let text = read_text(store, path).await?;
        Ok(text.ok().and_then(|text| TextLog::parse(&text).ok()).map_or(Layout::Unknown, layout_of))
    }

    async fn read_records(&mut self, store: &dyn Store, depth: Depth) -> Result<()> {
        if self.files.contains_key("metadata") {
            self.metadata = Some(read(store, "metadata", Metadata::parse).await?);
        }
        let (offsets, commits) = match self.layout {
            Layout::OffsetLog => {
                self.take_root_ids(|contents, id| contents.intent_ids.insert(id));
                ("", "commits/")
            }
            Layout::CommitLog => {
                self.take_root_ids(|contents, id| contents.commit_ids.insert(id));
                ("offsets/", "")
            }
            _ => ("offsets/", "commits/"),
        };
        self.set_left_behind_aside();
        self.intents =
            read_all(store, newest(&self.intent_ids, depth), offsets, Intent::parse).await?;
        self.commits =
            read_all(store, newest(&self.commit_ids, depth), commits, Commit::parse).await?;
        if matches!(self.layout, Layout::FileSourceLog | Layout::FileSinkLog) {
            self.take_root_entries();
        }
        self.read_onefold(store).await?;
        if depth == Depth::All || self.layout != Layout::Checkpoint {
            self.read_sources(store).await?;
        }
        Ok(())
    }

    fn set_left_behind_aside(&mut self) {
        let ids = |ids: &BTreeSet<BatchId>| ids.iter().copied().collect::<Vec<_>>();
        let (mut intents, mut commits) = (ids(&self.intent_ids), ids(&self.commit_ids));
        self.left_behind = left_behind_paths(&take_left_behind(&mut intents, &mut commits));
        self.intent_ids = intents.into_iter().collect();
        self.commit_ids = commits.into_iter().collect();
    }

    /// A bare log's numbered files are its entries, not unknown ones.
    fn take_root_ids(&mut self, mut take: impl FnMut(&mut Self, BatchId) -> bool) {
        for path in std::mem::take(&mut self.unknown) {
            match batch_id(&path) {
                Some(id) => {
                    take(self, id);
                }
                None => self.unknown.push(path),
            }
        }
    }

    fn take_root_entries(&mut self) {
        let mut log = SourceLog::default();
        for path in std::mem::take(&mut self.unknown) {
            match entry_number(&path) {
                Some((number, compact)) => {
                    log.entries.insert(number, SourceEntry { path, compact, content: None });
                }
                None => self.unknown.push(path),
            }
        }
        self.sources.insert(".".to_owned(), log);
    }

    async fn read_onefold(&mut self, store: &dyn Store) -> Result<()> {
        let paths: Vec<String> =
            self.files.keys().filter(|path| path.starts_with("_onefold/")).cloned().collect();
        for path in paths {
            let parts: Vec<&str> = path.split('/').collect();
            match parts.as_slice() {
                ["_onefold", "generations", number] => {
                    if let Some(number) = decimal(number) {
                        let record = read(store, &path, GenerationRecord::parse).await?;
                        self.generations.insert(Generation(number), record);
                    }
                }
                ["_onefold", "prepared", name] => {
                    if let Some(name) = prepared_name(name) {
                        let record = read(store, &path, Prepared::parse).await?;
                        self.prepared.insert(name, record);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn read_sources(&mut self, store: &dyn Store) -> Result<()> {
        for log in self.sources.values_mut() {
            for entry in log.entries.values_mut() {
                let text = read_text(store, &entry.path).await?;
                entry.content = Some(text.and_then(|text| TextLog::parse(&text)));
            }
        }
        Ok(())
    }

    /// What a committed batch left of state, where it left any: its prepared record, by the generation
    /// in its commit.
    #[must_use]
    pub fn state_after(&self, batch: BatchId) -> Option<&Prepared> {
        let generation = self.commits.get(&batch)?.ok()?.generation?;
        let record = self.prepared.get(&(batch, generation))?.ok()?;
        (!record.state.is_null()).then_some(record)
    }

    /// The definition that the newest driver left, for tools that have only the checkpoint.
    #[must_use]
    pub fn definition(&self) -> Option<&serde_json::Value> {
        let newest_first = self.generations.values().rev().filter_map(Record::ok);
        newest_first.map(|record| &record.definition).find(|definition| !definition.is_null())
    }

    /// The first of the drivers that put a further sink where the newest one puts it; `None` where
    /// the newest has none of that name.
    #[must_use]
    pub fn further_sink_since(&self, name: &str) -> Option<Generation> {
        let place = |definition: &Value| {
            let all = definition.get("furtherSinks")?.as_array()?;
            let sink = all.iter().find(|sink| sink.get("name").is_some_and(|it| it == name))?;
            Some(["format", "path", "description"].map(|key| sink.get(key).cloned()))
        };
        let newest = place(self.definition()?)?;
        let newest_first =
            self.generations.iter().rev().filter_map(|(at, it)| Some((at, it.ok()?)));
        newest_first
            .filter(|(_, record)| !record.definition.is_null())
            .take_while(|(_, record)| place(&record.definition).as_ref() == Some(&newest))
            .last()
            .map(|(at, _)| *at)
    }
}

/// The number in a name that is nothing but one: `0`, `17`; not `+1`, `01`.
pub(crate) fn decimal(name: &str) -> Option<u64> {
    let number: u64 = name.parse().ok()?;
    (number.to_string() == name).then_some(number)
}

fn batch_id(name: &str) -> Option<BatchId> {
    decimal(name).map(BatchId)
}

/// `7` or `9.compact`.
pub(crate) fn entry_number(name: &str) -> Option<(u64, bool)> {
    match name.strip_suffix(".compact") {
        Some(number) => decimal(number).map(|number| (number, true)),
        None => decimal(name).map(|number| (number, false)),
    }
}

fn prepared_name(name: &str) -> Option<(BatchId, Generation)> {
    let (batch, generation) = name.split_once('-')?;
    Some((BatchId(decimal(batch)?), Generation(decimal(generation)?)))
}

/// `N-LAYOUT`, the layout by its 32 hexadecimal digits.
fn accepted_name(name: &str) -> bool {
    name.split_once('-').is_some_and(|(batch, layout)| {
        let digits = layout.len() == 32 && layout.bytes().all(|digit| digit.is_ascii_hexdigit());
        batch_id(batch).is_some() && digits
    })
}

fn layout_of(log: TextLog) -> Layout {
    let has = |key: &str| log.objects().any(|object| object.contains_key(key));
    if has("batchTimestampMs") {
        Layout::OffsetLog
    } else if has("action") || (has("path") && has("size")) {
        Layout::FileSinkLog
    } else if has("path") && has("timestamp") {
        Layout::FileSourceLog
    } else if has("nextBatchWatermarkMs") || log.lines.iter().all(empty_object) {
        // Spark 2.3 and older wrote commits that say nothing.
        Layout::CommitLog
    } else {
        Layout::Unknown
    }
}

fn empty_object(line: &Value) -> bool {
    line.as_object().is_some_and(Map::is_empty)
}

fn newest(ids: &BTreeSet<BatchId>, depth: Depth) -> Vec<BatchId> {
    match depth {
        Depth::All => ids.iter().copied().collect(),
        Depth::Newest(count) => ids.iter().rev().take(count).copied().collect(),
    }
}

/// A file as text; the inner error is about the content.
pub(crate) async fn read_text(store: &dyn Store, path: &str) -> Result<Result<String>> {
    let Some(bytes) = store.read(path).await? else {
        return Ok(Err(Error::corrupt(format!("{}/{path} vanished", store.url()))));
    };
    Ok(String::from_utf8(bytes.to_vec())
        .map_err(|_| Error::corrupt(format!("{}/{path} is not text", store.url()))))
}

async fn read<T>(
    store: &dyn Store,
    path: &str,
    parse: impl Fn(&str) -> Result<T>,
) -> Result<Record<T>> {
    let text = read_text(store, path).await?;
    Ok(Record { path: path.to_owned(), content: text.and_then(|text| parse(&text)) })
}

async fn read_all<T>(
    store: &dyn Store,
    ids: Vec<BatchId>,
    folder: &str,
    parse: impl Fn(&str) -> Result<T>,
) -> Result<BTreeMap<BatchId, Record<T>>> {
    let parse = &parse;
    stream::iter(ids)
        .map(|id| async move {
            let record = read(store, &format!("{folder}{id}"), parse).await?;
            Ok::<_, Error>((id, record))
        })
        .buffer_unordered(READS_AT_ONCE)
        .try_collect()
        .await
}
