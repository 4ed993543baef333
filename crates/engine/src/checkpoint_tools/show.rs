//! What a checkpoint holds and what a restart would do with it.

use super::contents::{Contents, Layout, Record, SourceLog};
use onefold_protocol::conf::FROZEN;
use onefold_protocol::record::{Commit, Intent};
use onefold_protocol::recovery::{self, Facts, Follower, Next, StateFacts};
use onefold_types::{BatchId, Published, QueryId, Totals};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Drivers and batches named one by one.
const NEWEST: usize = 5;

/// What the sink said about its newest batch.
#[derive(Debug, Clone)]
pub enum SinkMark {
    /// Nobody asked it: the checkpoint does not say where it is.
    Unknown {
        /// Why, in one clause.
        why: String,
    },
    /// It is damaged, so that a driver would stop.
    Broken {
        /// How, and what to do.
        why: String,
    },
    /// It holds no batch, or this one.
    Asked(Option<Published>),
}

/// All that `checkpoint show` prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// Where it is.
    pub url: String,
    /// What kind of folder it is.
    pub layout: Layout,
    /// The query.
    pub query: Option<QueryId>,
    /// Its name, if its newest driver gave it one.
    pub name: Option<String>,
    /// `offsets/`.
    pub intents: Ids,
    /// `commits/`.
    pub commits: Ids,
    /// The newest drivers, newest first.
    pub generations: Vec<Driver>,
    /// How many drivers there were, as far as they are kept.
    pub generation_count: usize,
    /// The newest batches, newest first.
    pub batches: Vec<Batch>,
    /// Frozen settings of the newest intent that differ from those of a fresh query.
    pub settings: Vec<Setting>,
    /// The sources' own logs.
    pub sources: Vec<SourceFolder>,
    /// Folders of state.
    pub state: Vec<StateFolder>,
    /// What the newest driver ran.
    pub definition: Option<Value>,
    /// Files that no known part of a checkpoint has.
    pub unknown: Vec<String>,
    /// Records that cannot be read.
    pub unreadable: Vec<Unreadable>,
    /// What a restart would do; `None` for a bare log.
    pub restart: Option<Restart>,
}

/// The ids of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ids {
    /// How many there are.
    pub count: usize,
    /// The lowest.
    pub first: Option<BatchId>,
    /// The highest.
    pub last: Option<BatchId>,
    /// Ids missing between the two, the first few.
    pub missing: Vec<BatchId>,
}

/// A driver of the query.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Driver {
    /// Its number.
    pub generation: u64,
    /// The machine.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// When it took over, milliseconds since 1970.
    pub since_ms: i64,
    /// The version of Onefold.
    pub version: String,
}

/// A batch as its intent and its commit tell it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    /// Its number.
    pub batch: BatchId,
    /// `onefold` or `spark`.
    pub planned_by: &'static str,
    /// Whether it has a commit.
    pub committed: bool,
    /// Its time, milliseconds since 1970.
    pub timestamp_ms: Option<i64>,
    /// The watermark while it ran, milliseconds since 1970.
    pub watermark_ms: Option<i64>,
    /// The driver that planned it.
    pub generation: Option<u64>,
    /// What each source gives to it.
    pub sources: Vec<SourceRange>,
    /// What it put into the sink, where the commit says.
    #[serde(flatten)]
    pub totals: Option<Totals>,
    /// What it put into further sinks, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sinks: BTreeMap<String, Totals>,
}

/// A range of one source.
#[derive(Debug, Serialize)]
pub struct SourceRange {
    /// The source.
    pub id: String,
    /// Where the range starts, as the source writes it; `None` for the beginning or if the intent
    /// before is gone.
    pub start: Option<Value>,
    /// Where it ends.
    pub end: Option<Value>,
    /// What the source noted.
    pub note: Option<Value>,
}

/// A frozen setting.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its name.
    pub key: String,
    /// Its frozen value.
    pub frozen: String,
    /// What a fresh query would write; `None` for a setting that is not known.
    pub fresh: Option<String>,
}

