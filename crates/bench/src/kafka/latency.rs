//! How long a record is on its way: from the call that produces it to the moment at which a reader
//! with `read_committed` has it, through a query that follows the topic.

use super::cluster::{Cluster, PARTITIONS, PATIENCE, producer, send};
use super::plain;
use crate::Failure;
use crate::measure::Report;
use rdkafka::Message;
use rdkafka::error::KafkaError;
use rdkafka::producer::Producer;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Records a second.
pub const RATE: u64 = 10_000;
/// Records that are produced at once.
const AT_ONCE: u64 = 10;
/// Seconds that are not counted, and seconds that are.
const SECONDS: (u64, u64) = (10, 20);

/// What was seen.
pub struct Latency {
    /// Milliseconds on the way, smallest first.
    pub ms: Vec<f64>,
    /// What the query says of its batches, where there is one.
    pub query: Option<Report>,
}

impl Latency {
    /// So many hundredths of the records were at most so long on their way, in milliseconds.
    pub fn within(&self, hundredths: usize) -> f64 {
        let place = (self.ms.len() * hundredths / 100).min(self.ms.len().saturating_sub(1));
        self.ms.get(place).copied().unwrap_or(f64::NAN)
    }
}

/// A query that follows a topic; it ends with this.
struct Query(Child);

impl Query {
    fn start(place: [&str; 4]) -> Result<Query, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("child-kafka-follow").args(place);
        Ok(Query(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?))
    }

    fn end(mut self) -> Result<Report, Failure> {
        drop(self.0.stdin.take());
        let output = self.0.stdout.take().ok_or("the query has no output")?;
        let text = std::io::read_to_string(output)?;
        Ok(serde_json::from_str(text.lines().last().unwrap_or_default())?)
    }
}

impl Drop for Query {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Through a query from one topic to another; with the same topic twice, through the broker alone.
pub fn measure(
    cluster: &Cluster,
    from: &str,
    to: &str,
    checkpoint: &str,
) -> Result<Latency, Failure> {
    let bootstrap = cluster.bootstrap.as_str();
    for topic in [from, to] {
        cluster.fill(topic, u64::from(PARTITIONS.unsigned_abs()), |number, value| {
            write_record(value, number, 0);
        })?;
    }
    let query = match from == to {
        true => None,
        false => Some(Query::start([bootstrap, from, to, checkpoint])?),
    };
    let (began, over) = (Instant::now(), AtomicBool::new(false));
    let (produced, received) = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(bootstrap, to, began, &over));
        let produced = produce(bootstrap, from, began);
        over.store(true, Ordering::Relaxed);
        (produced, receiver.join())
    });
    produced?;
    let mut ms = received.map_err(|_| "the reader stopped")??;
    ms.sort_by(f64::total_cmp);
    let expected = usize::try_from(RATE * SECONDS.1)?;
    if ms.len() < expected {
        return Err(format!("of {expected} records only {} came", ms.len()).into());
    }
    Ok(Latency { ms, query: query.map(Query::end).transpose()? })
}

fn write_record(value: &mut Vec<u8>, number: u64, sent: u64) {
    // A vector takes all that is written.
    let _ = write!(
        value,
        r#"{{"id":{number},"user":"user-{}","kind":"click","amount":1.5,"sent":{sent}}}"#,
        number % 1_000
    );
}

fn produce(bootstrap: &str, topic: &str, began: Instant) -> Result<(), Failure> {
    let producer = producer(bootstrap, "0")?;
    let mut value = Vec::new();
    for number in 0..RATE * (SECONDS.0 + SECONDS.1) {
        if number % AT_ONCE == 0 {
            let due = Duration::from_nanos(number * (1_000_000_000 / RATE));
            std::thread::sleep(due.saturating_sub(began.elapsed()));
        }
        value.clear();
        write_record(&mut value, number, u64::try_from(began.elapsed().as_nanos())?);
        let partition = (number / AT_ONCE) % u64::from(PARTITIONS.unsigned_abs());
        send(&producer, topic, i32::try_from(partition)?, &value)?;
    }
    producer.flush(PATIENCE)?;
    Ok(())
}

/// Milliseconds of each record that was produced once the first seconds were over.
fn receive(
    bootstrap: &str,
    topic: &str,
    began: Instant,
    over: &AtomicBool,
) -> Result<Vec<f64>, Failure> {
    let consumer = plain::consumer(bootstrap, topic, "read_committed")?;
    let (counted, all) = (SECONDS.0 * 1_000_000_000, usize::try_from(RATE * SECONDS.1)?);
    let (mut ms, mut last) = (Vec::with_capacity(all), Instant::now());
    while ms.len() < all {
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => {
                let now = u64::try_from(began.elapsed().as_nanos())?;
                let sent = sent(message.payload().unwrap_or_default()).ok_or("a foreign record")?;
                if sent >= counted {
                    ms.push(now.saturating_sub(sent) as f64 / 1e6);
                }
                last = Instant::now();
            }
            Some(Err(KafkaError::PartitionEOF(_))) => {}
            Some(Err(error)) => return Err(error.into()),
            None if over.load(Ordering::Relaxed) && last.elapsed() > PATIENCE / 6 => break,
            None => {}
        }
    }
    Ok(ms)
}

/// When a record was sent, nanoseconds since the beginning.
fn sent(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    let (_, rest) = text.split_once("\"sent\":")?;
    rest.trim_end_matches('}').parse().ok()
}
