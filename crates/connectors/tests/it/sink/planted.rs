//! The tests of the file sink can fail: with a rule broken on purpose, they do.

use onefold_storage::planted::{Bug, SeenIn};
use onefold_testkit::planted;

#[test]
fn each_broken_rule_of_the_file_sink_is_seen() {
    let failing = [
        (
            Bug::StagedNamesWithoutGeneration,
            "leftovers::a_fenced_driver_cannot_reveal_what_its_successor_took_away",
        ),
        (
            Bug::StagedNamesWithoutGeneration,
            "conformance::any_call_of_the_file_sink_may_fail_or_lose_its_reply_or_be_the_last",
        ),
        (
            Bug::MarkBeforeFiles,
            "conformance::any_call_of_the_file_sink_may_fail_or_lose_its_reply_or_be_the_last",
        ),
        (Bug::MarkBeforeFiles, "s3::any_call_may_go_wrong_in_an_object_store"),
    ];
    let failing = failing.map(|(bug, test)| (bug, format!("sink::{test}")));
    planted::all_seen(Bug::of(SeenIn::Connectors), failing);
}
