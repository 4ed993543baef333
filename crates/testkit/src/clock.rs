//! A clock that stands still until it is set.

use onefold_connector::Clock;
use std::sync::atomic::{AtomicI64, Ordering};

/// The time of day, set by hand.
#[derive(Debug)]
pub struct ManualClock {
    now_ms: AtomicI64,
}

impl ManualClock {
    /// A clock that shows this time, in milliseconds since 1970.
    #[must_use]
    pub fn new(now_ms: i64) -> Self {
        ManualClock { now_ms: AtomicI64::new(now_ms) }
    }

    /// Sets the time, forwards or back.
    pub fn set(&self, now_ms: i64) {
        self.now_ms.store(now_ms, Ordering::SeqCst);
    }

    /// Moves the time; a negative step goes back.
    pub fn advance(&self, step_ms: i64) {
        self.now_ms.fetch_add(step_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.now_ms.load(Ordering::SeqCst)
    }
}
