//! The storage crate from outside: what every store must do, whoever keeps the bytes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod contract;
mod faults;
mod local;
#[cfg(feature = "planted-bugs")]
mod planted;
mod s3;
