//! Calls to the outside world: their keys, and the log in which their replies are remembered.
//!
//! A call happens while its batch runs, long before the batch is published. So its reply is written down
//! first, and a batch that runs again asks the log before it asks the outside. What the log does not have
//! may have happened all the same: it is called again, with the same key, by which the receiver can tell.
//!
//! A key depends on nothing that may change between two runs of a batch: neither on partitions nor on
//! the order of rows. Calls with equal content are told apart by counting them: which of them is which
//! does not matter, since they say the same.

use async_trait::async_trait;
use onefold_types::{BatchId, CallKey, Mark, Published, QueryId, Reply, Result};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

/// What a call says, and to whom, as a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallContent(u128);

impl CallContent {
    /// Of the parts that make a call what it is: who calls (`http_call`, or a sink's name), address,
    /// method, body.
    #[must_use]
    pub fn of(parts: &[&[u8]]) -> Self {
        CallContent(digest(parts))
    }
}

/// Gives the calls of one batch their keys: one of these for each run of a batch.
#[derive(Debug)]
pub struct CallKeys {
    query: QueryId,
    batch: BatchId,
    counts: Mutex<HashMap<CallContent, u64>>,
}

impl CallKeys {
    /// Nothing was called yet.
    #[must_use]
    pub fn new(query: QueryId, batch: BatchId) -> Self {
        CallKeys { query, batch, counts: Mutex::default() }
    }

    /// The key of the next call with this content: of (query, batch, content, how many equal ones came
    /// before).
    #[must_use]
    pub fn next(&self, content: CallContent) -> CallKey {
        let ordinal = {
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            let count = counts.entry(content).or_default();
            let ordinal = *count;
            *count = count.saturating_add(1);
            ordinal
        };
        CallKey(digest(&[
            self.query.0.as_bytes(),
            &self.batch.0.to_be_bytes(),
            &content.0.to_be_bytes(),
            &ordinal.to_be_bytes(),
        ]))
    }
}

/// The first half of SHA-256 over parts that cannot run into each other. Content may come from
/// strangers: nobody can make two calls that are taken for one.
fn digest(parts: &[&[u8]]) -> u128 {
    let mut sum = Sha256::new();
    for part in parts {
        sum.update((part.len() as u64).to_be_bytes());
        sum.update(part);
    }
    let sum = sum.finalize();
    sum.iter().take(16).fold(0, |value, byte| (value << 8) | u128::from(*byte))
}

/// What is remembered of the calls of one run of a batch.
#[async_trait]
pub trait BatchEffects: Debug + Send + Sync {
    /// The key of the next call with this content.
    fn next_key(&self, content: CallContent) -> CallKey;

    /// The reply to a call that this or an earlier run of the batch wrote down.
    fn recorded(&self, key: CallKey) -> Option<Reply>;

    /// Takes a reply to be written down, together with others. It is durable once
    /// [`BatchEffects::flush`] has returned, and mostly long before.
    ///
    /// # Errors
    /// Of an earlier write: no further call should be made. Fenced: a newer driver runs the query.
    async fn record(&self, key: CallKey, reply: Reply) -> Result<()>;

    /// Waits until all replies so far are durable.
    ///
    /// # Errors
    /// As [`BatchEffects::record`].
    async fn flush(&self) -> Result<()>;
}

/// The effects log of a query.
#[async_trait]
pub trait EffectsLog: Debug + Send + Sync {
    /// What is remembered of a batch that runs now; the same for all who ask in one run of it.
    ///
    /// # Errors
    /// Corrupt, when a record cannot be read; as the store's.
    async fn batch(&self, batch: BatchId) -> Result<Arc<dyn BatchEffects>>;

    /// The newest mark of this query that [`EffectsLog::publish`] put here.
    ///
    /// # Errors
    /// Corrupt, when it cannot be read; as the store's.
    async fn newest_mark(&self) -> Result<Option<Published>>;

    /// Puts the mark of a batch here, in one atomic act, with what was refused (JSON objects). The mark
    /// of a driver that was first stays, and is returned.
    ///
    /// # Errors
    /// Unknown, when it is not known whether it is there.
    async fn publish(
        &self,
        published: Published,
        refused: Vec<serde_json::Value>,
    ) -> Result<Published>;

