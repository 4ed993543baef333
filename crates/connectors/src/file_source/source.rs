//! The file source as one query has it open: chooses files, logs them, reads and releases them.

use super::bucket::Bucket;
use super::clean::Cleaner;
use super::define::Definition;
use super::input::{Input, Tolerance, facts_of, verify};
use super::listing::{Found, Places};
use super::log::recover::Intended;
use super::log::{Added, SourceLog};
use super::manifest::Manifest;
use super::note::{ChosenFile, Note, parse_offset};
use super::released::Released;
use super::seen::SeenFiles;
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::physical_plan::ExecutionPlan;
use onefold_connector::{LatestOffset, ReadLimit, ScanRequest, Source, SourceContext};
use onefold_storage::crash::{CrashPoint, crash_point};
use onefold_storage::{CreateError, Created, Durability, Store};
use onefold_types::{BatchId, Error, ErrorKind, Offset, OffsetRange, Result};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// How much a batch takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    None,
    Files(usize),
    Bytes(u64),
}

/// The files of the next batch, and the rest. Always at least one file.
pub(crate) fn choose(mut files: Vec<Found>, limit: Limit) -> (Vec<Found>, Vec<Found>) {
    let count = match limit {
        Limit::None => files.len(),
        Limit::Files(max) => files.len().min(max),
        Limit::Bytes(max) => {
            let mut sum = 0_u64;
            let fitting = files
                .iter()
                .take_while(|file| {
                    sum = sum.saturating_add(file.size);
                    sum <= max
                })
                .count();
            fitting.max(1).min(files.len())
        }
    };
    let rest = files.split_off(count);
    (files, rest)
}

/// The files at the front that one batch can take at most, so that a long run copies each once.
fn leading(files: &VecDeque<Found>, limit: Limit) -> Vec<Found> {
    let mut sum = 0_u64;
    let fits = |file: &&Found| match limit {
        Limit::Bytes(max) => {
            let before = sum;
            sum = sum.saturating_add(file.size);
            before <= max
        }
        Limit::None | Limit::Files(_) => true,
    };
    let count = if let Limit::Files(max) = limit { max } else { usize::MAX };
    files.iter().take(count).take_while(fits).cloned().collect()
}

/// Oldest first, or newest first; files of one time by path.
pub(crate) fn order(files: &mut [Found], latest_first: bool) {
    files.sort_by(|a, b| {
        let times = a.modified_ms.cmp(&b.modified_ms);
        let times = if latest_first { times.reverse() } else { times };
        times.then_with(|| a.path.cmp(&b.path))
    });
}

#[derive(Debug)]
struct State {
    log: SourceLog,
    /// Found but not chosen yet.
    unread: Vec<Found>,
    /// All that an available-now run may take.
    pinned: Option<VecDeque<Found>>,
    /// Files of entries that are not released yet.
    recent: BTreeMap<u64, Vec<ChosenFile>>,
    manifest: Option<bool>,
    /// Numbers of the side files that hold long notes.
    side: BTreeSet<u64>,
    released: Released,
}

/// The source of one query.
#[derive(Debug)]
pub(crate) struct FileSource {
    definition: Arc<Definition>,
    checkpoint: Arc<dyn Store>,
    id: String,
    keep: u64,
    seen: Arc<Mutex<SeenFiles>>,
    state: tokio::sync::Mutex<State>,
    cleaner: Option<Cleaner>,
    zone: super::times::Zone,
}

fn conf_count(context: &SourceContext, key: &str, default: u64) -> u64 {
    context.conf.get(key).and_then(|text| text.parse().ok()).filter(|n| *n > 0).unwrap_or(default)
}

async fn noted(store: &dyn Store, text: &str) -> Result<Vec<ChosenFile>> {
    match Note::parse(text)? {
        Note::Files(files) => Ok(files),
        Note::See { see } => {
            let missing = || {
                Error::corrupt(format!(
                    "{see} in {} is missing, so the files of a batch are not known; run \
                     `onefold checkpoint verify`",
                    store.url()
                ))
            };
            let bytes = store.read(&see).await?.ok_or_else(missing)?;
            match Note::parse(&String::from_utf8_lossy(&bytes))? {
                Note::Files(files) => Ok(files),
                Note::See { .. } => Err(missing()),
            }
        }
    }
}

