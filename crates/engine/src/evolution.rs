//! What becomes of the state in a checkpoint when the query is another one.
//!
//! State belongs to named operators. Nothing of it is dropped unless the user said so: by
//! `onefold checkpoint plan … --accept`, which leaves a record that the next start finds.

use crate::checkpoint::read_record;
use bytes::Bytes;
use onefold_state::{
    Change, OperatorChange, OperatorSpec, StateReader, StateRef, compare, layout_name,
};
use onefold_storage::{Durability, Recorded, Store, create_record};
use onefold_types::{BatchId, Error, Result};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// `_onefold/accepted/N-LAYOUT`: state that may be dropped before batch N by the query whose
/// operators keep state of this layout, and by no other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Accepted {
    /// Names of the operators whose state may be dropped.
    pub(crate) labels: Vec<String>,
}

impl Accepted {
    fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text)
            .map_err(|error| Error::corrupt("it is not the JSON that belongs there").because(error))
    }
}

fn path(batch: BatchId, operators: &[OperatorSpec]) -> Result<String> {
    Ok(format!("_onefold/accepted/{batch}-{}", layout_name(operators)?))
}

/// What the user accepted before this batch, for a query with these operators.
pub(crate) async fn accepted(
    store: &dyn Store,
    batch: BatchId,
    operators: &[OperatorSpec],
) -> Result<Option<Accepted>> {
    read_record(store, &path(batch, operators)?, Accepted::parse).await
}

/// Records that a query with these operators may drop state before a batch.
///
/// # Errors
/// Invalid, when another choice was made before the same batch; as the store's.
pub(crate) async fn accept(
    store: &dyn Store,
    batch: BatchId,
    operators: &[OperatorSpec],
    mut labels: Vec<String>,
) -> Result<()> {
    labels.sort_unstable();
    let text = serde_json::to_string(&Accepted { labels }).unwrap_or_default();
    let path = path(batch, operators)?;
    match create_record(store, &path, Bytes::from(text), Durability::Now).await? {
        Recorded::Mine => Ok(()),
        Recorded::Theirs(_) => Err(Error::invalid(format!(
            "{}/{path} says already what may be dropped before batch {batch}; remove that file to \
             choose anew",
            store.url(),
        ))),
    }
}

/// What became of each operator's state, and what that drops.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Evolution {
    pub(crate) changes: Vec<OperatorChange>,
}

impl Evolution {
    /// Compares what the last run kept with what the query keeps now.
    pub(crate) async fn of(
        store: &Arc<dyn Store>,
        at: &StateRef,
        now: &[OperatorSpec],
    ) -> Result<Evolution> {
        let before = StateReader::open(Arc::clone(store), at).await?;
        Ok(Evolution { changes: compare(before.operators(), now) })
    }

    /// Operators whose state would be dropped.
    pub(crate) fn dropped(&self) -> Vec<String> {
        let drops = |change: &&OperatorChange| {
            matches!(change.change, Change::Incompatible(_) | Change::Removed)
        };
        self.changes.iter().filter(drops).map(|change| change.label.clone()).collect()
    }

    /// # Errors
    /// Invalid, naming each operator whose state would be dropped without the user's word.
    pub(crate) fn check(&self, url: &str, accepted: &[String]) -> Result<()> {
        let refused: Vec<String> = self
            .changes
            .iter()
            .filter(|change| !accepted.contains(&change.label))
            .filter_map(|change| match &change.change {
                Change::Incompatible(why) => Some(format!("{}: {}", change.label, why.join("; "))),
                Change::Removed => Some(format!("{}: the query has it no more", change.label)),
                Change::Added | Change::Unchanged | Change::Compatible(_) => None,
            })
            .collect();
        if refused.is_empty() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the query does not go on with the state in {url} ({}); run it as it was, start with a \
             new checkpointLocation, or let `onefold checkpoint plan {url} PIPELINE --accept` drop \
             that state",
            refused.join("), (")
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(label: &str, change: Change) -> OperatorChange {
        OperatorChange { label: label.to_owned(), change }
    }

    #[test]
    fn state_is_dropped_only_where_the_user_said_so() {
        let evolution = Evolution {
            changes: vec![
                change("new", Change::Added),
                change("wider", Change::Compatible(vec!["a column is added".into()])),
                change("count", Change::Incompatible(vec!["key columns are others".into()])),
                change("gone", Change::Removed),
            ],
        };
        assert_eq!(evolution.dropped(), ["count", "gone"]);
        let text = evolution.check("file:///c", &["count".into()]).unwrap_err().to_string();
        assert!(text.contains("gone") && !text.contains("key columns"), "{text}");
        assert!(text.contains("--accept"), "{text}");
        evolution.check("file:///c", &evolution.dropped()).unwrap();
    }
}
