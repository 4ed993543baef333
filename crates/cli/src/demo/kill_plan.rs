//! Which kill comes next: a pure function of the seed.

use onefold_storage::crash::CrashPoint;
use std::time::Duration;

/// Points that every run with files reaches, in an order in which each is reached: what follows a
/// crash in recovery needs a batch that was left open by the kill before.
const POINTS: &[CrashPoint] = &[
    CrashPoint::StageDuring,
    CrashPoint::PublishBeforeMark,
    CrashPoint::RecoveryDiscarded,
    CrashPoint::PublishMarked,
    CrashPoint::IntentCreated,
    CrashPoint::CommitBefore,
    CrashPoint::StageDone,
    CrashPoint::SourceLogCreated,
    CrashPoint::CommitCreated,
    CrashPoint::IntentBefore,
    CrashPoint::GenerationCreated,
    CrashPoint::SourceLogBefore,
    CrashPoint::RecoveryBefore,
];

/// How long a run may go on before it is killed from outside, its point not reached.
const PATIENCE: Duration = Duration::from_secs(6);

/// One kill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kill {
    /// The process kills itself when it reaches the point for the n-th time.
    At { point: CrashPoint, hits: u64 },
    /// The process is killed from outside after a while.
    After(Duration),
}

/// Chooses kills.
#[derive(Debug)]
pub struct KillPlan {
    random: Random,
    made: usize,
}

impl KillPlan {
    /// The kills of a seed.
    pub fn new(seed: u64) -> Self {
        KillPlan { random: Random(seed), made: 0 }
    }

    /// The next kill.
    pub fn next(&mut self) -> Kill {
        let number = self.made;
        self.made += 1;
        if !cfg!(feature = "crash-points") {
            return Kill::After(Duration::from_millis(300 + self.random.below(1_200)));
        }
        let point = POINTS.get(number % POINTS.len()).copied();
        let point = point.unwrap_or(CrashPoint::PublishMarked);
        let once = matches!(
            point,
            CrashPoint::GenerationCreated
                | CrashPoint::RecoveryBefore
                | CrashPoint::RecoveryDiscarded
        );
        let hits = if once { 1 } else { 1 + self.random.below(3) };
        Kill::At { point, hits }
    }
}

impl Kill {
    /// The value of `ONEFOLD_CRASH_AT`, if the process kills itself.
    pub fn environment(&self) -> Option<String> {
        match self {
            Kill::At { point, hits } => Some(format!("{}:{hits}", point.name())),
            Kill::After(_) => None,
        }
    }

    /// The name of the point, if it has one.
    pub fn point(&self) -> Option<&'static str> {
        match self {
            Kill::At { point, .. } => Some(point.name()),
            Kill::After(_) => None,
        }
    }

    /// When to kill from outside.
    pub fn patience(&self) -> Duration {
        match self {
            Kill::At { .. } => PATIENCE,
            Kill::After(span) => *span,
        }
    }
}

/// SplitMix64: small, and good enough to choose moments and make orders.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_kills_at_the_same_moments() {
        let kills = |seed| {
            let mut plan = KillPlan::new(seed);
            (0..30).map(|_| plan.next()).collect::<Vec<_>>()
        };
        assert_eq!(kills(7), kills(7));
        assert_ne!(kills(7), kills(8));
    }

    #[test]
    fn no_point_is_listed_twice() {
        let names: std::collections::BTreeSet<_> = POINTS.iter().map(|it| it.name()).collect();
        assert_eq!(names.len(), POINTS.len());
    }
}
