//! Faults planted on purpose, to prove that the tests can see: compiled only with the feature
//! `planted-bugs`, chosen by the environment variable `ONEFOLD_PLANTED`.

/// A rule of the protocol, broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A created file's folder is not synced.
    NoFolderSync,
    /// The commit is created before the sink publishes.
    CommitBeforePublish,
    /// After an unknown outcome or a restart the batch is published without asking for the mark.
    PublishWithoutReadingMark,
    /// Staged names do not hold the generation.
    StagedNamesWithoutGeneration,
    /// A restart chooses new ranges although the intent is there.
    RangeChosenAgain,
    /// A taken name counts as success without reading it back.
    ExistsIsSuccess,
    /// A taken name counts as failure without reading it back.
    ExistsIsFailure,
    /// Sources release before the commit is durable.
    ReleaseBeforeCommit,
    /// Purge removes a record that the newest commit still needs.
    PurgeTooMuch,
    /// Rows are visible before the intent is durable.
    PublishBeforeIntent,
    /// A driver does not look for newer generations.
    NoFence,
    /// A file is created by overwriting.
    CreateOverwrites,
}

impl Bug {
    /// Every planted fault.
    pub const ALL: &'static [Bug] = &[
        Bug::NoFolderSync,
        Bug::CommitBeforePublish,
        Bug::PublishWithoutReadingMark,
        Bug::StagedNamesWithoutGeneration,
        Bug::RangeChosenAgain,
        Bug::ExistsIsSuccess,
        Bug::ExistsIsFailure,
        Bug::ReleaseBeforeCommit,
        Bug::PurgeTooMuch,
        Bug::PublishBeforeIntent,
        Bug::NoFence,
        Bug::CreateOverwrites,
    ];
}

/// Whether this fault is planted in this process. Always false without the feature.
#[cfg(not(feature = "planted-bugs"))]
#[inline]
#[must_use]
pub fn planted(_bug: Bug) -> bool {
    false
}

/// Whether this fault is planted in this process: `ONEFOLD_PLANTED` holds its name.
#[cfg(feature = "planted-bugs")]
#[must_use]
pub fn planted(bug: Bug) -> bool {
    std::env::var("ONEFOLD_PLANTED").is_ok_and(|name| name == format!("{bug:?}"))
}
