//! Timing a batch by phases that add up.

use crate::timer::Timer;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A part of a batch, with Spark's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Asking the sources for their latest offsets.
    LatestOffset,
    /// Creating the intent.
    WalCommit,
    /// Making the sources' part of the plan.
    GetBatch,
    /// Making the rest of the plan.
    QueryPlanning,
    /// Running it: staging, preparing, publishing.
    AddBatch,
    /// Committing, and letting the sources release.
    CommitOffsets,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Phase::LatestOffset => "latestOffset",
            Phase::WalCommit => "walCommit",
            Phase::GetBatch => "getBatch",
            Phase::QueryPlanning => "queryPlanning",
            Phase::AddBatch => "addBatch",
            Phase::CommitOffsets => "commitOffsets",
        }
    }
}

/// A stopwatch with laps: every millisecond since its start belongs to one phase, so that the
/// phases add up to the whole.
#[derive(Debug)]
pub(crate) struct Phases {
    timer: Arc<dyn Timer>,
    began_ms: i64,
    last_ms: i64,
    spent: BTreeMap<&'static str, i64>,
}

impl Phases {
    pub(crate) fn new(timer: Arc<dyn Timer>) -> Self {
        let now = timer.now_ms();
        Phases { timer, began_ms: now, last_ms: now, spent: BTreeMap::new() }
    }

    /// When the stopwatch started, milliseconds since 1970.
    pub(crate) fn began_ms(&self) -> i64 {
        self.began_ms
    }

    /// Books the time since the last lap. A clock that was set back books nothing.
    pub(crate) fn lap(&mut self, phase: Phase) -> i64 {
        let now = self.timer.now_ms();
        let spent = now.saturating_sub(self.last_ms).max(0);
        self.last_ms = now;
        self.book(phase, spent);
        spent
    }

    /// Moves time that was booked on one phase to another.
    pub(crate) fn shift(&mut self, from: Phase, to: Phase, ms: i64) {
        let ms = ms.clamp(0, self.spent.get(from.name()).copied().unwrap_or(0));
        self.book(from, -ms);
        self.book(to, ms);
    }

    fn book(&mut self, phase: Phase, ms: i64) {
        let entry = self.spent.entry(phase.name()).or_insert(0);
        *entry = entry.saturating_add(ms);
    }

    /// The phases, and `triggerExecution`, their sum.
    pub(crate) fn durations(&self) -> BTreeMap<String, i64> {
        let mut durations: BTreeMap<String, i64> =
            self.spent.iter().map(|(name, ms)| ((*name).to_owned(), *ms)).collect();
        durations.insert("triggerExecution".to_owned(), self.spent.values().sum());
        durations
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use onefold_connector::Clock;
    use std::sync::atomic::{AtomicI64, Ordering};

    #[derive(Debug, Default)]
    struct Steps(AtomicI64);

    impl Clock for Steps {
        fn now_ms(&self) -> i64 {
            self.0.fetch_add(7, Ordering::SeqCst)
        }
    }

    #[async_trait]
    impl Timer for Steps {
        async fn wait_until(&self, _at_ms: i64) {}
    }

    #[test]
    fn phases_add_up_to_the_whole() {
        let mut phases = Phases::new(Arc::new(Steps::default()));
        phases.lap(Phase::LatestOffset);
        phases.lap(Phase::QueryPlanning);
        phases.shift(Phase::QueryPlanning, Phase::GetBatch, 3);
        phases.lap(Phase::AddBatch);
        let durations = phases.durations();
        assert_eq!(durations["getBatch"], 3);
        assert_eq!(durations["queryPlanning"], 4);
        assert_eq!(durations["triggerExecution"], 21);
    }
}
