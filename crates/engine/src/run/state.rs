//! The state of a term: opened where the newest commit left it, prepared and applied batch by
//! batch.
//!
//! # Invariants
//! - The store's base stands at the state of the newest commit; what a batch writes is beside it
//!   until its commit is durable.
//! - State files that a retained prepared record refers to are kept.

use super::term::{Surroundings, frozen_conf};
use crate::checkpoint::{gather, prepared_records, state_facts};
use crate::conf::Conf;
use crate::evolution::{self, Evolution};
use onefold_protocol::conf::in_force;
use onefold_protocol::recovery::{Facts, Next, StateFacts};
use onefold_state::{OperatorSpec, Provider, SnapshotPolicy, StateConfig, StateRef, StateStore};
use onefold_storage::Store;
use onefold_types::{BatchId, Error, Generation, QueryId, Result};
use serde_json::Value;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

const PROVIDER: &str = "spark.sql.streaming.stateStore.providerClass";
const PARTITIONS: &str = "spark.sql.shuffle.partitions";
const CHANGELOGS: &str = "spark.sql.streaming.stateStore.minDeltasForSnapshot";
const LOCAL_FOLDER: &str = "onefold.state.localDir";

/// State files are purged once for so many batches, since it takes a look at all that are there.
const PURGE_EVERY: u64 = 10;

/// The state of a query's operators in one term.
pub(crate) struct TermState {
    pub(crate) store: StateStore,
    /// Partitions of keyed operators in this run.
    pub(crate) partitions: u32,
    /// What the retained batches left, oldest first.
    retained: VecDeque<(BatchId, StateRef)>,
}

impl TermState {
    /// Opens the state from which the next act starts; `None` for a query without.
    pub(crate) async fn open(
        around: &Surroundings,
        store: &Arc<dyn Store>,
        generation: Generation,
        facts: &Facts,
        next: &Next,
    ) -> Result<Option<TermState>> {
        if matches!(next, Next::Stop(_)) {
            return Ok(None);
        }
        let at = facts.state_for(next).map(reference).transpose()?;
        let start = first_batch(next);
        let discard = accepted(store.as_ref(), start, &around.operators).await?;
        if let Some(at) = &at {
            let evolution = Evolution::of(store, at, &around.operators).await?;
            evolution.check(store.url(), &discard)?;
        }
        if around.operators.is_empty() {
            return Ok(None);
        }
        let conf = &around.definition.conf;
        let partitions = partitions(conf, around.state.config().target_partitions())?;
        let config = StateConfig {
            store: Arc::clone(store),
            operators: around.operators.to_vec(),
            partitions,
            generation,
            provider: provider(conf, facts)?,
            budget: around.state_budget.clone(),
            local_dir: Some(local_folder(conf, around.query.id)),
            snapshots: SnapshotPolicy {
                changelogs: usize::try_from(conf.count(CHANGELOGS)?).unwrap_or(usize::MAX),
                ..SnapshotPolicy::default()
            },
            discard,
            start: start.0,
        };
        let opened = StateStore::open(config, at.as_ref()).await?;
        let mut retained = VecDeque::new();
        for record in prepared_records(store.as_ref()).await? {
            if !record.state.is_null() {
                retained.push_back((record.batch, reference(&record.state)?));
            }
        }
        Ok(Some(TermState { store: opened, partitions, retained }))
    }

    /// Whether the query goes on with the state that is there, before it fences a driver that runs.
    /// What cannot be read is left to the start itself, which says it.
    ///
    /// # Errors
    /// As [`Evolution::check`].
    pub(crate) async fn check_ahead(
        around: &Surroundings,
        store: &Arc<dyn Store>,
        batches_retained: u64,
    ) -> Result<()> {
        if around.operators.is_empty() {
            return Ok(());
        }
        let Ok(found) = gather(store.as_ref(), batches_retained).await else { return Ok(()) };
        let Some(next) = found.last_commit().map(BatchId::next) else { return Ok(()) };
        let Ok(StateFacts::Ours(Some(record))) = state_facts(store.as_ref(), &found.facts).await
        else {
            return Ok(());
        };
        let Ok(at) = reference(&record.state) else { return Ok(()) };
        let Ok(evolution) = Evolution::of(store, &at, &around.operators).await else {
            return Ok(());
        };
        evolution.check(store.url(), &accepted(store.as_ref(), next, &around.operators).await?)
    }

