//! The sinks, against real stores.

mod conformance;
mod faulty;
mod follows;
mod formats;
mod golden;
mod joins;
mod leftovers;
mod others;
mod ownership;
mod parquet;
#[cfg(feature = "planted-bugs")]
mod planted;
mod rebuild;
mod retention;
mod rig;
mod s3;
