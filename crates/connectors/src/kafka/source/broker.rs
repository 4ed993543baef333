//! What is asked of the brokers, and asked again. These calls block.

use super::offsets::{EARLIEST, LATEST, Positions, TopicPartition};
use super::options::Topics;
use super::topology::{Look, Topic};
use crate::kafka::client::Listener;
use crate::kafka::errors;
use crate::kafka::native::{DescribedTopic, SharedConsumer, describe_topics};
use onefold_types::{Error, Result};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::{Offset as KafkaOffset, TopicPartitionList};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A client that asks and never reads.
pub(crate) struct Broker {
    client: SharedConsumer,
    servers: String,
    timeout: Duration,
    retries: u64,
    pause: Duration,
    /// The partitions that were there at the last look.
    known: Mutex<Vec<TopicPartition>>,
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker").field("servers", &self.servers).finish_non_exhaustive()
    }
}

/// How patient a client is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Persistence {
    /// Of one call.
    pub(crate) timeout: Duration,
    /// Calls after the first.
    pub(crate) retries: u64,
    /// Between calls.
    pub(crate) pause: Duration,
}

impl Broker {
    /// Makes the client; does not wait for any broker.
    ///
    /// # Errors
    /// Invalid, when the settings do not fit.
    pub(crate) fn new(
        config: &ClientConfig,
        listener: Listener,
        persistence: Persistence,
    ) -> Result<Broker> {
        let Persistence { timeout, retries, pause } = persistence;
        let servers = config.get("bootstrap.servers").unwrap_or_default().to_owned();
        let client: BaseConsumer<Listener> = config
            .create_with_context(listener)
            .map_err(|error| errors::reading("the Kafka client could not be made", error))?;
        let (client, known) = (Arc::new(client), Mutex::default());
        Ok(Broker { client, servers, timeout, retries, pause, known })
    }

