//! The time of day, as a value that tests can set.

use std::fmt::Debug;

/// Tells the time. Production has one implementation in the engine; tests have a manual one.
pub trait Clock: Debug + Send + Sync {
    /// Milliseconds since 1970, UTC.
    fn now_ms(&self) -> i64;
}
