//! Reading back what the sink wrote: marks of the progress topic, and rows for `onefold verify`.

use super::content::record_hash;
use super::mark::{MarkRecord, Written, newer};
use crate::kafka::aside::drop_aside;
use crate::kafka::client::Listener;
use crate::kafka::{errors, settings};
use onefold_connector::Options;
use onefold_types::{BatchId, ContentHash, Error, QueryId, Result, Totals};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

type Client = BaseConsumer<Listener>;

/// Makes consumers that see what every reader sees.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    pub(crate) options: Arc<Options>,
    pub(crate) timeout: Duration,
}

impl Reader {
    fn client(&self, isolation: &str) -> Result<Client> {
        let mut config = settings::consumer(&self.options)?;
        config
            .set("group.id", "onefold-marks")
            .set("isolation.level", isolation)
            // An end is told at once, not once a broker has waited for more.
            .set("fetch.wait.max.ms", "5");
        BaseConsumer::from_config_and_context(&config, Listener::new(&self.options))
            .map_err(|e| errors::reading("a Kafka consumer could not be made", e))
    }

    async fn blocking<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Reader) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let reader = self.clone();
        let done = tokio::task::spawn_blocking(move || act(&reader)).await;
        done.map_err(|e| Error::internal("a look at Kafka ended abruptly").because(e))?
    }

    /// Waits until all that is in a partition now can be seen under `read_committed`. Transactions
    /// of others that are open before our mark hide it.
    ///
    /// # Errors
    /// Unavailable: one stays open too long.
    pub(crate) async fn wait_for_open_transactions(&self, topic: &str, own: i32) -> Result<()> {
        let topic = topic.to_owned();
        let began = Instant::now();
        let mut pause = Duration::from_millis(5);
        let (all, seen, end) = {
            let topic = topic.clone();
            self.blocking(move |reader| {
                let all = reader.client("read_uncommitted")?;
                let end = end_of(&all, &topic, own, reader.timeout)?;
                Ok((all, Arc::new(reader.client("read_committed")?), end))
            })
            .await?
        };
        drop_aside(all);
        loop {
            let (client, name) = (Arc::clone(&seen), topic.clone());
            let stable =
                self.blocking(move |reader| end_of(&client, &name, own, reader.timeout)).await?;
            if stable >= end {
                drop_aside(seen);
                return Ok(());
            }
            if began.elapsed() > self.timeout {
                drop_aside(seen);
                return Err(Error::unavailable(format!(
                    "an open transaction of another query hides offsets {stable} to {end} of \
                     {topic}-{own}, where this query's newest mark may be; it ends with that query's \
                     next start, or when its time is over"
                )));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(200));
        }
    }

    /// The newest mark of a query that can be seen.
    pub(crate) async fn newest(&self, topic: &str, query: QueryId) -> Result<Option<MarkRecord>> {
        self.fold(topic, query, None, |newest, mark| *newest = Some(newer(newest.take(), mark)))
            .await
    }

    /// The mark of one batch.
    pub(crate) async fn of_batch(
        &self,
        topic: &str,
        query: QueryId,
        batch: BatchId,
    ) -> Result<Option<MarkRecord>> {
        self.fold(topic, query, None, move |found, mark| {
            if mark.batch == batch {
                *found = Some(newer(found.take(), mark));
            }
        })
        .await
    }

    /// All marks of a query, in any order of partitions.
    async fn fold<T: Send + 'static>(
        &self,
        topic: &str,
        query: QueryId,
        mut all: T,
        mut add: impl FnMut(&mut T, MarkRecord) + Send + 'static,
    ) -> Result<T> {
        let (topic, key) = (topic.to_owned(), query.to_string());
        self.blocking(move |reader| {
            let client = reader.client("read_committed")?;
            let metadata = client.fetch_metadata(Some(&topic), reader.timeout);
            let metadata = metadata
                .map_err(|e| errors::reading(format!("Kafka does not tell of topic {topic}"), e))?;
            let topics = metadata.topics();
            let partitions = topics.iter().flat_map(|it| it.partitions()).map(|it| it.id());
            let starts = partitions.map(|it| (it, Offset::Beginning)).collect();
            let read = reader.read(&client, &topic, &starts, |message| {
                if message.key() == Some(key.as_bytes())
                    && let Some(value) = message.payload()
                {
                    let (partition, offset) = (message.partition(), message.offset());
                    let place = format!("{topic}-{partition}@{offset}");
                    add(&mut all, MarkRecord::from_bytes(value, &place)?);
                }
                Ok(())
            });
            drop_aside(client);
            read.map(|()| all)
        })
        .await
    }

    /// Reads partitions from where they are to be read to the end that can be seen now.
    fn read(
        &self,
        client: &Client,
        topic: &str,
        starts: &BTreeMap<i32, Offset>,
        mut each: impl FnMut(&BorrowedMessage<'_>) -> Result<()>,
    ) -> Result<()> {
        let what = || format!("topic {topic} could not be read");
        let mut assignment = TopicPartitionList::new();
        for (partition, start) in starts {
            assignment
                .add_partition_offset(topic, *partition, *start)
                .map_err(|e| errors::reading(what(), e))?;
        }
        client.assign(&assignment).map_err(|e| errors::reading(what(), e))?;
        let mut left: BTreeSet<i32> = starts.keys().copied().collect();
        let mut heard = Instant::now();
        while !left.is_empty() {
            match client.poll(Duration::from_millis(100)) {
                Some(Ok(message)) => each(&message)?,
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    left.remove(&partition);
                }
                Some(Err(error)) => {
                    // What librdkafka gets over by itself is told as well.
                    if errors::kind_of(&error).is_some() {
                        return Err(errors::reading(what(), error));
                    }
                    continue;
                }
                None => {
                    if heard.elapsed() > self.timeout {
                        let why = client.context().complaint().unwrap_or_default();
                        let text = format!("{} within its time: {why}", what());
                        return Err(Error::unavailable(text));
                    }
                    continue;
                }
            }
            heard = Instant::now();
        }
        Ok(())
    }

    /// Sums up the records in these places.
    pub(crate) async fn sum(&self, written: Written, rows: u64) -> Result<Option<Totals>> {
        self.blocking(move |reader| {
            let client = reader.client("read_committed")?;
            let sum = reader.sum_all(&client, &written);
            drop_aside(client);
            Ok(sum?.filter(|sum| sum.rows <= rows))
        })
        .await
    }

    fn sum_all(&self, client: &Client, written: &Written) -> Result<Option<Totals>> {
        let mut sum = Totals::default();
        for (topic, partitions) in written {
            for (partition, (first, _)) in partitions {
                match client.fetch_watermarks(topic, *partition, self.timeout) {
                    Ok((low, _)) if low <= *first => {}
                    Ok(_) => return Ok(None),
                    Err(error) if gone(&error) => return Ok(None),
                    Err(error) => {
                        let what = format!("Kafka does not tell the ends of {topic}-{partition}");
                        return Err(errors::reading(what, error));
                    }
                }
            }
            let starts = partitions.iter().map(|(it, (first, _))| (*it, Offset::Offset(*first)));
            self.read(client, topic, &starts.collect(), |message| {
                let range = partitions.get(&message.partition());
                if range.is_some_and(|(first, end)| (*first..*end).contains(&message.offset())) {
                    sum = sum.plus(Totals { rows: 1, hash: ContentHash(hash(topic, message)) });
                }
                Ok(())
            })?;
        }
        Ok(Some(sum))
    }
}

