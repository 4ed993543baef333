//! Reading a batch's files back, to sum them up again.

use super::files::path_of;
use super::known::{commit_of, commits};
use super::mark;
use super::table::Table;
use crate::file_sink::content::RowHasher;
use crate::file_sink::parquet_file;
use crate::file_sink::stored_file::StoredFile;
use onefold_types::{BatchId, Error, QueryId, Result, Totals};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The versions of a query's batches in the commits that are still there.
///
/// # Errors
/// Corrupt: a commit is damaged.
pub(crate) async fn batches(table: &Table, query: QueryId) -> Result<BTreeMap<BatchId, u64>> {
    let mut batches = BTreeMap::new();
    for version in commits(table).await? {
        let Some(commit) = commit_of(table, version).await? else { continue };
        if let Some(published) = mark::published(&commit, query) {
            batches.entry(published.mark.batch).or_insert(version);
        }
    }
    Ok(batches)
}

/// The totals of the files that a version brought; `None` when one of them is gone: another
/// version replaced it, and it was cleaned up since.
///
/// # Errors
/// Corrupt: a file has another size, or cannot be read.
pub(crate) async fn totals(table: &Table, version: u64) -> Result<Option<Totals>> {
    let Some(commit) = commit_of(table, version).await? else { return Ok(None) };
    let mut totals = Totals::default();
    for add in &commit.adds {
        let Some(path) = path_of(&add.path)? else { return Ok(None) };
        if table.store.stat(&path).await?.is_none() {
            return Ok(None);
        }
        let file = StoredFile::open(Arc::clone(&table.store), &path).await?;
        if i64::try_from(file.size()).ok() != Some(add.size) {
            return Err(Error::corrupt(format!(
                "{} has {} bytes, but {} were published: it was changed; restore it from a backup",
                file.url(),
                file.size(),
                add.size
            )));
        }
        let url = file.url();
        let sum = tokio::task::spawn_blocking(move || {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            parquet_file::totals(&file, RowHasher::new(folder))
        });
        let sum = sum.await.map_err(|e| Error::internal("reading back was cut off").because(e))?;
        totals = totals.plus(sum.map_err(|e| {
            Error::corrupt(format!(
                "{url} cannot be read back: it is damaged; restore it from a backup"
            ))
            .because(e)
        })?);
    }
    Ok(Some(totals))
}
