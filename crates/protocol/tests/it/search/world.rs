//! The checkpoint and the sink of the model: what survives a crash.

use onefold_protocol::invariants::{Held, Intended, Observed};
use onefold_types::{BatchId, Generation};
use std::collections::BTreeMap;

/// A rule of the protocol, broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Bug {
    CommitBeforePublish,
    PublishWithoutReadingMark,
    StagedNamesWithoutGeneration,
    RangeChosenAgain,
    ExistsIsSuccess,
    ExistsIsFailure,
    ReleaseBeforeCommit,
    PurgeTooMuch,
    PublishBeforeIntent,
    NoFence,
    CreateOverwrites,
    NoSettle,
    NoSettleAtStart,
}

/// `offsets/N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct IntentFile {
    pub(super) generation: u64,
    pub(super) nonce: u64,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// `commits/N`: the driver that published, and how many rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct CommitFile {
    pub(super) generation: u64,
    pub(super) rows: u64,
}

/// The mark in the sink's manifest: it names the data file of its batch and generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct MarkFile {
    pub(super) generation: u64,
    pub(super) file: (u64, u64),
    pub(super) start: u64,
    pub(super) end: u64,
}

/// Whether readers see a data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Sight {
    /// Staged, under a hidden name.
    Staged,
    /// Under its final name.
    Revealed,
    /// Taken out of sight again by a recovery.
    Concealed,
}

/// One data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct DataFile {
    pub(super) sight: Sight,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// Everything durable.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct World {
    /// Nonces of the generations 1, 2 ….
    pub(super) generations: Vec<u64>,
    pub(super) intents: BTreeMap<u64, IntentFile>,
    pub(super) commits: BTreeMap<u64, CommitFile>,
    pub(super) marks: BTreeMap<u64, MarkFile>,
    /// By (batch, generation in the name).
    pub(super) files: BTreeMap<(u64, u64), DataFile>,
    pub(super) released: u64,
    /// The steps that old generations took after their time, by (generation, step, batch): the
    /// parts of one publish are one step.
    pub(super) late: Vec<(u64, &'static str, u64)>,
}

/// Batches kept before the newest: as few as possible, so that small searches purge.
pub(super) const RETAINED: u64 = 1;

impl World {
    pub(super) fn newest_generation(&self) -> u64 {
        self.generations.len() as u64
    }

    /// Notes a durable step of a driver, for the rule of the fence.
    pub(super) fn step(&mut self, generation: u64, step: &'static str, batch: u64) {
        let late = (generation, step, batch);
        if generation < self.newest_generation() && !self.late.contains(&late) {
            self.late.push(late);
        }
    }

    pub(super) fn observed(&self) -> Observed {
        let generation = |number: u64| Some(Generation(number));
        let intents = self.intents.iter().map(|(batch, it)| {
            let rows = it.start..it.end;
            (BatchId(*batch), Intended { generation: generation(it.generation), rows })
        });
        let published = self.marks.iter().map(|(batch, it)| {
            let rows = (it.start..it.end).collect();
            (BatchId(*batch), Held { generation: generation(it.generation), rows })
        });
        let mut listed: BTreeMap<BatchId, Vec<u64>> = BTreeMap::new();
        for ((batch, _), file) in &self.files {
            if file.sight == Sight::Revealed {
                listed.entry(BatchId(*batch)).or_default().extend(file.start..file.end);
            }
        }
        let mut late_steps: BTreeMap<Generation, u64> = BTreeMap::new();
        for (number, _, _) in &self.late {
            *late_steps.entry(Generation(*number)).or_default() += 1;
        }
        Observed {
            intents: intents.collect(),
            commits: self
                .commits
                .iter()
                .map(|(batch, it)| (BatchId(*batch), generation(it.generation)))
                .collect(),
            published: published.collect(),
            listed,
            released: self.released,
            late_steps,
            batches_retained: RETAINED,
        }
    }
}
