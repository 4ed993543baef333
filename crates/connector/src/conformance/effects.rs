//! An effects log in memory, whose durable acts go wrong as the plan says.

use super::{Faults, Verdict};
use crate::{BatchEffects, CallContent, CallKeys, EffectsLog};
use async_trait::async_trait;
use onefold_types::{BatchId, CallKey, Error, Mark, Published, QueryId, Reply, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is durable of a checkpoint's effects.
#[derive(Debug, Default)]
pub(super) struct Durable {
    replies: BTreeMap<CallKey, Reply>,
    marks: BTreeMap<BatchId, Published>,
}

/// The log as one driver has it.
#[derive(Debug)]
pub(super) struct MemoryEffects {
    durable: Arc<Mutex<Durable>>,
    query: QueryId,
    faults: Arc<Faults>,
    last: Mutex<Option<(BatchId, Arc<Batch>)>>,
}

#[derive(Debug)]
struct Batch {
    durable: Arc<Mutex<Durable>>,
    keys: CallKeys,
    /// What was durable when the batch began.
    known: BTreeMap<CallKey, Reply>,
    pending: Mutex<Vec<(CallKey, Reply)>>,
    faults: Arc<Faults>,
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryEffects {
    pub(super) fn new(
        durable: &Arc<Mutex<Durable>>,
        query: QueryId,
        faults: Arc<Faults>,
    ) -> Arc<Self> {
        let durable = Arc::clone(durable);
        Arc::new(MemoryEffects { durable, query, faults, last: Mutex::default() })
    }
}

/// Does an act as the plan says.
async fn act<T>(faults: &Faults, name: &str, act: impl FnOnce() -> T + Send) -> Result<T> {
    let failed = || Error::unavailable(format!("{name} was to fail"));
    match faults.pass(name).await {
        Verdict::Go => Ok(act()),
        Verdict::Fail | Verdict::Dead => Err(failed()),
        Verdict::LoseReply => {
            act();
            Err(Error::unknown(format!("the reply of {name} was to be lost")))
        }
    }
}

#[async_trait]
impl EffectsLog for MemoryEffects {
    async fn batch(&self, batch: BatchId) -> Result<Arc<dyn BatchEffects>> {
        let mut last = locked(&self.last);
        if let Some((_, found)) = last.as_ref().filter(|(of, _)| *of == batch) {
            return Ok(Arc::clone(found) as Arc<dyn BatchEffects>);
        }
        let fresh = Arc::new(Batch {
            durable: Arc::clone(&self.durable),
            keys: CallKeys::new(self.query, batch),
            known: locked(&self.durable).replies.clone(),
            pending: Mutex::default(),
            faults: Arc::clone(&self.faults),
        });
        *last = Some((batch, Arc::clone(&fresh)));
        Ok(fresh)
    }

    async fn newest_mark(&self) -> Result<Option<Published>> {
        Ok(locked(&self.durable).marks.last_key_value().map(|(_, mark)| *mark))
    }

    async fn publish(&self, published: Published, _: Vec<serde_json::Value>) -> Result<Published> {
        let durable = Arc::clone(&self.durable);
        act(&self.faults, "mark", move || {
            *locked(&durable).marks.entry(published.mark.batch).or_insert(published)
        })
        .await
    }

    async fn note_refused(&self, _: Mark, _: Vec<serde_json::Value>) -> Result<()> {
        Ok(())
    }
}

#[async_trait]
impl BatchEffects for Batch {
    fn next_key(&self, content: CallContent) -> CallKey {
        self.keys.next(content)
    }

    fn recorded(&self, key: CallKey) -> Option<Reply> {
        self.known.get(&key).cloned()
    }

    async fn record(&self, key: CallKey, reply: Reply) -> Result<()> {
        locked(&self.pending).push((key, reply));
        Ok(())
    }

    async fn flush(&self) -> Result<()> {
        let pending = std::mem::take(&mut *locked(&self.pending));
        if pending.is_empty() {
            return Ok(());
        }
        let durable = Arc::clone(&self.durable);
        act(&self.faults, "effects", move || locked(&durable).replies.extend(pending)).await
    }
}
