//! Whether a checkpoint is whole: its records and its state, without the sink.

use super::contents::{Contents, Layout, Record, SourceLog};
use super::hadoop_crc;
use super::show::{Ids, unreadable};
use crate::run::state::reference;
use onefold_protocol::record::Intent;
use onefold_state::{CheckedFiles, check_files};
use onefold_storage::Store;
use onefold_types::{BatchId, Result};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Something that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Whether it keeps the checkpoint from being used.
    pub severity: Severity,
    /// The file or folder.
    pub path: String,
    /// What is wrong and what to do.
    pub text: String,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// The checkpoint cannot be used, or not by everyone.
    Problem,
    /// Worth knowing; harmless.
    Remark,
}

/// The result of `checkpoint verify`.
#[derive(Debug, Serialize)]
pub struct Structure {
    /// Where it is.
    pub url: String,
    /// Whether no problem was found.
    pub ok: bool,
    /// Records that were read.
    pub records: usize,
    /// Checksum files that were compared.
    pub checksums: usize,
    /// Files of state that were read to their end.
    #[serde(rename = "stateFiles")]
    pub state_files: usize,
    /// Their bytes.
    #[serde(rename = "stateBytes")]
    pub state_bytes: u64,
    /// All that was found, problems first.
    pub findings: Vec<Finding>,
}

#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn problem(&mut self, path: impl Into<String>, text: impl Into<String>) {
        let (path, text) = (path.into(), text.into());
        self.0.push(Finding { severity: Severity::Problem, path, text });
    }

    fn remark(&mut self, path: impl Into<String>, text: impl Into<String>) {
        let (path, text) = (path.into(), text.into());
        self.0.push(Finding { severity: Severity::Remark, path, text });
    }
}

/// Checks the structure of a checkpoint that was read at [`super::Depth::All`].
///
/// # Errors
/// Unavailable, when a file cannot be read.
pub async fn check(store: &Arc<dyn Store>, contents: &Contents) -> Result<Structure> {
    let mut findings = Findings::default();
    check_records(contents, &mut findings);
    let checksums = check_side_files(store.as_ref(), contents, &mut findings).await?;
    let state = check_state(store, contents, &mut findings).await?;
    let mut findings = findings.0;
    findings.sort_by_key(|finding| finding.severity == Severity::Remark);
    let sources = contents.sources.values().map(|log| log.entries.len()).sum::<usize>();
    Ok(Structure {
        url: contents.url.clone(),
        ok: findings.iter().all(|finding| finding.severity == Severity::Remark),
        records: contents.intents.len()
            + contents.commits.len()
            + contents.generations.len()
            + contents.prepared.len()
            + usize::from(contents.metadata.is_some())
            + sources,
        checksums,
        state_files: state.files,
        state_bytes: state.bytes,
        findings,
    })
}

fn check_records(contents: &Contents, findings: &mut Findings) {
    for unreadable in unreadable(contents) {
        findings.problem(unreadable.path, format!("cannot be read: {}", unreadable.error));
    }
    if contents.layout == Layout::Checkpoint {
        check_identity(contents, findings);
    }
    check_ids(contents, findings);
    check_links(contents, findings);
    for (id, log) in &contents.sources {
        check_source_log(contents, id, log, findings);
    }
    for path in &contents.left_behind {
        findings.remark(
            path,
            "was left by a driver that slept while newer ones went on, and was then fenced: \
             nobody reads it, and the next start deletes it",
        );
    }
    for path in &contents.unknown {
        findings.remark(path, "is no known part of a checkpoint and is left alone");
    }
}

fn check_identity(contents: &Contents, findings: &mut Findings) {
    let started = !contents.intent_ids.is_empty() || !contents.commit_ids.is_empty();
    if contents.metadata.is_none() && started {
        findings.problem(
            "metadata",
            "is missing although the query ran: put it back from a backup, or write \
             {\"id\":\"…\"} with the query's id; without it a restart is refused",
        );
    }
    let Some(metadata) = contents.metadata.as_ref().and_then(Record::ok) else { return };
    for (id, record) in &contents.intents {
        let other = record.ok().and_then(|intent| intent.query).filter(|id| *id != metadata.id);
        if let Some(other) = other {
            findings.problem(
                &record.path,
                format!(
                    "batch {id} was planned for query {other}, but `metadata` says query {}: \
                     files of two checkpoints are mixed",
                    metadata.id
                ),
            );
        }
    }
}

/// Holes, and commits without intents.
fn check_ids(contents: &Contents, findings: &mut Findings) {
    let logs = [("offsets", &contents.intent_ids), ("commits", &contents.commit_ids)];
    for (folder, ids) in logs {
        let missing = Ids::of(ids).missing;
        if let Some(first) = missing.first() {
            findings.problem(
                format!("{folder}/{first}"),
                format!(
                    "is missing between two others: put it back from a backup, or go back before \
                     it with `onefold checkpoint rewind --to-batch {}`",
                    first.0.saturating_sub(1)
                ),
            );
        }
    }
    if contents.layout != Layout::Checkpoint {
        return;
    }
    let (last_intent, last_commit) = (contents.intent_ids.last(), contents.commit_ids.last());
    if let Some(commit) = last_commit
        && last_intent.is_none_or(|intent| intent < commit)
    {
        findings.problem(
            format!("commits/{commit}"),
            "is newer than the newest intent in offsets/: part of the checkpoint was lost or \
             restored from an older backup",
        );
    }
    // Spark 2.1 and older kept no commits at all.
    if let (Some(intent), Some(commit)) = (last_intent, last_commit)
        && intent.0 > commit.0.saturating_add(1)
    {
        findings.problem(
            format!("commits/{}", commit.next()),
            format!(
                "is missing, and so are all up to {intent}: a restart would run batch {intent} \
                 alone and leave the ones between undone"
            ),
        );
    }
}

