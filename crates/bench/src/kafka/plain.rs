//! A bare consumer of librdkafka: what reading a topic costs without an engine.

use super::cluster::{PARTITIONS, PATIENCE};
use crate::Failure;
use crate::measure::{Report, report};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use std::time::Instant;

/// A consumer at the beginning of a topic that says where partitions end.
pub fn consumer(bootstrap: &str, topic: &str, isolation: &str) -> Result<BaseConsumer, Failure> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("group.id", "onefold-bench");
    config.set("enable.auto.commit", "false").set("enable.partition.eof", "true");
    config.set("isolation.level", isolation);
    let consumer: BaseConsumer = config.create()?;
    let mut assignment = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        assignment.add_partition_offset(topic, partition, Offset::Beginning)?;
    }
    consumer.assign(&assignment)?;
    Ok(consumer)
}

/// Reads so many records, looking at each, and reports the time until the last one is there.
pub fn drain(bootstrap: &str, topic: &str, records: &str) -> Result<(), Failure> {
    let records: u64 = records.parse()?;
    let started = Instant::now();
    let consumer = consumer(bootstrap, topic, "read_uncommitted")?;
    let (mut rows, mut bytes) = (0, 0);
    while rows < records {
        match consumer.poll(PATIENCE) {
            Some(Ok(message)) => {
                rows += 1;
                bytes += message.payload().map_or(0, <[u8]>::len);
            }
            Some(Err(KafkaError::PartitionEOF(_))) => {}
            Some(Err(error)) => return Err(error.into()),
            None => return Err("the broker sends nothing".into()),
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    if bytes == 0 {
        return Err("the records are empty".into());
    }
    report(&Report { seconds, rows, ..Report::with_peak() })
}
