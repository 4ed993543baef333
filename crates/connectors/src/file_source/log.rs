//! The source's own log in the checkpoint, `sources/I/N` and `N.compact`, in Spark's format.
//!
//! An entry is made before the intent that names it, and need not survive a power cut: the intent's
//! note says the same and the entry is made again from it. A compacted file is durable at once,
//! since the entries that it replaces may be deleted.

use super::note::{ChosenFile, LogEntry, decode, encode};
use bytes::Bytes;
use onefold_storage::{CreateError, Created, Durability, Store};
use onefold_types::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is there of the log.
#[derive(Debug)]
pub(crate) struct SourceLog {
    store: Arc<dyn Store>,
    folder: String,
    latest: Option<u64>,
    compacts: BTreeSet<u64>,
    plain: BTreeSet<u64>,
    interval: u64,
}

/// What adding an entry did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Added {
    /// The entry is there.
    Done,
    /// An older driver made this entry with other files; they belong to the next batch.
    Other(Vec<LogEntry>),
}

/// The interval that fits the compacted files that are there (Spark's rule).
pub(crate) fn effective_interval(compacts: &BTreeSet<u64>, wanted: u64) -> u64 {
    let mut newest = compacts.iter().rev();
    match (newest.next(), newest.next()) {
        (None, _) => wanted,
        (Some(last), Some(before)) => last - before,
        (Some(last), None) => {
            let count = last + 1;
            if count <= wanted || wanted >= count / 2 {
                return count;
            }
            (wanted..=count / 2).find(|divisor| count % divisor == 0).unwrap_or(count)
        }
    }
}

impl SourceLog {
    /// Lists the log, makes again what a power cut took, and gives every entry to `each`.
    ///
    /// `intended` is the number that the newest intent names; `notes` are the files of intents that
    /// remember them.
    pub(crate) async fn open(
        store: Arc<dyn Store>,
        folder: String,
        wanted_interval: u64,
        intended: Option<u64>,
        notes: &BTreeMap<u64, Vec<ChosenFile>>,
        mut each: impl FnMut(&LogEntry),
    ) -> Result<SourceLog> {
        let mut log = SourceLog {
            store,
            folder,
            latest: None,
            compacts: BTreeSet::new(),
            plain: BTreeSet::new(),
            interval: wanted_interval,
        };
        for entry in log.store.list(&log.folder).await? {
            let name = entry.path.rsplit('/').next().unwrap_or_default();
            let (number, compact) = match name.strip_suffix(".compact") {
                Some(number) => (number, true),
                None => (name, false),
            };
            if let Ok(number) = number.parse::<u64>() {
                if compact {
                    log.compacts.insert(number)
                } else {
                    log.plain.insert(number)
                };
            }
        }
        log.interval = effective_interval(&log.compacts, wanted_interval);
        let start = match log.compacts.last().copied() {
            Some(compact) => {
                let bytes = log.bytes(compact, true).await?;
                let entries = bytes.as_deref().and_then(decode);
                entries.ok_or_else(|| log.damaged(compact))?.iter().for_each(&mut each);
                log.latest = Some(compact);
                compact + 1
            }
            None => 0,
        };
        let there = log.plain.last().copied();
        let Some(end) = there.max(intended).filter(|end| *end >= start) else { return Ok(log) };
        for number in start..=end {
            let entries = log.bytes(number, false).await?.as_deref().and_then(decode);
            let noted = notes.get(&number);
            let wanted: Option<Vec<LogEntry>> =
                noted.map(|files| files.iter().map(ChosenFile::entry).collect());
            let unnamed = intended.is_none_or(|intended| number > intended);
            let gap = log.latest.map_or(number != start, |latest| latest + 1 != number);
            let entries = match (entries, wanted) {
                // Nobody named it, and an entry before it is gone: its files are found again.
                _ if unnamed && gap => {
                    log.remove(number, false).await?;
                    continue;
                }
                (Some(entries), Some(wanted)) if entries == wanted => entries,
                (Some(entries), None) if !entries.is_empty() => entries,
                (_, Some(wanted)) => {
                    tracing::warn!(log = %log.folder, number, "an entry is made again from its intent");
                    log.remove(number, false).await?;
                    if !gap {
                        log.add(number, &wanted).await?;
                    }
                    wanted
                }
                (_, None) if unnamed => {
                    // Nobody named it: a power cut came before the intent.
                    log.remove(number, false).await?;
                    continue;
                }
                (_, None) => return Err(log.damaged(number)),
            };
            if gap {
                return Err(log.damaged(log.latest.map_or(start, |latest| latest + 1)));
            }
            log.latest = Some(number);
            entries.iter().for_each(&mut each);
        }
        Ok(log)
    }

