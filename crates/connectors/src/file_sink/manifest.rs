//! The manifest of a file sink: `_spark_metadata/N`, in Spark's format.
//!
//! One file a batch, `v1` and then one JSON object a line for each data file; every tenth batch is
//! `N.compact` instead, which holds the lines of all batches before as well. The file of a batch
//! *is* its mark: it is created once, after its data files have their final names. Its first line
//! carries an extra field `onefold`, which Spark ignores.

mod ahead;
mod joining;
mod line;

pub(crate) use line::{Line, Note};

use super::names::hidden;
use crate::compact_interval;
use crate::stored_lines::LineReader;
use ahead::Ahead;
use bytes::Bytes;
use line::{VERSION, parse_lines, render};
use onefold_storage::planted::{Bug, planted};
use onefold_storage::{CreateError, Created, Durability, Entry, Store};
use onefold_types::{BatchId, Error, ErrorKind, Generation, Mark, Published, QueryId, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Mutex;

/// The manifest's folder, beside the data.
pub(crate) const FOLDER: &str = "_spark_metadata";
/// Bytes at the end of a compact file that are looked at first for its newest batch.
const TAIL: u64 = 64 << 10;

/// What a file of the manifest is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    /// `N.compact`: it holds the batches before as well.
    pub(crate) compact: bool,
    /// Length in bytes; 0 where not known.
    pub(crate) size: u64,
    /// When it was created, milliseconds since 1970.
    pub(crate) modified_ms: i64,
}

/// The files of a manifest by batch. Where a batch has both forms, the compact one counts.
pub(crate) type Files = BTreeMap<BatchId, Form>;

/// The path of a batch's file.
pub(crate) fn path_of(batch: BatchId, compact: bool) -> String {
    format!("{FOLDER}/{batch}{}", if compact { ".compact" } else { "" })
}

/// Lists a manifest. Names that are not of the manifest are left out.
pub(crate) async fn list(store: &dyn Store) -> Result<Files> {
    Ok(sort(store.list(FOLDER).await?))
}

/// Lists a manifest, and the hidden files that processes left in its folder.
pub(crate) async fn list_with_leftovers(store: &dyn Store) -> Result<(Files, Vec<String>)> {
    let (hidden, seen): (Vec<Entry>, Vec<Entry>) =
        store.list_deep(FOLDER, true).await?.into_iter().partition(|e| hidden(&e.path));
    Ok((sort(seen), hidden.into_iter().map(|entry| entry.path).collect()))
}

fn sort(entries: Vec<Entry>) -> Files {
    let mut files = Files::new();
    for entry in entries {
        let name = entry.path.rsplit('/').next().unwrap_or_default();
        let (number, compact) = match name.strip_suffix(".compact") {
            Some(number) => (number, true),
            None => (name, false),
        };
        let Ok(batch) = number.parse::<u64>() else { continue };
        if number != batch.to_string() {
            continue;
        }
        let form = Form { compact, size: entry.size, modified_ms: entry.modified_ms };
        let slot = files.entry(BatchId(batch)).or_insert(form);
        if compact {
            *slot = form;
        }
    }
    files
}

/// The newest batch of a manifest, as its mark. What was made for batches before a sink joined is
/// none to one that never took part.
pub(crate) async fn newest(
    store: &dyn Store,
    files: &Files,
    joins: bool,
) -> Result<Option<Newest>> {
    if joins && joining::tells_nothing(files) {
        return Ok(None);
    }
    let Some((batch, form)) = files.last_key_value() else { return Ok(None) };
    let lines = newest_lines(store, *batch, *form).await?;
    let strangers = lines.iter().filter_map(|line| line.data_file(store.url()).map(|f| f.query));
    let writer = strangers.last();
    let own = of_batch(*batch, form.compact, lines, store.url());
    Ok(Some(Newest { published: published(*batch, &own), writer }))
}

/// The newest batch of a manifest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Newest {
    /// Its mark and totals.
    pub(crate) published: Published,
    /// The query that the names of its files tell, also where the mark does not.
    pub(crate) writer: Option<QueryId>,
}

/// The mark that the lines of one batch tell.
pub(crate) fn published(batch: BatchId, lines: &[Line]) -> Published {
    let note = lines.iter().find_map(|line| line.onefold.as_ref());
    Published {
        mark: Mark {
            query: note.map(|note| note.query),
            batch,
            generation: note.map(|note| note.generation),
        },
        totals: note.map(Note::totals),
    }
}

