//! What tests need to see faults: a store that fails where it is told to, a clock that is set by
//! hand, a count of every id, a store in memory, an S3 server, a Kafka cluster and
//! database servers on this machine.
//!
//! *Why separate:* nothing here is part of the product; only tests depend on it.
//! *What always holds:* no real time, no fixed port, no file outside what a test gives.
//! *What it is not:* it knows neither engine nor connectors.
//! *Where to start:* [`FaultPlan`] to walk every durable act, [`oracle::count`] to judge.

#[cfg(feature = "clock")]
mod clock;
pub mod database;
mod faults;
pub mod kafka;
mod memory;
pub mod oracle;
pub mod planted;
#[cfg(feature = "s3")]
mod s3;
mod script;

#[cfg(feature = "clock")]
pub use clock::ManualClock;
pub use faults::{Act, Fault, FaultPlan, FaultStore, Happened};
pub use memory::MemoryStore;
#[cfg(feature = "s3")]
pub use s3::{Operation, S3Fault, S3Server};
