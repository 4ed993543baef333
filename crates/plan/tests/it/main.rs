//! Integration tests of the plan crate, over a source that holds its batches in memory.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "tests may stop at the first surprise"
)]

mod dead_letters;
mod expressions;
mod functions;
mod hidden;
mod laterals;
mod lookalikes;
mod memory;
mod pipelines;
mod stateful;
mod streams;
mod time_to_plan;
mod using;
mod zones;
