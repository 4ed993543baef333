//! The file sink as the engine drives it.

use super::audit;
use super::encode::Encoding;
use super::leftovers;
use super::manifest::{self, Line, Manifest, Marked, Note};
use super::options::FileOptions;
use super::partitioning::empty_folder;
use super::stage::{Stager, stage_empty};
use async_trait::async_trait;
use onefold_connector::{Attempt, Clock, Fence, LostMark, Rebuilt, RowStream, Sink, StagedOutput};
use onefold_storage::crash::{CrashPoint, crash_point};
use onefold_storage::planted::{Bug, planted};
use onefold_storage::{Staged, Store};
use onefold_types::{BatchId, Error, ErrorKind, Generation, Published, QueryId, Result, Totals};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// Files looked at, at the same time.
const LOOKS: usize = 16;
/// Looks for leftovers of a batch before giving up.
const SWEEPS: usize = 100;

/// A file sink opened by one query.
#[derive(Debug)]
pub(crate) struct FileSink {
    pub(super) store: Arc<dyn Store>,
    pub(super) manifest: Manifest,
    pub(super) encoding: Encoding,
    pub(super) options: Arc<FileOptions>,
    pub(super) query: QueryId,
    pub(super) generation: Generation,
    /// Whether another sink decides the query's batches.
    pub(super) follows: bool,
    pub(super) time_zone: String,
    pub(super) clock: Arc<dyn Clock>,
    /// How long a file of the manifest outlives the compact one that replaces it.
    pub(super) cleanup_delay_ms: i64,
    pub(super) state: Mutex<State>,
}

/// What the sink remembers between calls.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Batches up to this one may have files of another driver.
    shared_to: Option<BatchId>,
    /// What each attempt of this process staged.
    staged: HashMap<Attempt, Vec<Staged>>,
}

impl State {
    /// Other drivers may have written batches up to this one.
    pub(super) fn shared_to(batch: Option<BatchId>) -> State {
        State { shared_to: batch, ..State::default() }
    }
}

/// [`StagedOutput::detail`] of this sink.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Detail {
    files: Vec<Staged>,
}

impl FileSink {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn share_to(&self, batch: BatchId) {
        let mut state = self.state();
        state.shared_to = state.shared_to.max(Some(batch));
    }

    fn shared(&self, batch: BatchId) -> bool {
        self.state().shared_to.is_some_and(|shared| batch <= shared)
    }

    fn remember(&self, attempt: &Attempt, files: &[Staged]) {
        self.state().staged.entry(*attempt).or_default().extend_from_slice(files);
    }

    /// Facts of revealed files, in order, as lines of the manifest.
    async fn lines(&self, staged: &[Staged]) -> Result<Vec<Line>> {
        let mut lines = Vec::with_capacity(staged.len());
        for some in staged.chunks(LOOKS) {
            let looks = some.iter().map(|file| self.line(file));
            lines.extend(futures::future::try_join_all(looks).await?);
        }
        Ok(lines)
    }

    async fn line(&self, file: &Staged) -> Result<Line> {
        if planted(Bug::MarkBeforeFiles) {
            return Ok(Line::add(self.store.url(), &file.path, file.size, 0));
        }
        let entry = self.store.stat(&file.path).await?.ok_or_else(|| {
            Error::unknown(format!(
                "{}/{} was written but is gone: another driver took it out of sight",
                self.store.url(),
                file.path
            ))
        })?;
        Ok(Line::add(self.store.url(), &file.path, entry.size, entry.modified_ms))
    }

    /// The files to publish; an empty one where there are none, since a mark needs a line.
    async fn to_publish(
        &self,
        attempt: &Attempt,
        outputs: Vec<StagedOutput>,
    ) -> Result<(Vec<Staged>, Totals)> {
        let mut files = Vec::new();
        let mut totals = Totals::default();
        for output in outputs {
            let detail: Detail = serde_json::from_value(output.detail)
                .map_err(|e| Error::internal("staged output is not of the file sink").because(e))?;
            files.extend(detail.files);
            totals = totals.plus(output.totals);
        }
        if files.is_empty() {
            let empty = self.stage_empty(attempt).await?;
            self.remember(attempt, std::slice::from_ref(&empty));
            files.push(empty);
        }
        Ok((files, totals))
    }

    /// A file without rows, for a mark needs a line.
    async fn stage_empty(&self, attempt: &Attempt) -> Result<Staged> {
        let folder = empty_folder(&self.encoding.columns.folders);
        stage_empty(self.store.as_ref(), &self.encoding, attempt, &folder).await
    }

