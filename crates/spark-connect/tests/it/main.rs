//! A server on a port of its own, and clients that mean it no good.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod arbitrary;
mod clients;
mod corpus;
mod counts;
mod depth;
mod server;
mod texts;
