//! What follows from what was heard of a call.

use chrono::DateTime;
use std::time::Duration;

/// The longest pause that a receiver may ask for with `Retry-After`.
const AFTER_MAX: Duration = Duration::from_secs(600);
/// The first pause that we take by ourselves, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// When a call is made again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RetryRules {
    /// Tries after the first.
    pub(super) retries: u32,
    /// Statuses after which the same call may be answered otherwise.
    pub(super) on: Vec<u16>,
}

/// What was heard of one try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// An answer, with the pause that it asks for.
    Status(u16, Option<Duration>),
    /// Nothing. The call may have arrived all the same.
    Nothing,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// It was done.
    Done,
    /// It was refused, and would be again.
    Refused,
    /// Call again after this pause.
    Again(Duration),
    /// Not now: there were tries enough, or the receiver wants to be left alone for too long.
    GiveUp,
}

impl Heard {
    /// Whether the receiver works, for what leaves a broken one alone.
    pub(super) fn works(self) -> bool {
        !matches!(self, Heard::Nothing | Heard::Status(500..=599, _))
    }
}

/// Decides after the `tries`-th try (from 1). `spread` is any number that differs from call to call, so
/// that they do not all come back at the same moment.
pub(super) fn next(rules: &RetryRules, heard: Heard, tries: u32, spread: u64) -> Next {
    let after = match heard {
        Heard::Status(status, after) if rules.on.contains(&status) => after,
        Heard::Status(200..=299, _) => return Next::Done,
        Heard::Status(..) => return Next::Refused,
        Heard::Nothing => None,
    };
    if tries > rules.retries || after.is_some_and(|after| after > AFTER_MAX) {
        return Next::GiveUp;
    }
    let doublings = tries.saturating_sub(1).min(16);
    let pause = PAUSE_MIN.saturating_mul(1 << doublings).min(PAUSE_MAX);
    // Between a half and the whole of it.
    let parts = u32::try_from(spread % 512).unwrap_or_default();
    let own = pause / 2 + pause / 1024 * parts;
    Next::Again(after.map_or(own, |after| after.max(own)))
}

/// The pause in `Retry-After`: seconds, or a date.
pub(super) fn retry_after(text: &str, now_ms: i64) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let at = DateTime::parse_from_rfc2822(text).ok()?.timestamp_millis();
    Some(Duration::from_millis(u64::try_from(at.saturating_sub(now_ms)).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rules(retries: u32) -> RetryRules {
        RetryRules { retries, on: vec![429, 503] }
    }

    fn pause(next: Next) -> Duration {
        match next {
            Next::Again(pause) => pause,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_answer_ends_a_call_unless_its_status_is_one_to_try_again() {
        let at = |status| next(&rules(3), Heard::Status(status, None), 1, 0);
        assert_eq!([at(200), at(204)], [Next::Done; 2]);
        assert_eq!([at(100), at(301), at(400), at(422), at(500)], [Next::Refused; 5]);
        assert!(matches!(at(503), Next::Again(_)));
    }

    #[test]
    fn pauses_double_and_tries_end() {
        let heard = Heard::Nothing;
        let pauses: Vec<u128> =
            (1..=9).map(|tries| pause(next(&rules(9), heard, tries, 0)).as_millis()).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        assert_eq!(next(&rules(9), heard, 10, 0), Next::GiveUp);
        assert_eq!(next(&rules(0), heard, 1, 0), Next::GiveUp);
    }

    #[test]
    fn a_receiver_that_names_a_pause_gets_it_but_not_hours() {
        let after = |seconds| Heard::Status(429, Some(Duration::from_secs(seconds)));
        assert_eq!(pause(next(&rules(3), after(7), 1, 0)), Duration::from_secs(7));
        assert_eq!(pause(next(&rules(3), after(0), 1, 0)), Duration::from_millis(50));
        assert_eq!(next(&rules(3), after(3_600), 1, 0), Next::GiveUp);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = 1_800_000_000_000;
        assert_eq!(retry_after(" 120 ", now), Some(Duration::from_secs(120)));
        let date = "Fri, 15 Jan 2027 08:00:30 GMT";
        assert_eq!(retry_after(date, now), Some(Duration::from_secs(30)));
        assert_eq!(retry_after("Fri, 31 Dec 1999 23:59:59 GMT", now), Some(Duration::ZERO));
        assert_eq!(retry_after("soon", now), None);
        assert_eq!(retry_after("-1", now), None);
    }

    proptest! {
        #[test]
        fn every_call_ends(retries in 0_u32..50, status in 100_u16..600, spread: u64) {
            let heard = Heard::Status(status, None);
            let ends = (1..=retries + 1)
                .find(|tries| !matches!(next(&rules(retries), heard, *tries, spread), Next::Again(_)));
            prop_assert!(ends.is_some());
        }

        #[test]
        fn a_pause_is_between_a_half_and_the_whole(tries in 1_u32..40, spread: u64) {
            let most = PAUSE_MIN.saturating_mul(1 << (tries - 1).min(16)).min(PAUSE_MAX);
            let pause = pause(next(&rules(99), Heard::Nothing, tries, spread));
            prop_assert!(pause >= most / 2 && pause <= most);
        }
    }
}