/// What the retained intents tell of the log, and which of their entries grow old.
async fn remembered(context: &SourceContext) -> Result<(Intended, Released)> {
    let mut intended = Intended::default();
    let mut released = Released::default();
    for (at, (batch, range)) in context.history.iter().enumerate() {
        let (start, end) = numbers(range)?;
        if at == 0 {
            released.before_start(batch.0.saturating_sub(1), start.checked_sub(1));
        }
        released.before_start(batch.0, end.checked_sub(1));
        intended.newest = intended.newest.max(end.checked_sub(1));
        let Some(text) = &range.note else { continue };
        let files = match noted(context.checkpoint.as_ref(), text).await {
            Ok(files) => files,
            // Its side file was purged before the intent; then the log holds the entry.
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                tracing::warn!(batch = batch.0, error = %error.chain(), "a note is left aside");
                continue;
            }
            Err(error) => return Err(error),
        };
        for file in files {
            let files = intended.notes.entry(file.batch_id).or_default();
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    Ok((intended, released))
}

impl FileSource {
    /// Adopts what the checkpoint says.
    pub(crate) async fn open(
        definition: Arc<Definition>,
        context: SourceContext,
    ) -> Result<FileSource> {
        let options = &definition.choice;
        let seen = SeenFiles::new(options.max_age_ms, options.names_only);
        let (intended, released) = remembered(&context).await?;
        let interval =
            conf_count(&context, "spark.sql.streaming.fileSource.log.compactInterval", 10);
        let (store, folder) = (Arc::clone(&context.checkpoint), context.log_folder.clone());
        let (log, mut seen) = SourceLog::open(store, folder, interval, &intended, seen).await?;
        seen.purge();
        let zone = definition.zone(&context.conf)?;
        let cleaner = definition.cleaner()?;
        let id = context.log_folder.rsplit('/').next().unwrap_or("0").to_owned();
        let side = context
            .checkpoint
            .list(&format!("_onefold/sources/{id}"))
            .await?
            .iter()
            .filter_map(|entry| entry.path.rsplit('/').next()?.parse().ok())
            .collect();
        let state = State {
            log,
            unread: Vec::new(),
            pinned: None,
            recent: BTreeMap::new(),
            manifest: None,
            side,
            released,
        };
        Ok(FileSource {
            id,
            keep: conf_count(&context, "spark.sql.streaming.minBatchesToRetain", 100),
            checkpoint: context.checkpoint,
            seen: Arc::new(Mutex::new(seen)),
            state: tokio::sync::Mutex::new(state),
            definition,
            cleaner,
            zone,
        })
    }

    /// New files in the order in which they are to be taken.
    async fn list(&self, state: &mut State) -> Result<Vec<Found>> {
        let places: Places = self.definition.places.clone();
        let seen = Arc::clone(&self.seen);
        let decided = state.manifest;
        let latest_first = self.definition.choice.latest_first;
        let work = move || -> Result<(Vec<Found>, Option<bool>)> {
            let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            let manifest = Manifest::of(&places);
            let by_manifest = match (decided, &manifest) {
                (Some(decided), _) => decided,
                (None, Some(manifest)) => manifest.exists()?,
                (None, None) => false,
            };
            let (mut found, decided) = match manifest.filter(|_| by_manifest) {
                Some(manifest) => (manifest.list(&seen)?, Some(true)),
                None => {
                    let found = places.list(&seen)?;
                    let some = !found.is_empty();
                    (found, some.then_some(false))
                }
            };
            order(&mut found, latest_first);
            Ok((found, decided))
        };
        let (found, decided) = tokio::task::spawn_blocking(work)
            .await
            .map_err(|error| Error::internal("listing stopped").because(error))??;
        state.manifest = decided.or(state.manifest);
        Ok(found)
    }

    fn new_only(&self, files: Vec<Found>) -> Vec<Found> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        files.into_iter().filter(|file| seen.is_new(&file.path, file.modified_ms)).collect()
    }

    fn mark_seen(&self, files: &[(String, i64)]) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for (path, time) in files {
            seen.add(path, *time);
        }
        seen.purge();
    }

    async fn candidates(&self, state: &mut State, limit: Limit) -> Result<Vec<Found>> {
        if let Some(pinned) = &mut state.pinned {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            while pinned.front().is_some_and(|file| !seen.is_new(&file.path, file.modified_ms)) {
                pinned.pop_front();
            }
            return Ok(leading(pinned, limit));
        }
        let unread = self.new_only(std::mem::take(&mut state.unread));
        if !unread.is_empty() {
            return Ok(unread);
        }
        self.list(state).await
    }

    /// Chooses files for a new entry of the log and writes it.
    async fn plan_entry(&self, state: &mut State, limit: ReadLimit) -> Result<()> {
        let choice = &self.definition.choice;
        let limit = match limit {
            ReadLimit::Options => choice.limit,
            ReadLimit::All => Limit::None,
        };
        let (files, rest) = choose(self.candidates(state, limit).await?, limit);
        if files.is_empty() {
            return Ok(());
        }
        let number = state.log.latest().map_or(0, |latest| latest + 1);
        let chosen: Vec<ChosenFile> = files
            .iter()
            .map(|file| ChosenFile {
                path: file.path.clone(),
                size: Some(file.size),
                mtime: Some(file.modified_ms),
                etag: file.etag.clone(),
                timestamp: None,
                batch_id: number,
            })
            .collect();
        let entries: Vec<_> = chosen.iter().map(ChosenFile::entry).collect();
        crash_point(CrashPoint::SourceLogBefore);
        match state.log.add(number, &entries).await? {
            Added::Done => {
                self.mark_seen(&times(&chosen));
                state.recent.insert(number, chosen);
                let cached = match limit {
                    _ if state.pinned.is_some() => false,
                    Limit::Files(max) if !choice.latest_first => {
                        rest.len() as f64 >= max as f64 * choice.discard_ratio
                    }
                    Limit::Bytes(_) => !choice.latest_first && !rest.is_empty(),
                    _ => false,
                };
                state.unread = if cached {
                    rest.into_iter().take(choice.cached_max).collect()
                } else {
                    Vec::new()
                };
            }
            Added::Other(entries) => {
                let other: Vec<ChosenFile> = entries.into_iter().map(ChosenFile::from).collect();
                self.mark_seen(&times(&other));
                state.recent.insert(number, other);
                state.unread = Vec::new();
            }
        }
        crash_point(CrashPoint::SourceLogCreated);
        Ok(())
    }

    /// The files of entries `start..end`, from memory or from the log.
    async fn files(&self, state: &mut State, start: u64, end: u64) -> Result<Vec<ChosenFile>> {
        let mut files = Vec::new();
        for number in start..end {
            if let Some(known) = state.recent.get(&number) {
                files.extend(known.iter().cloned());
                continue;
            }
            let entries = state.log.entries(number, number + 1).await?;
            files.extend(entries.into_iter().map(ChosenFile::from));
        }
        Ok(files)
    }

    /// The note of a range; a long one goes into a file of its own.
    async fn note(&self, state: &mut State, files: Vec<ChosenFile>, end: u64) -> Result<String> {
        let text = Note::Files(files).text()?;
        if text.len() <= OffsetRange::NOTE_BYTES_MAX {
            return Ok(text);
        }
        let path = format!("_onefold/sources/{}/{end}", self.id);
        state.side.insert(end);
        let bytes = Bytes::from(text);
        match self.checkpoint.create(&path, bytes.clone(), Durability::Now).await {
            Ok(Created::New) => (),
            Ok(Created::Exists(found)) if found == bytes => (),
            Ok(Created::Exists(_)) => {
                // Left by a try that no intent names: an intent would have ended the range there.
                self.checkpoint.delete(&path).await?;
                match self.checkpoint.create(&path, bytes, Durability::Now).await {
                    Ok(_) => (),
                    Err(CreateError::NotDone(error) | CreateError::MaybeDone(error)) => {
                        return Err(error);
                    }
                }
            }
            Err(CreateError::NotDone(error) | CreateError::MaybeDone(error)) => return Err(error),
        }
        Note::See { see: path }.text()
    }

    /// The files of a range as they were when it was planned.
    async fn recorded(&self, range: &OffsetRange) -> Result<Vec<ChosenFile>> {
        if let Some(note) = &range.note {
            return noted(self.checkpoint.as_ref(), note).await;
        }
        let (start, end) = numbers(range)?;
        let mut state = self.state.lock().await;
        self.files(&mut state, start, end).await
    }
}

