//! The sinks, against real stores.

mod parquet;
mod rig;
