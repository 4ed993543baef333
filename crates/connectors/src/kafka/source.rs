//! The source: reads exactly the offsets that its intents name.
//!
//! *Where to start:* `topology` compares what the brokers hold with where the query stands, `limits`
//! and `split` choose what a batch reads; these decide and ask nobody. `broker` asks.

mod broker;
mod limits;
mod loss;
mod note;
mod offsets;
mod options;
mod split;
mod topology;