fn times(files: &[ChosenFile]) -> Vec<(String, i64)> {
    files.iter().map(|file| (file.path.clone(), file.entry().timestamp)).collect()
}

/// The log numbers `start..end` of a range.
fn numbers(range: &OffsetRange) -> Result<(u64, u64)> {
    let next = |offset: &Option<Offset>| match offset {
        Some(offset) => parse_offset(offset.json()).map(|number| number + 1),
        None => Ok(0),
    };
    Ok((next(&range.start)?, next(&range.end)?))
}

#[async_trait]
impl Source for FileSource {
    async fn pin_available(&self) -> Result<()> {
        let mut state = self.state.lock().await;
        state.unread = Vec::new();
        let found = self.list(&mut state).await?;
        state.pinned = Some(found.into());
        Ok(())
    }

    async fn latest_offset(
        &self,
        start: Option<&Offset>,
        limit: ReadLimit,
    ) -> Result<LatestOffset> {
        let mut state = self.state.lock().await;
        let from = start.map(|offset| parse_offset(offset.json())).transpose()?;
        let first = from.map_or(0, |from| from + 1);
        // An entry that no intent named yet is the next batch.
        if state.log.latest().is_none_or(|latest| latest < first) {
            self.plan_entry(&mut state, limit).await?;
        }
        let Some(end) = state.log.latest().filter(|latest| *latest >= first) else {
            return Ok(LatestOffset { end: start.cloned(), latest: None, note: None });
        };
        let files = self.files(&mut state, first, end + 1).await?;
        let note = self.note(&mut state, files, end).await?;
        Ok(LatestOffset {
            end: Some(Offset::new(format!("{{\"logOffset\":{end}}}"))),
            latest: None,
            note: Some(note),
        })
    }

