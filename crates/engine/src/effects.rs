//! The effects log of a checkpoint: `_onefold/effects/`.
//!
//! # Invariants
//! - A reply counts once it is durable, and before its batch is published.
//! - A batch that runs again reads what all drivers before it heard; a batch that runs for the first time
//!   reads nothing, since nobody can have called for it.
//! - A driver that is fenced makes no further call, once it has looked.

mod batch;
#[cfg(test)]
mod tests;

use crate::checkpoint::read_record;
use async_trait::async_trait;
use batch::BatchLog;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use onefold_connector::{BatchEffects, EffectsLog, Fence};
use onefold_protocol::record::{EffectsMark, EffectsName, EffectsRecord, merged};
use onefold_storage::{Durability, Recorded, Store, create_record};
use onefold_types::{BatchId, CallKey, Error, Generation, Mark, Published, QueryId, Reply, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const FOLDER: &str = "_onefold/effects";
/// What receivers refused and sinks passed over: for people, and never purged.
const REFUSED: &str = "_onefold/refused";
/// Records that are read at the same time.
const READS_AT_ONCE: usize = 16;

/// The effects log as one driver has it.
#[derive(Debug)]
pub(crate) struct Effects {
    store: Arc<dyn Store>,
    fence: Arc<dyn Fence>,
    query: QueryId,
    generation: Generation,
    /// Whether there may be records to purge.
    used: Arc<AtomicBool>,
    now: Mutex<Now>,
}

/// The batch that runs.
#[derive(Debug, Default)]
struct Now {
    batch: Option<BatchId>,
    /// Whether an earlier run of it may have called.
    again: bool,
    /// Opened by the first who asks.
    log: Option<Arc<BatchLog>>,
}

impl Effects {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        fence: Arc<dyn Fence>,
        query: QueryId,
        generation: Generation,
    ) -> Arc<Self> {
        let (used, now) = (Arc::default(), Mutex::default());
        Arc::new(Effects { store, fence, query, generation, used, now })
    }

    /// The log of a checkpoint that nobody writes, to ask for its mark.
    pub(crate) fn to_look_at(store: Arc<dyn Store>, query: QueryId) -> Arc<dyn EffectsLog> {
        Effects::new(store, Arc::new(NoDriver), query, Generation::FIRST)
    }

    /// A run of a batch begins; `again` when an earlier run of it may have called.
    pub(crate) fn begin(&self, batch: BatchId, again: bool) {
        *self.locked() = Now { batch: Some(batch), again, log: None };
    }

    /// Waits until all that was heard is durable.
    pub(crate) async fn flush(&self) -> Result<()> {
        let log = self.locked().log.clone();
        match log {
            Some(log) => log.flush().await,
            None => Ok(()),
        }
    }

    /// Deletes the records of batches before `keep_from`; lists nothing where no call was ever made.
    pub(crate) async fn retain(&self, keep_from: BatchId) -> Result<()> {
        if !self.used.load(Ordering::Relaxed) {
            return Ok(());
        }
        sweep(self.store.as_ref(), keep_from).await.map(drop)
    }

    /// At start: as [`Effects::retain`], of what any driver left.
    pub(crate) async fn sweep(&self, keep_from: BatchId) -> Result<()> {
        if sweep(self.store.as_ref(), keep_from).await? {
            self.used.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn locked(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn open(&self, batch: BatchId) -> Result<Arc<BatchLog>> {
        let again = {
            let now = self.locked();
            if let Some(log) = now.log.as_ref().filter(|log| log.batch() == batch) {
                return Ok(Arc::clone(log));
            }
            // Who asks for a batch that nobody began gets all that there may be.
            now.again || now.batch != Some(batch)
        };
        // Not to call for a batch that a newer driver has.
        self.fence.check().await?;
        let known = match again {
            true => self.replies(batch).await?,
            false => BTreeMap::new(),
        };
        let fresh = Arc::new(BatchLog::new(
            (Arc::clone(&self.store), Arc::clone(&self.fence), Arc::clone(&self.used)),
            (self.query, batch, self.generation),
            known,
        ));
        let mut now = self.locked();
        // Two may have asked at the same time: all get the same, since it counts equal calls.
        let log = now.log.take().filter(|log| log.batch() == batch).unwrap_or(fresh);
        now.log = Some(Arc::clone(&log));
        Ok(log)
    }

    /// What all drivers heard for a batch.
    async fn replies(&self, batch: BatchId) -> Result<BTreeMap<CallKey, Reply>> {
        let store = self.store.as_ref();
        let entries = store.list(FOLDER).await?;
        let paths = entries.into_iter().map(|entry| entry.path);
        let paths = paths.filter(|path| name_of(path).is_some_and(|name| name.batch == batch));
        let records: Vec<EffectsRecord> = stream::iter(paths)
            .map(|path| async move { read_record(store, &path, EffectsRecord::parse).await })
            .buffered(READS_AT_ONCE)
            .try_filter_map(|record| async move { Ok(record) })
            .try_collect()
            .await?;
        Ok(merged(records))
    }

    async fn newest(&self) -> Result<Option<EffectsMark>> {
        let entries = self.store.list(FOLDER).await?;
        let names = entries.iter().filter_map(|entry| entry.path.rsplit('/').next());
        let mut batches: Vec<BatchId> = names.filter_map(EffectsMark::batch_in).collect();
        batches.sort_unstable();
        while let Some(batch) = batches.pop() {
            let path = mark_path(batch);
            let read = read_record(self.store.as_ref(), &path, EffectsMark::parse).await?;
            // A copy of another query's checkpoint has marks of that query.
            if let Some(mark) = read.filter(|it| it.published.mark.query == Some(self.query)) {
                return Ok(Some(mark));
            }
        }
        Ok(None)
    }
}

#[async_trait]
impl EffectsLog for Effects {
    async fn batch(&self, batch: BatchId) -> Result<Arc<dyn BatchEffects>> {
        Ok(self.open(batch).await?)
    }

    async fn newest_mark(&self) -> Result<Option<Published>> {
        let Some(mark) = self.newest().await? else { return Ok(None) };
        Ok(Some(mark.published))
    }

    async fn publish(&self, published: Published, refused: Vec<Value>) -> Result<Published> {
        self.used.store(true, Ordering::Relaxed);
        // Before the mark: then nothing that counts is ever without it.
        self.note_refused(published.mark, refused).await?;
        let path = mark_path(published.mark.batch);
        let bytes = Bytes::from(EffectsMark { published }.encode());
        match create_record(self.store.as_ref(), &path, bytes, Durability::Now).await? {
            Recorded::Mine => Ok(published),
            Recorded::Theirs(found) => {
                let theirs = EffectsMark::parse(&String::from_utf8_lossy(&found))?.published;
                match theirs.mark.query == Some(self.query) {
                    true => Ok(theirs),
                    false => Err(Error::corrupt(format!(
                        "{}/{path} is the mark of another query; run `onefold checkpoint verify {}`",
                        self.store.url(),
                        self.store.url()
                    ))),
                }
            }
        }
    }

    async fn note_refused(&self, mark: Mark, refused: Vec<Value>) -> Result<()> {
        if refused.is_empty() {
            return Ok(());
        }
        let path = format!("{REFUSED}/{}-{}", mark.batch, self.generation);
        let lines: String = refused.iter().map(|row| format!("{row}\n")).collect();
        match create_record(self.store.as_ref(), &path, Bytes::from(lines), Durability::Now).await?
        {
            Recorded::Mine => Ok(()),
            Recorded::Theirs(_) => Err(Error::corrupt(format!(
                "{}/{path} is there, though this driver did not write it; move it away",
                self.store.url()
            ))),
        }
    }
}

fn mark_path(batch: BatchId) -> String {
    format!("{FOLDER}/{batch}{}", EffectsMark::SUFFIX)
}

fn name_of(path: &str) -> Option<EffectsName> {
    path.rsplit('/').next()?.parse().ok()
}

/// Deletes the records of batches before `keep_from`; whether there are any at all.
async fn sweep(store: &dyn Store, keep_from: BatchId) -> Result<bool> {
    let entries = store.list(FOLDER).await?;
    let old = entries.iter().filter(|entry| {
        let name = entry.path.rsplit('/').next().unwrap_or_default();
        let of = name_of(name).map(|name| name.batch).or_else(|| EffectsMark::batch_in(name));
        of.is_some_and(|batch| batch < keep_from)
    });
    let old: Vec<String> = old.map(|entry| entry.path.clone()).collect();
    if !old.is_empty() {
        store.delete_all(&old).await?;
    }
    Ok(!entries.is_empty())
}

/// For who only looks.
#[derive(Debug)]
struct NoDriver;

#[async_trait]
impl Fence for NoDriver {
    async fn check(&self) -> Result<()> {
        Err(Error::internal("a checkpoint that is only looked at is to be written"))
    }
}
