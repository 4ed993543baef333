//! Every durable call of three batches goes wrong in every way; a restart makes it good.

use crate::world::{Fault, Host, World};

const ATTEMPTS_OF_A_LIVING: u64 = 3;

/// Runs into a fault at one call; whether it was met.
fn run_into(world: &World, call: u64, fault: Fault) -> bool {
    world.faults.arm(call, fault);
    let attempts = if fault.dies() { 1 } else { ATTEMPTS_OF_A_LIVING };
    let outcome = world.run(attempts);
    let met = world.faults.met();
    world.faults.disarm();
    // A purge or a release that fails does not end a query; before it begins, nothing is tried
    // again.
    assert!(met || outcome.is_ok(), "without a fault the query ends well: {outcome:?}");
    met
}

/// Restarts without faults and checks that every row is there once, in its batch.
fn check_after_restart(world: &World, batches: &[&[i64]], case: &str) {
    world.run(1).unwrap_or_else(|error| panic!("{case}: {}", error.chain()));
    assert_eq!(world.seen(), batches, "{case}");
    let numbers: Vec<String> = (0..batches.len()).map(|batch| batch.to_string()).collect();
    assert_eq!(world.store.names("offsets"), numbers, "{case}");
    assert_eq!(world.store.names("commits"), numbers, "{case}");
    let shelf = world.sink.shelf.lock().unwrap();
    assert!(shelf.staged.is_empty(), "{case}: {:?} is left behind", shelf.staged);
}

fn walk(tells_totals: bool) -> u64 {
    let host = Host::new(true);
    let mut cases = 0;
    for fault in Fault::ALL {
        for call in 0.. {
            let mut world = host.world(6, 2);
            world.sink.tells_totals = tells_totals;
            let met = run_into(&world, call, fault);
            let case = format!("{fault:?} at call {call}");
            check_after_restart(&world, &[&[0, 1], &[2, 3], &[4, 5]], &case);
            if !met {
                break;
            }
            cases += 1;
        }
    }
    cases
}

#[test]
fn a_fault_at_any_durable_call_loses_and_doubles_nothing() {
    // Generation, then intent, stage, publish, settle, commit of each of three batches; metadata.
    assert!(walk(true) >= 5 * 17);
}

#[test]
fn a_fault_at_any_durable_call_is_survived_with_prepared_records_too() {
    assert!(walk(false) >= 5 * 20);
}

#[test]
fn a_second_crash_during_the_recovery_of_a_first_loses_and_doubles_nothing() {
    let host = Host::new(true);
    let mut cases = 0;
    for (first, second) in [
        (Fault::DieBefore, Fault::DieBefore),
        (Fault::DieBefore, Fault::DieAfter),
        (Fault::DieAfter, Fault::DieBefore),
        (Fault::DieAfter, Fault::DieAfter),
    ] {
        for call in 0.. {
            let mut met_first = false;
            for call_again in 0.. {
                let world = host.world(4, 2);
                met_first = run_into(&world, call, first);
                let met_again = met_first && run_into(&world, call_again, second);
                let case = format!("{first:?} at {call}, then {second:?} at {call_again}");
                check_after_restart(&world, &[&[0, 1], &[2, 3]], &case);
                if !met_again {
                    break;
                }
                cases += 1;
            }
            if !met_first {
                break;
            }
        }
    }
    assert!(cases > 200, "{cases}");
}

#[test]
fn a_restart_reads_the_range_of_its_intent_though_more_has_come() {
    let host = Host::new(true);
    for fault in Fault::ALL {
        for call in 0.. {
            let world = host.world(1, 2);
            let met = run_into(&world, call, fault);
            let intended = !world.store.names("offsets").is_empty();
            world.source.rows.lock().unwrap().extend([1, 2]);
            world.run(1).unwrap();
            let wanted: &[&[i64]] = if intended { &[&[0], &[1, 2]] } else { &[&[0, 1], &[2]] };
            assert_eq!(world.seen(), wanted, "{fault:?} at call {call}");
            if !met {
                break;
            }
        }
    }
}

#[test]
fn a_lost_reply_does_not_make_a_driver_a_stranger_to_its_own_records() {
    let host = Host::new(true);
    for call in 1..7 {
        let world = host.world(2, 2);
        world.faults.arm(call, Fault::ReplyLost);
        let query = world.run(3);
        assert!(world.faults.met() && query.is_ok());
        if matches!(call, 1 | 2 | 6) {
            // Generation, intent, commit: read back, and known as one's own.
            assert_eq!(world.store.names("_onefold/generations"), ["1"], "call {call}");
        }
    }
}

#[test]
fn an_intent_that_another_engine_made_first_is_run_as_it_stands() {
    let host = Host::new(true);
    let other = host.world(1, 1);
    other.run(1).unwrap();
    let theirs = other.store.files.lock().unwrap()["offsets/0"].clone();
    let world = host.world(3, 2);
    *world.store.overtaker.lock().unwrap() = Some(("offsets/0".to_owned(), theirs));
    world.run(1).unwrap();
    assert_eq!(world.seen(), [vec![0], vec![1, 2]]);
}