    /// Another driver published this batch first.
    async fn lost(
        &self,
        attempt: &Attempt,
        staged: &[Staged],
        theirs: &[Line],
    ) -> Result<Published> {
        self.share_to(attempt.batch);
        let published = manifest::published(attempt.batch, theirs);
        let mark = published.mark;
        if mark.query == Some(attempt.query) && mark.generation == Some(attempt.generation) {
            // The same output, published by another driver in this one's name.
            return Ok(published);
        }
        self.store.discard(staged).await?;
        self.state().staged.remove(attempt);
        match mark.query {
            Some(query) if query != self.query => {
                Err(super::ownership::foreign(self.store.url(), mark, self.query))
            }
            _ => Ok(published),
        }
    }

    /// After a failed step of publishing before the mark: a driver that was fenced meanwhile says
    /// so, since what it met is the newer driver's work, and takes its own files away.
    async fn or_fenced(&self, attempt: &Attempt, error: Error, fence: &dyn Fence) -> Error {
        match fence.check().await {
            Err(fenced) if fenced.kind() == ErrorKind::Fenced => {
                self.give_up(attempt).await;
                fenced.because(error)
            }
            _ => error,
        }
    }

    /// A fenced driver takes its own files away, where nobody else may publish them. Garbage at most:
    /// the newer driver removes what stays.
    async fn give_up(&self, attempt: &Attempt) {
        if !self.follows {
            let _ = self.discard_staged(attempt).await;
        }
    }

