//! Going back to an older batch: decided first, done after.
//!
//! What goes is kept in `_onefold/rewound/G/`, where G is the generation that the rewind takes. Taking
//! one stops a driver that still runs. Each batch goes from the newest down, its commit before its
//! intent, so that the checkpoint is one that recovery knows after every single step, and a rewind
//! that was cut short is finished by doing it again.

use super::check::log_offset;
use super::contents::{Contents, Record, SourceLog};
use super::show::SinkMark;
use bytes::Bytes;
use onefold_protocol::record::GenerationRecord;
use onefold_storage::{Durability, Recorded, Store, create_record};
use onefold_types::{BatchId, Error, Generation, Nonce, Result};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What to do about batches that the sink holds and that are about to be forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaterMarks {
    /// Refuse the rewind.
    Refuse,
    /// Leave them there: the query will be given another sink, or its output is cleared by hand.
    Leave,
    /// Take them out of the sink too (file sinks).
    Rewind,
}

/// What a rewind will do.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RewindPlan {
    /// The batch that will be the newest one.
    pub to_batch: BatchId,
    /// Batches that go.
    pub batches: Vec<BatchId>,
    /// Files of the checkpoint that go, in order.
    pub files: Vec<String>,
    /// The batch that the sink holds, if it holds more than `to_batch`.
    pub sink_holds: Option<BatchId>,
    /// What a user should know.
    pub remarks: Vec<String>,
}

/// Decides what a rewind does. `contents` was read at [`super::Depth::All`].
///
/// # Errors
/// Invalid: the checkpoint has no such committed batch, or the sink holds later batches and the
/// caller did not say what to do about them.
pub fn plan_rewind(
    contents: &Contents,
    to_batch: BatchId,
    sink: &SinkMark,
    later: LaterMarks,
) -> Result<RewindPlan> {
    check_target(contents, to_batch)?;
    let batches: Vec<BatchId> = contents
        .intent_ids
        .union(&contents.commit_ids)
        .copied()
        .filter(|id| *id > to_batch)
        .collect();
    let mut remarks = Vec::new();
    let mut files = Vec::new();
    for batch in batches.iter().rev() {
        if contents.commit_ids.contains(batch) {
            files.push(format!("commits/{batch}"));
        }
        let of_batch = contents.prepared.iter().filter(|((id, _), _)| id == batch);
        files.extend(of_batch.map(|(_, record)| record.path.clone()));
        if contents.intent_ids.contains(batch) {
            files.push(format!("offsets/{batch}"));
        }
    }
    // What calls of these batches answered: the batches that come in their place are others.
    files.extend(contents.files.keys().filter(|path| later_effects(path, to_batch)).cloned());
    for (id, log) in &contents.sources {
        files.extend(source_entries(contents, to_batch, id, log, &mut remarks));
    }
    check_state(contents, to_batch)?;
    if !contents.state.is_empty() {
        remarks.push(
            "state/ is left alone: versions after the batch are written again when it goes on"
                .to_owned(),
        );
    }
    if batches.is_empty() {
        remarks.push(format!("batch {to_batch} is the newest one already"));
    } else {
        remarks.push(
            "input that a source archived or deleted since (cleanSource) cannot be read again"
                .to_owned(),
        );
    }
    let sink_holds = later_mark(to_batch, sink, later, &mut remarks)?;
    Ok(RewindPlan { to_batch, batches, files, sink_holds, remarks })
}

fn later_effects(path: &str, to_batch: BatchId) -> bool {
    let name = path.strip_prefix("_onefold/effects/");
    name.and_then(super::effects::batch_of).is_some_and(|batch| batch > to_batch)
}

fn check_target(contents: &Contents, to_batch: BatchId) -> Result<()> {
    let there = |ids: &BTreeSet<BatchId>| match (ids.first(), ids.last()) {
        (Some(first), Some(last)) => format!("batches {first} to {last}"),
        _ => "no batch".to_owned(),
    };
    for (folder, ids) in [("commits", &contents.commit_ids), ("offsets", &contents.intent_ids)] {
        if !ids.contains(&to_batch) {
            return Err(Error::invalid(format!(
                "cannot go back to batch {to_batch}: {}/{folder} holds {}",
                contents.url,
                there(ids)
            )));
        }
    }
    let intent = contents.intents.get(&to_batch).map(|record| &record.content);
    if let Some(Err(error)) = intent {
        return Err(Error::corrupt(format!(
            "cannot go back to batch {to_batch}: its intent cannot be read: {}; choose another",
            error.chain()
        )));
    }
    Ok(())
}

/// A query with state can go back only to a batch whose state is still there.
fn check_state(contents: &Contents, to_batch: BatchId) -> Result<()> {
    let stateful = contents.commit_ids.iter().any(|batch| contents.state_after(*batch).is_some());
    if !stateful || contents.state_after(to_batch).is_some() {
        return Ok(());
    }
    let kept = contents.commit_ids.iter().find(|batch| contents.state_after(**batch).is_some());
    Err(Error::invalid(format!(
        "cannot go back to batch {to_batch}: the state that it left is not kept any more{}",
        kept.map(|batch| format!("; the oldest kept is that of batch {batch}")).unwrap_or_default()
    )))
}

