//! The facts from which recovery decides.

use super::{commit_path, intent_path, left_behind_paths, prepared_path, read_record};
use crate::evolution;
use crate::run::sinks::Marks;
use futures::{StreamExt, TryStreamExt, stream};
use onefold_protocol::record::{Commit, Intent, Prepared};
use onefold_protocol::recovery::{Facts, StateFacts, StopReason};
use onefold_protocol::retention::take_left_behind;
use onefold_state::OperatorSpec;
use onefold_storage::Store;
use onefold_types::{BatchId, Error, ErrorKind, OffsetRange, QueryId, Result};

/// Records that are read at the same time.
const READS_AT_ONCE: usize = 16;

/// What the sinks say, and of whom they were asked.
#[derive(Debug, Clone)]
pub(crate) struct SinkFacts<'a> {
    pub(crate) query: QueryId,
    pub(crate) marks: Marks,
    pub(crate) needs_prepared: bool,
    /// The query's stateful operators.
    pub(crate) operators: &'a [OperatorSpec],
}

/// What the checkpoint holds, apart from the sink.
#[derive(Debug, Clone, Default)]
pub(crate) struct Found {
    pub(crate) facts: Facts,
    /// Paths of records that fenced drivers left of batches long over.
    pub(crate) left_behind: Vec<String>,
}

impl Found {
    pub(crate) fn last_intent(&self) -> Option<(BatchId, &Intent)> {
        Some((*self.facts.intent_ids.last()?, self.facts.last_intent.as_ref()?))
    }

    pub(crate) fn last_commit(&self) -> Option<BatchId> {
        self.facts.commit_ids.last().copied()
    }

    /// Adds what the sink says, and what the driver named by its mark prepared.
    pub(crate) async fn with_mark(
        mut self,
        store: &dyn Store,
        sink: SinkFacts<'_>,
    ) -> Result<Facts> {
        let SinkFacts { query, marks, needs_prepared, operators } = sink;
        let Marks { keeps, decider, mark, followers } = marks;
        self.facts.query = Some(query);
        self.facts.sink_keeps_marks = keeps;
        self.facts.decider = decider;
        self.facts.mark = mark;
        self.facts.followers = followers;
        self.facts.needs_prepared = needs_prepared;
        if needs_prepared
            && let Some(published) = mark
            && let Some(generation) = published.mark.generation
        {
            let path = prepared_path(published.mark.batch, generation);
            self.facts.prepared = read_record(store, &path, Prepared::parse).await?;
        }
        if !operators.is_empty() || !store.list("_onefold/state/schemas").await?.is_empty() {
            self.facts.state = state_facts(store, &self.facts).await?;
            let next = self.facts.commit_ids.last().map_or(BatchId::FIRST, |last| last.next());
            let accepted = evolution::accepted(store, next, operators).await?;
            // What a query without state leaves behind is looked at when the state is opened.
            self.facts.state_dropped = accepted.is_some() || operators.is_empty();
        }
        Ok(self.facts)
    }
}

/// What the newest commit left of state.
pub(crate) async fn state_facts(store: &dyn Store, facts: &Facts) -> Result<StateFacts> {
    let Some(batch) = facts.commit_ids.last() else { return Ok(StateFacts::Ours(None)) };
    if let Some(generation) = facts.last_commit.as_ref().and_then(|last| last.generation) {
        let path = prepared_path(*batch, generation);
        return Ok(StateFacts::Ours(read_record(store, &path, Prepared::parse).await?));
    }
    let sparks = !store.list_deep("state", true).await?.is_empty();
    Ok(if sparks { StateFacts::Sparks } else { StateFacts::Ours(None) })
}

/// All prepared records there are, by batch and generation. One that cannot be read is passed over:
/// it matters only to the batch that its mark or commit names, and is read again there.
pub(crate) async fn prepared_records(store: &dyn Store) -> Result<Vec<Prepared>> {
    let entries = store.list("_onefold/prepared").await?;
    let paths = entries.into_iter().map(|entry| entry.path);
    let mut records: Vec<Prepared> = stream::iter(paths)
        .map(|path| async move {
            match read_record(store, &path, Prepared::parse).await {
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    tracing::warn!("{}", error.chain());
                    Ok(None)
                }
                read => read,
            }
        })
        .buffered(READS_AT_ONCE)
        .try_filter_map(|record| async move { Ok(record) })
        .try_collect()
        .await?;
    records.sort_by_key(|record| (record.batch, record.generation));
    Ok(records)
}

/// Numbers that name files in a folder, ascending. Other names, and folders, are not records.
pub(super) async fn ids(store: &dyn Store, folder: &str) -> Result<Vec<BatchId>> {
    let mut ids: Vec<BatchId> = store
        .list(folder)
        .await?
        .iter()
        .filter_map(|entry| entry.path.rsplit('/').next())
        .filter_map(|name| name.parse::<u64>().ok().filter(|id| id.to_string() == name))
        .map(BatchId)
        .collect();
    ids.sort_unstable();
    Ok(ids)
}

/// Lists the logs and reads their newest records. `batches_retained` is what the settings keep.
pub(crate) async fn gather(store: &dyn Store, batches_retained: u64) -> Result<Found> {
    let (mut intent_ids, mut commit_ids) =
        futures::future::try_join(ids(store, "offsets"), ids(store, "commits")).await?;
    let left = take_left_behind(&mut intent_ids, &mut commit_ids);
    let intent = async |nth: usize| -> Result<Option<Intent>> {
        let Some(batch) = intent_ids.iter().rev().nth(nth) else { return Ok(None) };
        read_record(store, &intent_path(*batch), Intent::parse).await
    };
    let last_intent = intent(0).await?;
    let intent_before = intent(1).await?;
    let last_commit = match commit_ids.last() {
        Some(batch) => read_record(store, &commit_path(*batch), Commit::parse).await?,
        None => None,
    };
    let metadata_found = store.stat("metadata").await?.is_some();
    let facts = Facts {
        metadata_found,
        intent_ids,
        commit_ids,
        last_intent,
        intent_before,
        last_commit,
        batches_retained: Some(batches_retained),
        ..Facts::default()
    };
    Ok(Found { facts, left_behind: left_behind_paths(&left) })
}

/// The retained intents with the range of each source, oldest first: for each source id, what
/// [`onefold_connector::SourceContext::history`] wants.
pub(crate) async fn history(
    store: &dyn Store,
    found: &Found,
    ids: &[String],
) -> Result<Vec<Vec<(BatchId, OffsetRange)>>> {
    let retained = found.facts.retained(&found.facts.intent_ids).to_vec();
    let intents: Vec<(BatchId, Intent)> = stream::iter(retained)
        .map(|batch| async move {
            let intent = read_record(store, &intent_path(batch), Intent::parse).await?;
            intent.map(|intent| (batch, intent)).ok_or_else(|| {
                Error::unavailable(format!(
                    "{}/{} vanished while it was read; does another driver run?",
                    store.url(),
                    intent_path(batch)
                ))
            })
        })
        .buffered(READS_AT_ONCE)
        .try_collect()
        .await?;
    let ranges_of = |id: &String| {
        let mut before: Option<&Intent> = None;
        let mut ranges = Vec::with_capacity(intents.len());
        for (batch, intent) in &intents {
            ranges.push((*batch, intent.range(id, before)));
            before = Some(intent);
        }
        ranges
    };
    Ok(ids.iter().map(ranges_of).collect())
}

/// A reason to stop as an error.
pub(crate) fn stop(store: &dyn Store, reason: &StopReason) -> Error {
    Error::corrupt(format!("checkpoint {} cannot go on: {reason}", store.url()))
}
