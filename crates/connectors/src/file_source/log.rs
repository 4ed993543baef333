//! The source's own log in the checkpoint, `sources/I/N` and `N.compact`, in Spark's format.
//!
//! An entry is made before the intent that names it, and need not survive a power cut: the intent's
//! note says the same, and the entry is made again from it. So nothing here is synced on a batch's
//! way. What an intent's purge or a compacted file's coming would leave as the only copy is synced
//! in the background before anything is deleted ([`upkeep`]).

mod ahead;
pub(crate) mod recover;
mod upkeep;

use super::note::{LogEntry, decode_line, encode};
use crate::compact_interval;
use crate::stored_lines::LineReader;
use ahead::Ahead;
use bytes::Bytes;
use onefold_storage::{CreateError, Created, Durability, Store};
use onefold_types::{Error, Result};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use upkeep::{Durable, Upkeep};

/// How often a name that is taken by a torn file, or taken and then free, is tried.
const TRIES: usize = 5;

/// The numbers of the files that are there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Numbers {
    pub(crate) compacts: BTreeSet<u64>,
    pub(crate) plain: BTreeSet<u64>,
}

/// What is there of the log.
#[derive(Debug)]
pub(crate) struct SourceLog {
    store: Arc<dyn Store>,
    folder: String,
    latest: Option<u64>,
    files: Numbers,
    interval: u64,
    durable: Durable,
    /// Held while the next compacted file is prepared.
    ahead: Arc<Mutex<Option<Ahead>>>,
    preparing: Option<JoinHandle<()>>,
    /// Part of hidden names: ours alone.
    tag: String,
}

/// What adding an entry did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Added {
    /// The entry is there.
    Done,
    /// An older driver made this entry with other files; they belong to the next batch.
    Other(Vec<LogEntry>),
}

/// What a file of the log holds of the entry that it is named for.
#[derive(Debug, PartialEq, Eq)]
enum Own {
    Absent,
    /// It is not whole: a power cut came before it was on disk.
    Torn,
    Lines(Vec<LogEntry>),
}

fn path_of(folder: &str, number: u64, compact: bool) -> String {
    format!("{folder}/{number}{}", if compact { ".compact" } else { "" })
}

impl Drop for SourceLog {
    fn drop(&mut self) {
        if let Some(task) = self.preparing.take() {
            task.abort();
        }
    }
}

impl SourceLog {
    /// The newest entry.
    pub(crate) fn latest(&self) -> Option<u64> {
        self.latest
    }

    fn path(&self, number: u64, compact: bool) -> String {
        path_of(&self.folder, number, compact)
    }

    fn damaged(&self, number: u64, compact: bool) -> Error {
        Error::corrupt(format!(
            "{} in {} is missing or damaged, and no intent remembers its files; run `onefold \
             checkpoint verify`",
            self.path(number, compact),
            self.store.url()
        ))
    }

    async fn remove(&mut self, number: u64, compact: bool) -> Result<()> {
        let files = if compact { &mut self.files.compacts } else { &mut self.files.plain };
        files.remove(&number);
        self.store.delete(&self.path(number, compact)).await
    }

