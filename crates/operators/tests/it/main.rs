//! Tests of the operators through their public interface, on state in memory.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at once"
)]

mod aggregate;
mod aggregates;
mod dedup;
mod exchange;
mod harness;
mod keys;
mod limit;
mod random;
mod session;