    async fn read(
        &self,
        range: &OffsetRange,
        scan: ScanRequest<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let files = if range.empty() { Vec::new() } else { self.recorded(range).await? };
        let tolerance = self.definition.tolerance;
        let bucket = self.definition.places.bucket.clone();
        let checked = tokio::task::spawn_blocking(move || check(files, tolerance, bucket.as_ref()))
            .await
            .map_err(|error| Error::internal("checking files stopped").because(error))??;
        self.definition.scan(checked, self.zone, &scan)
    }

    async fn release(&self, range: &OffsetRange) -> Result<()> {
        let (start, end) = numbers(range)?;
        {
            let mut state = self.state.lock().await;
            state.released.batch(end.checked_sub(1));
            state.log.prepare();
        }
        if let Some(cleaner) = &self.cleaner {
            let files = self.recorded(range).await?;
            let cleaner = cleaner.clone();
            tokio::task::spawn_blocking(move || {
                files.iter().for_each(|file| cleaner.clean(&file.path));
            })
            .await
            .map_err(|error| Error::internal("cleaning stopped").because(error))?;
        }
        let mut state = self.state.lock().await;
        for number in start..end {
            state.recent.remove(&number);
        }
        Ok(())
    }

    /// Runs beside batches, so that the state is not held while the disk works.
    async fn retain(&self, _keep_from: BatchId) -> Result<()> {
        let (upkeep, sync, delete, side) = {
            let mut state = self.state.lock().await;
            // Half as many, so that it matters little how batches are counted.
            let needed = state.released.older_than(self.keep / 2);
            let upkeep = state.log.upkeep(needed, self.keep);
            // Twice as many, since a batch may take two entries.
            let limit = state.log.latest().and_then(|n| n.checked_sub(self.keep.saturating_mul(2)));
            let old = |number: &u64| limit.is_some_and(|limit| *number < limit);
            let side: Vec<u64> = state.side.iter().copied().take_while(old).collect();
            let (sync, delete) = (state.log.paths(&upkeep.sync), state.log.paths(&upkeep.delete));
            (upkeep, sync, delete, side)
        };
        if !sync.is_empty() {
            self.checkpoint.sync(&sync).await?;
        }
        self.state.lock().await.log.synced(&upkeep);
        let side_path = |number: &u64| format!("_onefold/sources/{}/{number}", self.id);
        let gone: Vec<String> = delete.into_iter().chain(side.iter().map(side_path)).collect();
        if !gone.is_empty() {
            self.checkpoint.delete_all(&gone).await?;
        }
        let mut state = self.state.lock().await;
        state.log.deleted(&upkeep.delete);
        state.side.retain(|number| !side.contains(number));
        Ok(())
    }
}

/// Checks every file of a batch before anything is read; fills in sizes that Spark's log lacks.
/// An object with its ETag is checked when it is opened, which saves a request.
fn check(
    files: Vec<ChosenFile>,
    tolerance: Tolerance,
    bucket: Option<&Bucket>,
) -> Result<Vec<ChosenFile>> {
    let mut checked = Vec::with_capacity(files.len());
    for mut file in files {
        if bucket.is_some() && file.etag.is_some() && !tolerance.changed {
            checked.push(file);
            continue;
        }
        match facts_of(&file.path, bucket)? {
            Some(facts) => {
                verify(&file, &facts, tolerance)?;
                file.size = Some(facts.size);
                file.mtime = Some(facts.modified_ms);
                checked.push(file);
            }
            None => {
                // Opening says what is to be said of it.
                if Input::open(&file, tolerance, bucket)?.is_some() {
                    checked.push(file);
                }
            }
        }
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, size: u64, modified_ms: i64) -> Found {
        Found { path: path.to_owned(), size, modified_ms, etag: None }
    }

    #[test]
    fn files_go_by_time_then_path_and_at_least_one_is_taken() {
        let mut files = vec![found("b", 10, 5), found("a", 10, 5), found("c", 1, -1)];
        order(&mut files, false);
        let names: Vec<_> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(names, ["c", "a", "b"]);
        assert_eq!(choose(files.clone(), Limit::Files(2)).0.len(), 2);
        assert_eq!(choose(files.clone(), Limit::Bytes(11)).0.len(), 2);
        assert_eq!(choose(files.clone(), Limit::Bytes(0)).0.len(), 1);
        assert_eq!(choose(Vec::new(), Limit::Bytes(0)).0.len(), 0);
        order(&mut files, true);
        assert_eq!(files[0].path, "a");
    }
}
