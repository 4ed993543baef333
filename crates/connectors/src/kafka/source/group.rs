//! Tells a consumer group what was committed, so that tools which show lag see the query. Nothing is
//! ever read back.

use super::offsets::Positions;
use crate::kafka::client::Listener;
use crate::kafka::errors;
use crate::kafka::native::SharedConsumer;
use onefold_types::{Error, Result};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How long a batch waits for the group's coordinator; the report goes on without it then.
const WAIT: Duration = Duration::from_secs(5);

/// A consumer of the group, which it never joins.
pub(crate) struct Reporter {
    client: SharedConsumer,
    group: String,
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").field("group", &self.group).finish_non_exhaustive()
    }
}

impl Reporter {
    /// # Errors
    /// Invalid, when the settings do not fit.
    pub(crate) fn new(config: &ClientConfig, listener: Listener, group: &str) -> Result<Reporter> {
        let client: BaseConsumer<Listener> = config
            .create_with_context(listener)
            .map_err(|error| errors::reading("the Kafka client could not be made", error))?;
        Ok(Reporter { client: Arc::new(client), group: group.to_owned() })
    }

    /// Commits offsets to the group. A failure is told in the log only: the query does not depend on
    /// the group.
    pub(crate) async fn report(&self, offsets: &Positions) {
        let client = SharedConsumer::clone(&self.client);
        let offsets = offsets.clone();
        let commit = tokio::task::spawn_blocking(move || {
            let mut list = TopicPartitionList::with_capacity(offsets.len());
            for (at, offset) in &offsets {
                list.add_partition_offset(&at.topic, at.partition, Offset::Offset(*offset))?;
            }
            client.commit(&list, CommitMode::Sync)
        });
        let failure = match tokio::time::timeout(WAIT, commit).await {
            Ok(Ok(Ok(()))) => return,
            Ok(Ok(Err(error))) => errors::writing("the commit failed", error),
            Ok(Err(error)) => Error::internal("the commit stopped").because(error),
            Err(_) => Error::unavailable("the group's coordinator does not answer"),
        };
        let error = failure.chain();
        tracing::warn!(group = self.group, error, "offsets were not reported to the group");
    }
}