/// The lines of one batch; `None` if the manifest does not hold it (any more).
pub(crate) async fn lines_of(
    store: &dyn Store,
    files: &Files,
    batch: BatchId,
) -> Result<Option<Vec<Line>>> {
    if let Some(form) = files.get(&batch)
        && !form.compact
    {
        let path = path_of(batch, false);
        let bytes = store.read(&path).await?.ok_or_else(|| gone(store, &path))?;
        return Ok(Some(parse_lines(store.url(), &path, &bytes)?));
    }
    let Some((holder, form)) =
        files.range(batch..).find(|(_, form)| form.compact).map(|(id, form)| (*id, *form))
    else {
        return Ok(None);
    };
    let path = path_of(holder, form.compact);
    let mut lines = Vec::new();
    let mut reader = LineReader::new(store, &path);
    // Names tell the batch of all lines that Onefold wrote, cheaply.
    let name = format!("-b{batch}-g");
    while let Some(text) = reader.next().await? {
        let text = String::from_utf8_lossy(&text);
        if text.contains(&name) {
            lines.push(Line::parse(store.url(), &path, &text)?);
        }
    }
    let lines = of_batch(batch, true, lines, store.url());
    Ok((holder == batch || !lines.is_empty()).then_some(lines))
}

/// Of a compact file's lines, those of one batch.
fn of_batch(batch: BatchId, compact: bool, lines: Vec<Line>, root: &str) -> Vec<Line> {
    if !compact {
        return lines;
    }
    lines
        .into_iter()
        .filter(|line| line.data_file(root).is_some_and(|file| file.batch == batch))
        .collect()
}

/// The lines of a manifest's newest file that can belong to its own batch: all of a plain file, and
/// the last ones of a compact file.
async fn newest_lines(store: &dyn Store, batch: BatchId, form: Form) -> Result<Vec<Line>> {
    let path = path_of(batch, form.compact);
    let mut length = TAIL;
    while form.compact && length < form.size {
        let start = form.size - length;
        let bytes = store.read_range(&path, start, length).await?;
        let text = String::from_utf8_lossy(&bytes);
        // The first line is most likely cut.
        let mut lines = Vec::new();
        for text in text.lines().skip(1) {
            lines.push(Line::parse(store.url(), &path, text)?);
        }
        let reaches_back = lines
            .first()
            .is_some_and(|line| line.data_file(store.url()).is_none_or(|f| f.batch != batch));
        if reaches_back {
            return Ok(lines);
        }
        length = length.saturating_mul(4);
    }
    let bytes = store.read(&path).await?.ok_or_else(|| gone(store, &path))?;
    parse_lines(store.url(), &path, &bytes)
}

fn gone(store: &dyn Store, path: &str) -> Error {
    Error::corrupt(format!(
        "{}/{path} was listed but is gone: something else deletes from this manifest; stop it and \
         restore the file from a backup",
        store.url()
    ))
}

/// What stays of old lines when the manifest is compacted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Retention {
    /// Lines of files that are older, in milliseconds, are left out.
    pub(crate) age_ms: Option<u64>,
    /// Lines of batches older than this many are left out.
    pub(crate) batches: Option<u64>,
}

/// Whose manifest it is, and how it is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keeper {
    /// The query.
    pub(crate) query: QueryId,
    /// Its driver.
    pub(crate) generation: Generation,
    /// Whether the sink took part in no commit yet.
    pub(crate) joins: bool,
    /// Batches from one compact file to the next, where the manifest does not tell.
    pub(crate) interval: u64,
    /// What stays when it is compacted.
    pub(crate) retention: Retention,
}

/// What a create of a mark did.
#[derive(Debug)]
pub(crate) enum Marked {
    /// The mark is ours.
    Ours,
    /// The batch was published by another; these are its lines.
    Theirs(Vec<Line>),
}

/// The manifest of one query's output, for its driver.
#[derive(Debug)]
pub(crate) struct Manifest {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Arc<dyn Store>,
    /// With the interval that is in force.
    keeper: Keeper,
    /// Held while the next compact file is prepared, so that marks wait for that.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    files: Files,
    ahead: Option<Ahead>,
}

