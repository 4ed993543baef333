//! What follows from the reply to each call of a transaction: decided here, done elsewhere.
//!
//! *Why:* a stray request to end a transaction can end the next one of the same producer, since the
//! broker tells transactions of one epoch not apart. So a producer begins a transaction only when
//! the end of the one before came back clean and at once; else a new producer takes its place, whose
//! `init_transactions` raises the epoch and makes every stray void. What became of the old
//! transaction is then read from the mark.
//!
//! # Invariants
//! - Nothing of a batch can be seen before its commit was asked for; after that, only a clean reply
//!   says what became of it.
//! - A producer that met trouble never begins again.

use onefold_types::ErrorKind;
use std::time::Duration;

/// A call to the brokers, in the order of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    /// Takes the transactional id over: fences every older producer, ends what it left open.
    Init,
    /// Begins a transaction.
    Begin,
    /// Hands a record over.
    Send,
    /// Waits until all records that were handed over are written.
    Flush,
    /// Makes the transaction visible, mark and rows.
    Commit,
    /// Gives the transaction up.
    Abort,
}

/// What came back, other than that it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Trouble {
    /// It did not come about; the same call may be made again.
    Retriable,
    /// The transaction cannot be committed any more.
    MustAbort,
    /// Another producer took the transactional id, or the brokers ended the transaction when its
    /// time was over: both raise the epoch.
    Fenced,
    /// The brokers do not take it, and never will.
    Refused,
    /// Nothing came back in time, or nothing that tells.
    Lost,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The same call again.
    CallAgain,
    /// The batch can never be seen by this producer. Whether a newer driver is the reason is for the
    /// fence to say, at publish.
    Void,
    /// The producer goes; the caller gets an error of this kind.
    GiveUp {
        /// Whether to abort first, so that readers need not wait for the time limit.
        abort: bool,
        /// What the caller should do.
        kind: ErrorKind,
    },
}

/// Times that one call is made.
pub(crate) const TRIES: u32 = 5;

/// What follows from trouble at a call that was made `tries` times.
pub(crate) fn after(call: Call, trouble: Trouble, tries: u32) -> Next {
    let give_up = |abort, kind| Next::GiveUp { abort, kind };
    match (call, trouble) {
        (
            Call::Send | Call::Begin | Call::Flush | Call::Init | Call::Commit,
            Trouble::Retriable,
        ) if tries < TRIES => Next::CallAgain,
        // The request may have been carried out all the same: a first one whose reply was lost,
        // while the second one met its consequences.
        (Call::Commit, _) => give_up(false, ErrorKind::Unknown),
        (Call::Init, Trouble::Refused) => give_up(false, ErrorKind::Invalid),
        (Call::Init | Call::Abort, _) => give_up(false, ErrorKind::Unavailable),
        (Call::Begin | Call::Send | Call::Flush, Trouble::Fenced) => Next::Void,
        (Call::Begin | Call::Send | Call::Flush, Trouble::Refused) => {
            give_up(true, ErrorKind::Invalid)
        }
        // Not aborted: who does not answer would not answer that either.
        (Call::Begin | Call::Send | Call::Flush, Trouble::Lost) => {
            give_up(false, ErrorKind::Unavailable)
        }
        (Call::Begin | Call::Send | Call::Flush, Trouble::Retriable | Trouble::MustAbort) => {
            give_up(true, ErrorKind::Unavailable)
        }
    }
}

/// Whether a producer may begin again after a transaction whose end was told clean after `took`, at
/// the `tries`-th call. The client library sends a request again by itself when a connection breaks
/// or a reply does not come, but not sooner than its back-off: a quicker reply is to the only one.
pub(crate) fn begins_again(took: Duration, tries: u32, retry_backoff: Duration) -> bool {
    tries == 1 && took < retry_backoff / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLS: [Call; 6] =
        [Call::Init, Call::Begin, Call::Send, Call::Flush, Call::Commit, Call::Abort];
    const TROUBLES: [Trouble; 5] =
        [Trouble::Retriable, Trouble::MustAbort, Trouble::Fenced, Trouble::Refused, Trouble::Lost];

    fn all() -> impl Iterator<Item = (Call, Trouble, u32)> {
        CALLS.into_iter().flat_map(|call| {
            TROUBLES
                .into_iter()
                .flat_map(move |trouble| (1..=TRIES).map(move |tries| (call, trouble, tries)))
        })
    }

    #[test]
    fn only_a_commit_leaves_the_outcome_unknown_and_it_always_does() {
        for (call, trouble, tries) in all() {
            let next = after(call, trouble, tries);
            if call == Call::Commit && next != Next::CallAgain {
                let unknown = Next::GiveUp { abort: false, kind: ErrorKind::Unknown };
                assert_eq!(next, unknown, "{trouble:?}");
            }
            if call != Call::Commit {
                let kind = ErrorKind::Unknown;
                assert!(!matches!(next, Next::GiveUp { kind: it, .. } if it == kind), "{call:?}");
            }
        }
    }

    #[test]
    fn a_call_is_made_again_only_where_it_is_known_not_to_have_come_about_and_not_for_ever() {
        for (call, trouble, tries) in all() {
            if after(call, trouble, tries) == Next::CallAgain {
                assert_eq!(trouble, Trouble::Retriable);
                assert!(tries < TRIES);
                assert_ne!(call, Call::Abort, "the new producer ends what is open");
            }
        }
    }

    #[test]
    fn nothing_is_aborted_once_a_commit_was_asked_for() {
        for (call, trouble, tries) in all() {
            let next = after(call, trouble, tries);
            if matches!(call, Call::Commit | Call::Abort | Call::Init) {
                assert!(!matches!(next, Next::GiveUp { abort: true, .. }), "{call:?} {trouble:?}");
            }
        }
    }

    #[test]
    fn only_what_brokers_never_take_stops_the_query() {
        for (call, trouble, tries) in all() {
            if let Next::GiveUp { kind: ErrorKind::Invalid, .. } = after(call, trouble, tries) {
                assert_eq!(trouble, Trouble::Refused);
            }
        }
        // An older driver that starts late fences this one: no reason to stop for good.
        for call in CALLS {
            let next = after(call, Trouble::Fenced, 1);
            assert!(!matches!(next, Next::GiveUp { kind: ErrorKind::Fenced, .. }), "{call:?}");
        }
    }

    #[test]
    fn a_producer_begins_again_only_after_a_quick_reply_to_the_first_call() {
        let backoff = Duration::from_millis(100);
        assert!(begins_again(Duration::from_millis(49), 1, backoff));
        assert!(!begins_again(Duration::from_millis(50), 1, backoff));
        assert!(!begins_again(Duration::ZERO, 2, backoff));
    }
}
