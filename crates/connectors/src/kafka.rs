//! Kafka: a source that reads exactly the offsets of the log, a sink that writes each batch in one
//! transaction, and what they share.
//!
//! *Where to start:* `settings` says which of Kafka's own settings a user may give, `client` hears
//! what clients say, `errors` gives librdkafka's errors a kind, `native` is what its Rust wrapper
//! lacks; then `source` and `sink`.

mod aside;
mod client;
mod errors;
mod native;
mod settings;
pub(crate) mod sink;
mod source;

pub use aside::wait_for_clients;
pub use source::SPEC as SOURCE;
pub use source::{LOSSES_FOLDER, Rewind, RewindTo, ask_rewind, rewind_path, stands_in};