/// Records that name one another.
fn check_links(contents: &Contents, findings: &mut Findings) {
    for (number, record) in &contents.generations {
        if let Some(content) = record.ok()
            && content.generation != *number
        {
            let text = format!("says that it is generation {}", content.generation);
            findings.problem(&record.path, text);
        }
    }
    for ((batch, generation), record) in &contents.prepared {
        let Some(content) = record.ok() else { continue };
        if (content.batch, content.generation) != (*batch, *generation) {
            findings.problem(
                &record.path,
                format!(
                    "says that it is batch {}, generation {}",
                    content.batch, content.generation
                ),
            );
        }
    }
    let newest = contents.generations.keys().next_back();
    for (id, record) in &contents.intents {
        let generation = record.ok().and_then(|intent| intent.generation);
        if let Some(generation) = generation
            && newest.is_none_or(|newest| *newest < generation)
        {
            findings.problem(
                &record.path,
                format!(
                    "batch {id} was planned by generation {generation}, which \
                     _onefold/generations does not hold: a new driver could take that number again"
                ),
            );
        }
    }
    check_order(contents, findings);
}

/// Watermarks never go back.
fn check_order(contents: &Contents, findings: &mut Findings) {
    let intents: Vec<(&BatchId, &Intent)> =
        contents.intents.iter().filter_map(|(id, record)| Some((id, record.ok()?))).collect();
    for pair in intents.windows(2) {
        if let [(_, before), (id, intent)] = pair
            && intent.batch_watermark_ms < before.batch_watermark_ms
        {
            findings.problem(
                format!("offsets/{id}"),
                format!(
                    "has watermark {}, lower than {} of the batch before",
                    intent.batch_watermark_ms, before.batch_watermark_ms
                ),
            );
        }
    }
}

/// A file source's log holds every entry up to the one that the newest intent names, itself or
/// through a compacted one. Those may be missing that the notes of intents can make again: entries
/// are not synced before the intents that remember them are purged.
fn check_source_log(contents: &Contents, id: &str, log: &SourceLog, findings: &mut Findings) {
    for (number, entry) in &log.entries {
        if let Some(Ok(text)) = &entry.content
            && text.broken_lines().next().is_some()
        {
            findings.problem(&entry.path, format!("entry {number} holds a line that is not JSON"));
        }
    }
    let numbers: BTreeSet<u64> = log.entries.keys().copied().collect();
    let compact = log.entries.iter().rev().find(|(_, entry)| entry.compact).map(|(n, _)| *n);
    let mut noted: BTreeSet<u64> = BTreeSet::new();
    let mut named = None;
    for intent in contents.intents.values().filter_map(Record::ok) {
        let Some(end) = log_offset(intent, id) else { continue };
        if intent.notes.contains_key(id) {
            noted.extend(named.map_or(end, |before: u64| before + 1)..=end);
        }
        named = named.max(Some(end));
    }
    let Some(last) = named else { return };
    let first = compact.unwrap_or(0);
    let missing: Vec<u64> = (first..=last).filter(|n| !numbers.contains(n)).take(5).collect();
    for number in missing {
        let path = format!("sources/{id}/{number}");
        if noted.contains(&number) {
            findings.remark(path, "is not there yet: a restart makes it again from the intent");
        } else {
            findings.problem(
                path,
                "is missing: the source cannot tell which files it has read already",
            );
        }
    }
}

/// The number of the file source's log entry that an intent names for a source.
pub(crate) fn log_offset(intent: &Intent, id: &str) -> Option<u64> {
    let (_, offset) = intent.sources.iter().find(|(source, _)| source == id)?;
    let value: serde_json::Value = serde_json::from_str(offset.as_ref()?.json()).ok()?;
    value.get("logOffset")?.as_u64()
}

/// Reads every file of state that a committed batch needs.
async fn check_state(
    store: &Arc<dyn Store>,
    contents: &Contents,
    findings: &mut Findings,
) -> Result<CheckedFiles> {
    let mut kept = Vec::new();
    for record in contents.commit_ids.iter().filter_map(|batch| contents.state_after(*batch)) {
        match reference(&record.state) {
            Ok(at) => kept.push(at),
            Err(error) => {
                let path = format!("_onefold/prepared/{}-{}", record.batch, record.generation);
                findings.problem(path, error.chain());
            }
        }
    }
    let checked = check_files(store, &kept).await?;
    for damaged in &checked.damaged {
        let text = &damaged.text;
        if damaged.replaceable {
            let text = format!("{text}; a start makes it good from the files that it was made of");
            findings.remark(&damaged.path, text);
        } else {
            let version = damaged.version;
            findings.problem(&damaged.path, format!("{text} (needed from version {version} on)"));
        }
    }
    Ok(checked)
}

/// Compares every checksum file of Hadoop's with the file it belongs to. State files are large and
/// have checksums of their own, so they are left out.
async fn check_side_files(
    store: &dyn Store,
    contents: &Contents,
    findings: &mut Findings,
) -> Result<usize> {
    let mut compared = 0;
    for path in contents.files.keys().filter(|path| !path.starts_with("state/")) {
        let Some(main) = hadoop_crc::main_file(path) else { continue };
        let Some(content) = store.read(&main).await? else {
            findings.remark(path, "is the checksum of a file that is gone");
            continue;
        };
        let Some(checksums) = store.read(path).await? else { continue };
        compared += 1;
        if let Err(why) = hadoop_crc::compare(&checksums, &content) {
            findings.problem(
                path,
                format!(
                    "{why}: either {main} was changed, or this file is stale; Spark refuses to \
                     read the pair (if {main} is as it should be, remove this file)"
                ),
            );
        }
    }
    Ok(compared)
}
