//! The sinks, against real stores.

mod conformance;
mod faulty;
mod parquet;
mod rig;
