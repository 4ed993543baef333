//! Making a lost entry of the manifest again, from the names and the contents of data files.
//!
//! A file's name tells query, batch and driver; the commit of the batch tells which driver published
//! it, how many rows, and their hash. When the files that are there sum up to just that, they are
//! what was published, whole and unchanged.

use super::audit;
use super::manifest::{Line, Note};
use super::names::DataFile;
use super::sink::FileSink;
use onefold_connector::{LostMark, Rebuilt};
use onefold_storage::Entry;
use onefold_types::{Error, Generation, Result, Totals};
use std::collections::BTreeMap;

impl FileSink {
    pub(super) async fn rebuild_entry(
        &self,
        lost: &LostMark,
        apply: bool,
    ) -> Result<Option<Rebuilt>> {
        if !self.manifest.lacks(lost.batch).await {
            return Ok(None);
        }
        let (generation, entries) = self.files_left(lost).await?;
        let root = self.store.url();
        let line = |entry: &Entry| Line::add(root, &entry.path, entry.size, entry.modified_ms);
        let mut lines: Vec<Line> = entries.iter().map(line).collect();
        let found = audit::totals(&self.store, &self.options, &lines).await?.unwrap_or_default();
        if let Some((_, committed)) = lost.committed
            && committed != found
        {
            return Err(self.not_whole(lost, committed, found));
        }
        let files = lines.len() as u64;
        if apply {
            if let Some(first) = lines.first_mut() {
                first.onefold = Some(Note {
                    query: self.query,
                    batch: lost.batch,
                    generation,
                    files,
                    rows: found.rows,
                    hash: found.hash,
                });
            }
            self.manifest.mark(lost.batch, &lines, self.clock.now_ms()).await?;
        }
        Ok(Some(Rebuilt { files, totals: found }))
    }

    /// The files of the batch that its driver published. Where the driver is not known, those of the
    /// only one that has any: when a batch is settled, all others' are removed.
    async fn files_left(&self, lost: &LostMark) -> Result<(Generation, Vec<Entry>)> {
        let mut left: BTreeMap<Generation, Vec<Entry>> = BTreeMap::new();
        for entry in self.store.list_deep("", false).await? {
            let Some(file) = DataFile::parse(&entry.path) else { continue };
            let ours = file.query == self.query && file.batch == lost.batch;
            if ours && !entry.path.starts_with('_') {
                left.entry(file.generation).or_default().push(entry);
            }
        }
        let url = self.store.url();
        let batch = lost.batch;
        let mut found = match lost.committed {
            Some((generation, _)) => left.remove(&generation).map(|files| (generation, files)),
            None if left.len() > 1 => {
                return Err(Error::corrupt(format!(
                    "{url} has files of batch {batch} by {} drivers, and its commit, which tells \
                     whose count, was purged; restore the manifest from a backup",
                    left.len()
                )));
            }
            None => left.pop_first(),
        };
        if let Some((_, files)) = &mut found {
            files.sort_by(|one, other| one.path.cmp(&other.path));
        }
        found.ok_or_else(|| {
            Error::corrupt(format!(
                "{url} has no file of batch {batch} of query {} either; restore it from a backup",
                self.query
            ))
        })
    }

    fn not_whole(&self, lost: &LostMark, committed: Totals, found: Totals) -> Error {
        let what = if committed.rows == found.rows {
            "other rows than those".to_owned()
        } else {
            format!("{} rows, not the {}", found.rows, committed.rows)
        };
        Error::corrupt(format!(
            "the files of batch {} in {} hold {what} that were committed: some are missing or \
             changed; restore them from a backup",
            lost.batch,
            self.store.url()
        ))
    }

    /// Looks whether an entry before the newest one is lost, which the next compaction would need.
    pub(super) async fn check_entries(&self) -> Result<()> {
        let Some(batch) = self.manifest.first_hole().await else { return Ok(()) };
        // A driver that still lives may have compacted and removed it during the listing. Then the
        // compact file was there before, and another listing shows it.
        self.manifest.list_again().await?;
        if self.manifest.lacks(batch).await { Err(self.entry_is_lost(batch)) } else { Ok(()) }
    }

    /// The error of a batch that the manifest should hold.
    pub(super) fn entry_is_lost(&self, batch: onefold_types::BatchId) -> Error {
        Error::corrupt(format!(
            "{}/{} is missing, though later entries are there; `onefold checkpoint repair` can \
             make it again from the data files",
            self.store.url(),
            super::manifest::path_of(batch, self.manifest.compacts(batch))
        ))
    }
}
