//! Deleting the logs of batches long over.

use super::generation::outdated;
use super::{commit_path, intent_path};
use crate::effects::Effects;
use onefold_connector::{Sink, Source};
use onefold_storage::Store;
use onefold_storage::crash::{CrashPoint, crash_point};
use onefold_types::{BatchId, Generation, Result};
use std::sync::Arc;

/// Generations kept, so that a driver paused for long still reads who fenced it.
const GENERATIONS_KEPT: usize = 100;

/// How far the logs of this run are purged, so that the steady state lists nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retained {
    /// Batches whose logs are kept.
    pub(crate) batches: u64,
    /// Logs of batches before this one are gone.
    pub(crate) from: BatchId,
}

impl Retained {
    /// Whether enough logs are too old to delete them: some at a time, so that the syncs of their
    /// folders do not take the disk from every batch.
    pub(crate) fn worth_a_purge(self, keep_from: BatchId) -> bool {
        let at_once = (self.batches / 10).max(1);
        keep_from.0 >= self.from.0.saturating_add(at_once)
    }
}

/// What one purge removes: everything before `keep_from`.
pub(crate) struct Purge {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) sinks: Vec<Arc<dyn Sink>>,
    pub(crate) sources: Vec<Arc<dyn Source>>,
    pub(crate) effects: Arc<Effects>,
    pub(crate) gone_before: BatchId,
    pub(crate) keep_from: BatchId,
    /// The generation whose prepared records go by name; `None` where there are none.
    pub(crate) prepared_by: Option<Generation>,
}

impl Purge {
    /// Deletes prepared records and commits, then intents, each oldest first, with one sync of each
    /// folder: no commit stays without its intent, and a purge that is cut off leaves holes only
    /// among logs that are too old to prove anything. Failures leave garbage at most. The sources
    /// go first: what only a note remembers must not go with it.
    pub(crate) async fn run(self) -> Result<()> {
        for source in &self.sources {
            source.retain(self.keep_from).await?;
        }
        let batches = || (self.gone_before.0..self.keep_from.0).map(BatchId);
        let mut outcomes: Vec<String> = Vec::new();
        if let Some(generation) = self.prepared_by {
            outcomes.extend(batches().map(|batch| super::prepared_path(batch, generation)));
        }
        outcomes.extend(batches().map(commit_path));
        self.store.delete_all(&outcomes).await?;
        crash_point(CrashPoint::PurgeDuring);
        self.store.delete_all(&batches().map(intent_path).collect::<Vec<_>>()).await?;
        for sink in &self.sinks {
            sink.retain(self.keep_from).await?;
        }
        self.effects.retain(self.keep_from).await
    }
}

/// At start: what earlier drivers left of batches before `keep_from`, found by listing.
pub(crate) async fn sweep(
    store: &dyn Store,
    keep_from: BatchId,
    generations: &[Generation],
) -> Result<()> {
    for entry in store.list("_onefold/prepared").await? {
        let name = entry.path.rsplit('/').next().unwrap_or_default();
        let batch = name.split('-').next().and_then(|text| text.parse::<u64>().ok());
        if batch.is_some_and(|batch| batch < keep_from.0) {
            store.delete(&entry.path).await?;
        }
    }
    for path in outdated(generations, GENERATIONS_KEPT) {
        store.delete(&path).await?;
    }
    Ok(())
}
