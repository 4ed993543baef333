//! The source of one query: follows the log and says what a batch reads.

use super::super::commit::Commit;
use super::super::known::{commit_of, commits};
use super::super::table::{LOG, Table, version_of};
use super::changes::{Found, brought, numbered};
use super::define::{Definition, columns};
use super::options::{ReadOptions, Since};
use super::position::Position;
use super::scan::{self, Part};
use super::walk::{Room, between, take};
use async_trait::async_trait;
use datafusion::physical_plan::ExecutionPlan;
use onefold_connector::{LatestOffset, ReadLimit, ScanRequest, Source};
use onefold_types::{Error, Offset, OffsetRange, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What an intent keeps of a stream's first batch: where it began.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Note {
    version: u64,
    snapshot: bool,
}

/// The source of one query.
#[derive(Debug)]
pub(crate) struct DeltaSource {
    definition: Arc<Definition>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The last version that an available-now run takes.
    pinned: Option<u64>,
    /// All files that the starting version has, in the order in which they are read.
    starting: Option<(u64, Arc<Vec<Found>>)>,
    /// Commits that hold nothing for the stream: from here one may begin there.
    passed: Option<(Position, Position)>,
}

impl DeltaSource {
    pub(crate) fn new(definition: Arc<Definition>) -> DeltaSource {
        DeltaSource { definition, state: Mutex::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn table(&self) -> &Table {
        &self.definition.table
    }

    fn parse(&self, offset: &Offset) -> Result<Position> {
        Position::parse(offset, &self.definition.id)
    }

    /// Where a stream begins that has read nothing.
    async fn beginning(&self) -> Result<Position> {
        let newest = self.table().snapshot(None).await?.version();
        let options = &self.definition.options;
        if self.definition.whole {
            let version = as_of(self.table(), options, newest).await?.unwrap_or(newest);
            return Ok(Position::snapshot(version));
        }
        Ok(match &options.since {
            Since::Now => Position::snapshot(newest),
            Since::Latest => Position::at(newest + 1),
            Since::Version(version) if *version > newest + 1 => {
                return Err(Error::invalid(format!(
                    "startingVersion is {version}, but the table {} has versions up to {newest}; \
                     give one of them, or `latest`",
                    self.table().url()
                )));
            }
            Since::Version(version) => Position::at(*version),
            Since::Time(time) => {
                let found = times(self.table()).await?.into_iter().find(|(_, at)| at >= time);
                let Some((version, _)) = found else {
                    return Err(Error::invalid(format!(
                        "no version of the table {} is as young as startingTimestamp; give an \
                         earlier time, or startingVersion=latest",
                        self.table().url()
                    )));
                };
                Position::at(version)
            }
        })
    }

    /// Where a range begins.
    fn start_of(&self, range: &OffsetRange, end: Position) -> Result<Position> {
        if let Some(start) = &range.start {
            return self.parse(start);
        }
        if let Some(note) = &range.note {
            let note: Note = serde_json::from_str(note).map_err(|error| {
                Error::corrupt(format!("`{note}` is no note of a Delta source")).because(error)
            })?;
            let at = Position::at(note.version);
            return Ok(Position { snapshot: note.snapshot, ..at });
        }
        // As Spark begins: with all rows of the version before the end, or of the end itself.
        Ok(if end.snapshot {
            Position::snapshot(end.version)
        } else {
            Position::snapshot(end.version.saturating_sub(1))
        })
    }

    /// The files of the version at a place; `None` when there is no such version yet.
    async fn files_at(&self, at: Position) -> Result<Option<Vec<Found>>> {
        if at.snapshot {
            return self.starting(at.version).await.map(|files| Some(files.to_vec()));
        }
        let Some(commit) = commit_of(self.table(), at.version).await? else {
            return Ok(None);
        };
        self.check_columns(&commit, at.version).await?;
        let table = self.table().url();
        brought(&commit, at.version, table, &self.definition.options).map(Some)
    }

    /// All files that a version has, oldest first.
    async fn starting(&self, version: u64) -> Result<Arc<Vec<Found>>> {
        let known = self.state().starting.clone();
        if let Some((_, files)) = known.filter(|(known, _)| *known == version) {
            return Ok(files);
        }
        let mut all = scan::files_of(self.table(), version).await?;
        // Spark's order, so that its numbers mean the same files.
        all.sort_by(|a, b| (a.modified_ms, &a.path).cmp(&(b.modified_ms, &b.path)));
        let files = all.iter().map(|file| (file.path.as_str(), file.bytes));
        let files = Arc::new(numbered(files, &self.definition.options));
        self.state().starting = Some((version, Arc::clone(&files)));
        Ok(files)
    }

    /// A commit may change columns only to those that the stream has.
    async fn check_columns(&self, commit: &Commit, version: u64) -> Result<()> {
        if commit.metadata.is_none() && commit.protocol.is_none() {
            return Ok(());
        }
        let snapshot = self.table().snapshot(Some(version)).await?;
        super::super::features::check_readable(self.table().url(), &snapshot)?;
        let own = &self.definition.schema;
        for field in columns(&snapshot).fields() {
            let known = own.fields().iter().find(|it| it.name().eq_ignore_ascii_case(field.name()));
            let difference = match known {
                None => format!("adds column `{}`", field.name()),
                Some(known) if !known.data_type().equals_datatype(field.data_type()) => format!(
                    "has column `{}` of type {}, which is {} in the stream",
                    field.name(),
                    field.data_type(),
                    known.data_type()
                ),
                Some(_) => continue,
            };
            return Err(Error::invalid(format!(
                "version {version} of the table {} {difference}; start the query again, which takes \
                 the table's columns as they are then",
                self.table().url()
            )));
        }
        Ok(())
    }

    /// A version that is not there although a later one is: what was lost, or where to go on.
    async fn missing(&self, version: u64) -> Result<Option<u64>> {
        let entries = self.table().store.list(LOG).await?;
        let newest = entries.iter().filter_map(|it| version_of(&it.path)).map(|(at, _)| at).max();
        if newest.is_none_or(|newest| newest < version) {
            return Ok(None);
        }
        let next = commits(self.table()).await?.into_iter().find(|found| *found >= version);
        match next {
            // It came between two looks.
            Some(found) if found == version => Ok(Some(version)),
            _ if self.definition.options.fails_on_loss => {
                let until = next.or(newest.map(|it| it + 1)).unwrap_or(version + 1);
                Err(Error::corrupt(format!(
                    "versions {version} to {} of the table {} were deleted from its log before they \
                     were read: their rows cannot be told from others any more; raise the table's \
                     delta.logRetentionDuration, and go on without them with failOnDataLoss=false, \
                     or start with a new checkpoint",
                    until.saturating_sub(1),
                    self.table().url()
                )))
            }
            _ => {
                let to = next.or(newest.map(|it| it + 1)).unwrap_or(version + 1);
                tracing::warn!(table = self.table().url(), from = version, to, "versions are lost");
                Ok(Some(to))
            }
        }
    }

    /// Goes from a place as far as there is room, and where it stands then.
    async fn go(&self, start: Position, mut room: Room) -> Result<(Position, Room)> {
        let pinned = self.state().pinned;
        let mut at = start;
        loop {
            if !at.snapshot && pinned.is_some_and(|last| at.version > last) {
                return Ok((at, room));
            }
            let Some(files) = self.files_at(at).await? else {
                match self.missing(at.version).await? {
                    None => return Ok((at, room)),
                    Some(version) if version == at.version => continue,
                    Some(version) => {
                        at = Position::at(version);
                        continue;
                    }
                }
            };
            let next = take(at, &files, &mut room);
            let cut = next.version == at.version;
            // The first batch of a stream takes rows of its starting version only.
            let began = at.snapshot && room.taken;
            let full = room.taken && (room.files == 0 || room.bytes == 0);
            at = next;
            if cut || began || full {
                return Ok((at, room));
            }
        }
    }
}

#[async_trait]
impl Source for DeltaSource {
    async fn pin_available(&self) -> Result<()> {
        let newest = self.table().snapshot(None).await?.version();
        self.state().pinned = Some(newest);
        Ok(())
    }

    async fn latest_offset(
        &self,
        start: Option<&Offset>,
        limit: ReadLimit,
    ) -> Result<LatestOffset> {
        let options = &self.definition.options;
        let from = match start {
            // A table is read once.
            Some(start) if self.definition.whole => {
                return Ok(LatestOffset { end: Some(start.clone()), latest: None, note: None });
            }
            Some(start) => self.parse(start)?,
            None => self.beginning().await?,
        };
        let room = match limit {
            ReadLimit::Options if !self.definition.whole => Room {
                files: options.files_max,
                bytes: options.bytes_max.unwrap_or(u64::MAX),
                taken: false,
            },
            _ => Room::ALL,
        };
        let passed = self.state().passed.filter(|(at, _)| *at == from).map(|(_, to)| to);
        let (end, room) = self.go(passed.unwrap_or(from), room).await?;
        if !room.taken {
            self.state().passed = Some((from, end));
            // An empty table, and a stream that begins with what comes: the place counts.
            let end = match start {
                Some(start) => start.clone(),
                None => end.offset(&self.definition.id)?,
            };
            let note = self.note(start, from)?;
            return Ok(LatestOffset { end: Some(end), latest: None, note });
        }
        let note = self.note(start, from)?;
        Ok(LatestOffset { end: Some(end.offset(&self.definition.id)?), latest: None, note })
    }

    async fn read(
        &self,
        range: &OffsetRange,
        request: ScanRequest<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = &self.definition.schema;
        let Some(end) = range.end.as_ref().filter(|_| !range.empty()) else {
            return scan::of_parts(self.table(), schema, Vec::new(), &request).await;
        };
        let end = self.parse(end)?;
        let mut at = self.start_of(range, end)?;
        let mut parts = Vec::new();
        while at.version < end.version || (at.version == end.version && at.index < end.index) {
            let Some(files) = self.files_at(at).await? else {
                match self.missing(at.version).await? {
                    Some(version) if version > at.version => at = Position::at(version),
                    _ => return Err(self.lost(at.version)),
                }
                continue;
            };
            let all = files.len();
            let files = between(files, at, end);
            let whole = at.snapshot && self.definition.options.exclude.is_none();
            let paths: Vec<String> = files.into_iter().map(|file| file.path).collect();
            let some = !(whole && paths.len() == all);
            if !paths.is_empty() {
                parts.push(Part { version: at.version, paths, some });
            }
            at = Position::at(at.version + 1);
        }
        scan::of_parts(self.table(), schema, parts, &request).await
    }

    async fn release(&self, _: &OffsetRange) -> Result<()> {
        Ok(())
    }

    fn metrics(&self, _: &OffsetRange) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
}

impl DeltaSource {
    fn lost(&self, version: u64) -> Error {
        Error::corrupt(format!(
            "version {version} of the table {} is part of a batch that was begun, but its commit is \
             gone: the table was dropped, restored or cleaned up; put it back, or start with a new \
             checkpoint",
            self.table().url()
        ))
    }

    fn note(&self, start: Option<&Offset>, from: Position) -> Result<Option<String>> {
        if start.is_some() {
            return Ok(None);
        }
        let note = Note { version: from.version, snapshot: from.snapshot };
        serde_json::to_string(&note)
            .map(Some)
            .map_err(|error| Error::internal("a note is no JSON").because(error))
    }
}

/// The version that a table is read as of; `None` where nobody says.
///
/// # Errors
/// Invalid: there is no such version.
pub(crate) async fn as_of(
    table: &Table,
    options: &ReadOptions,
    newest: u64,
) -> Result<Option<u64>> {
    match &options.since {
        Since::Now | Since::Latest => Ok(None),
        Since::Version(version) if *version > newest => Err(Error::invalid(format!(
            "versionAsOf is {version}, but the table {} has versions up to {newest}",
            table.url()
        ))),
        Since::Version(version) => Ok(Some(*version)),
        Since::Time(time) => {
            let times = times(table).await?;
            let found = times.iter().rev().find(|(_, at)| at <= time);
            match found {
                Some((version, _)) => Ok(Some(*version)),
                None => Err(Error::invalid(format!(
                    "timestampAsOf is before the oldest version of the table {} that is still there \
                     ({})",
                    table.url(),
                    times.first().map_or_else(String::new, |(version, _)| version.to_string())
                ))),
            }
        }
    }
}

/// When each version that is still there was committed: each later than the one before.
async fn times(table: &Table) -> Result<Vec<(u64, i64)>> {
    let entries = table.store.list(LOG).await?;
    let mut times: Vec<(u64, i64)> = entries
        .iter()
        .filter_map(|entry| {
            let (version, commit) = version_of(&entry.path)?;
            commit.then_some((version, entry.modified_ms))
        })
        .collect();
    times.sort_unstable();
    let mut before = i64::MIN;
    for (_, time) in &mut times {
        *time = (*time).max(before.saturating_add(1));
        before = *time;
    }
    Ok(times)
}