fn later_mark(
    to_batch: BatchId,
    sink: &SinkMark,
    later: LaterMarks,
    remarks: &mut Vec<String>,
) -> Result<Option<BatchId>> {
    let mark = match sink {
        SinkMark::Unknown { why } | SinkMark::Broken { why } if later == LaterMarks::Leave => {
            remarks.push(format!("the sink was not asked ({why})"));
            return Ok(None);
        }
        SinkMark::Unknown { why } | SinkMark::Broken { why } => {
            return Err(Error::invalid(format!(
                "it is not known whether the sink holds batches after {to_batch} ({why}): name \
                 its folder with --sink, or say --later-marks leave"
            )));
        }
        SinkMark::Asked(mark) => mark.map(|published| published.mark.batch),
    };
    let Some(held) = mark.filter(|held| *held > to_batch) else { return Ok(None) };
    match later {
        LaterMarks::Refuse => Err(Error::invalid(format!(
            "the sink holds batches up to {held}; going back to {to_batch} would deliver {} to \
             {held} again: say --later-marks rewind to take them out of the sink too, or \
             --later-marks leave if the query will write elsewhere",
            to_batch.next()
        ))),
        LaterMarks::Leave => {
            remarks.push(format!(
                "the sink keeps batches up to {held}: the query refuses to start with this sink"
            ));
            Ok(Some(held))
        }
        LaterMarks::Rewind => Ok(Some(held)),
    }
}

/// Entries of a file source's log after the one that the target batch names, if those before it
/// can be read without them.
fn source_entries(
    contents: &Contents,
    to_batch: BatchId,
    id: &str,
    log: &SourceLog,
    remarks: &mut Vec<String>,
) -> Vec<String> {
    let intent = contents.intents.get(&to_batch).and_then(Record::ok);
    let Some(keep) = intent.and_then(|intent| log_offset(intent, id)) else { return Vec::new() };
    let later: Vec<&str> =
        log.entries.range(keep.saturating_add(1)..).map(|(_, entry)| entry.path.as_str()).collect();
    if later.is_empty() {
        return Vec::new();
    }
    let compact = log.entries.range(..=keep).rev().find(|(_, entry)| entry.compact);
    let first = compact.map_or(0, |(number, _)| *number);
    if (first..=keep).all(|number| log.entries.contains_key(&number)) {
        return later.into_iter().rev().map(str::to_owned).collect();
    }
    remarks.push(format!(
        "sources/{id} stays as it is, since entries up to {keep} stand only in a later compacted \
         one: the files of the batches that go come back as one batch"
    ));
    Vec::new()
}

/// Takes the next generation in the name of a command, which stops a driver that still runs.
/// `contents` tells which generations there were (in the checkpoint it was copied from, for a fork).
/// The query is what it was, or what `definition` says.
///
/// # Errors
/// As the store's; Fenced, when a driver took the same number meanwhile.
pub async fn take_generation(
    store: &Arc<dyn Store>,
    contents: &Contents,
    now_ms: i64,
    (command, definition): (&str, Option<Value>),
) -> Result<Generation> {
    // What the query is, for the commands after this one.
    let known = || contents.definition().cloned().unwrap_or_default();
    let definition = definition.unwrap_or_else(known);
    let newest = contents.generations.keys().next_back().copied();
    let generation = newest.map_or(Generation::FIRST, Generation::next);
    let record = GenerationRecord {
        generation,
        nonce: Nonce(uuid::Uuid::new_v4()),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        pid: std::process::id(),
        since_ms: now_ms,
        version: format!("{} {command}", env!("CARGO_PKG_VERSION")),
        definition,
    };
    let path = format!("_onefold/generations/{generation}");
    let bytes = Bytes::from(record.encode());
    match create_record(store.as_ref(), &path, bytes, Durability::Now).await? {
        Recorded::Mine => Ok(generation),
        Recorded::Theirs(_) => Err(Error::fenced(format!(
            "a driver took generation {generation} of {} just now: stop it first",
            store.url()
        ))),
    }
}

/// Carries a plan out on the checkpoint. `generation` was taken by the caller and names the backup.
///
/// # Errors
/// As the store's.
pub async fn apply_rewind(
    store: &dyn Store,
    plan: &RewindPlan,
    generation: Generation,
) -> Result<()> {
    for path in &plan.files {
        move_away(store, path, generation).await?;
    }
    Ok(())
}

/// Where a file is kept after a rewind.
pub(crate) fn kept_at(path: &str, generation: Generation) -> String {
    format!("_onefold/rewound/{generation}/{path}")
}

/// Copies a file to its backup, durably, then removes it with its checksum file. A file that is
/// gone is fine.
pub(crate) async fn move_away(store: &dyn Store, path: &str, generation: Generation) -> Result<()> {
    let Some(bytes) = store.read(path).await? else { return Ok(()) };
    create(store, &kept_at(path, generation), bytes).await?;
    store.delete(path).await
}

/// Creates a file; a name that is taken by the same bytes is fine.
pub(crate) async fn create(store: &dyn Store, path: &str, bytes: Bytes) -> Result<()> {
    match create_record(store, path, bytes, Durability::Now).await? {
        Recorded::Mine => Ok(()),
        Recorded::Theirs(_) => Err(Error::invalid(format!(
            "{}/{path} is there with other content: choose an empty place",
            store.url()
        ))),
    }
}
