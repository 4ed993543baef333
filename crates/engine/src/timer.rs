//! Time: what the clock says, and waiting for it.

use async_trait::async_trait;
use onefold_connector::Clock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A clock that one can wait for. The engine waits in no other way, so that tests with a manual one
/// need no sleeps.
#[async_trait]
pub trait Timer: Clock {
    /// Returns when [`Clock::now_ms`] is at least `at_ms`, or a little before when the clock is set
    /// back meanwhile: callers look at the clock again.
    async fn wait_until(&self, at_ms: i64);
}

/// The machine's own clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemTimer;

impl Clock for SystemTimer {
    fn now_ms(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms),
        }
    }
}

#[async_trait]
impl Timer for SystemTimer {
    async fn wait_until(&self, at_ms: i64) {
        let wait_ms = u64::try_from(at_ms.saturating_sub(self.now_ms())).unwrap_or(0);
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
    }
}
