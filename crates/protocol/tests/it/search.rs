//! Every crash and every interleaving of two drivers, tried one by one.
//!
//! A small model of a driver carries out the real rules ([`decide`], create-if-absent, reading back
//! by nonce, the fence, conceal and settle of the file sink, retention) against a model of the
//! checkpoint and of the sink, one atomic act at a time. A breadth-first search visits every state
//! that crashes and interleavings can lead to, asks all invariants in each, and asks at each end
//! whether everything was delivered.
//!
//! [`decide`]: onefold_protocol::recovery::decide

mod driver;
mod explore;
mod world;

use explore::{Limits, explore};
use world::Bug;

/// One driver at a time, dying at any step, and again at any step of the recovery.
const CRASHES: Limits = Limits { at_once: 1, crashes: 2, starts: 4, rows: 3 };
/// Two drivers at every interleaving, and a third once both have ended.
const DRIVERS: Limits = Limits { at_once: 2, crashes: 0, starts: 3, rows: 2 };
/// Two drivers at every interleaving, one of which may die at any step.
const BOTH: Limits = Limits { at_once: 2, crashes: 1, starts: 3, rows: 1 };
/// Two drivers and enough batches for the first to sleep through a purge.
const SLEEPER: Limits = Limits { at_once: 2, crashes: 0, starts: 3, rows: 4 };

#[test]
fn crashes_at_any_two_steps_lose_and_double_nothing() {
    let found = explore(None, CRASHES);
    assert_eq!(found.violation, None);
    assert!(found.states > 1_000 && found.ends > 0, "{found:?}");
}

#[test]
fn two_drivers_at_any_interleaving_lose_and_double_nothing() {
    for limits in [DRIVERS, BOTH] {
        let found = explore(None, limits);
        assert_eq!(found.violation, None);
        assert!(found.states > 1_000 && found.ends > 0, "{found:?}");
    }
}

#[test]
fn a_driver_that_sleeps_through_a_purge_harms_nothing() {
    let found = explore(None, SLEEPER);
    assert_eq!(found.violation, None);
    assert!(found.states > 1_000 && found.ends > 0, "{found:?}");
}

/// Whether any of the searches sees the fault.
fn caught(bug: Bug) {
    let found = [CRASHES, BOTH, DRIVERS]
        .into_iter()
        .find_map(|limits| explore(Some(bug), limits).violation);
    assert!(found.is_some(), "nobody noticed {bug:?}");
}

macro_rules! caught {
    ($($name:ident: $bug:ident,)*) => {
        $(
            #[test]
            fn $name() {
                caught(Bug::$bug);
            }
        )*
    };
}

caught! {
    a_commit_before_the_publish_is_caught: CommitBeforePublish,
    a_publish_without_reading_the_mark_is_caught: PublishWithoutReadingMark,
    staged_names_without_the_generation_are_caught: StagedNamesWithoutGeneration,
    a_range_chosen_again_is_caught: RangeChosenAgain,
    a_taken_name_as_success_is_caught: ExistsIsSuccess,
    a_taken_name_as_failure_is_caught: ExistsIsFailure,
    a_release_before_the_commit_is_caught: ReleaseBeforeCommit,
    a_purge_of_too_much_is_caught: PurgeTooMuch,
    a_publish_before_the_intent_is_caught: PublishBeforeIntent,
    a_driver_without_a_fence_is_caught: NoFence,
    a_create_that_overwrites_is_caught: CreateOverwrites,
    losers_that_nobody_removes_are_caught: NoSettle,
    a_start_that_does_not_settle_the_last_batch_is_caught: NoSettleAtStart,
}
