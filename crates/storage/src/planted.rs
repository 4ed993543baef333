//! Faults planted on purpose, to prove that the tests can see: compiled only with the feature
//! `planted-bugs`, chosen by the environment variable `ONEFOLD_PLANTED`.

/// A rule of the protocol, broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A created file's folder is not synced.
    NoFolderSync,
    /// A file gets its name before its bytes are synced.
    NoFileSync,
    /// A failed sync is tried again.
    SyncRetried,
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
    /// A create of unknown outcome counts as one that did not happen.
    UnknownIsFailure,
    /// The mark is there before the files that it names.
    MarkBeforeFiles,
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

/// The crate whose tests see a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeenIn {
    /// `onefold-storage`, in its own folder.
    StorageInside,
    /// `onefold-storage`, from outside.
    Storage,
    /// `onefold-connectors`.
    Connectors,
    /// `onefold-engine`.
    Engine,
}

impl Bug {
    /// Every planted fault, and whose tests must see it. Each of those test programs holds a list of
    /// tests that fail with the fault, and checks that the list is whole.
    pub const ALL: &'static [(Bug, SeenIn)] = &[
        (Bug::NoFolderSync, SeenIn::StorageInside),
        (Bug::NoFileSync, SeenIn::StorageInside),
        (Bug::SyncRetried, SeenIn::StorageInside),
        (Bug::CreateOverwrites, SeenIn::Storage),
        (Bug::ExistsIsSuccess, SeenIn::Storage),
        (Bug::ExistsIsFailure, SeenIn::Storage),
        (Bug::UnknownIsFailure, SeenIn::Storage),
        (Bug::StagedNamesWithoutGeneration, SeenIn::Connectors),
        (Bug::MarkBeforeFiles, SeenIn::Connectors),
        (Bug::CommitBeforePublish, SeenIn::Engine),
        (Bug::PublishWithoutReadingMark, SeenIn::Engine),
        (Bug::RangeChosenAgain, SeenIn::Engine),
        (Bug::ReleaseBeforeCommit, SeenIn::Engine),
        (Bug::PurgeTooMuch, SeenIn::Engine),
        (Bug::PublishBeforeIntent, SeenIn::Engine),
        (Bug::NoFence, SeenIn::Engine),
    ];

    /// The faults that the tests of one place must see.
    pub fn of(place: SeenIn) -> impl Iterator<Item = Bug> {
        Bug::ALL.iter().filter(move |(_, seen)| *seen == place).map(|(bug, _)| *bug)
    }
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

#[cfg(all(test, feature = "planted-bugs"))]
mod tests {
    use super::{Bug, SeenIn};
    use onefold_testkit::planted;

    #[test]
    fn each_broken_rule_of_the_disk_is_seen() {
        let failing = [
            (
                Bug::NoFolderSync,
                "a_created_file_is_whole_or_absent_after_a_power_cut_at_any_instant",
            ),
            (
                Bug::NoFolderSync,
                "a_revealed_file_is_whole_or_absent_after_a_power_cut_at_any_instant",
            ),
            (Bug::NoFolderSync, "a_deleted_file_does_not_come_back_after_a_power_cut"),
            (Bug::NoFileSync, "a_created_file_is_whole_or_absent_after_a_power_cut_at_any_instant"),
            (
                Bug::NoFileSync,
                "a_revealed_file_is_whole_or_absent_after_a_power_cut_at_any_instant",
            ),
        ];
        let failing = failing.map(|(bug, test)| (bug, format!("local::explore::{test}")));
        let retried = "local::tests::a_failed_sync_of_the_file_leaves_nothing_and_poisons";
        let retried = [(Bug::SyncRetried, retried.to_owned())];
        planted::all_seen(Bug::of(SeenIn::StorageInside), failing.into_iter().chain(retried));
    }
}
