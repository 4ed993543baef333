//! The cluster over librdkafka: checks at the start, and a producer.

use super::checks;
use super::cluster::{Cluster, Producer};
use super::mark::{MarkRecord, Written};
use super::marks::Reader;
use super::producer::{Making, Native};
use crate::kafka::client::Listener;
use crate::kafka::{errors, settings};
use async_trait::async_trait;
use onefold_connector::Options;
use onefold_types::{BatchId, Error, QueryId, Result, Totals};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::Client;
use rdkafka::config::{ClientConfig, FromClientConfigAndContext};
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::types::RDKafkaRespErr;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Partitions of a topic of marks that is made here: queries that end a transaction at the same
/// time seldom meet.
const MARK_PARTITIONS: i32 = 16;
/// The largest record that a producer takes where the user says nothing.
const LARGEST: u64 = 1_048_576;

/// The longest that a request waits for its reply.
const SOCKET_TIMEOUT_MS: u64 = 30_000;
/// Looks for a topic that was made just now: it takes a moment until every broker knows of it.
const LOOKS: u32 = 40;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// How the sink writes.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Whether there are transactions.
    pub(crate) transactional: bool,
    /// The topic of marks; none where there are none.
    pub(crate) progress: Option<String>,
    /// The topics that rows and dead letters go to, where they are known.
    pub(crate) topics: Vec<String>,
    /// The query's transactional id.
    pub(crate) transactional_id: String,
    /// Whether nothing may be changed.
    pub(crate) looks: bool,
}

/// A cluster that was found fit.
pub(crate) struct Brokers {
    options: Arc<Options>,
    plan: Plan,
    timeout: Duration,
    /// How long a transaction may take.
    transaction_ms: u64,
    /// Partitions of the topic of marks; 0 where it is not there.
    mark_partitions: i32,
}

impl fmt::Debug for Brokers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Brokers").field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// What a topic looks like.
struct Shape {
    partitions: i32,
    /// Replicas in sync of the partition that has the fewest.
    in_sync: usize,
}

/// What a look at a topic shows.
struct Seen {
    /// `None` if it is not there.
    shape: Option<Shape>,
    /// Any broker.
    broker: Option<i32>,
}

impl Brokers {
    /// Looks at the cluster, and makes the topic of marks where it is missing.
    ///
    /// # Errors
    /// Unavailable: brokers do not answer. Invalid: their settings would break the promise, or a
    /// topic is missing and they do not make it.
    pub(crate) async fn open(options: Arc<Options>, plan: Plan) -> Result<Brokers> {
        let timeout = settings::call_timeout(&options);
        let mut brokers = Brokers { options, plan, timeout, transaction_ms: 0, mark_partitions: 0 };
        let admin = Arc::new(brokers.admin()?);
        let mut topics = brokers.plan.progress.iter().chain(&brokers.plan.topics);
        let broker = match topics.next().cloned() {
            Some(topic) if brokers.plan.progress.is_some() => {
                let seen = brokers.progress_topic(&admin, &topic).await?;
                brokers.mark_partitions = seen.shape.map_or(0, |shape| shape.partitions);
                seen.broker
            }
            Some(topic) => brokers.look(&admin, &topic).await?.broker,
            None => None,
        };
        if brokers.plan.transactional {
            let given = brokers.options.count("kafka.transaction.timeout.ms");
            let maximum = brokers.of_broker(&admin, broker, "transaction.max.timeout.ms");
            let maximum = maximum.await?.and_then(|it| it.parse().ok());
            brokers.transaction_ms = checks::transaction_timeout(given, maximum)?;
        }
        if !brokers.plan.looks {
            for topic in &brokers.plan.topics {
                brokers.check_output(&admin, topic).await?;
            }
        }
        Ok(brokers)
    }

    fn admin(&self) -> Result<AdminClient<Listener>> {
        let config = settings::producer(&self.options)?;
        AdminClient::from_config_and_context(&config, Listener::new(&self.options))
            .map_err(|e| errors::reading("a Kafka client could not be made", e))
    }

    fn patience(&self) -> AdminOptions {
        AdminOptions::new()
            .request_timeout(Some(self.timeout))
            .operation_timeout(Some(self.timeout))
    }

