//! The source: reads exactly the offsets that its intents name.
//!
//! *Where to start:* `topology` compares what the brokers hold with where the query stands, `limits`
//! and `split` choose what a batch reads; these decide and ask nobody. `broker` asks, `open` is the
//! source of one query, `scan` the plan of a batch, `reader` a consumer that stays warm.

mod bounds;
mod broker;
mod define;
mod epochs;
mod group;
mod initial;
mod limits;
mod loss;
mod losses;
mod note;
mod offsets;
mod open;
mod options;
mod pool;
mod progress;
mod reader;
mod rewind;
mod rows;
mod scan;
mod split;
mod topology;

pub use losses::FOLDER as LOSSES_FOLDER;
pub use rewind::{Rewind, RewindTo, ask_rewind, rewind_path, stands_in};

use super::settings;
use onefold_connector::SourceSpec;

/// Records of Kafka's topics.
pub static SPEC: SourceSpec = SourceSpec {
    name: "kafka",
    summary: "Reads records of Kafka topics, each exactly once.",
    options: &[options::OPTIONS, settings::CLIENT, settings::CONSUMER, settings::REFUSED],
    define: |request| Box::pin(async { define::define(request) }),
};
