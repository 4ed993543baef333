//! The replies of one run of a batch on their way into the checkpoint.
//!
//! Replies are written in groups: the first that comes starts a task, which waits a moment for others, writes
//! all that there are into one file, and goes on until there are no more. The task lives on when the batch is
//! given up: what was heard is not to be asked again.

use super::FOLDER;
use async_trait::async_trait;
use bytes::Bytes;
use onefold_connector::{BatchEffects, CallContent, CallKeys, Fence};
use onefold_protocol::record::{EffectsRecord, RecordedReply};
use onefold_storage::crash::{CrashPoint, crash_point};
use onefold_storage::{Durability, Recorded, Store, create_record};
use onefold_types::{BatchId, CallKey, Error, ErrorKind, Generation, QueryId, Reply, Result};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// How long a group waits for more replies. A crash in that time makes calls be repeated, with their keys.
const GATHERING: Duration = Duration::from_millis(10);
/// Replies, and bytes of their bodies, that make a group go at once.
const GROUP: usize = 512;
const GROUP_BYTES: usize = 1 << 20;

/// What was heard for a batch.
#[derive(Debug)]
pub(super) struct BatchLog {
    keys: CallKeys,
    batch: BatchId,
    known: BTreeMap<CallKey, Reply>,
    shared: Arc<Shared>,
}

/// What the task that writes has in common with those who give it replies.
#[derive(Debug)]
struct Shared {
    store: Arc<dyn Store>,
    fence: Arc<dyn Fence>,
    used: Arc<AtomicBool>,
    batch: BatchId,
    generation: Generation,
    pending: Mutex<Pending>,
    /// Told when a group need not wait for more.
    hurry: Notify,
    /// Replies that are done with: durable, or failed.
    done: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Pending {
    replies: Vec<RecordedReply>,
    bytes: usize,
    /// Replies given so far.
    given: u64,
    /// The number of the next file.
    sequence: u64,
    writing: bool,
    /// Why a group could not be written. Nothing is written after that.
    failed: Option<(ErrorKind, String)>,
}

impl BatchLog {
    pub(super) fn new(
        (store, fence, used): (Arc<dyn Store>, Arc<dyn Fence>, Arc<AtomicBool>),
        (query, batch, generation): (QueryId, BatchId, Generation),
        known: BTreeMap<CallKey, Reply>,
    ) -> Self {
        let shared = Shared {
            store,
            fence,
            used,
            batch,
            generation,
            pending: Mutex::default(),
            hurry: Notify::new(),
            done: watch::Sender::new(0),
        };
        BatchLog { keys: CallKeys::new(query, batch), batch, known, shared: Arc::new(shared) }
    }

    pub(super) fn batch(&self) -> BatchId {
        self.batch
    }
}

#[async_trait]
impl BatchEffects for BatchLog {
    fn next_key(&self, content: CallContent) -> CallKey {
        self.keys.next(content)
    }

    fn recorded(&self, key: CallKey) -> Option<Reply> {
        self.known.get(&key).cloned()
    }

    async fn record(&self, key: CallKey, reply: Reply) -> Result<()> {
        let (start, full) = {
            let mut pending = self.shared.locked();
            pending.check()?;
            pending.bytes += reply.body.len();
            pending.replies.push(RecordedReply { key, reply });
            pending.given += 1;
            (!std::mem::replace(&mut pending.writing, true), pending.full())
        };
        if start {
            tokio::spawn(Shared::write_all(Arc::clone(&self.shared)));
        }
        if full {
            self.shared.hurry.notify_one();
        }
        Ok(())
    }

    async fn flush(&self) -> Result<()> {
        let given = self.shared.locked().given;
        let mut done = self.shared.done.subscribe();
        if *done.borrow_and_update() < given {
            self.shared.hurry.notify_one();
            // The sender lives in `self`, so that waiting ends only by the condition.
            let _ = done.wait_for(|done| *done >= given).await;
        }
        self.shared.locked().check()
    }
}

impl Pending {
    fn check(&self) -> Result<()> {
        match &self.failed {
            None => Ok(()),
            Some((kind, why)) => Err(Error::new(*kind, why.clone())),
        }
    }

    fn full(&self) -> bool {
        self.replies.len() >= GROUP || self.bytes >= GROUP_BYTES
    }
}

impl Shared {
    fn locked(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes group after group until nothing is left.
    async fn write_all(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.hurry.notified() => {}
                () = tokio::time::sleep(GATHERING) => {}
            }
            let (replies, sequence, given) = {
                let mut pending = self.locked();
                if pending.replies.is_empty() {
                    pending.writing = false;
                    return;
                }
                pending.bytes = 0;
                let sequence = pending.sequence;
                pending.sequence += 1;
                (std::mem::take(&mut pending.replies), sequence, pending.given)
            };
            let written = self.write(replies, sequence).await;
            if let Err(error) = written {
                let mut pending = self.locked();
                pending.replies.clear();
                pending.writing = false;
                pending.failed.get_or_insert((error.kind(), error.chain()));
                let given = pending.given;
                drop(pending);
                self.done.send_replace(given);
                return;
            }
            self.done.send_replace(given);
        }
    }

    async fn write(&self, replies: Vec<RecordedReply>, sequence: u64) -> Result<()> {
        self.used.store(true, Ordering::Relaxed);
        let (batch, generation) = (self.batch, self.generation);
        let record = EffectsRecord { batch, generation, sequence, replies };
        let path = format!("{FOLDER}/{}", record.name());
        let bytes = Bytes::from(record.encode());
        crash_point(CrashPoint::EffectsBefore);
        let created = create_record(self.store.as_ref(), &path, bytes, Durability::Now).await?;
        crash_point(CrashPoint::EffectsCreated);
        if let Recorded::Theirs(_) = created {
            return Err(Error::corrupt(format!(
                "{}/{path} holds replies that this driver did not hear, under its own generation; was \
                 the checkpoint copied while it ran?",
                self.store.url()
            )));
        }
        // What was heard is of use to whoever runs the batch; to call on is not.
        self.fence.check().await
    }
}
