//! The time of day.

use onefold::iso_ms;
use onefold_connector::Clock;
use std::time::{SystemTime, UNIX_EPOCH};

/// The machine's clock.
#[derive(Debug)]
pub struct WallClock;

impl Clock for WallClock {
    fn now_ms(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms),
        }
    }
}

/// A watermark as text; a dash for 1970, which stands for "none yet".
pub fn watermark(ms: i64) -> String {
    if ms == 0 { "-".to_owned() } else { iso_ms(ms) }
}