impl Manifest {
    /// Takes over a manifest whose files were listed.
    pub(crate) fn new(store: Arc<dyn Store>, mut keeper: Keeper, files: Files) -> Self {
        let compacts = files.iter().rev().filter(|(_, form)| form.compact).map(|(id, _)| id.0);
        keeper.interval = compact_interval::effective(compacts, keeper.interval);
        let state = Mutex::new(State { files, ahead: None });
        Manifest { inner: Arc::new(Inner { store, keeper, state }) }
    }

    /// Looks for batches that came since the manifest was listed, and tells the newest one.
    pub(crate) async fn refresh(&self) -> Result<Option<Newest>> {
        let inner = &self.inner;
        let store = inner.store.as_ref();
        let newest_known = inner.state.lock().await.files.last_key_value().map(|(id, _)| *id);
        let Some(mut last) = newest_known else {
            let files = list(store).await?;
            let newest = newest(store, &files, inner.keeper.joins).await?;
            inner.state.lock().await.files = files;
            return Ok(newest);
        };
        // Marks come one after another, so that the next one is missing only at the end. The
        // listing made durable what an earlier process left in the folder.
        while let Some(form) = inner.form_of(last.next()).await? {
            last = last.next();
            inner.state.lock().await.files.insert(last, form);
        }
        let (form, nothing) = {
            let files = &inner.state.lock().await.files;
            (files.get(&last).copied(), joining::tells_nothing(files))
        };
        let form = form.map(|form| (last, form)).into_iter().collect();
        newest(store, &form, inner.keeper.joins && nothing).await
    }

    /// The lines of a batch, if the manifest holds it: one look, without a listing.
    pub(crate) async fn look(&self, batch: BatchId) -> Result<Option<Vec<Line>>> {
        let Some(form) = self.inner.form_of(batch).await? else { return Ok(None) };
        lines_of(self.inner.store.as_ref(), &Files::from([(batch, form)]), batch).await
    }

    /// The lines of a batch, wherever the manifest holds them.
    pub(crate) async fn lines_of(&self, batch: BatchId) -> Result<Option<Vec<Line>>> {
        let files = self.inner.state.lock().await.files.clone();
        match lines_of(self.inner.store.as_ref(), &files, batch).await? {
            Some(lines) => Ok(Some(lines)),
            // Compacted meanwhile, by another process.
            None => {
                let files = list(self.inner.store.as_ref()).await?;
                lines_of(self.inner.store.as_ref(), &files, batch).await
            }
        }
    }

    /// Whether the manifest, as it was last listed, ought to hold a published batch but does not: no
    /// compact file stands for it.
    pub(crate) async fn lacks(&self, batch: BatchId) -> bool {
        let state = self.inner.state.lock().await;
        let covered = state.files.range(batch..).any(|(_, form)| form.compact);
        !covered && !state.files.contains_key(&batch)
    }

    /// Whether the manifest lacks a batch although it holds a later one.
    pub(crate) async fn has_hole(&self, batch: BatchId) -> bool {
        let newest = self.inner.state.lock().await.files.last_key_value().map(|(id, _)| *id);
        newest.is_some_and(|newest| batch < newest) && self.lacks(batch).await
    }

    /// The first batch before the newest one that no file of the manifest tells, as it was last
    /// listed: the files that a compact one replaces may be gone, and none after it.
    pub(crate) async fn first_hole(&self) -> Option<BatchId> {
        let files = &self.inner.state.lock().await.files;
        let (newest, _) = files.last_key_value()?;
        let compact = files.iter().rev().find(|(_, form)| form.compact);
        let first = compact.map_or(0, |(batch, _)| batch.0);
        (first..newest.0).map(BatchId).find(|batch| !files.contains_key(batch))
    }

    /// Lists the manifest anew.
    pub(crate) async fn list_again(&self) -> Result<()> {
        let files = list(self.inner.store.as_ref()).await?;
        self.inner.state.lock().await.files = files;
        Ok(())
    }

    /// Whether a batch's file is a compact one.
    pub(crate) fn compacts(&self, batch: BatchId) -> bool {
        self.inner.compacts(batch)
    }

