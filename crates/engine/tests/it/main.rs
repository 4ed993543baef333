//! Tests of the engine over a world in memory.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "tests may fail loudly"
)]

mod crashes;
mod dead_letters;
mod handles;
mod known_faults;
mod late_rows;
mod own_state;
#[cfg(feature = "planted-bugs")]
mod planted;
mod queries;
mod same_as_one_batch;
mod several_sinks;
mod state_table;
mod state_ttl;
mod state_walk;
mod stateful;
mod two_sinks;
mod world;