    /// Notes what was refused of a batch for a sink that puts no mark here; nothing, if there is none.
    ///
    /// # Errors
    /// As the store's.
    async fn note_refused(&self, mark: Mark, refused: Vec<serde_json::Value>) -> Result<()>;
}

/// The effects log as a sink sees it.
#[derive(Debug, Clone)]
pub struct SinkEffects {
    /// The log.
    pub log: Arc<dyn EffectsLog>,
    /// Which of the query's sinks it is: part of each call's content.
    pub site: String,
}

impl SinkEffects {
    /// Where there is no checkpoint, so that nothing is remembered beyond the process.
    #[must_use]
    pub fn forgotten(query: QueryId) -> Self {
        SinkEffects {
            log: Arc::new(Forgotten { query, last: Mutex::default() }),
            site: String::new(),
        }
    }

    /// The same log for another sink of the query.
    #[must_use]
    pub fn of_site(&self, site: &str) -> Self {
        SinkEffects { log: Arc::clone(&self.log), site: site.to_owned() }
    }
}

/// A log that keeps nothing.
#[derive(Debug)]
struct Forgotten {
    query: QueryId,
    last: Mutex<Option<(BatchId, Arc<ForgottenBatch>)>>,
}

#[derive(Debug)]
struct ForgottenBatch(CallKeys);

#[async_trait]
impl EffectsLog for Forgotten {
    async fn batch(&self, batch: BatchId) -> Result<Arc<dyn BatchEffects>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = last.as_ref().filter(|(of, _)| *of == batch) {
            return Ok(Arc::clone(found) as Arc<dyn BatchEffects>);
        }
        let fresh = Arc::new(ForgottenBatch(CallKeys::new(self.query, batch)));
        *last = Some((batch, Arc::clone(&fresh)));
        Ok(fresh)
    }

    async fn newest_mark(&self) -> Result<Option<Published>> {
        Ok(None)
    }

    async fn publish(
        &self,
        published: Published,
        _refused: Vec<serde_json::Value>,
    ) -> Result<Published> {
        Ok(published)
    }

    async fn note_refused(&self, _mark: Mark, _refused: Vec<serde_json::Value>) -> Result<()> {
        Ok(())
    }
}

#[async_trait]
impl BatchEffects for ForgottenBatch {
    fn next_key(&self, content: CallContent) -> CallKey {
        self.0.next(content)
    }

    fn recorded(&self, _key: CallKey) -> Option<Reply> {
        None
    }

    async fn record(&self, _key: CallKey, _reply: Reply) -> Result<()> {
        Ok(())
    }

    async fn flush(&self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn keys(batch: u64) -> CallKeys {
        CallKeys::new("6fa0ab59-0d2c-4b1e-9d5c-1f2d3c4b5a69".parse().unwrap(), BatchId(batch))
    }

    fn all(keys: &CallKeys, bodies: &[&str]) -> Vec<CallKey> {
        bodies.iter().map(|body| keys.next(CallContent::of(&[b"u", body.as_bytes()]))).collect()
    }

    #[test]
    fn a_replay_in_another_order_gives_the_same_keys() {
        let first: BTreeSet<CallKey> =
            all(&keys(7), &["a", "b", "a", "c", "a"]).into_iter().collect();
        let again: BTreeSet<CallKey> =
            all(&keys(7), &["c", "a", "a", "a", "b"]).into_iter().collect();
        assert_eq!(first, again);
        assert_eq!(first.len(), 5, "equal calls are several calls");
    }

    #[test]
    fn other_batches_queries_and_contents_give_other_keys() {
        let (here, there) = (all(&keys(7), &["a", "b"]), all(&keys(8), &["a", "b"]));
        let other = CallKeys::new(QueryId(Default::default()), BatchId(7));
        let other = all(&other, &["a", "b"]);
        let distinct: BTreeSet<_> = [here, there, other].concat().into_iter().collect();
        assert_eq!(distinct.len(), 6);
        assert_ne!(CallContent::of(&[b"ab", b"c"]), CallContent::of(&[b"a", b"bc"]));
    }

    #[test]
    fn keys_are_the_same_in_every_version() {
        let key = all(&keys(7), &["a"])[0];
        assert_eq!(key.to_string(), "ac32ce78cf65bdb1af0f8de8d9d979bc");
    }
}
