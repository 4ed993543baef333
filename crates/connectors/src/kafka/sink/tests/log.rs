//! A log in memory with the semantics of Kafka's transactions as its brokers keep them: epochs, one
//! open transaction of an id, and requests to end it that name neither more than id and epoch.

use crate::kafka::sink::cluster::{Cluster, Failure, Producer, Record};
use crate::kafka::sink::content::record_hash;
use crate::kafka::sink::mark::{MarkRecord, Written, newer};
use crate::kafka::sink::transaction::{Call, Trouble};
use async_trait::async_trait;
use onefold_types::{BatchId, ContentHash, Error, QueryId, Result, Totals};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

const MARKS: &str = "marks";
/// How long a commit takes that the client library sent twice.
const SLOW: Duration = Duration::from_secs(1);

/// The log. One transactional id is all that the suite needs.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// Whether commits whose reply is lost come late instead.
    pub(super) strays: bool,
    pub(super) broker: Arc<Mutex<Broker>>,
}

#[derive(Debug, Default)]
pub(super) struct Broker {
    epoch: u32,
    /// Records of the open transaction.
    open: Vec<Kept>,
    /// Records that every reader sees, by their offset.
    seen: Vec<Kept>,
    /// Requests to commit that are under way, with their epochs.
    held: Vec<u32>,
    /// Whether each commit is sent twice, the first one arriving late.
    commit_twice: bool,
    /// Flushes until another process takes the id over.
    take_over_at: Option<u32>,
    /// Transactions that a stray committed.
    torn: u32,
}

#[derive(Debug, Clone)]
struct Kept {
    topic: String,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
}

impl Broker {
    fn commit(&mut self) {
        let open = std::mem::take(&mut self.open);
        self.seen.extend(open);
    }

    /// Strays arrive: each ends what is open if the epoch fits.
    fn strays_arrive(&mut self) {
        for epoch in std::mem::take(&mut self.held) {
            if epoch == self.epoch && !self.open.is_empty() {
                self.torn += 1;
                self.commit();
            }
        }
    }
}

impl Log {
    fn broker(&self) -> MutexGuard<'_, Broker> {
        self.broker.lock().unwrap()
    }

    /// A commit of the newest producer is under way for long.
    pub(super) fn hold_commit(&self) {
        let mut broker = self.broker();
        let epoch = broker.epoch;
        broker.held.push(epoch);
    }

    pub(super) fn commit_twice(&self) {
        self.broker().commit_twice = true;
    }

    /// Another process takes the transactional id over just before the flush of that number.
    pub(super) fn take_over_at_flush(&self, flush: u32) {
        self.broker().take_over_at = Some(flush);
    }

    pub(super) fn torn(&self) -> u32 {
        self.broker().torn
    }

    /// The values of a topic as numbers, in order.
    pub(super) fn numbers(&self, topic: &str) -> Vec<i64> {
        let seen = self.broker().seen.clone();
        let of_topic = seen.into_iter().filter(|it| it.topic == topic);
        of_topic.map(|it| String::from_utf8(it.value.unwrap()).unwrap().parse().unwrap()).collect()
    }

    fn marks(&self, query: QueryId) -> Vec<MarkRecord> {
        let key = query.to_string().into_bytes();
        let broker = self.broker();
        let marks =
            broker.seen.iter().filter(|it| it.topic == MARKS && it.key == Some(key.clone()));
        marks.map(|it| MarkRecord::from_bytes(it.value.as_ref().unwrap(), MARKS).unwrap()).collect()
    }
}

#[derive(Debug)]
struct InMemoryProducer {
    broker: Arc<Mutex<Broker>>,
    own: Mutex<Own>,
}

/// What the client library holds.
#[derive(Debug, Default)]
struct Own {
    epoch: u32,
    queue: Vec<Kept>,
    rows: u64,
}

#[async_trait]
impl Producer for InMemoryProducer {
    async fn call(&self, call: Call) -> Result<Duration, Failure> {
        let mut broker = self.broker.lock().unwrap();
        let mut own = self.own.lock().unwrap();
        if call == Call::Flush
            && let Some(left) = broker.take_over_at.as_mut()
        {
            *left -= 1;
            if *left == 0 {
                broker.take_over_at = None;
                broker.epoch += 1;
                broker.open.clear();
            }
        }
        if call != Call::Init && own.epoch != broker.epoch {
            return Err(Failure { trouble: Trouble::Fenced, error: Error::fenced("an old epoch") });
        }
        match call {
            Call::Init => {
                broker.epoch += 1;
                broker.open.clear();
                own.epoch = broker.epoch;
            }
            Call::Begin => own.rows = 0,
            Call::Send => {}
            Call::Flush => {
                broker.open.append(&mut own.queue);
                broker.strays_arrive();
            }
            Call::Commit => {
                broker.commit();
                if broker.commit_twice {
                    let epoch = broker.epoch;
                    broker.held.push(epoch);
                    return Ok(SLOW);
                }
            }
            Call::Abort => {
                own.queue.clear();
                broker.open.clear();
            }
        }
        Ok(Duration::ZERO)
    }

    fn send(&self, record: &Record<'_>) -> Result<bool, Failure> {
        let mut own = self.own.lock().unwrap();
        own.queue.push(Kept {
            topic: record.topic.to_owned(),
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
        });
        own.rows += 1;
        Ok(true)
    }

    fn written(&self) -> Written {
        // Rows of a transaction lie together, after what was there before.
        let first = i64::try_from(self.broker.lock().unwrap().seen.len()).unwrap();
        let rows = i64::try_from(self.own.lock().unwrap().rows).unwrap();
        BTreeMap::from([("out".to_owned(), BTreeMap::from([(0, (first, first + rows))]))])
    }

    fn rejected(&self) -> Option<Failure> {
        None
    }
}

#[async_trait]
impl Cluster for Log {
    async fn producer(&self) -> Result<Arc<dyn Producer>> {
        let broker = Arc::clone(&self.broker);
        Ok(Arc::new(InMemoryProducer { broker, own: Mutex::default() }))
    }

    async fn newest_mark(&self, query: QueryId, _: bool) -> Result<Option<MarkRecord>> {
        Ok(self.marks(query).into_iter().fold(None, |newest, mark| Some(newer(newest, mark))))
    }

    async fn mark_of(&self, query: QueryId, batch: BatchId) -> Result<Option<MarkRecord>> {
        Ok(self.marks(query).into_iter().find(|mark| mark.batch == batch))
    }

    async fn sum(&self, written: &Written, _: u64) -> Result<Option<Totals>> {
        let broker = self.broker();
        let mut sum = Totals::default();
        for (first, end) in written.values().flat_map(BTreeMap::values) {
            let range = usize::try_from(*first).unwrap()..usize::try_from(*end).unwrap();
            let seen = broker.seen.get(range).unwrap_or_default();
            for it in seen.iter().filter(|it| it.topic != MARKS) {
                let no_headers = std::iter::empty();
                let hash =
                    record_hash(&it.topic, it.key.as_deref(), it.value.as_deref(), no_headers);
                sum = sum.plus(Totals { rows: 1, hash: ContentHash(hash) });
            }
        }
        Ok(Some(sum))
    }

    fn progress(&self, _: QueryId) -> Option<(&str, Option<i32>)> {
        Some((MARKS, Some(0)))
    }
}
