//! Kafka: a source that reads exactly the offsets of the log, and what source and sink share.
//!
//! *Where to start:* `settings` says which of Kafka's own settings a user may give, `client` makes
//! clients of them, `errors` gives librdkafka's errors a kind; `source` is the source.

#![allow(dead_code, unused_imports, reason = "the source and the sink are not in the list yet")]

mod client;
mod errors;
mod native;
mod settings;
pub(crate) mod sink;
mod source;

pub use source::SPEC as SOURCE;
pub use source::{Rewind, RewindTo, ask_rewind, rewind_path, stands_in};
