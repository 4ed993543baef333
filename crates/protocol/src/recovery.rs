//! What to do next, from what is found: a pure function.

mod sinks;
mod stop;

pub use sinks::{Follower, took_part};
pub use stop::StopReason;

use crate::record::{Commit, Intent, Prepared};
use crate::retention;
use onefold_types::{BatchId, Published, QueryId};

/// What was found in the checkpoint and in the sink.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The query that asks, so that another query's mark is recognised; `None` where only the
    /// checkpoint is looked at.
    pub query: Option<QueryId>,
    /// Whether `metadata` exists.
    pub metadata_found: bool,
    /// Ids of files in `offsets/`, ascending.
    pub intent_ids: Vec<BatchId>,
    /// Ids of files in `commits/`, ascending.
    pub commit_ids: Vec<BatchId>,
    /// The newest intent.
    pub last_intent: Option<Intent>,
    /// The intent before the newest.
    pub intent_before: Option<Intent>,
    /// The newest commit.
    pub last_commit: Option<Commit>,
    /// Whether the sink remembers what it published. One that does not (console, noop) may have
    /// published the newest intent or not: the batch runs again.
    pub sink_keeps_marks: bool,
    /// The newest batch that the sink holds.
    pub mark: Option<Published>,
    /// The name of the sink whose mark this is, where it is not the main one.
    pub decider: Option<String>,
    /// The other sinks that remember what they hold.
    pub followers: Vec<Follower>,
    /// The prepared record that the sink's mark names, if there is one.
    pub prepared: Option<Prepared>,
    /// Whether the query has state or its sink cannot tell totals, so that adopting a published
    /// batch needs its prepared record.
    pub needs_prepared: bool,
    /// What is known of the query's state.
    pub state: StateFacts,
    /// Whether the user accepted that the query goes on without the state that is missing.
    pub state_dropped: bool,
    /// How many batches the logs keep (`minBatchesToRetain`), where it is known. Ids older than
    /// that prove nothing: a purge may have been cut off.
    pub batches_retained: Option<u64>,
}

/// What is known of a query's state.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum StateFacts {
    /// The query has none, or nobody asked.
    #[default]
    None,
    /// It has; this is the prepared record that the newest commit names, if it is there.
    Ours(Option<Prepared>),
    /// It has, and the checkpoint holds state files of Spark's, but no record of ours.
    Sparks,
}

/// The next act.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Everything up to the batch before is over: choose ranges for this one.
    Plan {
        /// The batch to plan.
        batch: BatchId,
    },
    /// The intent is there but not published: take leftovers out of sight and run the same ranges.
    RunAgain {
        /// The batch to run.
        batch: BatchId,
    },
    /// The batch is decided: publish what further sinks lack of it, write its commit, compute
    /// nothing.
    AdoptCommit {
        /// The batch.
        batch: BatchId,
        /// The mark found.
        published: Published,
        /// What its driver staged and did not come to publish.
        unpublished: Vec<Unpublished>,
        /// The commit to write.
        commit: Box<Commit>,
    },
    /// Something does not fit: stop and say so.
    Stop(StopReason),
}

/// What a driver staged for a further sink of a batch that is decided.
#[derive(Debug, Clone, PartialEq)]
pub struct Unpublished {
    /// The sink's name in the query.
    pub name: String,
    /// The staged output, as the prepared record says.
    pub outputs: serde_json::Value,
}

impl Facts {
    /// The state that the next act starts from, as the state store referred to it; `None`: empty.
    #[must_use]
    pub fn state_for(&self, next: &Next) -> Option<&serde_json::Value> {
        let record = match next {
            Next::AdoptCommit { .. } => self.prepared.as_ref(),
            _ => match &self.state {
                StateFacts::Ours(record) => record.as_ref(),
                StateFacts::None | StateFacts::Sparks => None,
            },
        };
        record.map(|record| &record.state).filter(|state| !state.is_null())
    }

    /// Of ascending ids, those that the logs are meant to keep; all where that is not known.
    #[must_use]
    pub fn retained<'a>(&self, ids: &'a [BatchId]) -> &'a [BatchId] {
        let (Some(keep), Some(newest)) = (self.batches_retained, ids.last()) else { return ids };
        let from = retention::keep_from(*newest, keep);
        ids.get(ids.partition_point(|id| *id < from)..).unwrap_or(ids)
    }
}

/// Decides what a driver does next. Total: every combination of facts has an answer.
#[must_use]
pub fn decide(facts: &Facts) -> Next {
    decided(facts).unwrap_or_else(Next::Stop)
}

fn decided(facts: &Facts) -> Result<Next, StopReason> {
    let last_intent = facts.intent_ids.last().copied();
    let last_commit = facts.commit_ids.last().copied();
    check_logs(facts, last_intent, last_commit)?;
    check_mark(facts, last_intent)?;
    sinks::check(facts, last_intent)?;
    let Some(newest) = last_intent else {
        return Ok(Next::Plan { batch: BatchId::FIRST });
    };
    if last_commit == Some(newest) {
        check_state(facts, last_commit)?;
        return Ok(Next::Plan { batch: newest.next() });
    }
    if facts.last_intent.as_ref().is_some_and(|intent| intent.control_batch_info.is_some()) {
        return Err(StopReason::ControlBatch { batch: newest });
    }
    match facts.mark {
        Some(published) if facts.sink_keeps_marks && published.mark.batch == newest => {
            adopt(facts, newest, published)
        }
        _ => {
            check_state(facts, last_commit)?;
            Ok(Next::RunAgain { batch: newest })
        }
    }
}