#[cfg(test)]
impl Reader {
    /// The values of a topic as every reader sees them.
    pub(crate) async fn values(&self, topic: &str) -> Result<Vec<Option<Vec<u8>>>> {
        let topic = topic.to_owned();
        self.blocking(move |reader| {
            let client = reader.client("read_committed")?;
            let mut values = Vec::new();
            let metadata = client.fetch_metadata(Some(&topic), reader.timeout).unwrap();
            let starts = metadata.topics()[0].partitions().iter();
            let starts = starts.map(|it| (it.id(), Offset::Beginning)).collect();
            reader.read(&client, &topic, &starts, |message| {
                values.push(message.payload().map(<[u8]>::to_vec));
                Ok(())
            })?;
            drop_aside(client);
            Ok(values)
        })
        .await
    }

    /// The names of all topics.
    pub(crate) async fn topics(&self) -> Result<Vec<String>> {
        self.blocking(|reader| {
            let client = reader.client("read_committed")?;
            let metadata = client.fetch_metadata(None, reader.timeout).unwrap();
            Ok(metadata.topics().iter().map(|it| it.name().to_owned()).collect())
        })
        .await
    }
}

fn hash(topic: &str, message: &BorrowedMessage<'_>) -> u128 {
    let headers = message.headers().into_iter().flat_map(|it| it.iter());
    let headers = headers.map(|header| (header.key, header.value));
    record_hash(topic, message.key(), message.payload(), headers)
}

fn gone(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::UnknownPartition)
    )
}

/// The end of a partition, as the client's isolation shows it.
fn end_of(client: &Client, topic: &str, partition: i32, timeout: Duration) -> Result<i64> {
    client.fetch_watermarks(topic, partition, timeout).map(|(_, end)| end).map_err(|error| {
        let why = client.context().complaint();
        let why = why.map(|it| format!(": {it}")).unwrap_or_default();
        errors::reading(format!("Kafka does not tell the end of {topic}-{partition}{why}"), error)
    })
}
