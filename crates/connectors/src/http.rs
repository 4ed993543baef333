//! Calls over HTTP: a sink that sends rows, and what `http_call` calls with.
//!
//! Whether a call that was sent was also done, only the receiver knows. So each call has a key, the same in
//! each try, and each reply is written into the effects log of the checkpoint before its batch is published;
//! what has a reply there is never called again.
//!
//! *Where to start:* `limiter`, `breaker`, `retry` and `addresses` decide; `client` makes one try, `caller`
//! all of them; then `sink` and `function`.

mod addresses;
mod breaker;
mod caller;
mod client;
mod function;
mod limiter;
mod options;
mod resolver;
mod retry;
mod rows;
mod sink;

pub use function::calls;

use onefold_connector::{SinkDefinition, SinkRequest, SinkSpec};
use onefold_types::{Error, Result};
use options::SinkOptions;
use std::sync::Arc;

/// The HTTP sink.
pub static SINK: SinkSpec = SinkSpec {
    name: "http",
    summary: "requests to a receiver over HTTP, from one row or several each",
    options: &[options::SINK],
    define,
};

fn define(request: SinkRequest) -> Result<Arc<dyn SinkDefinition>> {
    if !request.partition_by.is_empty() {
        return Err(Error::invalid("the http sink takes no partitionBy"));
    }
    let options = Arc::new(SinkOptions::read(&request.options)?);
    Ok(Arc::new(sink::Definition { options }))
}
