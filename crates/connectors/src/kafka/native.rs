//! What librdkafka can do and its Rust wrapper does not show: taking the records of one partition
//! many at a time, with the position that control records and gaps leave, and the ids of topics.
#![allow(
    unsafe_code,
    reason = "the wrapper has no safe call for these; each block says why it holds, and nothing \
              unsafe leaves this module"
)]

mod epochs;
mod queue;
mod topics;

pub(crate) use epochs::set_leader_epoch;
pub(crate) use queue::{Queue, Record};
pub(crate) use topics::{DescribedTopic, describe_topics};

use super::client::Listener;
use rdkafka::consumer::BaseConsumer;
use std::sync::Arc;

/// A consumer that several queues share.
pub(crate) type SharedConsumer = Arc<BaseConsumer<Listener>>;
