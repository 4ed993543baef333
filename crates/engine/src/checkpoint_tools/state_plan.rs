//! What becomes of a checkpoint's state when a changed query goes on with it.

use super::contents::Contents;
use crate::evolution::{self, Evolution};
use crate::run::state::reference;
use onefold_protocol::recovery::StopReason;
use onefold_state::{Change, OperatorSpec};
use onefold_storage::Store;
use onefold_types::{BatchId, Error, Result};
use serde::Serialize;
use std::sync::Arc;

/// What becomes of a checkpoint's state under a query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatePlan {
    /// The checkpoint.
    pub url: String,
    /// The batch that would start from the state.
    pub next_batch: BatchId,
    /// One entry a stateful operator: those of the query, then those that it has no more.
    pub operators: Vec<OperatorPlan>,
    /// Names of those whose state would be dropped; without `--accept` the query does not start.
    pub drops: Vec<String>,
    /// Of the names in `drops`, those that the user accepted already.
    pub accepted: Vec<String>,
}

/// What becomes of one operator's state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorPlan {
    /// Its name.
    pub operator: String,
    /// `added`, `unchanged`, `compatible`, `incompatible` or `removed`.
    pub change: &'static str,
    /// What changed.
    pub why: Vec<String>,
}

impl StatePlan {
    /// Whether the query would start.
    #[must_use]
    pub fn starts(&self) -> bool {
        self.drops.iter().all(|label| self.accepted.contains(label))
    }
}

/// Compares the state that a checkpoint holds with what a query's operators keep.
///
/// # Errors
/// Corrupt, when the checkpoint's state is Spark's, or its record is gone; as the store's.
pub async fn plan_state(
    store: &Arc<dyn Store>,
    contents: &Contents,
    operators: &[OperatorSpec],
) -> Result<StatePlan> {
    let last = contents.commit_ids.last().copied();
    let next_batch = last.map_or(BatchId::FIRST, BatchId::next);
    let accepted = evolution::accepted(store.as_ref(), next_batch, operators).await?;
    let record = last.and_then(|batch| contents.state_after(batch));
    let evolution = match (record, last) {
        (Some(record), _) => Evolution::of(store, &reference(&record.state)?, operators).await?,
        (None, Some(batch)) if !operators.is_empty() && accepted.is_none() => {
            let reason = if contents.state.is_empty() {
                StopReason::StateMissing { batch }
            } else {
                StopReason::SparksState { batch }
            };
            return Err(crate::checkpoint::stop(store.as_ref(), &reason));
        }
        (None, _) => Evolution::default(),
    };
    Ok(StatePlan {
        url: store.url().to_owned(),
        next_batch,
        operators: evolution.changes.iter().map(|it| told(&it.label, &it.change)).collect(),
        drops: evolution.dropped(),
        accepted: accepted.map(|accepted| accepted.labels).unwrap_or_default(),
    })
}

/// Records that the next start of a query with these operators may drop the state of those named in
/// `drops`, or start with an empty state where the record of it is gone.
///
/// # Errors
/// Invalid, when something else was accepted before; as the store's.
pub async fn accept_state_plan(
    store: &dyn Store,
    next_batch: BatchId,
    operators: &[OperatorSpec],
    drops: Vec<String>,
) -> Result<()> {
    if next_batch == BatchId::FIRST {
        return Err(Error::invalid("no batch is committed yet, so there is no state to drop"));
    }
    evolution::accept(store, next_batch, operators, drops).await
}

fn told(label: &str, change: &Change) -> OperatorPlan {
    let (change, why) = match change {
        Change::Added => ("added", vec!["its state starts empty".to_owned()]),
        Change::Unchanged => ("unchanged", Vec::new()),
        Change::Compatible(what) => ("compatible", what.clone()),
        Change::Incompatible(why) => ("incompatible", why.clone()),
        Change::Removed => ("removed", vec!["the query has it no more".to_owned()]),
    };
    OperatorPlan { operator: label.to_owned(), change, why }
}
