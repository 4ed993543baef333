//! Integration tests of the protocol crate: real checkpoints, random bytes, exhaustive search.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at once"
)]

mod checkpoints;
mod random;
mod search;