    /// What there is of a topic.
    async fn look(&self, admin: &Arc<AdminClient<Listener>>, topic: &str) -> Result<Seen> {
        let (admin, name, timeout) = (Arc::clone(admin), topic.to_owned(), self.timeout);
        let looked = tokio::task::spawn_blocking(move || {
            let client: &Client<Listener> = admin.inner();
            let metadata = client.fetch_metadata(Some(&name), timeout).map_err(|error| {
                let complaint = client.context().complaint();
                let why = complaint.map(|it| format!(": {it}")).unwrap_or_default();
                errors::reading(format!("Kafka does not tell of topic {name}{why}"), error)
            })?;
            let broker = metadata.brokers().first().map(|broker| broker.id());
            let absent = Seen { shape: None, broker };
            let Some(found) = metadata.topics().iter().find(|it| it.name() == name) else {
                return Ok(absent);
            };
            match found.error() {
                None => {}
                Some(
                    RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART
                    | RDKafkaRespErr::RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC,
                ) => return Ok(absent),
                Some(error) => {
                    let what = format!("Kafka does not tell of topic {name}");
                    return Err(errors::reading_code(what, error.into()));
                }
            }
            let partitions = found.partitions();
            let shape = Shape {
                partitions: i32::try_from(partitions.len()).unwrap_or(i32::MAX),
                in_sync: partitions.iter().map(|it| it.isr().len()).min().unwrap_or_default(),
            };
            Ok(Seen { shape: Some(shape), broker })
        });
        looked.await.map_err(|e| Error::internal("a look at Kafka ended abruptly").because(e))?
    }

    /// The settings of a broker or a topic; `None` where this user may not see them.
    async fn settings(
        &self,
        admin: &AdminClient<Listener>,
        of: ResourceSpecifier<'_>,
    ) -> Result<Option<BTreeMap<String, String>>> {
        let what = format!("Kafka does not tell the settings of {of:?}");
        let patience = self.patience();
        let asked = admin.describe_configs([&of], &patience).await;
        let found = asked.map_err(|e| errors::reading(what.as_str(), e))?;
        match found.into_iter().next() {
            Some(Ok(found)) => Ok(Some(
                found
                    .entries
                    .into_iter()
                    .filter_map(|entry| Some((entry.name, entry.value?)))
                    .collect(),
            )),
            Some(Err(Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed)) | None => {
                tracing::warn!("{what}: not checked whether they keep each row to once");
                Ok(None)
            }
            Some(Err(code)) => Err(errors::reading_code(what, code)),
        }
    }

    /// One setting of a broker, where it may be seen.
    async fn of_broker(
        &self,
        admin: &AdminClient<Listener>,
        broker: Option<i32>,
        name: &str,
    ) -> Result<Option<String>> {
        let Some(broker) = broker else { return Ok(None) };
        let found = self.settings(admin, ResourceSpecifier::Broker(broker)).await?;
        Ok(found.and_then(|it| it.get(name).cloned()))
    }

    /// The topic of marks: checked, and made where it is missing.
    async fn progress_topic(
        &self,
        admin: &Arc<AdminClient<Listener>>,
        topic: &str,
    ) -> Result<Seen> {
        let mut seen = self.look(admin, topic).await?;
        if seen.shape.is_none() && !self.plan.looks {
            self.make_progress_topic(admin, topic).await?;
            for _ in 0..LOOKS {
                seen = self.look(admin, topic).await?;
                if seen.shape.as_ref().is_some_and(|shape| shape.partitions > 0) {
                    break;
                }
                tokio::time::sleep(BETWEEN_LOOKS).await;
            }
            if seen.shape.is_none() {
                let text = format!("topic {topic} was made, but brokers do not know of it yet");
                return Err(Error::unavailable(text));
            }
        }
        if seen.shape.is_some() {
            let found = self.settings(admin, ResourceSpecifier::Topic(topic)).await?;
            if let Some(policy) = found.as_ref().and_then(|it| it.get("cleanup.policy")) {
                checks::keeps_marks(topic, policy)?;
            }
        }
        Ok(seen)
    }

    async fn make_progress_topic(&self, admin: &AdminClient<Listener>, topic: &str) -> Result<()> {
        let new = NewTopic::new(topic, MARK_PARTITIONS, TopicReplication::Fixed(-1))
            .set("cleanup.policy", "compact")
            // What is open is not compacted, and is read at each start.
            .set("segment.ms", "3600000")
            .set("min.cleanable.dirty.ratio", "0.1");
        let made = admin.create_topics([&new], &self.patience()).await;
        let what =
            || format!("topic {topic} could not be made: {}", checks::make_progress_topic(topic));
        let made = made.map_err(|e| errors::reading(what(), e))?;
        match made.into_iter().next() {
            Some(Ok(_)) | Some(Err((_, Code::TopicAlreadyExists))) | None => Ok(()),
            Some(Err((_, code))) => Err(errors::reading_code(what(), code)),
        }
    }

