//! The tests of this program can fail: with a rule broken on purpose, they do.

use onefold_storage::planted::{Bug, SeenIn};
use onefold_testkit::planted;

#[test]
fn each_broken_rule_of_a_store_is_seen() {
    planted::all_seen(
        Bug::of(SeenIn::Storage),
        [
            (Bug::CreateOverwrites, "contract::a_local_folder_keeps_the_contract"),
            (Bug::CreateOverwrites, "contract::an_s3_bucket_keeps_the_contract"),
            (
                Bug::CreateOverwrites,
                "local::two_creators_in_two_threads_have_one_winner_every_time",
            ),
            (Bug::CreateOverwrites, "s3::two_creators_at_once_have_one_winner"),
            (Bug::ExistsIsSuccess, "s3::a_record_of_someone_else_is_theirs_whatever_the_replies"),
            (Bug::ExistsIsFailure, "s3::a_create_that_loses_to_its_own_retry_is_ours"),
            (Bug::ExistsIsFailure, "faults::a_record_is_certain_whatever_happens_to_its_creation"),
            (Bug::UnknownIsFailure, "faults::a_record_is_certain_whatever_happens_to_its_creation"),
        ],
    );
}
