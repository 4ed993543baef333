//! How fast calls may follow each other.

/// Spaces calls out, with a short burst after a pause. Time is in nanoseconds since any fixed moment.
#[derive(Debug)]
pub(super) struct Limiter {
    /// From one call to the next at the full rate; 0 without a limit.
    interval: u64,
    /// How far calls may run ahead of that.
    ahead: u64,
    /// When the next call would be due at the full rate.
    due: u64,
}

const SECOND: u64 = 1_000_000_000;
/// Which part of a second's calls may come at once.
const BURST: u64 = 10;

impl Limiter {
    /// So many calls a second; `None` is without limit.
    pub(super) fn new(per_second: Option<u64>) -> Self {
        let Some(rate) = per_second.filter(|rate| *rate > 0) else {
            return Limiter { interval: 0, ahead: 0, due: 0 };
        };
        let interval = (SECOND / rate).max(1);
        let burst = (rate / BURST).max(1);
        Limiter { interval, ahead: interval.saturating_mul(burst - 1), due: 0 }
    }

    /// Takes the next place in the row: how long to wait for it.
    pub(super) fn reserve(&mut self, now: u64) -> u64 {
        if self.interval == 0 {
            return 0;
        }
        let at = now.max(self.due.saturating_sub(self.ahead));
        self.due = self.due.max(at).saturating_add(self.interval);
        at.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_a_rate_nobody_waits() {
        for mut limiter in [Limiter::new(None), Limiter::new(Some(0))] {
            assert!((0..1_000).all(|_| limiter.reserve(5) == 0));
        }
    }

    #[test]
    fn calls_come_at_the_rate_once_the_burst_is_spent() {
        let mut limiter = Limiter::new(Some(100));
        let waits: Vec<u64> = (0..13).map(|_| limiter.reserve(SECOND) / 1_000_000).collect();
        assert_eq!(waits, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 20, 30]);
        // A pause earns a burst, and not more.
        let waits: Vec<u64> = (0..12).map(|_| limiter.reserve(60 * SECOND) / 1_000_000).collect();
        assert_eq!(waits, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 20]);
    }

    proptest! {
        #[test]
        fn no_second_ever_has_more_than_the_rate_and_a_burst(
            rate in 1_u64..500,
            pauses in prop::collection::vec(0_u64..200_000_000, 1..400),
        ) {
            let mut limiter = Limiter::new(Some(rate));
            let (mut now, mut calls) = (0, Vec::new());
            for pause in pauses {
                now += pause;
                calls.push(now + limiter.reserve(now));
            }
            for (nth, first) in calls.iter().enumerate() {
                let within = calls[nth..].iter().filter(|at| **at - first < SECOND).count() as u64;
                prop_assert!(within <= rate + (rate / BURST).max(1) + 1, "{within} at {rate}");
            }
        }
    }
}