    /// The topic of rows is there, or brokers make it; each of its partitions takes writes.
    async fn check_output(&self, admin: &Arc<AdminClient<Listener>>, topic: &str) -> Result<()> {
        let mut seen = self.look(admin, topic).await?;
        for _ in 0..LOOKS {
            if seen.shape.is_some() {
                break;
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
            seen = self.look(admin, topic).await?;
        }
        let Seen { shape, broker } = seen;
        let Some(shape) = shape else {
            let makes = self.of_broker(admin, broker, "auto.create.topics.enable").await?;
            if makes.is_none_or(|it| it == "true") {
                return Ok(());
            }
            return Err(Error::invalid(format!(
                "topic {topic} does not exist, and the brokers do not make topics by themselves \
                 (auto.create.topics.enable); make it, or correct its name in the options"
            )));
        };
        let found = self.settings(admin, ResourceSpecifier::Topic(topic)).await?;
        let least = found.as_ref().and_then(|it| it.get("min.insync.replicas"));
        if checks::short_of_replicas(shape.in_sync, least.map(String::as_str)) {
            tracing::warn!(
                "a partition of topic {topic} has {} replicas in sync, fewer than its \
                 min.insync.replicas: writes wait until brokers come back",
                shape.in_sync
            );
        }
        Ok(())
    }

    fn making(&self) -> Result<Making> {
        let mut config = settings::producer(&self.options)?;
        config.set("partitioner", "murmur2_random").set("allow.auto.create.topics", "true");
        // A batch waits for its last record.
        default(&mut config, "linger.ms", "1");
        default(&mut config, "queue.buffering.max.kbytes", "65536");
        default(&mut config, "message.max.bytes", &LARGEST.to_string());
        let delivery = self.options.count("kafka.delivery.timeout.ms").unwrap_or(120_000);
        match self.plan.transactional {
            true => {
                config
                    .set("transactional.id", &self.plan.transactional_id)
                    .set("transaction.timeout.ms", self.transaction_ms.to_string());
                let delivery = delivery.min(self.transaction_ms);
                // librdkafka takes no transaction that is shorter than a request may be.
                let request = self.transaction_ms.min(SOCKET_TIMEOUT_MS);
                config.set("socket.timeout.ms", request.to_string());
                set(&mut config, "message.timeout.ms", delivery);
            }
            false => {
                default(&mut config, "enable.idempotence", "true");
                set(&mut config, "message.timeout.ms", delivery);
            }
        }
        Ok(Making {
            config,
            progress: self.plan.progress.clone(),
            timeout: self.timeout,
            largest: self.options.count("kafka.max.request.size").unwrap_or(LARGEST),
        })
    }

    fn reader(&self) -> Reader {
        Reader { options: Arc::clone(&self.options), timeout: self.timeout }
    }

    fn partition_of(&self, query: QueryId) -> Option<i32> {
        let count = u128::try_from(self.mark_partitions).ok().filter(|it| *it > 0)?;
        i32::try_from(query.0.as_u128() % count).ok()
    }
}

/// `delivery.timeout.ms` is another name of the same.
fn set(config: &mut ClientConfig, name: &str, value: u64) {
    config.remove("delivery.timeout.ms");
    config.set(name, value.to_string());
}

fn default(config: &mut ClientConfig, name: &str, value: &str) {
    if config.get(name).is_none() {
        config.set(name, value);
    }
}

#[async_trait]
impl Cluster for Brokers {
    async fn producer(&self) -> Result<Arc<dyn Producer>> {
        Ok(Arc::new(Native::new(self.making()?, Listener::new(&self.options))?))
    }

    async fn newest_mark(&self, query: QueryId, certain: bool) -> Result<Option<MarkRecord>> {
        let (Some(topic), Some(own)) = (&self.plan.progress, self.partition_of(query)) else {
            return Ok(None);
        };
        let reader = self.reader();
        if certain {
            reader.wait_for_open_transactions(topic, own).await?;
        }
        reader.newest(topic, query).await
    }

    async fn mark_of(&self, query: QueryId, batch: BatchId) -> Result<Option<MarkRecord>> {
        match (&self.plan.progress, self.mark_partitions) {
            (None, _) | (_, 0) => Ok(None),
            (Some(topic), _) => self.reader().of_batch(topic, query, batch).await,
        }
    }

    async fn sum(&self, written: &Written, rows: u64) -> Result<Option<Totals>> {
        self.reader().sum(written.clone(), rows).await
    }

    fn progress(&self, query: QueryId) -> Option<(&str, Option<i32>)> {
        Some((self.plan.progress.as_deref()?, self.partition_of(query)))
    }
}
