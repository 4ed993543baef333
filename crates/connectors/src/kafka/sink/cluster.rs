//! What the sink needs of a Kafka cluster: few calls, so that a log in memory can stand for it.

use super::mark::{MarkRecord, Written};
use super::transaction::{Call, Trouble};
use async_trait::async_trait;
use onefold_types::{BatchId, Error, QueryId, Result, Totals};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// One record to write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    /// Where to.
    pub(crate) topic: &'a str,
    /// Which partition; by the key where none is given.
    pub(crate) partition: Option<i32>,
    /// The key.
    pub(crate) key: Option<&'a [u8]>,
    /// The value; none is a tombstone.
    pub(crate) value: Option<&'a [u8]>,
    /// Headers, in order.
    pub(crate) headers: &'a [(&'a str, Option<&'a [u8]>)],
}

/// Why a call did not come back clean.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Of which sort.
    pub(crate) trouble: Trouble,
    /// In words.
    pub(crate) error: Error,
}

/// A producer with the query's transactional id.
#[async_trait]
pub(crate) trait Producer: Debug + Send + Sync {
    /// Makes a call other than [`Call::Send`]; gives how long it took.
    async fn call(&self, call: Call) -> Result<Duration, Failure>;
    /// Hands a record over; false when there is no room for it now.
    fn send(&self, record: &Record<'_>) -> Result<bool, Failure>;
    /// Where the records of this transaction lie that were confirmed, without the mark.
    fn written(&self) -> Written;
    /// The first record of this transaction that was not taken.
    fn rejected(&self) -> Option<Failure>;
}

/// The brokers.
#[async_trait]
pub(crate) trait Cluster: Debug + Send + Sync {
    /// A new producer, on which nothing was called yet.
    async fn producer(&self) -> Result<Arc<dyn Producer>>;
    /// The newest mark of a query. With `certain`, waits until no open transaction of others can
    /// hide one.
    async fn newest_mark(&self, query: QueryId, certain: bool) -> Result<Option<MarkRecord>>;
    /// The mark of one batch, while it was not compacted away.
    async fn mark_of(&self, query: QueryId, batch: BatchId) -> Result<Option<MarkRecord>>;
    /// Sums up what lies in these places; `None` where they hold other records as well, or some
    /// are gone.
    async fn sum(&self, written: &Written, rows: u64) -> Result<Option<Totals>>;
    /// The topic of marks, and the partition that this query's are in; none where it needs none.
    fn progress(&self, query: QueryId) -> Option<(&str, Option<i32>)>;
}
