//! The sinks, against real stores.

mod conformance;
mod faulty;
mod formats;
mod golden;
mod leftovers;
mod others;
mod ownership;
mod parquet;
mod rig;
mod s3;