    /// Calls, and calls again where the way to the broker was the trouble.
    fn ask<T>(&self, what: &str, call: impl Fn() -> KafkaResult<T>) -> Result<T> {
        let mut tries = 0;
        loop {
            let error = match call() {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            // Serves the log lines and complaints that explain it.
            while self.client.poll(Duration::ZERO).is_some() {}
            let lasting = error.rdkafka_error_code().and_then(errors::kind_of_code).is_some();
            if lasting || tries >= self.retries {
                return Err(self.explain(what, error));
            }
            tries += 1;
            std::thread::sleep(self.pause);
        }
    }

    fn explain(&self, what: &str, error: KafkaError) -> Error {
        let why = self.client.context().complaint();
        let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
        errors::reading(
            format!("the Kafka brokers at {} do not tell {what}{why}", self.servers),
            error,
        )
    }

    /// The query's topics that there are.
    ///
    /// # Errors
    /// Unavailable, when no broker answers in time; Invalid, when one does not let us ask.
    pub(crate) fn topics(&self, wanted: &Topics) -> Result<BTreeMap<Arc<str>, Topic>> {
        let names: BTreeSet<String> = match wanted {
            Topics::Subscribe(names) => names.clone(),
            Topics::Assign(all) => all.iter().map(|at| at.topic.to_string()).collect(),
            Topics::Pattern { regex, .. } => {
                let all = self.ask("which topics there are", || {
                    self.client.fetch_metadata(None, self.timeout)
                })?;
                let fits = |name: &&str| regex.is_match(name) && !internal(name);
                all.topics()
                    .iter()
                    .map(|topic| topic.name())
                    .filter(fits)
                    .map(str::to_owned)
                    .collect()
            }
        };
        if names.is_empty() {
            return Ok(BTreeMap::new());
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let described = self.ask("about topics", || {
            let described = describe_topics(&self.client, &names, self.timeout)?;
            match described.iter().find_map(passing) {
                Some(code) => Err(KafkaError::MetadataFetch(code)),
                None => Ok(described),
            }
        })?;
        let mut topics = BTreeMap::new();
        for topic in described {
            match topic.error {
                None => {
                    let partitions = topic.partitions.into_iter().collect();
                    topics.insert(topic.name.into(), Topic { id: topic.id, partitions });
                }
                Some(code) if absent(code) => (),
                Some(code) => {
                    let what = format!("topic {} cannot be described", topic.name);
                    return Err(errors::reading_code(what, code));
                }
            }
        }
        Ok(topics)
    }

    /// For each partition the offset of its time: [`EARLIEST`], [`LATEST`], or milliseconds since
    /// 1970, for which the answer is -1 where there is no record of that time or later.
    ///
    /// # Errors
    /// As [`Broker::topics`].
    pub(crate) fn offsets(&self, times: &Positions) -> Result<Positions> {
        if times.is_empty() {
            return Ok(Positions::new());
        }
        self.ask("offsets", || {
            let mut list = TopicPartitionList::with_capacity(times.len());
            for (at, time) in times {
                list.add_partition_offset(&at.topic, at.partition, KafkaOffset::from_raw(*time))?;
            }
            let list = self.client.offsets_for_times(list, self.timeout)?;
            let mut offsets = Positions::new();
            let mut topic: Arc<str> = "".into();
            for element in list.elements() {
                element.error()?;
                if *topic != *element.topic() {
                    topic = element.topic().into();
                }
                let at =
                    TopicPartition { topic: Arc::clone(&topic), partition: element.partition() };
                let offset = element.offset().to_raw().unwrap_or(-1);
                // Only a time may have no offset.
                if offset < 0 && times.get(&at).is_none_or(|time| *time < 0) {
                    return Err(KafkaError::OffsetFetch(RDKafkaErrorCode::OffsetNotAvailable));
                }
                offsets.insert(at, offset);
            }
            Ok(offsets)
        })
    }

    /// The same time for all.
    ///
    /// # Errors
    /// As [`Broker::topics`].
    pub(crate) fn offsets_at(
        &self,
        partitions: impl IntoIterator<Item = TopicPartition>,
        time: i64,
    ) -> Result<Positions> {
        self.offsets(&partitions.into_iter().map(|at| (at, time)).collect())
    }

    /// Topics, first and last offsets. All is asked for at once, the offsets for the partitions of
    /// the last look; where there are others now, the offsets are asked for again.
    ///
    /// # Errors
    /// As [`Broker::topics`].
    pub(crate) fn look(&self, wanted: &Topics) -> Result<Look> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (topics, offsets) = std::thread::scope(|scope| {
            let offsets = (!known.is_empty()).then(|| scope.spawn(|| self.ends(&known)));
            let topics = self.topics(wanted);
            (topics, offsets.map(|offsets| offsets.join().unwrap_or_else(|_| Err(stopped()))))
        });
        let topics = topics?;
        let all: Vec<TopicPartition> = partitions(&topics, wanted);
        let (earliest, latest) = match offsets {
            Some(Ok(offsets)) if all == known => offsets,
            _ => self.ends(&all)?,
        };
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = all;
        Ok(Look { topics, earliest, latest })
    }

    /// The first and the last offsets of partitions.
    fn ends(&self, all: &[TopicPartition]) -> Result<(Positions, Positions)> {
        std::thread::scope(|scope| {
            let earliest = scope.spawn(|| self.offsets_at(all.iter().cloned(), EARLIEST));
            let latest = self.offsets_at(all.iter().cloned(), LATEST);
            let earliest = earliest.join().unwrap_or_else(|_| Err(stopped()))?;
            Ok((earliest, latest?))
        })
    }
}

fn stopped() -> Error {
    Error::internal("asking for offsets stopped")
}

/// The query's partitions that there are, in order.
pub(crate) fn partitions(
    topics: &BTreeMap<Arc<str>, Topic>,
    wanted: &Topics,
) -> Vec<TopicPartition> {
    let all = topics.iter().flat_map(|(name, topic)| {
        let at =
            |partition: &i32| TopicPartition { topic: Arc::clone(name), partition: *partition };
        topic.partitions.iter().map(at)
    });
    match wanted {
        Topics::Assign(assigned) => all.filter(|at| assigned.contains(at)).collect(),
        _ => all.collect(),
    }
}

/// Kafka's own topics, which a pattern does not mean.
fn internal(name: &str) -> bool {
    matches!(name, "__consumer_offsets" | "__transaction_state" | "__share_group_state")
}

fn absent(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownPartition
    )
}

/// An error of a topic that passes: its leader is being chosen.
fn passing(topic: &DescribedTopic) -> Option<RDKafkaErrorCode> {
    topic.error.filter(|code| !absent(*code) && errors::kind_of_code(*code).is_none())
}
