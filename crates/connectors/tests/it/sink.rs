//! The sinks, against real stores.

mod conformance;
pub(crate) mod faulty;
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
pub(crate) mod rig;
mod s3;
