//! What a sink knows of its table: read when it opens, carried forward with each commit it sees.

use super::commit::{Commit, Remove};
use super::features;
use super::mark::{self, Names, Remembered};
use super::shape::Facts;
use super::table::{LOG, Table, commit_path, failed, version_of};
use arrow::array::{Array, AsArray};
use deltalake_core::kernel::{EagerSnapshot, LogicalFileView, Snapshot};
use futures::TryStreamExt;
use onefold_types::{Error, Published, QueryId, Result};

/// A table as a sink knows it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// The newest version seen; `None`: there is no table.
    pub(crate) version: Option<u64>,
    pub(crate) facts: Option<Facts>,
    /// The query's newest mark, and the version that holds it where that is known.
    pub(crate) mark: Option<(Published, Option<u64>)>,
}

/// Reads a table that is about to be written.
///
/// # Errors
/// Invalid, by name, where the table needs what this writer does not do.
pub(crate) async fn read(table: &Table, query: QueryId) -> Result<Known> {
    if !table.exists().await? {
        return Ok(Known::default());
    }
    let snapshot = table.snapshot(None).await?;
    features::check_writable(table.url(), &snapshot)?;
    let mut mark = marked(table, &snapshot, query).await?;
    if let Some(time) = features::forgets_marks(snapshot.metadata().configuration()) {
        tracing::warn!(
            table = table.url(),
            "the table forgets after {time} which batches it has \
             (delta.setTransactionRetentionDuration): a query that stands still for longer is \
             stopped at its next start; take that setting off"
        );
        if mark.is_none() {
            mark = search(table, query).await?;
        }
    }
    let facts = Some(Facts::of(&snapshot)?);
    Ok(Known { version: Some(snapshot.version()), facts, mark })
}

/// The description of the table as of a version.
///
/// # Errors
/// Invalid, by name, where the table needs what this writer does not do.
pub(crate) async fn facts(table: &Table, version: u64) -> Result<Facts> {
    let snapshot = table.snapshot(Some(version)).await?;
    features::check_writable(table.url(), &snapshot)?;
    Facts::of(&snapshot)
}

/// What an application remembers in a table.
///
/// # Errors
/// Corrupt: the log cannot be read.
pub(crate) async fn remembered(
    table: &Table,
    snapshot: &EagerSnapshot,
    app: &str,
) -> Result<Option<i64>> {
    let found = snapshot.transaction_version(table.log.as_ref(), app).await;
    found.map_err(|error| failed(&format!("the marks in {} cannot be read", table.url()), error))
}

async fn marked(
    table: &Table,
    snapshot: &EagerSnapshot,
    query: QueryId,
) -> Result<Option<(Published, Option<u64>)>> {
    let names = Names::of(query);
    let newest = remembered(table, snapshot, &names.query).await?;
    if newest.is_none() {
        return Ok(None);
    }
    let remembered = Remembered {
        query: newest,
        batch: remembered(table, snapshot, &names.batch).await?,
        generation: remembered(table, snapshot, &names.generation).await?,
        commit: remembered(table, snapshot, &names.commit).await?,
    };
    let Some((mark, commit)) = remembered.mark(query) else { return Ok(None) };
    let noted = match commit {
        Some(version) => commit_of(table, version).await?,
        None => None,
    };
    // The log may have been cleaned up since; then nobody can tell how much the batch had.
    let totals = noted
        .and_then(|commit| mark::published(&commit, query))
        .filter(|published| published.mark == mark)
        .and_then(|published| published.totals);
    Ok(Some((Published { mark, totals }, commit)))
}

/// The commit of a version; `None` where its file is gone.
///
/// # Errors
/// Corrupt: it is damaged.
pub(crate) async fn commit_of(table: &Table, version: u64) -> Result<Option<Commit>> {
    let path = commit_path(version);
    let bytes = table.store.read(&path).await?;
    bytes.map(|bytes| Commit::parse(&bytes, &format!("{}/{path}", table.url()))).transpose()
}

/// The versions whose commits are there, ascending.
///
/// # Errors
/// As the store's.
pub(crate) async fn commits(table: &Table) -> Result<Vec<u64>> {
    let entries = table.store.list(LOG).await?;
    let mut versions: Vec<u64> = entries
        .iter()
        .filter_map(|entry| version_of(&entry.path))
        .filter_map(|(version, commit)| commit.then_some(version))
        .collect();
    versions.sort_unstable();
    Ok(versions)
}

/// Looks for the newest mark in the commits themselves, for a table that forgets.
async fn search(table: &Table, query: QueryId) -> Result<Option<(Published, Option<u64>)>> {
    for version in commits(table).await?.into_iter().rev() {
        let Some(commit) = commit_of(table, version).await? else { continue };
        if let Some(published) = mark::published(&commit, query) {
            return Ok(Some((published, Some(version))));
        }
    }
    Ok(None)
}

/// All files that a version of a table has, each with its path as the log spells it: the log compares
/// paths so, and views of files have them decoded.
///
/// # Errors
/// Corrupt: the log cannot be read.
pub(crate) async fn raw_files(
    table: &Table,
    version: u64,
) -> Result<Vec<(String, LogicalFileView)>> {
    let what = || format!("the files of version {version} of {} cannot be listed", table.url());
    let unread = |error| failed(&what(), error);
    let snapshot = Snapshot::try_new(table.log.as_ref(), Some(version)).await.map_err(unread)?;
    let mut paths: Vec<String> = Vec::new();
    let mut batches = snapshot.files(table.log.as_ref(), None);
    while let Some(batch) = batches.try_next().await.map_err(unread)? {
        let column = batch.column_by_name("path").ok_or_else(|| Error::internal(what()))?;
        let column = column
            .as_string_opt::<i32>()
            .ok_or_else(|| Error::internal(format!("{}: no paths", what())))?;
        paths.extend((0..column.len()).map(|at| column.value(at).to_owned()));
    }
    let views: Vec<LogicalFileView> =
        snapshot.file_views(table.log.as_ref(), None).try_collect().await.map_err(unread)?;
    if views.len() != paths.len() {
        return Err(Error::internal(format!("{}: two listings differ", what())));
    }
    Ok(paths.into_iter().zip(views).collect())
}

/// The removals of all files that a version of a table has.
///
/// # Errors
/// Corrupt: the log cannot be read.
pub(crate) async fn removals(table: &Table, version: u64, now_ms: i64) -> Result<Vec<Remove>> {
    let mut removals = Vec::new();
    for (path, view) in raw_files(table, version).await? {
        let view = view.remove_action(true);
        let deletion_vector = view
            .deletion_vector
            .map(serde_json::to_value)
            .transpose()
            .map_err(|error| Error::internal("a deletion vector is no JSON").because(error))?;
        removals.push(Remove {
            path,
            deletion_timestamp: Some(now_ms),
            data_change: true,
            extended_file_metadata: Some(true),
            partition_values: view.partition_values.map(|values| values.into_iter().collect()),
            size: view.size,
            deletion_vector,
        });
    }
    Ok(removals)
}
