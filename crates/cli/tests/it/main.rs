//! Tests of the whole command: each runs the built binary.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests stop at the first surprise, and their files need not survive a power cut"
)]

mod copies;
mod folders;
mod golden;
mod lists;
mod looking;
mod rewinding;
mod running;
mod state;
mod support;
