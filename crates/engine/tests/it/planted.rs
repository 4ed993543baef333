//! The tests of this program can fail: with a rule broken on purpose, they do.

use onefold_storage::planted::{Bug, SeenIn};
use onefold_testkit::planted;

#[test]
fn each_broken_rule_of_the_engine_is_seen() {
    let any_call = "crashes::a_fault_at_any_durable_call_loses_and_doubles_nothing";
    planted::all_seen(
        Bug::of(SeenIn::Engine),
        [
            (Bug::CommitBeforePublish, any_call),
            (Bug::PublishWithoutReadingMark, any_call),
            (
                Bug::RangeChosenAgain,
                "crashes::a_restart_reads_the_range_of_its_intent_though_more_has_come",
            ),
            (Bug::ReleaseBeforeCommit, "queries::what_is_committed_is_released_and_nothing_else"),
            (Bug::PurgeTooMuch, "queries::old_logs_are_purged_and_the_steady_state_lists_nothing"),
            (
                Bug::PublishBeforeIntent,
                "crashes::a_restart_reads_the_range_of_its_intent_though_more_has_come",
            ),
            (Bug::NoFence, "queries::a_newer_driver_fences_the_older_by_name"),
            // Rules of the storage that the engine leans on.
            (
                Bug::ExistsIsSuccess,
                "crashes::an_intent_that_another_engine_made_first_is_run_as_it_stands",
            ),
            (
                Bug::ExistsIsFailure,
                "crashes::a_lost_reply_does_not_make_a_driver_a_stranger_to_its_own_records",
            ),
        ],
    );
}
