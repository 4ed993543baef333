//! Opens the log: finds what is there, and makes again what a power cut took.

use super::super::note::{ChosenFile, LogEntry};
use super::super::seen::SeenFiles;
use super::upkeep::Durable;
use super::{Numbers, Own, SourceLog};
use crate::compact_interval;
use onefold_storage::Store;
use onefold_types::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::Mutex;

/// What the intents tell of the log.
#[derive(Debug, Default)]
pub(crate) struct Intended {
    /// The number that the newest intent names.
    pub(crate) newest: Option<u64>,
    /// The files of entries that intents remember.
    pub(crate) notes: BTreeMap<u64, Vec<ChosenFile>>,
}

impl Intended {
    fn lines(&self, number: u64) -> Option<Vec<LogEntry>> {
        self.notes.get(&number).map(|files| files.iter().map(ChosenFile::entry).collect())
    }

    /// Whether no intent names an entry.
    fn unnamed(&self, number: u64) -> bool {
        self.newest.is_none_or(|newest| number > newest)
    }
}

impl SourceLog {
    /// Lists the log, makes again what a power cut took, and tells which files it names: `seen` is
    /// empty and comes back with all of them.
    ///
    /// # Errors
    /// Corrupt, when an entry is missing or damaged that no intent remembers.
    pub(crate) async fn open(
        store: Arc<dyn Store>,
        folder: String,
        wanted_interval: u64,
        intended: &Intended,
        seen: SeenFiles,
    ) -> Result<(SourceLog, SeenFiles)> {
        let mut log = SourceLog {
            store,
            folder,
            latest: None,
            files: Numbers::default(),
            interval: wanted_interval,
            durable: Durable::default(),
            ahead: Arc::new(Mutex::new(None)),
            preparing: None,
            tag: uuid::Uuid::new_v4().to_string(),
        };
        log.list().await?;
        let compacts = log.files.compacts.iter().rev().copied();
        log.interval = compact_interval::effective(compacts, wanted_interval);
        let (mut seen, torn) = log.read_compacts(intended, seen).await?;
        let start = log.latest.map_or(0, |latest| latest + 1);
        let there = log.files.plain.last().max(torn.last()).copied();
        let Some(end) = there.max(intended.newest).filter(|end| *end >= start) else {
            return Ok((log, seen));
        };
        for number in start..=end {
            let gap = log.latest.map_or(0, |latest| latest + 1) != number;
            let Some(entries) = log.settle(number, gap, intended, &torn).await? else { continue };
            log.latest = Some(number);
            entries.iter().for_each(|entry| seen.add(&entry.path, entry.timestamp));
            seen.purge();
        }
        Ok((log, seen))
    }

    async fn list(&mut self) -> Result<()> {
        for entry in self.store.list_deep(&self.folder, true).await? {
            let Some(name) = entry.path.strip_prefix(&format!("{}/", self.folder)) else {
                continue;
            };
            if name.starts_with('.') {
                // A process died while it prepared a compacted file.
                if name.ends_with(".staged") {
                    self.store.delete(&entry.path).await?;
                }
                continue;
            }
            let (number, files) = match name.strip_suffix(".compact") {
                Some(number) => (number, &mut self.files.compacts),
                None => (name, &mut self.files.plain),
            };
            files.extend(number.parse::<u64>().ok());
        }
        Ok(())
    }

    /// Reads the newest compacted file that is whole. Newer ones are torn: they were never synced,
    /// so that all that they replace is still there.
    async fn read_compacts(
        &mut self,
        intended: &Intended,
        empty: SeenFiles,
    ) -> Result<(SeenFiles, BTreeSet<u64>)> {
        let mut torn = BTreeSet::new();
        while let Some(compact) = self.files.compacts.last().copied() {
            let mut seen = empty.clone();
            let mut own = Vec::new();
            let mut count = 0_u64;
            let whole = self
                .scan(compact, true, |entry| {
                    seen.add(&entry.path, entry.timestamp);
                    if entry.batch_id == compact {
                        own.push(entry);
                    }
                    count += 1;
                    if count.is_multiple_of(4_096) {
                        seen.purge();
                    }
                })
                .await?;
            let noted = intended.lines(compact);
            if whole && !own.is_empty() && noted.is_none_or(|noted| noted == own) {
                self.latest = Some(compact);
                return Ok((seen, torn));
            }
            self.files.compacts.remove(&compact);
            torn.insert(compact);
        }
        Ok((empty, torn))
    }

    /// The lines of one entry after the newest whole compacted file, made again if need be; `None`
    /// when nobody named it and it is taken away. `gap` tells that one before it was.
    async fn settle(
        &mut self,
        number: u64,
        gap: bool,
        intended: &Intended,
        torn: &BTreeSet<u64>,
    ) -> Result<Option<Vec<LogEntry>>> {
        let found = match self.files.plain.contains(&number) {
            true => self.own(number, false).await?,
            false => Own::Absent,
        };
        let unnamed = intended.unnamed(number);
        match (found, intended.lines(number)) {
            // Nobody named it, and an entry before it is gone: its files are found again.
            _ if unnamed && gap => (),
            (Own::Lines(found), wanted) if wanted.as_ref().is_none_or(|w| *w == found) => {
                return Ok(Some(found));
            }
            (_, Some(wanted)) => {
                tracing::warn!(log = %self.folder, number, "an entry is made again from its intent");
                self.take_away(number, torn).await?;
                self.add(number, &wanted).await?;
                return Ok(Some(wanted));
            }
            // Nobody named it: a power cut came before the intent.
            (_, None) if unnamed => (),
            _ => {
                let compact = torn.range(number..).next();
                return Err(self.damaged(*compact.unwrap_or(&number), compact.is_some()));
            }
        }
        self.take_away(number, torn).await?;
        Ok(None)
    }

    async fn take_away(&mut self, number: u64, torn: &BTreeSet<u64>) -> Result<()> {
        if torn.contains(&number) {
            self.remove(number, true).await?;
        }
        if self.files.plain.contains(&number) {
            self.remove(number, false).await?;
        }
        Ok(())
    }
}
