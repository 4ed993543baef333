//! The sinks, against real stores.

mod conformance;
mod faulty;
mod formats;
mod parquet;
mod rig;