    /// Gives every line of a file to `each`, holding a piece of the file at a time; false when the
    /// file is torn.
    async fn scan(
        &self,
        number: u64,
        compact: bool,
        mut each: impl FnMut(LogEntry),
    ) -> Result<bool> {
        let path = self.path(number, compact);
        let mut lines = LineReader::new(self.store.as_ref(), &path);
        if lines.next().await?.as_deref() != Some(b"v1") {
            return Ok(false);
        }
        while let Some(line) = lines.next().await? {
            match decode_line(&line) {
                Some(entry) => each(entry),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The lines of a file that belong to its own entry. A compacted file holds them last, so that
    /// one that was cut short has none, or too few.
    async fn own(&self, number: u64, compact: bool) -> Result<Own> {
        if self.store.stat(&self.path(number, compact)).await?.is_none() {
            return Ok(Own::Absent);
        }
        let mut own = Vec::new();
        let whole = self
            .scan(number, compact, |entry| {
                if !compact || entry.batch_id == number {
                    own.push(entry);
                }
            })
            .await?;
        Ok(if whole && !own.is_empty() { Own::Lines(own) } else { Own::Torn })
    }

    /// Adds the entry after the latest.
    pub(crate) async fn add(&mut self, number: u64, entries: &[LogEntry]) -> Result<Added> {
        let compact = compact_interval::compacts(number, self.interval);
        let path = self.path(number, compact);
        for _ in 0..TRIES {
            let created = if compact {
                self.create_compact(number, entries).await?
            } else {
                let bytes = Bytes::from(encode(entries)?);
                self.store.create(&path, bytes, Durability::Later).await
            };
            let doubt = match created {
                Ok(Created::New) => {
                    self.note_there(number, compact);
                    return Ok(Added::Done);
                }
                Ok(Created::Exists(_)) => None,
                Err(CreateError::NotDone(error)) => return Err(error),
                Err(CreateError::MaybeDone(error)) => Some(error),
            };
            match (self.own(number, compact).await?, doubt) {
                (Own::Lines(own), _) => {
                    self.note_there(number, compact);
                    return Ok(if own == entries { Added::Done } else { Added::Other(own) });
                }
                // Named by no intent.
                (Own::Torn, _) => self.store.delete(&path).await?,
                (Own::Absent, Some(error)) => return Err(error),
                (Own::Absent, None) => (),
            }
        }
        Err(Error::unavailable(format!(
            "{path} in {} is created and removed by someone else again and again; stop the other \
             process",
            self.store.url()
        )))
    }

    fn note_there(&mut self, number: u64, compact: bool) {
        self.latest = self.latest.max(Some(number));
        if compact {
            self.files.compacts.insert(number)
        } else {
            self.files.plain.insert(number)
        };
    }

    /// Creates a compacted file: what was prepared, what came since, and the entry's own lines.
    async fn create_compact(
        &self,
        number: u64,
        entries: &[LogEntry],
    ) -> Result<std::result::Result<Created, CreateError>> {
        let mut slot = self.ahead.lock().await;
        let ahead = slot.take().filter(|ahead| ahead.number == number);
        let base = self.files.compacts.range(..number).next_back().copied();
        let mut ahead = match ahead {
            Some(ahead) => ahead,
            None => Ahead::start(self.store.as_ref(), &self.folder, number, &self.tag).await?,
        };
        if let Some(through) = number.checked_sub(1) {
            ahead.copy(self.store.as_ref(), &self.folder, base, through).await?;
        }
        ahead.close(entries).await
    }

    /// Goes on with the next compacted file in the background.
    pub(crate) fn prepare(&mut self) {
        let Some(latest) = self.latest else { return };
        let number = compact_interval::next_compact(latest + 1, self.interval);
        // Far from it a run may well end before, and then the copy was for nothing.
        let far = number - latest > self.interval.div_ceil(2);
        if far || self.preparing.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let (store, folder) = (Arc::clone(&self.store), self.folder.clone());
        let (slot, tag) = (Arc::clone(&self.ahead), self.tag.clone());
        let base = self.files.compacts.last().copied();
        self.preparing = Some(tokio::spawn(async move {
            let mut slot = slot.lock().await;
            let ahead = slot.take().filter(|ahead| ahead.number == number);
            let brought = async {
                let mut ahead = match ahead {
                    Some(ahead) => ahead,
                    None => Ahead::start(store.as_ref(), &folder, number, &tag).await?,
                };
                ahead.copy(store.as_ref(), &folder, base, latest).await?;
                Ok::<_, Error>(ahead)
            };
            match brought.await {
                Ok(ahead) => *slot = Some(ahead),
                // The entry that needs it tries again, and says it if that fails too.
                Err(error) => tracing::warn!(
                    error = %error.chain(),
                    "the next compacted log of a file source cannot be prepared yet"
                ),
            }
        }));
    }

    /// The entries of numbers `start..end`.
    pub(crate) async fn entries(&self, start: u64, end: u64) -> Result<Vec<LogEntry>> {
        let mut found = Vec::new();
        for number in start..end {
            let holder = if self.files.plain.contains(&number) {
                Some((number, false))
            } else {
                self.files.compacts.range(number..).next().map(|compact| (*compact, true))
            };
            let Some((holder, compact)) = holder else {
                return Err(self.damaged(number, false));
            };
            let before = found.len();
            let whole = self
                .scan(holder, compact, |entry| {
                    if !compact || entry.batch_id == number {
                        found.push(entry);
                    }
                })
                .await?;
            if !whole || found.len() == before {
                return Err(self.damaged(holder, compact));
            }
        }
        Ok(found)
    }

    /// What is to be synced and what may be deleted then. `needed` is the newest entry that intents
    /// about to be purged remember; compacted files older than `keep` entries replace what is
    /// before them.
    pub(crate) fn upkeep(&self, needed: Option<u64>, keep: u64) -> Upkeep {
        upkeep::plan(&self.files, self.latest, needed, keep, &self.durable)
    }

    /// The paths of files, by number and whether they are compacted.
    pub(crate) fn paths(&self, files: &[(u64, bool)]) -> Vec<String> {
        files.iter().map(|(number, compact)| self.path(*number, *compact)).collect()
    }

    /// Files were made durable.
    pub(crate) fn synced(&mut self, upkeep: &Upkeep) {
        self.durable.add(upkeep);
    }

    /// Files were deleted.
    pub(crate) fn deleted(&mut self, files: &[(u64, bool)]) {
        for (number, compact) in files {
            let files = if *compact { &mut self.files.compacts } else { &mut self.files.plain };
            files.remove(number);
        }
    }
}