/// A source's own log.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceFolder {
    /// The source.
    pub id: String,
    /// How many files it has.
    pub entries: usize,
    /// The highest number.
    pub last: Option<u64>,
    /// The newest compacted entry.
    pub last_compact: Option<u64>,
    /// Names in it that are no entry.
    pub others: Vec<String>,
}

/// The state of one operator.
#[derive(Debug, Serialize)]
pub struct StateFolder {
    /// The operator.
    pub operator: String,
    /// How many files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A record that cannot be read.
#[derive(Debug, Serialize)]
pub struct Unreadable {
    /// Its path.
    pub path: String,
    /// What is wrong.
    pub error: String,
}

/// What a restart would do.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Restart {
    /// `plan`, `runAgain`, `adoptCommit`, `stop`, or `askSink` where it depends on a sink that was
    /// not asked.
    pub act: &'static str,
    /// The batch that it is about.
    pub batch: Option<BatchId>,
    /// The same in words.
    pub text: String,
}

impl Overview {
    /// Sums up a checkpoint.
    #[must_use]
    pub fn of(contents: &Contents, sink: &SinkMark) -> Overview {
        let definition = contents.definition().cloned();
        let name = definition
            .as_ref()
            .and_then(|definition| definition.get("name"))
            .and_then(Value::as_str)
            .map(str::to_owned);
        let newest_intent = contents.intents.values().rev().find_map(Record::ok);
        Overview {
            url: contents.url.clone(),
            layout: contents.layout,
            query: contents.metadata.as_ref().and_then(Record::ok).map(|metadata| metadata.id),
            name,
            intents: Ids::of(&contents.intent_ids),
            commits: Ids::of(&contents.commit_ids),
            generations: drivers(contents),
            generation_count: contents.generations.len(),
            batches: batches(contents),
            settings: newest_intent.map(|intent| settings(&intent.conf)).unwrap_or_default(),
            sources: contents.sources.iter().map(|(id, log)| source_folder(id, log)).collect(),
            state: contents
                .state
                .iter()
                .map(|(operator, (files, bytes))| StateFolder {
                    operator: operator.clone(),
                    files: *files,
                    bytes: *bytes,
                })
                .collect(),
            definition,
            unknown: contents.unknown.clone(),
            unreadable: unreadable(contents),
            restart: (contents.layout == Layout::Checkpoint).then(|| restart(contents, sink)),
        }
    }
}

impl Ids {
    /// The ids of a log, with the first few that are missing.
    #[must_use]
    pub fn of(ids: &BTreeSet<BatchId>) -> Ids {
        let first = ids.first().copied();
        let last = ids.last().copied();
        let mut missing = Vec::new();
        let mut previous: Option<BatchId> = None;
        for id in ids {
            if let Some(previous) = previous {
                let mut next = previous.next();
                while next < *id && missing.len() < NEWEST {
                    missing.push(next);
                    next = next.next();
                }
            }
            previous = Some(*id);
        }
        Ids { count: ids.len(), first, last, missing }
    }
}

fn drivers(contents: &Contents) -> Vec<Driver> {
    let newest = contents.generations.values().rev().filter_map(Record::ok).take(NEWEST);
    newest
        .map(|record| Driver {
            generation: record.generation.0,
            host: record.host.clone(),
            pid: record.pid,
            since_ms: record.since_ms,
            version: record.version.clone(),
        })
        .collect()
}

fn batches(contents: &Contents) -> Vec<Batch> {
    let ids: BTreeSet<BatchId> =
        contents.intents.keys().chain(contents.commits.keys()).copied().collect();
    ids.into_iter()
        .rev()
        .take(NEWEST)
        .map(|id| {
            let intent = contents.intents.get(&id).and_then(Record::ok);
            let before =
                id.previous().and_then(|before| contents.intents.get(&before)).and_then(Record::ok);
            let commit = contents.commits.get(&id).and_then(Record::ok);
            batch(id, intent, before, commit, contents.commit_ids.contains(&id))
        })
        .collect()
}