/// A query with state goes on from the state that its newest commit left.
fn check_state(facts: &Facts, last_commit: Option<BatchId>) -> Result<(), StopReason> {
    let Some(batch) = last_commit.filter(|_| !facts.state_dropped) else { return Ok(()) };
    match &facts.state {
        StateFacts::None => Ok(()),
        StateFacts::Ours(Some(record)) if record.batch == batch && !record.state.is_null() => {
            Ok(())
        }
        StateFacts::Ours(_) => Err(StopReason::StateMissing { batch }),
        StateFacts::Sparks => Err(StopReason::SparksState { batch }),
    }
}

/// The logs by themselves: identity, holes, order.
fn check_logs(
    facts: &Facts,
    last_intent: Option<BatchId>,
    last_commit: Option<BatchId>,
) -> Result<(), StopReason> {
    if !facts.metadata_found && (last_intent.is_some() || last_commit.is_some()) {
        return Err(StopReason::MetadataMissing);
    }
    if let Some(batch) = hole(facts.retained(&facts.intent_ids)) {
        return Err(StopReason::Hole { folder: "offsets", batch });
    }
    if let Some(batch) = hole(facts.retained(&facts.commit_ids)) {
        return Err(StopReason::Hole { folder: "commits", batch });
    }
    let Some(newest) = last_intent else {
        return match last_commit {
            Some(commit) => Err(StopReason::CommitWithoutIntent { commit, last_intent: None }),
            None => Ok(()),
        };
    };
    match last_commit {
        Some(commit) if commit > newest => {
            Err(StopReason::CommitWithoutIntent { commit, last_intent })
        }
        Some(commit) if commit == newest => Ok(()),
        // A batch can only run again from the end of the one before.
        _ if newest > BatchId::FIRST && facts.intent_ids.len() < 2 => {
            let batch = newest.previous().unwrap_or(BatchId::FIRST);
            Err(StopReason::Hole { folder: "offsets", batch })
        }
        Some(commit) if commit.next() == newest => Ok(()),
        Some(commit) => Err(StopReason::Hole { folder: "commits", batch: commit.next() }),
        None if newest == BatchId::FIRST => Ok(()),
        None => Err(StopReason::Hole { folder: "commits", batch: BatchId::FIRST }),
    }
}

/// The sink against the logs: `last commit ≤ mark ≤ last intent`, and the mark is this query's.
fn check_mark(facts: &Facts, last_intent: Option<BatchId>) -> Result<(), StopReason> {
    if !facts.sink_keeps_marks {
        return Ok(());
    }
    let name = facts.decider.as_deref();
    sinks::check_owner(facts, facts.mark, last_intent)
        .and_then(|()| sinks::check_joined(facts, name, facts.mark))
        .map_err(|reason| match name {
            Some(name) => StopReason::InSink { name: name.to_owned(), reason: Box::new(reason) },
            None => reason,
        })
}

/// The commit of a batch that is published already: nothing is computed.
fn adopt(facts: &Facts, batch: BatchId, published: Published) -> Result<Next, StopReason> {
    let prepared = facts.prepared.as_ref().filter(|record| {
        record.batch == batch && Some(record.generation) == published.mark.generation
    });
    if facts.needs_prepared && prepared.is_none() {
        return Err(StopReason::PreparedMissing { mark: published.mark });
    }
    let stateless = prepared.is_none_or(|record| record.state.is_null());
    if facts.state != StateFacts::None && stateless && !facts.state_dropped {
        return Err(StopReason::StateMissing { batch });
    }
    let (unpublished, sinks) = sinks::follow(facts, batch, published.mark.generation, prepared)?;
    let version = facts.last_commit.as_ref().map_or(1, |commit| commit.version);
    let of_main = published.totals.filter(|_| facts.decider.is_none());
    let commit = Commit {
        version,
        next_batch_watermark_ms: match prepared {
            Some(record) => record.next_batch_watermark_ms,
            None => watermark_ms(facts),
        },
        state_unique_ids: (version == 2).then(|| "{}".to_owned()),
        generation: published.mark.generation,
        totals: of_main.or(prepared.map(|record| record.totals)),
        watermarks: prepared.map(|record| record.watermarks.clone()).unwrap_or_default(),
        sinks,
    };
    Ok(Next::AdoptCommit { batch, published, unpublished, commit: Box::new(commit) })
}

/// A query without state carries its watermark on unchanged.
fn watermark_ms(facts: &Facts) -> i64 {
    let intended = facts.last_intent.as_ref().map(|intent| intent.batch_watermark_ms);
    let committed = facts.last_commit.as_ref().map(|commit| commit.next_batch_watermark_ms);
    intended.max(committed).unwrap_or(0)
}

/// The first id that is missing between two others.
fn hole(ids: &[BatchId]) -> Option<BatchId> {
    ids.iter()
        .zip(ids.iter().skip(1))
        .find(|(id, next)| id.next() != **next)
        .map(|(id, _)| id.next())
}

#[cfg(test)]
mod tests;
