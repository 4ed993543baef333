//! Tests of the state store through its public interface.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at once"
)]

mod batches;
mod budget;
mod damage;
mod faults;
mod format;
mod local_disk;
mod model;
mod reading;
mod restarts;
#[cfg(feature = "rocksdb")]
mod rocks;
mod specs;
mod world;