    async fn discard_staged(&self, attempt: &Attempt) -> Result<()> {
        let staged = self.state().staged.remove(attempt);
        match staged {
            Some(staged) => self.store.discard(&staged).await,
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Sink for FileSink {
    async fn last_mark(&self) -> Result<Option<Published>> {
        Ok(self.manifest.refresh().await?.map(|newest| newest.published))
    }

    async fn rebuild(&self, lost: &LostMark, apply: bool) -> Result<Option<Rebuilt>> {
        self.rebuild_entry(lost, apply).await
    }

    async fn conceal(&self, batch: BatchId) -> Result<()> {
        self.share_to(batch);
        if self.manifest.look(batch).await?.is_some() {
            return Ok(());
        }
        let paths = self.store.names_deep("", true).await?;
        let old = leftovers::before_run(paths, self.query, self.generation, batch);
        self.delete(&old.staged).await?;
        if old.seen.is_empty() {
            return Ok(());
        }
        self.store.conceal(&old.seen).await?;
        // The older driver may have won just now, and then its files belong in sight.
        if let Some(lines) = self.manifest.look(batch).await? {
            self.reveal_winner(&lines).await?;
        }
        Ok(())
    }

    async fn stage(
        &self,
        attempt: &Attempt,
        partition: u32,
        rows: RowStream,
    ) -> Result<StagedOutput> {
        let limit = self.options.rows_per_file_max;
        let stager = Stager::new(self.store.as_ref(), &self.encoding, attempt, partition, limit);
        let mut outcome = stager.run(rows, &self.time_zone).await?;
        if self.follows && partition == 0 && outcome.files.is_empty() {
            // Another driver may have to publish this: the file for the mark is part of it, so that
            // nobody stages one anew under a name that is taken already.
            outcome.files.push(self.stage_empty(attempt).await?);
        }
        self.remember(attempt, &outcome.files);
        let detail = serde_json::to_value(Detail { files: outcome.files })
            .map_err(|e| Error::internal("staged output cannot be noted").because(e))?;
        Ok(StagedOutput { partition, totals: outcome.totals, detail })
    }

    async fn publish(
        &self,
        attempt: &Attempt,
        outputs: Vec<StagedOutput>,
        fence: &dyn Fence,
    ) -> Result<Published> {
        let (files, totals) = self.to_publish(attempt, outputs).await?;
        if let Err(error) = fence.check().await {
            if error.kind() == ErrorKind::Fenced {
                self.give_up(attempt).await;
            }
            return Err(error);
        }
        if self.shared(attempt.batch)
            && let Some(theirs) = self.manifest.look(attempt.batch).await?
        {
            return self.lost(attempt, &files, &theirs).await;
        }
        if !planted(Bug::MarkBeforeFiles)
            && let Err(error) = self.store.reveal(&files).await
        {
            return Err(self.or_fenced(attempt, error, fence).await);
        }
        crash_point(CrashPoint::PublishBeforeMark);
        let mut lines = match self.lines(&files).await {
            Ok(lines) => lines,
            Err(error) => return Err(self.or_fenced(attempt, error, fence).await),
        };
        if let Some(first) = lines.first_mut() {
            first.onefold = Some(Note {
                query: attempt.query,
                batch: attempt.batch,
                generation: attempt.generation,
                files: files.len() as u64,
                rows: totals.rows,
                hash: totals.hash,
            });
        }
        match self.manifest.mark(attempt.batch, &lines, self.clock.now_ms()).await? {
            Marked::Theirs(theirs) => self.lost(attempt, &files, &theirs).await,
            Marked::Ours => {
                crash_point(CrashPoint::PublishMarked);
                if planted(Bug::MarkBeforeFiles) {
                    self.store.reveal(&files).await?;
                }
                self.state().staged.remove(attempt);
                self.manifest.prepare(attempt.batch, self.clock.now_ms());
                Ok(manifest::published(attempt.batch, &lines))
            }
        }
    }

    async fn settle(&self, published: &Published) -> Result<()> {
        let batch = published.mark.batch;
        if !self.shared(batch) {
            return Ok(());
        }
        let lines = self.manifest.lines_of(batch).await?.ok_or_else(|| {
            Error::corrupt(format!(
                "the manifest in {} no longer holds batch {batch}, which was just published; \
                 another process changes it: stop that process and restore \
                 `{}` from a backup",
                self.store.url(),
                manifest::FOLDER
            ))
        })?;
        self.reveal_winner(&lines).await?;
        let root = self.store.url();
        let won: HashSet<String> = lines.iter().filter_map(|line| line.relative(root)).collect();
        // An older driver that still lives may give a file its final name between our look and
        // our act, but each file once only: so look again until nothing is left.
        for _ in 0..SWEEPS {
            let paths = self.store.names_deep("", true).await?;
            let found = leftovers::settled(paths, self.query, batch, &won);
            let (mut lost, mut back) = (found.lost, found.won);
            for (older, concealed) in found.doubtful {
                self.tell_apart(older, concealed, &mut lost, &mut back).await?;
            }
            if lost.is_empty() && back.is_empty() {
                return Ok(());
            }
            self.delete(&lost).await?;
            self.bring_back(&back).await?;
        }
        Err(Error::unavailable(format!(
            "files of batch {batch} keep appearing in {} while they are removed; stop the other \
             process that runs query {}",
            self.store.url(),
            self.query
        )))
    }

    async fn discard(&self, attempt: &Attempt) -> Result<()> {
        // After an unknown outcome the mark may be there, and then nothing may be destroyed.
        if let Some(lines) = self.manifest.look(attempt.batch).await? {
            let mark = manifest::published(attempt.batch, &lines).mark;
            if mark.query == Some(attempt.query) && mark.generation == Some(attempt.generation) {
                return Ok(());
            }
        }
        self.discard_staged(attempt).await
    }

    async fn audit(&self, batch: BatchId) -> Result<Option<Totals>> {
        let Some(lines) = self.manifest.lines_of(batch).await? else {
            let hole = self.manifest.has_hole(batch).await;
            return if hole { Err(self.entry_is_lost(batch)) } else { Ok(None) };
        };
        audit::totals(&self.store, &self.options, &lines).await
    }

    async fn retain(&self, keep_from: BatchId) -> Result<()> {
        self.manifest.purge(keep_from, self.clock.now_ms(), self.cleanup_delay_ms).await
    }

    fn tells_totals(&self) -> bool {
        true
    }
}

impl FileSink {
    async fn delete(&self, paths: &[String]) -> Result<()> {
        if paths.is_empty() { Ok(()) } else { self.store.delete_all(paths).await }
    }

    async fn bring_back(&self, paths: &[String]) -> Result<()> {
        let staged: Vec<Staged> = paths.iter().map(|path| self.store.concealed(path)).collect();
        if staged.is_empty() { Ok(()) } else { self.store.reveal(&staged).await }
    }

    /// Concealed files of a batch that is over: a driver that was fenced long before may have
    /// taken the winner's out of sight, and died before it put them back. Where the manifest no
    /// longer tells, they stay as they are.
    async fn tell_apart(
        &self,
        batch: BatchId,
        concealed: Vec<String>,
        lost: &mut Vec<String>,
        back: &mut Vec<String>,
    ) -> Result<()> {
        let Some(lines) = self.manifest.lines_of(batch).await? else { return Ok(()) };
        let root = self.store.url();
        let won: HashSet<String> = lines.iter().filter_map(|line| line.relative(root)).collect();
        for path in concealed {
            if won.contains(&path) {
                back.push(path);
            } else {
                lost.push(self.store.concealed(&path).held_as);
            }
        }
        Ok(())
    }

    /// Brings files of the published batch back into sight that recovery had taken out of it.
    async fn reveal_winner(&self, lines: &[Line]) -> Result<()> {
        let mut away = Vec::new();
        for line in lines {
            let Some(path) = line.relative(self.store.url()) else { continue };
            if self.store.stat(&path).await?.is_none() {
                away.push(path);
            }
        }
        self.bring_back(&away).await
    }
}
