//! Leaves a receiver alone that does not answer.

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    /// Call.
    Go,
    /// Ask again after so many nanoseconds, or when something was heard.
    Wait(u64),
}

/// Counts failures in a row; after so many, one call alone may try now and then, until one is answered.
/// Time is in nanoseconds since any fixed moment.
#[derive(Debug)]
pub(super) struct Breaker {
    threshold: u32,
    cool_down: u64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed {
        failures: u32,
    },
    Open {
        until: u64,
    },
    /// One call is under way. If nothing is heard of it (its batch may have been given up), another one
    /// may try from then on.
    Probing {
        until: u64,
    },
}

impl Breaker {
    /// Opens after `threshold` failures in a row (0: never) for `cool_down`.
    pub(super) fn new(threshold: u32, cool_down: u64) -> Self {
        Breaker { threshold, cool_down: cool_down.max(1), state: State::Closed { failures: 0 } }
    }

    /// May one call?
    pub(super) fn ask(&mut self, now: u64) -> Gate {
        match self.state {
            State::Closed { .. } => Gate::Go,
            State::Open { until } | State::Probing { until } if until > now => {
                Gate::Wait(until - now)
            }
            State::Open { .. } | State::Probing { .. } => {
                self.state = State::Probing { until: now.saturating_add(self.cool_down) };
                Gate::Go
            }
        }
    }

    /// Something was heard: whether the receiver works. True when callers that wait should ask again.
    pub(super) fn heard(&mut self, works: bool, now: u64) -> bool {
        let before = self.state;
        self.state = match (before, works) {
            (_, true) => State::Closed { failures: 0 },
            (State::Closed { failures }, false) => {
                let failures = failures.saturating_add(1);
                match self.threshold > 0 && failures >= self.threshold {
                    true => State::Open { until: now.saturating_add(self.cool_down) },
                    false => State::Closed { failures },
                }
            }
            (State::Probing { .. }, false) => {
                State::Open { until: now.saturating_add(self.cool_down) }
            }
            // A call from before it opened.
            (open @ State::Open { .. }, false) => open,
        };
        works && !matches!(before, State::Closed { .. })
    }

    /// Whether it knows nothing that a new one would not.
    pub(super) fn at_rest(&self) -> bool {
        self.state == State::Closed { failures: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_opens_lets_one_call_try_and_closes_when_that_is_answered() {
        let mut breaker = Breaker::new(3, 100);
        assert!((0..2).all(|now| !breaker.heard(false, now) && breaker.ask(now) == Gate::Go));
        breaker.heard(false, 10);
        assert_eq!(breaker.ask(10), Gate::Wait(100));
        assert_eq!(breaker.ask(60), Gate::Wait(50));
        // One tries, the others wait for it.
        assert_eq!([breaker.ask(110), breaker.ask(110)], [Gate::Go, Gate::Wait(100)]);
        breaker.heard(false, 120);
        assert_eq!(breaker.ask(150), Gate::Wait(70));
        assert_eq!(breaker.ask(220), Gate::Go);
        assert!(breaker.heard(true, 230), "those who wait are told");
        assert_eq!([breaker.ask(230), breaker.ask(230)], [Gate::Go, Gate::Go]);
        assert!(breaker.at_rest());
    }

    #[test]
    fn a_call_that_is_never_heard_of_blocks_nobody_for_ever() {
        let mut breaker = Breaker::new(1, 100);
        breaker.heard(false, 0);
        assert_eq!(breaker.ask(100), Gate::Go);
        assert_eq!(breaker.ask(150), Gate::Wait(50));
        assert_eq!(breaker.ask(200), Gate::Go);
    }

    #[test]
    fn answers_between_failures_keep_it_closed_and_a_threshold_of_none_too() {
        let mut breaker = Breaker::new(2, 100);
        for now in 0..50 {
            breaker.heard(now % 2 == 0, now);
            assert_eq!(breaker.ask(now), Gate::Go);
        }
        let mut never = Breaker::new(0, 100);
        assert!((0..50).all(|now| !never.heard(false, now) && never.ask(now) == Gate::Go));
    }

    proptest! {
        /// Whatever is heard and when: asking until one may call always ends within a cool-down.
        #[test]
        fn nobody_waits_longer_than_the_cool_down(
            events in prop::collection::vec((0_u64..50, 0_u8..3), 0..200),
        ) {
            let mut breaker = Breaker::new(2, 100);
            let mut now = 0;
            for (pause, event) in events {
                now += pause;
                match event {
                    0 => _ = breaker.heard(true, now),
                    1 => _ = breaker.heard(false, now),
                    _ => if let Gate::Wait(wait) = breaker.ask(now) {
                        prop_assert!(wait <= 100);
                    },
                }
            }
            if let Gate::Wait(wait) = breaker.ask(now) {
                prop_assert_eq!(breaker.ask(now + wait), Gate::Go);
            }
        }
    }
}