fn batch(
    id: BatchId,
    intent: Option<&Intent>,
    before: Option<&Intent>,
    commit: Option<&Commit>,
    committed: bool,
) -> Batch {
    let sources = intent.map(|intent| {
        let ranges = intent.sources.iter().map(|(source, _)| {
            let range = intent.range(source, before);
            SourceRange {
                id: source.clone(),
                start: range.start.map(|offset| json_or_text(offset.json())),
                end: range.end.map(|offset| json_or_text(offset.json())),
                note: range.note.as_deref().map(json_or_text),
            }
        });
        ranges.collect()
    });
    Batch {
        batch: id,
        planned_by: match intent {
            Some(intent) if intent.generation.is_some() => "onefold",
            _ => "spark",
        },
        committed,
        timestamp_ms: intent.map(|intent| intent.batch_timestamp_ms),
        watermark_ms: intent.map(|intent| intent.batch_watermark_ms),
        generation: intent.and_then(|intent| intent.generation).map(|generation| generation.0),
        sources: sources.unwrap_or_default(),
        totals: commit.and_then(|commit| commit.totals),
        sinks: commit.map(|commit| commit.sinks.clone()).unwrap_or_default(),
    }
}

fn json_or_text(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// Frozen settings that differ from those of a fresh query.
fn settings(frozen: &BTreeMap<String, String>) -> Vec<Setting> {
    let differing = frozen.iter().filter_map(|(key, value)| {
        let fresh = FROZEN.iter().find(|row| row.key == key).map(|row| row.fresh);
        (fresh != Some(value.as_str())).then(|| Setting {
            key: key.clone(),
            frozen: value.clone(),
            fresh: fresh.map(str::to_owned),
        })
    });
    differing.collect()
}

fn source_folder(id: &str, log: &SourceLog) -> SourceFolder {
    let compact = log.entries.iter().rev().find(|(_, entry)| entry.compact);
    SourceFolder {
        id: id.to_owned(),
        entries: log.entries.len(),
        last: log.entries.last_key_value().map(|(number, _)| *number),
        last_compact: compact.map(|(number, _)| *number),
        others: log.others.clone(),
    }
}

/// Every record that was read and cannot be understood.
pub(crate) fn unreadable(contents: &Contents) -> Vec<Unreadable> {
    fn add<T>(list: &mut Vec<Unreadable>, record: &Record<T>) {
        if let Err(error) = &record.content {
            list.push(Unreadable { path: record.path.clone(), error: error.chain() });
        }
    }
    let mut list = Vec::new();
    contents.metadata.iter().for_each(|record| add(&mut list, record));
    contents.intents.values().for_each(|record| add(&mut list, record));
    contents.commits.values().for_each(|record| add(&mut list, record));
    contents.generations.values().for_each(|record| add(&mut list, record));
    contents.prepared.values().for_each(|record| add(&mut list, record));
    for entry in contents.sources.values().flat_map(|log| log.entries.values()) {
        if let Some(Err(error)) = &entry.content {
            list.push(Unreadable { path: entry.path.clone(), error: error.chain() });
        }
    }
    list
}

/// What recovery would decide from what is here and from what the sink holds.
pub(crate) fn restart(contents: &Contents, sink: &SinkMark) -> Restart {
    if let Some(broken) = newest_broken(contents) {
        return Restart {
            act: "stop",
            batch: None,
            text: format!("would stop: {broken} cannot be read"),
        };
    }
    match sink {
        SinkMark::Asked(mark) => described(decide(contents, *mark)),
        SinkMark::Broken { why } => {
            Restart { act: "stop", batch: None, text: format!("would stop: {why}") }
        }
        SinkMark::Unknown { why } => {
            let last_commit = contents.commit_ids.last().copied();
            let open = contents.intent_ids.last().copied().filter(|id| Some(*id) != last_commit);
            let committed = last_commit.map(published);
            let without = described(decide(contents, committed));
            let Some(open) = open.filter(|_| without.act != "stop") else {
                return Restart {
                    text: format!("{}, if the sink agrees ({why})", without.text),
                    ..without
                };
            };
            let with = described(decide(contents, Some(published(open))));
            Restart {
                act: "askSink",
                batch: Some(open),
                text: format!(
                    "if the sink does not hold batch {open}, {}; if it does, {} ({why})",
                    without.text, with.text
                ),
            }
        }
    }
}

/// A mark as a sink would have it of which only the batch number is known.
fn published(batch: BatchId) -> Published {
    Published { mark: onefold_types::Mark { query: None, batch, generation: None }, totals: None }
}

/// The newest records decide; if one of them is unreadable, recovery stops.
fn newest_broken(contents: &Contents) -> Option<&str> {
    let metadata = contents.metadata.as_ref().filter(|record| record.content.is_err());
    let intent = contents.intents.values().next_back().filter(|record| record.content.is_err());
    let commit = contents.commits.values().next_back().filter(|record| record.content.is_err());
    metadata
        .map(|record| record.path.as_str())
        .or(intent.map(|record| record.path.as_str()))
        .or(commit.map(|record| record.path.as_str()))
}

fn decide(contents: &Contents, mark: Option<Published>) -> Next {
    let mut intents = contents.intents.values().rev();
    let generation = mark.and_then(|published| published.mark.generation);
    let prepared = mark.and_then(|published| {
        let key = (published.mark.batch, generation?);
        contents.prepared.get(&key)?.ok().cloned()
    });
    let metadata = contents.metadata.as_ref().and_then(Record::ok);
    let facts = Facts {
        query: metadata.map(|metadata| metadata.id),
        sink_keeps_marks: true,
        metadata_found: contents.metadata.is_some(),
        intent_ids: contents.intent_ids.iter().copied().collect(),
        commit_ids: contents.commit_ids.iter().copied().collect(),
        last_intent: intents.next().and_then(Record::ok).cloned(),
        intent_before: intents.next().and_then(Record::ok).cloned(),
        last_commit: contents.commits.values().next_back().and_then(Record::ok).cloned(),
        decider: None,
        followers: followers(contents),
        mark,
        prepared,
        // A query that leaves such records needs them.
        needs_prepared: !contents.prepared.is_empty(),
        state: state_facts(contents),
        state_dropped: false,
        // What the query's settings keep is not known here.
        batches_retained: None,
    };
    recovery::decide(&facts)
}

/// Further sinks as the checkpoint knows them. They are not asked: it is taken that they hold what
/// is committed.
fn followers(contents: &Contents) -> Vec<Follower> {
    let last = contents.commits.values().next_back().and_then(Record::ok);
    let further = contents.definition().and_then(|it| it.get("furtherSinks"));
    let further = further.and_then(Value::as_array).into_iter().flatten();
    let text = |sink: &Value, key: &str| sink.get(key).and_then(Value::as_str).map(str::to_owned);
    further
        .filter_map(|sink| {
            let (name, description) = (text(sink, "name")?, text(sink, "description")?);
            let took_part = recovery::took_part(last, &name);
            let newest = contents.commit_ids.last().filter(|_| took_part);
            Some(Follower { name, description, mark: newest.map(|batch| published(*batch)) })
        })
        .collect()
}

/// Whether the query has state is known only by what it left.
fn state_facts(contents: &Contents) -> StateFacts {
    let last = contents.commit_ids.last();
    match last.and_then(|batch| contents.state_after(*batch)) {
        Some(record) => StateFacts::Ours(Some(record.clone())),
        None => StateFacts::None,
    }
}

fn described(next: Next) -> Restart {
    match next {
        Next::Plan { batch } => Restart {
            act: "plan",
            batch: Some(batch),
            text: format!("would plan batch {batch} anew"),
        },
        Next::RunAgain { batch } => Restart {
            act: "runAgain",
            batch: Some(batch),
            text: format!("would run batch {batch} again over the same ranges"),
        },
        Next::AdoptCommit { batch, unpublished, .. } if !unpublished.is_empty() => Restart {
            act: "adoptCommit",
            batch: Some(batch),
            text: format!(
                "would publish what is staged for {}, unless that is done, write commit {batch} and \
                 compute nothing: the sink holds it",
                unpublished.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(", ")
            ),
        },
        Next::AdoptCommit { batch, .. } => Restart {
            act: "adoptCommit",
            batch: Some(batch),
            text: format!("would write commit {batch} and compute nothing: the sink holds it"),
        },
        Next::Stop(reason) => {
            Restart { act: "stop", batch: None, text: format!("would stop: {reason}") }
        }
    }
}
