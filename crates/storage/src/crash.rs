//! Named points of the protocol at which a test can make the process die.

/// A place between two durable acts of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CrashPoint {
    /// After the generation file.
    GenerationCreated,
    /// Before the source's own log entry.
    SourceLogBefore,
    /// After the source's own log entry, before the intent.
    SourceLogCreated,
    /// Before the intent.
    IntentBefore,
    /// After the intent.
    IntentCreated,
    /// While staged files are written: at least one is begun.
    StageDuring,
    /// Before a call to the outside world.
    CallBefore,
    /// After its reply, before that is durable.
    CallAnswered,
    /// Before a group of replies is made durable.
    EffectsBefore,
    /// After it is durable.
    EffectsCreated,
    /// Before what the batch wrote into the state is made durable.
    StateBefore,
    /// After it is durable.
    StateCreated,
    /// After all output is staged and the state is durable.
    StageDone,
    /// Before the prepared record.
    PreparedBefore,
    /// After the prepared record.
    PreparedCreated,
    /// In publish, after some or all files have final names, before the mark.
    PublishBeforeMark,
    /// In publish, after the mark.
    PublishMarked,
    /// Before the commit.
    CommitBefore,
    /// After the commit.
    CommitCreated,
    /// While sources release.
    ReleaseDuring,
    /// While old files are purged.
    PurgeDuring,
    /// In recovery, after facts were gathered, before anything is changed.
    RecoveryBefore,
    /// In recovery, after leftovers were discarded.
    RecoveryDiscarded,
}

impl CrashPoint {
    /// Every point, in the order of the protocol.
    pub const ALL: &'static [CrashPoint] = &[
        CrashPoint::GenerationCreated,
        CrashPoint::RecoveryBefore,
        CrashPoint::RecoveryDiscarded,
        CrashPoint::SourceLogBefore,
        CrashPoint::SourceLogCreated,
        CrashPoint::IntentBefore,
        CrashPoint::IntentCreated,
        CrashPoint::StageDuring,
        CrashPoint::CallBefore,
        CrashPoint::CallAnswered,
        CrashPoint::EffectsBefore,
        CrashPoint::EffectsCreated,
        CrashPoint::StateBefore,
        CrashPoint::StateCreated,
        CrashPoint::StageDone,
        CrashPoint::PreparedBefore,
        CrashPoint::PreparedCreated,
        CrashPoint::PublishBeforeMark,
        CrashPoint::PublishMarked,
        CrashPoint::CommitBefore,
        CrashPoint::CommitCreated,
        CrashPoint::ReleaseDuring,
        CrashPoint::PurgeDuring,
    ];

    /// The name used in `ONEFOLD_CRASH_AT`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CrashPoint::GenerationCreated => "generation.created",
            CrashPoint::SourceLogBefore => "source-log.before",
            CrashPoint::SourceLogCreated => "source-log.created",
            CrashPoint::IntentBefore => "intent.before",
            CrashPoint::IntentCreated => "intent.created",
            CrashPoint::StageDuring => "stage.during",
            CrashPoint::CallBefore => "call.before",
            CrashPoint::CallAnswered => "call.answered",
            CrashPoint::EffectsBefore => "effects.before",
            CrashPoint::EffectsCreated => "effects.created",
            CrashPoint::StateBefore => "state.before",
            CrashPoint::StateCreated => "state.created",
            CrashPoint::StageDone => "stage.done",
            CrashPoint::PreparedBefore => "prepared.before",
            CrashPoint::PreparedCreated => "prepared.created",
            CrashPoint::PublishBeforeMark => "publish.before-mark",
            CrashPoint::PublishMarked => "publish.marked",
            CrashPoint::CommitBefore => "commit.before",
            CrashPoint::CommitCreated => "commit.created",
            CrashPoint::ReleaseDuring => "release.during",
            CrashPoint::PurgeDuring => "purge.during",
            CrashPoint::RecoveryBefore => "recovery.before",
            CrashPoint::RecoveryDiscarded => "recovery.discarded",
        }
    }
}

/// Dies here by SIGKILL if `ONEFOLD_CRASH_AT=NAME:K` names this point and it is reached for the
/// K-th time (K counts from 1). Compiled to nothing without the feature `crash-points`.
#[cfg(not(feature = "crash-points"))]
#[inline]
pub fn crash_point(_point: CrashPoint) {}

/// Dies here by SIGKILL if `ONEFOLD_CRASH_AT=NAME:K` names this point and it is reached for the
/// K-th time (K counts from 1).
#[cfg(feature = "crash-points")]
pub fn crash_point(point: CrashPoint) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    static WANTED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static HITS: AtomicU64 = AtomicU64::new(0);
    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var("ONEFOLD_CRASH_AT").ok()?;
        let (name, count) = text.rsplit_once(':')?;
        Some((name.to_owned(), count.parse().ok()?))
    });
    if let Some((name, count)) = wanted
        && name == point.name()
        && HITS.fetch_add(1, Ordering::SeqCst) + 1 == *count
    {
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}