    /// The newest entry.
    pub(crate) fn latest(&self) -> Option<u64> {
        self.latest
    }

    fn path(&self, number: u64, compact: bool) -> String {
        format!("{}/{number}{}", self.folder, if compact { ".compact" } else { "" })
    }

    fn damaged(&self, number: u64) -> Error {
        Error::corrupt(format!(
            "entry {number} of {} in {} is missing or damaged, and no intent remembers its files; \
             run `onefold checkpoint verify`",
            self.folder,
            self.store.url()
        ))
    }

    async fn bytes(&self, number: u64, compact: bool) -> Result<Option<Bytes>> {
        self.store.read(&self.path(number, compact)).await
    }

    async fn remove(&mut self, number: u64, compact: bool) -> Result<()> {
        self.plain.remove(&number);
        self.store.delete(&self.path(number, compact)).await
    }

    /// Adds the entry after the latest.
    pub(crate) async fn add(&mut self, number: u64, entries: &[LogEntry]) -> Result<Added> {
        let compact = (number + 1).is_multiple_of(self.interval);
        let (text, durability) = if compact {
            let mut all = self.before(number).await?;
            all.extend_from_slice(entries);
            (encode(&all)?, Durability::Now)
        } else {
            (encode(entries)?, Durability::Later)
        };
        let path = self.path(number, compact);
        let bytes = Bytes::from(text);
        loop {
            let found = match self.store.create(&path, bytes.clone(), durability).await {
                Ok(Created::New) => break,
                Ok(Created::Exists(found)) => found,
                Err(CreateError::NotDone(error)) => return Err(error),
                Err(CreateError::MaybeDone(error)) => match self.store.read(&path).await? {
                    Some(found) => found,
                    None => return Err(error),
                },
            };
            if found == bytes {
                break;
            }
            let other = decode(&found).map(|all| {
                all.into_iter().filter(|entry| entry.batch_id == number).collect::<Vec<_>>()
            });
            match other {
                Some(other) if !other.is_empty() => {
                    self.note_there(number, compact);
                    return Ok(Added::Other(other));
                }
                // Torn, and named by no intent.
                _ => self.store.delete(&path).await?,
            }
        }
        self.note_there(number, compact);
        Ok(Added::Done)
    }

    fn note_there(&mut self, number: u64, compact: bool) {
        self.latest = self.latest.max(Some(number));
        if compact {
            self.compacts.insert(number)
        } else {
            self.plain.insert(number)
        };
    }

    /// Every entry before a number.
    async fn before(&self, number: u64) -> Result<Vec<LogEntry>> {
        let base = self.compacts.range(..number).next_back().copied();
        let mut all = match base {
            Some(compact) => {
                let bytes = self.bytes(compact, true).await?;
                bytes.as_deref().and_then(decode).ok_or_else(|| self.damaged(compact))?
            }
            None => Vec::new(),
        };
        for one in base.map_or(0, |base| base + 1)..number {
            let bytes = self.bytes(one, false).await?;
            all.extend(bytes.as_deref().and_then(decode).ok_or_else(|| self.damaged(one))?);
        }
        Ok(all)
    }

    /// The entries of numbers `start..end`.
    pub(crate) async fn entries(&self, start: u64, end: u64) -> Result<Vec<LogEntry>> {
        let mut found = Vec::new();
        for number in start..end {
            if self.plain.contains(&number) {
                let bytes = self.bytes(number, false).await?;
                found
                    .extend(bytes.as_deref().and_then(decode).ok_or_else(|| self.damaged(number))?);
                continue;
            }
            let Some(compact) = self.compacts.range(number..).next().copied() else {
                return Err(self.damaged(number));
            };
            let bytes = self.bytes(compact, true).await?;
            let all = bytes.as_deref().and_then(decode).ok_or_else(|| self.damaged(compact))?;
            found.extend(all.into_iter().filter(|entry| entry.batch_id == number));
        }
        Ok(found)
    }

    /// Deletes files that a compacted one older than `keep` entries replaces.
    pub(crate) async fn purge(&mut self, keep: u64) -> Result<()> {
        let Some(limit) = self.latest.and_then(|latest| latest.checked_sub(keep)) else {
            return Ok(());
        };
        let Some(base) = self.compacts.range(..=limit).next_back().copied() else { return Ok(()) };
        for number in self.plain.range(..base).copied().collect::<Vec<_>>() {
            self.remove(number, false).await?;
        }
        for number in self.compacts.range(..base).copied().collect::<Vec<_>>() {
            self.store.delete(&self.path(number, true)).await?;
            self.compacts.remove(&number);
        }
        Ok(())
    }
}
