//! Why a checkpoint cannot go on: what was found, what it means, which command repairs it.

use onefold_types::{BatchId, Mark};
use std::fmt;

/// A reason to stop. `Display` follows "checkpoint PATH cannot go on: ".
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
    /// A commit of a batch that was never intended.
    CommitWithoutIntent {
        /// The newest commit.
        commit: BatchId,
        /// The newest intent.
        last_intent: Option<BatchId>,
    },
    /// The newest intent is not a data batch (a state repartition that did not finish).
    ControlBatch {
        /// The batch.
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
    /// What is wrong is in one of the query's further sinks.
    InSink {
        /// Its name.
        name: String,
        /// What is wrong.
        reason: Box<StopReason>,
    },
    /// A further sink holds a batch, or another driver's output of it, that the sink which decides
    /// does not hold.
    FollowerAhead {
        /// Its mark.
        mark: Mark,
    },
    /// A further sink took part, then did not, and would again.
    SinkRejoins {
        /// Its mark.
        mark: Mark,
        /// The newest commit.
        last_commit: BatchId,
    },
    /// A batch is decided and has rows for a sink that the query no longer has.
    SinkGone {
        /// Its name.
        name: String,
        /// As it described itself.
        was: String,
        /// The batch.
        batch: BatchId,
    },
    /// A batch is decided and has rows for a sink that is now elsewhere.
    SinkMoved {
        /// Its name.
        name: String,
        /// As it described itself.
        was: String,
        /// The batch.
        batch: BatchId,
    },
    /// The newest commit left no record of the query's state.
    StateMissing {
        /// The newest commit.
        batch: BatchId,
    },
    /// The query's state is in files of Spark's.
    SparksState {
        /// The newest commit.
        batch: BatchId,
    },
    /// A batch is published, but the record of what it computed is not there.
    PreparedMissing {
        /// The sink's mark.
        mark: Mark,
    },
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopReason::MetadataMissing => write!(
                f,
                "it holds offsets or commits but no `metadata`, so the query's identity is lost and \
                 a new one would deliver everything again; put the file back, or let `onefold \
                 checkpoint fork` give a copy a new identity"
            ),
            StopReason::Hole { folder, batch } => write!(
                f,
                "{folder}/{batch} is missing, so part of what the query did is not known; restore \
                 the file from a backup, or go back with `onefold checkpoint rewind`"
            ),
            StopReason::CommitWithoutIntent { commit, last_intent } => write!(
                f,
                "commits/{commit} says that batch {commit} is over, but {}, so offsets were \
                 lost; restore them from a backup, or go back with `onefold checkpoint rewind`",
                newest_intent(*last_intent)
            ),
            StopReason::ControlBatch { batch } => write!(
                f,
                "batch {batch} is a state repartition that Spark began and did not finish; finish \
                 it with Spark, or go back with `onefold checkpoint rewind`"
            ),
            StopReason::SinkAhead { mark, last_intent } => write!(
                f,
                "the sink holds {mark}, but {}: the sink is ahead of this checkpoint, which is an \
                 older copy or a new folder; use the checkpoint that wrote the sink, or another \
                 output",
                newest_intent(*last_intent)
            ),
            StopReason::SinkBehind { mark, last_commit } => write!(
                f,
                "batch {last_commit} is committed, but the sink holds {}: the output was moved, \
                 emptied or is another one, its options name another place for marks or had it \
                 keep none, or entries of its manifest are lost; point the query \
                 at the right output, make lost entries again with `onefold checkpoint repair`, or \
                 go back with `onefold checkpoint rewind` to deliver the missing batches again",
                match mark {
                    Some(mark) => format!("{mark} as its newest"),
                    None => "no batch".to_owned(),
                }
            ),
            StopReason::ForeignMark { mark } => write!(
                f,
                "the sink holds {mark}, which is another query; give this query an output of its \
                 own, or start it on the checkpoint that wrote the sink"
            ),
            StopReason::InSink { name, reason } => write!(f, "in its sink of {name}: {reason}"),
            StopReason::FollowerAhead { mark } => write!(
                f,
                "this sink holds {mark}, which the query's first sink did not decide: one of the \
                 two was exchanged or restored from a copy; put back the outputs that belong \
                 together"
            ),
            StopReason::SinkRejoins { mark, last_commit } => write!(
                f,
                "this sink holds {mark} as its newest, and took no part in the batches from then \
                 to {last_commit}, which would be missing in it: give it a new output"
            ),
            StopReason::SinkGone { name, was, batch } => write!(
                f,
                "batch {batch} is published and has rows of {name} for {was}, which are staged but \
                 not yet published, and the query has no such sink any more: start it once with \
                 that sink, which takes the rows, and then without it"
            ),
            StopReason::SinkMoved { name, was, batch } => write!(
                f,
                "batch {batch} is published and has rows of {name} for {was}, which are staged but \
                 not yet published, and these now go elsewhere: start the query once with that \
                 sink, which takes the rows"
            ),
            StopReason::StateMissing { batch } => write!(
                f,
                "batch {batch} is committed, but _onefold/prepared has no record of the state that \
                 it left: either the query had no state until now, or the record was lost; restore \
                 it from a backup, or let `onefold checkpoint plan … --accept` start the state \
                 empty"
            ),
            StopReason::SparksState { batch } => write!(
                f,
                "up to batch {batch} Spark ran the query, and its state is in Spark's own files \
                 (state/), which this Onefold does not read; go on with Spark, or start the query \
                 with a new checkpointLocation and output"
            ),
            StopReason::PreparedMissing { mark } => write!(
                f,
                "the sink holds {mark}, but the record of what that batch computed is missing from \
                 _onefold/prepared; restore it from a backup, or run `onefold checkpoint verify`"
            ),
        }
    }
}

fn newest_intent(last: Option<BatchId>) -> String {
    match last {
        Some(batch) => format!("the newest entry in offsets is {batch}"),
        None => "offsets holds no entry".to_owned(),
    }
}