    /// Creates the mark of a batch.
    ///
    /// # Errors
    /// Unknown, when the mark may be there or not: look before acting; Restart, when only a new
    /// process can find that out.
    pub(crate) async fn mark(&self, batch: BatchId, lines: &[Line], now_ms: i64) -> Result<Marked> {
        let inner = &self.inner;
        let mut state = inner.state.lock().await;
        if inner.keeper.joins && joining::tells_nothing(&state.files) {
            inner.join(batch, &mut state.files, now_ms).await?;
        }
        let compact = inner.compacts(batch);
        let path = path_of(batch, compact);
        let text = render(lines)?;
        let size = text.len() as u64;
        let (created, size) = if compact {
            let previous = batch.previous();
            let mut ahead = state.ahead.take();
            if ahead.as_ref().is_none_or(|ahead| ahead.batch != batch) {
                ahead = None;
            }
            let files = &state.files;
            let ahead = inner.bring(ahead, batch, previous, files, now_ms).await?;
            let staged = ahead.close(lines).await?;
            let created = inner.store.create_staged(&staged).await;
            if !matches!(created, Ok(Created::New)) {
                // Nobody sees it; an object store dropped it with the refused create.
                let _ = inner.store.delete(&staged.held_as).await;
            }
            (created, staged.size)
        } else {
            (inner.store.create(&path, Bytes::from(text), Durability::Now).await, size)
        };
        let found = match created {
            Ok(Created::New) => {
                state.files.insert(batch, Form { compact, size, modified_ms: now_ms });
                return Ok(Marked::Ours);
            }
            Ok(Created::Exists(bytes)) => bytes,
            Err(CreateError::NotDone(error)) => return Err(error),
            Err(CreateError::MaybeDone(error)) => {
                let kind = match error.kind() {
                    ErrorKind::Restart => ErrorKind::Restart,
                    _ => ErrorKind::Unknown,
                };
                let text = format!(
                    "whether {}/{path} was created is not known; start the query again, which \
                     looks first",
                    inner.store.url()
                );
                return Err(Error::new(kind, text).because(error));
            }
        };
        if planted(Bug::PublishWithoutReadingMark) {
            return Ok(Marked::Ours);
        }
        let found = parse_lines(inner.store.url(), &path, &found)?;
        let found = of_batch(batch, compact, found, inner.store.url());
        let mark = published(batch, &found).mark;
        state.files.insert(batch, Form { compact, size: 0, modified_ms: now_ms });
        let Keeper { query, generation, .. } = inner.keeper;
        if mark.query == Some(query) && mark.generation == Some(generation) {
            return Ok(Marked::Ours);
        }
        Ok(Marked::Theirs(found))
    }

    /// Goes on with the next compact file in the background. Marks wait while it does.
    pub(crate) fn prepare(&self, published: BatchId, now_ms: i64) {
        let inner = Arc::clone(&self.inner);
        let next = inner.next_compaction(published.next());
        tokio::spawn(async move {
            let mut state = inner.state.lock().await;
            let ahead = state.ahead.take().filter(|ahead| ahead.batch == next);
            // Far from it a run may well end before, and then the copy was for nothing.
            if ahead.is_none() && next.0 - published.0 > inner.keeper.interval.div_ceil(2) {
                return;
            }
            match inner.bring(ahead, next, Some(published), &state.files, now_ms).await {
                Ok(ahead) => state.ahead = Some(ahead),
                // The batch that needs it tries again, and says it if that fails too.
                Err(error) => tracing::warn!(
                    error = %error.chain(),
                    "the next compact manifest cannot be prepared yet"
                ),
            }
        });
    }

    /// Deletes files that compact ones replace, of batches before `keep_from`, if they were there
    /// for `delay_ms`, so that a reader that listed them can still read them.
    pub(crate) async fn purge(&self, keep_from: BatchId, now_ms: i64, delay_ms: i64) -> Result<()> {
        let inner = &self.inner;
        let old: Vec<(BatchId, Form)> = {
            let mut state = inner.state.lock().await;
            let mut before = state.files.range(..keep_from).rev();
            let Some(compact) = before.find(|(_, form)| form.compact).map(|(id, _)| *id) else {
                return Ok(());
            };
            let old = state
                .files
                .range(..compact)
                // Later batches are younger.
                .take_while(|(_, form)| form.modified_ms <= now_ms.saturating_sub(delay_ms))
                .map(|(id, form)| (*id, *form))
                .collect::<Vec<_>>();
            for (batch, _) in &old {
                state.files.remove(batch);
            }
            old
        };
        if old.is_empty() {
            return Ok(());
        }
        // Marks do not wait for this.
        let paths: Vec<String> = old.iter().map(|(id, form)| path_of(*id, form.compact)).collect();
        let deleted = inner.store.delete_all(&paths).await;
        if deleted.is_err() {
            inner.state.lock().await.files.extend(old);
        }
        deleted
    }
}

