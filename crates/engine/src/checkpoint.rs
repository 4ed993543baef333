//! The checkpoint folder: reading what is there, creating what a batch adds.
//!
//! # Invariants
//! - Nothing here decides: facts go to `protocol`, decisions come back.
//! - Every record is created by [`create_record`], never overwritten.

mod gather;
mod generation;
mod leftovers;
mod purge;

pub(crate) use gather::{Found, SinkFacts, gather, history, prepared_records, state_facts, stop};
pub(crate) use generation::{Driver, HostName, Takeover, take_over};
pub(crate) use leftovers::clear as clear_leftovers;
pub(crate) use purge::{Purge, Retained, sweep};

use bytes::Bytes;
use onefold_protocol::record::{Commit, Intent, Metadata, Prepared};
use onefold_protocol::retention::LeftBehind;
use onefold_storage::{Durability, Recorded, Store, create_record};
use onefold_types::{BatchId, Error, Generation, QueryId, Result};
use std::sync::Arc;
use uuid::Uuid;

/// Path of a batch's intent.
pub(crate) fn intent_path(batch: BatchId) -> String {
    format!("offsets/{batch}")
}

/// Path of a batch's commit.
pub(crate) fn commit_path(batch: BatchId) -> String {
    format!("commits/{batch}")
}

/// Paths of the records that fenced drivers left of batches long over.
pub(crate) fn left_behind_paths(left: &LeftBehind) -> Vec<String> {
    let intents = left.intents.iter().copied().map(intent_path);
    intents.chain(left.commits.iter().copied().map(commit_path)).collect()
}

/// Path of what one driver prepared of a batch.
pub(crate) fn prepared_path(batch: BatchId, generation: Generation) -> String {
    format!("_onefold/prepared/{batch}-{generation}")
}

/// Reads a record as text; `None` if there is none.
pub(crate) async fn read_text(store: &dyn Store, path: &str) -> Result<Option<String>> {
    let Some(bytes) = store.read(path).await? else { return Ok(None) };
    String::from_utf8(bytes.to_vec()).map(Some).map_err(|error| {
        Error::corrupt(format!(
            "{}/{path} is not text; run `onefold checkpoint verify {}`",
            store.url(),
            store.url()
        ))
        .because(error)
    })
}

/// Reads a record; the error of a damaged one names its path.
pub(crate) async fn read_record<T>(
    store: &dyn Store,
    path: &str,
    parse: impl FnOnce(&str) -> Result<T>,
) -> Result<Option<T>> {
    let Some(text) = read_text(store, path).await? else { return Ok(None) };
    parse(&text).map(Some).map_err(|error| {
        let url = store.url();
        Error::new(
            error.kind(),
            format!("{url}/{path} cannot be read; run `onefold checkpoint verify {url}`"),
        )
        .because(error)
    })
}

/// The query that the checkpoint belongs to; a new one in a new folder.
///
/// # Errors
/// Corrupt, when there are offsets or commits but no `metadata`: the checkpoint lost its identity,
/// and a new one would start from zero.
pub(crate) async fn identity(store: &Arc<dyn Store>) -> Result<QueryId> {
    if let Some(found) = read_record(store.as_ref(), "metadata", Metadata::parse).await? {
        return Ok(found.id);
    }
    let facts = onefold_protocol::recovery::Facts {
        metadata_found: false,
        intent_ids: gather::ids(store.as_ref(), "offsets").await?,
        commit_ids: gather::ids(store.as_ref(), "commits").await?,
        ..Default::default()
    };
    if let onefold_protocol::recovery::Next::Stop(reason) =
        onefold_protocol::recovery::decide(&facts)
    {
        return Err(gather::stop(store.as_ref(), &reason));
    }
    let fresh = Metadata { id: QueryId(Uuid::new_v4()) };
    let bytes = Bytes::from(fresh.encode());
    match create_record(store.as_ref(), "metadata", bytes, Durability::Now).await? {
        Recorded::Mine => Ok(fresh.id),
        // Another start on the same new folder was first: it is one query, of which one driver
        // will fence the other.
        Recorded::Theirs(_) => read_record(store.as_ref(), "metadata", Metadata::parse)
            .await?
            .map(|found| found.id)
            .ok_or_else(|| {
                Error::unknown(format!("{}/metadata came and went; start again", store.url()))
            }),
    }
}

/// Whose record a create found under its name.
pub(crate) enum Named {
    /// Ours.
    Mine,
    /// Another driver's.
    Theirs,
}

/// Creates the intent of a batch.
pub(crate) async fn create_intent(
    store: &dyn Store,
    batch: BatchId,
    intent: &Intent,
) -> Result<Named> {
    named(store, &intent_path(batch), intent.encode()).await
}

/// Creates the commit of a batch. A commit that another driver wrote for the same publication is
/// as good as ours.
pub(crate) async fn create_commit(
    store: &dyn Store,
    batch: BatchId,
    commit: &Commit,
) -> Result<()> {
    let path = commit_path(batch);
    match create_record(store, &path, Bytes::from(commit.encode()), Durability::Now).await? {
        Recorded::Mine => Ok(()),
        Recorded::Theirs(found) => {
            let text = String::from_utf8_lossy(&found);
            let theirs = Commit::parse(&text)?;
            if theirs.totals.is_none() || theirs.totals == commit.totals {
                return Ok(());
            }
            Err(Error::corrupt(format!(
                "{}/{path} says that batch {batch} put other rows into the sink than it did; run \
                 `onefold verify {}`",
                store.url(),
                store.url()
            )))
        }
    }
}

/// Creates the record of what a batch computed, before it is published.
pub(crate) async fn create_prepared(store: &dyn Store, prepared: &Prepared) -> Result<Named> {
    let path = prepared_path(prepared.batch, prepared.generation);
    named(store, &path, prepared.encode()).await
}

async fn named(store: &dyn Store, path: &str, text: String) -> Result<Named> {
    match create_record(store, path, Bytes::from(text), Durability::Now).await? {
        Recorded::Mine => Ok(Named::Mine),
        Recorded::Theirs(_) => Ok(Named::Theirs),
    }
}
