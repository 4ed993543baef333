//! A real broker on loopback, and the records that are measured.

use crate::Failure;
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Partitions of each topic: as many as the machine is taken to have cores.
pub const PARTITIONS: i32 = 2;

/// How long a call may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster of one node that ends with this.
pub struct Cluster {
    script: Child,
    /// What clients connect to.
    pub bootstrap: String,
}

impl Cluster {
    /// Starts what `scripts/kafka.sh` runs, with the compilers of a broker that is to last.
    pub fn start(folder: &Path) -> Result<Cluster, Failure> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/kafka.sh");
        let mut script = Command::new(script)
            .arg("serve")
            .arg(folder)
            .args(["1", &format!("num.partitions={PARTITIONS}"), "auto.create.topics.enable=true"])
            .env("KAFKA_LONG_LIVED", "yes")
            .env("KAFKA_HEAP", "1g")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = script.stdout.take().ok_or("the script has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let about: serde_json::Value = serde_json::from_str(&line)?;
        let bootstrap = about.get("bootstrap").and_then(|it| it.as_str());
        let bootstrap = bootstrap.ok_or("the broker does not start")?.to_owned();
        Ok(Cluster { script, bootstrap })
    }

    /// A topic of so many records, each made by `record` from its number.
    pub fn fill(
        &self,
        topic: &str,
        records: u64,
        record: impl Fn(u64, &mut Vec<u8>),
    ) -> Result<(), Failure> {
        let producer = producer(&self.bootstrap, "50")?;
        let mut value = Vec::new();
        for number in 0..records {
            value.clear();
            record(number, &mut value);
            let partition = i32::try_from(number % u64::from(PARTITIONS.unsigned_abs()))?;
            send(&producer, topic, partition, &value)?;
        }
        producer.flush(PATIENCE)?;
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.script.stdin.take());
        // The script ends what it began.
        let _ = self.script.wait();
    }
}

/// A producer whose batches wait so many milliseconds for more.
pub fn producer(
    bootstrap: &str,
    linger_ms: &str,
) -> Result<ThreadedProducer<DefaultProducerContext>, Failure> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("linger.ms", linger_ms);
    config.set("queue.buffering.max.messages", "1000000").set("batch.size", "1000000");
    Ok(config.create()?)
}

/// Hands a record over, once there is room.
pub fn send(
    producer: &ThreadedProducer<DefaultProducerContext>,
    topic: &str,
    partition: i32,
    value: &[u8],
) -> Result<(), Failure> {
    let mut record: BaseRecord<'_, [u8], [u8]> =
        BaseRecord::to(topic).payload(value).partition(partition);
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                std::thread::sleep(Duration::from_millis(2));
                record = again;
            }
            Err((error, _)) => return Err(error.into()),
        }
    }
}
