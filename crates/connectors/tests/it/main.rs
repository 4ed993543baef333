//! Integration tests of the bundled connectors.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a test that stumbles must stop"
)]

mod delta;
mod http;
mod jdbc;
mod kafka;
mod sink;
mod source;
