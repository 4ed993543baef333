//! What to do next, from what is found: a pure function.

use crate::record::{Commit, Intent, Prepared};
use onefold_types::{BatchId, Mark, Published};

/// What was found in the checkpoint and in the sink.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Whether `metadata` exists.
    pub metadata_found: bool,
    /// Ids of files in `offsets/`, ascending.
    pub intent_ids: Vec<BatchId>,
    /// Ids of files in `commits/`, ascending.
    pub commit_ids: Vec<BatchId>,
    /// The newest intent, and the one before it.
    pub last_intent: Option<Intent>,
    /// The intent before the newest.
    pub intent_before: Option<Intent>,
    /// The newest commit.
    pub last_commit: Option<Commit>,
    /// The newest batch that the sink holds.
    pub mark: Option<Published>,
    /// The prepared record that the sink's mark names, if there is one.
    pub prepared: Option<Prepared>,
    /// Whether the query has state or its sink cannot tell totals, so that adopting a published
    /// batch needs its prepared record.
    pub needs_prepared: bool,
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
    /// The batch is published: write its commit, compute nothing.
    AdoptCommit {
        /// The batch.
        batch: BatchId,
        /// The mark found.
        published: Published,
        /// The commit to write.
        commit: Commit,
    },
    /// Something does not fit: stop and say so.
    Stop(StopReason),
}

/// Why a checkpoint cannot go on, each with what it means and which command repairs it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum StopReason {
    /// Offsets or commits without `metadata`.
    MetadataMissing,
    /// An id is missing between two others.
    Hole {
        /// `offsets` or `commits`.
        folder: &'static str,
        /// The missing batch.
        batch: BatchId,
    },
    /// The sink holds a batch that this checkpoint never intended.
    SinkAhead {
        /// The sink's mark.
        mark: Mark,
        /// The newest intent.
        last_intent: Option<BatchId>,
    },
    /// The checkpoint committed batches that the sink does not hold.
    SinkBehind {
        /// The sink's mark.
        mark: Option<Mark>,
        /// The newest commit.
        last_commit: BatchId,
    },
    /// The sink holds another query's mark.
    ForeignMark {
        /// The sink's mark.
        mark: Mark,
    },
}