impl Inner {
    fn compacts(&self, batch: BatchId) -> bool {
        compact_interval::compacts(batch.0, self.keeper.interval)
    }

    /// Makes the files that stand for the batches before the first one, where they are not there.
    async fn join(&self, first: BatchId, files: &mut Files, now_ms: i64) -> Result<()> {
        for (batch, compact) in joining::before(first, self.keeper.interval) {
            let path = path_of(batch, compact);
            let text = Bytes::from_static(VERSION.as_bytes());
            match self.store.create(&path, text, Durability::Now).await {
                Ok(Created::New | Created::Exists(_)) => {}
                Err(CreateError::NotDone(error) | CreateError::MaybeDone(error)) => {
                    return Err(error);
                }
            }
            files.insert(batch, Form { compact, size: VERSION.len() as u64, modified_ms: now_ms });
        }
        Ok(())
    }

    /// What the file of a batch is, if it is there: one look, without a listing.
    async fn form_of(&self, batch: BatchId) -> Result<Option<Form>> {
        let compact = self.compacts(batch);
        let entry = self.store.stat(&path_of(batch, compact)).await?;
        Ok(entry.map(|it| Form { compact, size: it.size, modified_ms: it.modified_ms }))
    }

    /// The first batch from `batch` on that compacts.
    fn next_compaction(&self, batch: BatchId) -> BatchId {
        BatchId(compact_interval::next_compact(batch.0, self.keeper.interval))
    }

    /// Brings a compact file that is being written up to batch `through`, included; starts it if
    /// there is none.
    async fn bring(
        &self,
        ahead: Option<Ahead>,
        batch: BatchId,
        through: Option<BatchId>,
        files: &Files,
        now_ms: i64,
    ) -> Result<Ahead> {
        let store = self.store.as_ref();
        let mut ahead = match ahead {
            Some(ahead) => ahead,
            None => {
                let Keeper { query, generation, retention, .. } = self.keeper;
                let tag = format!("{query}-g{generation}");
                Ahead::start(store, batch, &tag, retention, now_ms).await?
            }
        };
        if let Some(through) = through {
            ahead.copy(store, files, through).await?;
        }
        Ok(ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_storage::LocalStore;
    use onefold_types::ContentHash;

    #[tokio::test]
    async fn a_look_for_newer_batches_finds_what_another_driver_marked() {
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(LocalStore::new(folder.path()).unwrap());
        let query: QueryId = "6fa0ab59-0d2c-4b1e-9d5c-1f2d3c4b5a69".parse().unwrap();
        let open = |generation: u64, files: Files| {
            let generation = Generation(generation);
            let (interval, retention) = (10, Retention::default());
            let keeper = Keeper { query, generation, joins: true, interval, retention };
            Manifest::new(Arc::clone(&store), keeper, files)
        };
        let mark = async |manifest: &Manifest, generation: u64, batch: u64| {
            let batch = BatchId(batch);
            let name = format!("part-00000-{query}-b{batch}-g{generation}-c000.parquet");
            let mut line = Line::add(store.url(), &name, 1, 1);
            line.onefold = Some(Note {
                query,
                batch,
                generation: Generation(generation),
                files: 1,
                rows: batch.0,
                hash: ContentHash(0),
            });
            assert!(matches!(manifest.mark(batch, &[line], 1).await.unwrap(), Marked::Ours));
        };
        let (old, new) = (open(1, Files::new()), open(2, Files::new()));
        assert!(old.refresh().await.unwrap().is_none());
        mark(&new, 2, 0).await;
        // Across a compaction, and from a folder that was empty when it was listed.
        for last in [0, 3, 9, 12, 25] {
            let known = new.refresh().await.unwrap().unwrap().published.mark.batch.0;
            for batch in known + 1..=last {
                mark(&new, 2, batch).await;
            }
            let newest = old.refresh().await.unwrap().unwrap().published;
            assert_eq!(
                (newest.mark.batch, newest.mark.generation),
                (BatchId(last), Some(Generation(2)))
            );
            assert_eq!(newest.totals.unwrap().rows, last);
        }
    }
}