    /// A batch is committed: what it left is kept from now on.
    pub(crate) fn retain(&mut self, batch: BatchId, left: StateRef) {
        self.retained.push_back((batch, left));
    }

    /// Removes the files that no batch from `keep_from` on needs. Failures leave garbage at most.
    pub(crate) async fn purge(&mut self, keep_from: BatchId) {
        self.retained.retain(|(batch, _)| *batch >= keep_from);
        if !keep_from.0.is_multiple_of(PURGE_EVERY) {
            return;
        }
        let keep: Vec<StateRef> = self.retained.iter().map(|(_, left)| left.clone()).collect();
        if let Err(error) = self.store.purge(&keep).await {
            tracing::warn!("old files of state were not all deleted: {}", error.chain());
        }
    }

    /// Waits for what runs in the background.
    pub(crate) async fn close(mut self) {
        self.store.finish_snapshot().await;
    }
}

/// The batch that would start from the state that is opened.
fn first_batch(next: &Next) -> BatchId {
    match next {
        Next::Plan { batch } | Next::RunAgain { batch } => *batch,
        Next::AdoptCommit { batch, .. } => batch.next(),
        Next::Stop(_) => BatchId::FIRST,
    }
}

/// Operators whose state the user said may be dropped before this batch.
async fn accepted(
    store: &dyn Store,
    batch: BatchId,
    operators: &[OperatorSpec],
) -> Result<Vec<String>> {
    let accepted = evolution::accepted(store, batch, operators).await?;
    Ok(accepted.map(|accepted| accepted.labels).unwrap_or_default())
}

/// What a prepared record says of the state.
pub(crate) fn reference(value: &Value) -> Result<StateRef> {
    serde_json::from_value(value.clone()).map_err(|error| {
        Error::corrupt("the state in a prepared record is of an unknown form; use a newer Onefold")
            .because(error)
    })
}

/// The partitions of keyed state: what the session says, else one for each thread. Unlike Spark's
/// it may change at any start.
pub(crate) fn partitions(conf: &Conf, threads: usize) -> Result<u32> {
    let most = onefold_state::KEY_GROUPS;
    let Some(text) = conf.values().get(PARTITIONS) else {
        return Ok(u32::try_from(threads).unwrap_or(most).clamp(1, most));
    };
    match text.trim().parse::<u32>() {
        Ok(wanted) if wanted > most => {
            tracing::warn!(
                "{PARTITIONS} is {wanted}; state has {most} partitions, the most it can"
            );
            Ok(most)
        }
        Ok(wanted) if wanted > 0 => Ok(wanted),
        _ => Err(Error::invalid(format!("{PARTITIONS} is `{text}`; it is a number from 1 on"))),
    }
}

/// Where state is kept while the query runs: as the session says, else as at the query's first
/// start. The files of the checkpoint are the same, so that it may change at any start.
pub(crate) fn provider(conf: &Conf, facts: &Facts) -> Result<Provider> {
    let frozen = frozen_conf(facts.last_intent.as_ref(), conf.values());
    let named = conf.values().get(PROVIDER).map(String::as_str);
    let named = named.or_else(|| in_force(PROVIDER, &frozen, conf.values())).unwrap_or("memory");
    named.parse()
}

/// The folder for state that does not fit into memory: of this query alone, and the same at each
/// start, so that what is there need not be read again.
fn local_folder(conf: &Conf, query: QueryId) -> PathBuf {
    let root = conf.text(LOCAL_FOLDER).map_or_else(std::env::temp_dir, PathBuf::from);
    root.join(format!("onefold-state-{query}"))
}
