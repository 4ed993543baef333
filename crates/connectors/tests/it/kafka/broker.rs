//! One broker for all tests, on which each test has topics of its own.

use onefold_testkit::kafka::Broker;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::ClientContext;
use rdkafka::client::DefaultClientContext;
use rdkafka::error::KafkaError;
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;
use uuid::Uuid;

static BROKER: OnceLock<Option<Broker>> = OnceLock::new();
const SOON: Duration = Duration::from_secs(30);

/// The broker's address. `None` where no broker can be started on this machine; with `CI=true` that
/// is a failure.
pub(crate) fn broker() -> Option<&'static str> {
    let started = BROKER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kafka");
        match Broker::start(&folder) {
            Ok(broker) => Some(broker),
            Err(error) if std::env::var("CI").is_ok_and(|ci| ci == "true") => {
                panic!("no Kafka: {error}")
            }
            Err(error) => {
                let mut out = std::io::stderr();
                let _ = writeln!(out, "skipped, since Kafka does not start: {error}");
                None
            }
        }
    });
    started.as_ref().map(Broker::bootstrap)
}

/// A name that no other test has.
pub(crate) fn unique(name: &str) -> String {
    format!("{name}.{}", Uuid::new_v4().simple())
}

/// The setting of a topic whose records may be of any time: others expire at once.
pub(crate) const KEPT: (&str, &str) = ("retention.ms", "-1");

/// A topic of one test.
pub(crate) struct Topic {
    pub(crate) name: String,
    servers: &'static str,
}

/// A record, with partition and offset left out.
#[derive(Default)]
pub(crate) struct Sent<'a> {
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) headers: Vec<(&'a str, Option<&'a [u8]>)>,
    pub(crate) timestamp: Option<i64>,
}

/// A record that has only a value.
pub(crate) fn value(text: &str) -> Sent<'_> {
    Sent { value: Some(text.as_bytes()), ..Sent::default() }
}

/// Remembers which records the broker did not take.
#[derive(Default)]
pub(crate) struct Refused(Mutex<Vec<KafkaError>>);

impl ClientContext for Refused {}

impl ProducerContext for Refused {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            self.0.lock().unwrap().push(error.clone());
        }
    }
}

/// Sends records.
pub(crate) type Producer = BaseProducer<Refused>;

fn config(servers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers);
    config
}

fn admin(servers: &str) -> AdminClient<DefaultClientContext> {
    config(servers).create().unwrap()
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(SOON)).request_timeout(Some(SOON))
}

/// A producer; one with a transactional id sends in transactions.
pub(crate) fn producer(servers: &str, transactional_id: Option<&str>) -> Producer {
    let mut config = config(servers);
    if let Some(id) = transactional_id {
        config.set("transactional.id", id);
    }
    let producer: Producer = config.create_with_context(Refused::default()).unwrap();
    if transactional_id.is_some() {
        producer.init_transactions(SOON).unwrap();
    }
    producer
}

impl Topic {
    /// Makes a topic; `None` where there is no broker.
    pub(crate) async fn new(partitions: i32) -> Option<Topic> {
        Topic::with(&unique("Topic"), partitions, &[]).await
    }

    pub(crate) async fn with(
        name: &str,
        partitions: i32,
        settings: &[(&str, &str)],
    ) -> Option<Topic> {
        let topic = Topic { name: name.to_owned(), servers: broker()? };
        topic.create(partitions, settings).await;
        Some(topic)
    }

    pub(crate) async fn create(&self, partitions: i32, settings: &[(&str, &str)]) {
        let new = NewTopic::new(&self.name, partitions, TopicReplication::Fixed(1));
        let new = settings.iter().fold(new, |new, (name, value)| new.set(name, value));
        let made = admin(self.servers).create_topics([&new], &options()).await.unwrap();
        made.into_iter().for_each(|topic| drop(topic.unwrap()));
        // The controller has it; the broker hears of it a moment later.
        let producer = producer(self.servers, None);
        let known = || {
            let told = producer.client().fetch_metadata(Some(&self.name), SOON).unwrap();
            let topic = &told.topics()[0];
            let led = topic.partitions().iter().all(|partition| partition.leader() >= 0);
            led && topic.partitions().len() == usize::try_from(partitions).unwrap()
        };
        while !known() {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn delete(&self) {
        let gone = admin(self.servers).delete_topics(&[&self.name], &options()).await.unwrap();
        gone.into_iter().for_each(|topic| drop(topic.unwrap()));
    }

    pub(crate) async fn grow(&self, partitions: usize) {
        let grown = NewPartitions::new(&self.name, partitions);
        let done = admin(self.servers).create_partitions([&grown], &options()).await.unwrap();
        done.into_iter().for_each(|topic| drop(topic.unwrap()));
    }

    /// Deletes the records before an offset.
    pub(crate) async fn cut(&self, partition: i32, offset: i64) {
        let mut list = rdkafka::TopicPartitionList::new();
        list.add_partition_offset(&self.name, partition, rdkafka::Offset::Offset(offset)).unwrap();
        admin(self.servers).delete_records(&list, &options()).await.unwrap();
    }

    /// Sends records to a partition, and waits for the broker.
    pub(crate) fn send(&self, partition: i32, records: &[Sent<'_>]) {
        let producer = producer(self.servers, None);
        self.send_by(&producer, partition, records);
    }

    pub(crate) fn send_by(&self, producer: &Producer, partition: i32, records: &[Sent<'_>]) {
        for record in records {
            let mut message = BaseRecord::<[u8], [u8]>::to(&self.name).partition(partition);
            message.key = record.key;
            message.payload = record.value;
            if let Some(timestamp) = record.timestamp {
                message = message.timestamp(timestamp);
            }
            if !record.headers.is_empty() {
                let headers =
                    record.headers.iter().fold(OwnedHeaders::new(), |all, (key, value)| {
                        all.insert(Header { key, value: *value })
                    });
                message = message.headers(headers);
            }
            producer.send(message).map_err(|(error, _)| error).unwrap();
        }
        producer.flush(SOON).unwrap();
        assert_eq!(*producer.context().0.lock().unwrap(), [], "records were refused");
    }

    /// Sends values.
    pub(crate) fn values(&self, partition: i32, values: impl IntoIterator<Item = i64>) {
        let texts: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
        let records: Vec<Sent<'_>> = texts.iter().map(|text| value(text)).collect();
        self.send(partition, &records);
    }

    pub(crate) fn servers(&self) -> &'static str {
        self.servers
    }
}
