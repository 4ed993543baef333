//! Kafka against a real broker.

mod broker;
mod source;
