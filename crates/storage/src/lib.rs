//! Makes bytes durable: the only crate that can make a checkpoint file appear.
//!
//! *Why separate:* what "durable" means differs between a local disk and an object store, and both
//! have traps (a store client that never syncs, a conditional create that loses to its own retry).
//! *What always holds:* a durable name is created once and never changes its bytes.
//! *What it is not:* it does not know what the bytes mean, nor what to do next.
//! *Where to start:* [`Store`], then [`create_record`].

#![deny(missing_docs)]

pub mod crash;
mod local;
pub mod location;
mod object;
mod open;
mod place;
pub mod planted;
mod record;
mod store;

pub use local::{LocalStore, move_folder};
pub use object::{BucketStore, redact};
pub use open::open;
pub use place::Place;
pub use record::{Recorded, create_record};
pub use store::{CreateError, Created, Durability, Entry, PathTest, Staged, StagedWriter, Store};
