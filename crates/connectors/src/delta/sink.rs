//! The Delta sink as the engine drives it.

use super::checkpoint;
use super::commit::{Commit, Remove, Txn};
use super::files::{self, Detail};
use super::known::{self, Known};
use super::mark::{self, Verdict};
use super::options::WriteOptions;
use super::shape::Shape;
use super::table::{Table, commit_path};
use crate::file_sink::leftovers;
use crate::file_sink::names::DataFile;
use crate::file_sink::stage::Stager;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use onefold_connector::{Attempt, Clock, Fence, RowStream, Sink, StagedOutput};
use onefold_storage::crash::{CrashPoint, crash_point};
use onefold_storage::{Durability, Recorded, Staged, create_record};
use onefold_types::{BatchId, Error, Mark, Published, QueryId, Result, Totals};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Commits of others that one batch goes behind before it gives up for now.
const TRIES: usize = 1_000;

/// A Delta table opened by one query.
#[derive(Debug)]
pub(crate) struct DeltaSink {
    pub(super) table: Table,
    pub(super) options: WriteOptions,
    pub(super) query: QueryId,
    /// The columns of the rows.
    pub(super) rows: SchemaRef,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) state: Mutex<State>,
}

/// What the sink remembers between calls.
#[derive(Debug, Default)]
pub(super) struct State {
    known: Known,
    /// How rows become files; `None` for one that only looks.
    shape: Option<Arc<Shape>>,
    /// Batches up to this one may have files of another driver.
    shared_to: Option<BatchId>,
    /// What each attempt of this process staged.
    staged: HashMap<Attempt, Vec<Staged>>,
    /// A version that is due for a checkpoint of the log.
    checkpoint: Option<u64>,
    /// The versions of the batches in the log, once they were asked for.
    batches: Option<BTreeMap<BatchId, u64>>,
}

impl State {
    /// What a sink knows when it opens.
    pub(super) fn opened(known: Known, shape: Option<Shape>, shared_to: Option<BatchId>) -> State {
        State { known, shape: shape.map(Arc::new), shared_to, ..State::default() }
    }
}

/// What a batch wants to commit.
struct Wanted<'a> {
    attempt: &'a Attempt,
    detail: Detail,
    totals: Totals,
}

impl DeltaSink {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> Known {
        self.state().known.clone()
    }

    fn shape(&self) -> Result<Arc<Shape>> {
        self.state()
            .shape
            .clone()
            .ok_or_else(|| Error::internal("a sink that only looks cannot write"))
    }

    fn published(&self, wanted: &Wanted<'_>) -> Published {
        let Attempt { query, batch, generation } = *wanted.attempt;
        let mark = Mark { query: Some(query), batch, generation: Some(generation) };
        Published { mark, totals: Some(wanted.totals) }
    }

    /// Commits a batch behind whatever others commit meanwhile.
    async fn commit(&self, wanted: &Wanted<'_>) -> Result<Published> {
        self.check_newest().await?;
        for _ in 0..TRIES {
            let known = self.known();
            let version = known.version.map_or(0, |version| version + 1);
            let commit = self.commit_behind(&known, wanted, version).await?;
            let path = commit_path(version);
            let bytes = commit.to_bytes()?.into();
            let store = self.table.store.as_ref();
            match create_record(store, &path, bytes, Durability::Now).await? {
                Recorded::Mine => {
                    crash_point(CrashPoint::PublishMarked);
                    return self.committed(wanted, &commit, version).await;
                }
                Recorded::Theirs(bytes) => {
                    let place = format!("{}/{path}", self.table.url());
                    let theirs = Commit::parse(&bytes, &place)?;
                    if let Some(published) = self.behind(wanted, &theirs, version).await? {
                        return Ok(published);
                    }
                }
            }
        }
        Err(Error::unavailable(format!(
            "batch {} was not committed to {}: others commit faster than this query can follow; it \
             tries again",
            wanted.attempt.batch,
            self.table.url()
        )))
    }

    /// What was seen last must still be there: names that a cleanup of the log freed would be taken
    /// for versions that nobody has written yet.
    async fn check_newest(&self) -> Result<()> {
        let Some(version) = self.known().version else { return Ok(()) };
        if self.table.store.stat(&commit_path(version)).await?.is_some() {
            return Ok(());
        }
        let known = known::read(&self.table, self.query).await?;
        if known.version.is_none_or(|newest| newest < version) {
            return Err(Error::corrupt(format!(
                "the log of the table {} ends before version {version}, which was there: the table \
                 was dropped or restored from an older copy; put it back, or replay the query with \
                 a new checkpoint into a new table",
                self.table.url()
            )));
        }
        self.take_in(known)
    }

    /// Goes on from what was read anew. What is staged must fit it.
    fn take_in(&self, known: Known) -> Result<()> {
        let now = self.clock.now_ms();
        let shape = Shape::new(known.facts.as_ref(), &self.rows, &self.options, now)?;
        let mut state = self.state();
        let fits = state.shape.as_ref().is_none_or(|staged| shape.takes_files_of(staged));
        state.known = known;
        state.shape = Some(Arc::new(shape));
        if fits {
            return Ok(());
        }
        Err(Error::unavailable(format!(
            "the columns of the table {} changed while a batch was written for those before; the \
             batch runs again",
            self.table.url()
        )))
    }

    /// The commit of a batch as the given version.
    async fn commit_behind(
        &self,
        known: &Known,
        wanted: &Wanted<'_>,
        version: u64,
    ) -> Result<Commit> {
        let now = self.clock.now_ms();
        let adds = wanted.detail.adds.clone();
        let removes = match known.version {
            Some(version) if self.options.overwrites() => {
                let mut all = known::removals(&self.table, version, now).await?;
                if self.options.by_partition {
                    let with_rows: HashSet<_> =
                        adds.iter().map(|add| add.partition_values.clone()).collect();
                    all.retain(|remove| {
                        remove.partition_values.as_ref().is_some_and(|it| with_rows.contains(it))
                    });
                }
                self.check_removable(known, &all)?;
                all
            }
            _ => Vec::new(),
        };
        let shape = self.shape()?;
        let becomes = shape.becomes.clone();
        let txns = match &self.options.txn {
            Some((app, number)) => {
                vec![Txn { app_id: app.clone(), version: *number, last_updated: Some(now) }]
            }
            None if self.options.one_batch => Vec::new(),
            None => mark::txns(wanted.attempt, version, now)?,
        };
        let mut commit = Commit {
            info: None,
            protocol: becomes.as_ref().and_then(|it| it.protocol.clone()),
            metadata: becomes.map(|it| it.metadata),
            txns,
            adds,
            removes,
            has_cdc: false,
        };
        commit.info = Some(self.described(&commit, wanted, known, now));
        Ok(commit)
    }

    fn check_removable(&self, known: &Known, removes: &[Remove]) -> Result<()> {
        let settings = known.facts.as_ref().map(|facts| &facts.settings);
        let append_only = settings
            .and_then(|it| it.get("delta.appendOnly"))
            .is_some_and(|it| it.eq_ignore_ascii_case("true"));
        if append_only && !removes.is_empty() {
            return Err(Error::invalid(format!(
                "the table {} only takes new rows (delta.appendOnly), but this write replaces those \
                 that are there; append instead, or take that setting off",
                self.table.url()
            )));
        }
        Ok(())
    }

    /// What the history shows of a commit.
    fn described(
        &self,
        commit: &Commit,
        wanted: &Wanted<'_>,
        known: &Known,
        now_ms: i64,
    ) -> serde_json::Map<String, serde_json::Value> {
        use serde_json::json;
        let mode = if self.options.overwrites() { "Overwrite" } else { "Append" };
        let (operation, parameters) = if self.options.one_batch {
            let by = json!(self.options.partition_by).to_string();
            ("WRITE", json!({"mode": mode, "partitionBy": by}))
        } else {
            let Attempt { query, batch, .. } = wanted.attempt;
            let mode = if self.options.overwrites() { "Complete" } else { "Append" };
            let epoch = batch.to_string();
            let query = query.to_string();
            let parameters = json!({"outputMode": mode, "queryId": query, "epochId": epoch});
            ("STREAMING UPDATE", parameters)
        };
        let bytes: i64 = commit.adds.iter().map(|add| add.size).sum();
        let mut info = serde_json::Map::from_iter([
            ("timestamp".to_owned(), json!(now_ms)),
            ("operation".to_owned(), json!(operation)),
            ("operationParameters".to_owned(), parameters),
            ("isolationLevel".to_owned(), json!("WriteSerializable")),
            ("isBlindAppend".to_owned(), json!(!self.options.overwrites())),
            (
                "operationMetrics".to_owned(),
                json!({
                    "numOutputRows": wanted.totals.rows.to_string(),
                    "numOutputBytes": bytes.to_string(),
                    "numAddedFiles": commit.adds.len().to_string(),
                    "numRemovedFiles": commit.removes.len().to_string(),
                }),
            ),
            ("engineInfo".to_owned(), json!(format!("Onefold/{}", env!("CARGO_PKG_VERSION")))),
            // Tells this try from every other one, should its reply be lost.
            ("txnId".to_owned(), json!(uuid::Uuid::new_v4().to_string())),
            mark::note(wanted.totals),
        ]);
        if let Some(version) = known.version {
            info.insert("readVersion".to_owned(), json!(version));
        }
        if let Some(text) = &self.options.user_metadata {
            info.insert("userMetadata".to_owned(), json!(text));
        }
        info
    }

    /// The version is ours.
    async fn committed(
        &self,
        wanted: &Wanted<'_>,
        commit: &Commit,
        version: u64,
    ) -> Result<Published> {
        let published = self.published(wanted);
        let mut known = self.known();
        known.version = Some(version);
        known.mark = Some((published, Some(version)));
        let mut state = self.state();
        if commit.metadata.is_none() {
            state.known = known;
        } else {
            // Read anew when the next batch begins: nothing may fail once the batch is published.
            state.known = Known { facts: None, ..known };
        }
        let interval = state.known.facts.as_ref().map_or(1, |facts| facts.checkpoint_interval());
        if version > 0 && (version.is_multiple_of(interval) || state.known.facts.is_none()) {
            state.checkpoint = Some(version);
        }
        Ok(published)
    }

    /// Another's commit took the version: what it means, and what must be read anew. The mark, where
    /// the batch is published already.
    async fn behind(
        &self,
        wanted: &Wanted<'_>,
        theirs: &Commit,
        version: u64,
    ) -> Result<Option<Published>> {
        if let Some((app, number)) = &self.options.txn
            && theirs.txns.iter().any(|txn| txn.app_id == *app && txn.version >= *number)
        {
            self.drop_files(&wanted.detail.files).await;
            return Ok(Some(self.published(wanted)));
        }
        match mark::judge(theirs, wanted.attempt) {
            Verdict::Published(published) => {
                self.remember(published, version);
                self.lost_to(wanted, published).await;
                Ok(Some(published))
            }
            Verdict::Fenced(mark) => Err(fenced(self.table.url(), mark)),
            Verdict::Behind(changes) => {
                let mut known = Known { version: Some(version), ..self.known() };
                if changes.table || known.facts.is_none() {
                    known.facts = Some(known::facts(&self.table, version).await?);
                    self.take_in(known)?;
                } else {
                    self.state().known = known;
                }
                Ok(None)
            }
        }
    }

    fn remember(&self, published: Published, version: u64) {
        let mut state = self.state();
        state.known.version = Some(version);
        state.known.mark = Some((published, Some(version)));
    }

    /// The batch is published. What this attempt wrote goes, unless that is what was published.
    async fn lost_to(&self, wanted: &Wanted<'_>, published: Published) {
        if published.mark.generation != Some(wanted.attempt.generation) {
            self.drop_files(&wanted.detail.files).await;
        }
    }

    /// Files that no commit names cost room and nothing else: an error is not worth a batch.
    async fn drop_files(&self, files: &[Staged]) {
        if let Err(error) = self.table.store.discard(files).await {
            tracing::warn!(error = %error.chain(), "files that no commit names are left behind");
        }
    }

    /// Before rows are written: the table as it is after what this sink itself changed.
    async fn refresh(&self) -> Result<()> {
        let known = self.known();
        let (Some(version), None) = (known.version, &known.facts) else { return Ok(()) };
        let facts = known::facts(&self.table, version).await?;
        let known = Known { facts: Some(facts), ..known };
        let shape =
            Shape::new(known.facts.as_ref(), &self.rows, &self.options, self.clock.now_ms())?;
        let mut state = self.state();
        state.known = known;
        state.shape = Some(Arc::new(shape));
        Ok(())
    }

    /// What is left of a decided batch that the winner's commit does not name.
    async fn clear(&self, batch: BatchId, at: Option<u64>) -> Result<()> {
        let Some(version) = at else { return Ok(()) };
        let Some(winner) = known::commit_of(&self.table, version).await? else { return Ok(()) };
        let mut won = HashSet::new();
        for add in &winner.adds {
            won.extend(files::path_of(&add.path)?);
        }
        let paths = self.table.store.names_deep("", true).await?;
        let found = leftovers::settled(paths, self.query, batch, &won);
        self.table.store.delete_all(&found.lost).await?;
        let query = self.query;
        let lost = move |path: &str| {
            DataFile::parse(path).is_some_and(|it| it.query == query && it.batch <= batch)
        };
        self.table.store.abort_uploads(&lost).await.map(drop)
    }
}

fn fenced(url: &str, mark: Mark) -> Error {
    Error::fenced(format!(
        "the table {url} holds {mark} already: a newer driver runs this query; stop this one"
    ))
}

#[async_trait]
impl Sink for DeltaSink {
    async fn last_mark(&self) -> Result<Option<Published>> {
        Ok(self.known().mark.map(|(published, _)| published))
    }

    async fn conceal(&self, _: BatchId) -> Result<()> {
        // Readers go by the log: what it does not name, nobody sees.
        Ok(())
    }

    async fn stage(
        &self,
        attempt: &Attempt,
        partition: u32,
        rows: RowStream,
    ) -> Result<StagedOutput> {
        self.refresh().await?;
        let shape = self.shape()?;
        let store = self.table.store.as_ref();
        let limit = self.options.files.rows_per_file_max;
        let stager = Stager::new(store, &shape.encoding, attempt, partition, limit);
        let outcome = stager.cut_at(shape.cut_at).run(shape.fitted(rows), "UTC").await?;
        self.state().staged.entry(*attempt).or_default().extend_from_slice(&outcome.files);
        let totals = outcome.totals;
        let detail = Detail::of(outcome, &shape, self.clock.now_ms())?;
        let detail = serde_json::to_value(detail)
            .map_err(|error| Error::internal("staged output is no JSON").because(error))?;
        Ok(StagedOutput { partition, totals, detail })
    }

    async fn publish(
        &self,
        attempt: &Attempt,
        outputs: Vec<StagedOutput>,
        fence: &dyn Fence,
    ) -> Result<Published> {
        self.refresh().await?;
        let (detail, totals) = files::gathered(outputs)?;
        let wanted = Wanted { attempt, detail, totals };
        if self.options.one_batch && self.options.txn.is_some() && self.is_written().await? {
            self.drop_files(&wanted.detail.files).await;
            return Ok(self.published(&wanted));
        }
        if let Some((published, _)) = self.known().mark
            && let Some(verdict) = mark::against(published, attempt)
        {
            return match verdict {
                Verdict::Published(published) => {
                    self.lost_to(&wanted, published).await;
                    Ok(published)
                }
                Verdict::Fenced(mark) => Err(fenced(self.table.url(), mark)),
                Verdict::Behind(_) => Err(Error::internal("a mark is no other writer's commit")),
            };
        }
        self.table.store.reveal(&wanted.detail.files).await?;
        crash_point(CrashPoint::PublishBeforeMark);
        fence.check().await?;
        let published = self.commit(&wanted).await?;
        self.state().staged.remove(attempt);
        Ok(published)
    }

    async fn settle(&self, published: &Published) -> Result<()> {
        let batch = published.mark.batch;
        let (at, shared) = {
            let state = self.state();
            let at =
                state.known.mark.and_then(|(mark, at)| at.filter(|_| mark.mark.batch == batch));
            (at, state.shared_to.is_some_and(|shared| batch <= shared))
        };
        if shared && !self.options.one_batch {
            self.clear(batch, at).await?;
        }
        let due = self.state().checkpoint.take();
        if let Some(version) = due {
            // The log is whole without it.
            if let Err(error) = checkpoint::write(&self.table, version).await {
                tracing::warn!(error = %error.chain(), version, "no checkpoint of the log was written");
            }
        }
        Ok(())
    }

    async fn discard(&self, attempt: &Attempt) -> Result<()> {
        let staged = self.state().staged.remove(attempt).unwrap_or_default();
        self.table.store.discard(&staged).await
    }

    async fn audit(&self, batch: BatchId) -> Result<Option<Totals>> {
        let known = self.state().batches.clone();
        let batches = match known {
            Some(batches) => batches,
            None => super::audit::batches(&self.table, self.query).await?,
        };
        let version = batches.get(&batch).copied();
        self.state().batches = Some(batches);
        match version {
            Some(version) => super::audit::totals(&self.table, version).await,
            None => Ok(None),
        }
    }

    fn tells_totals(&self) -> bool {
        true
    }
}

impl DeltaSink {
    /// Whether the table has the write that the options number.
    async fn is_written(&self) -> Result<bool> {
        let (Some((app, number)), Some(version)) = (&self.options.txn, self.known().version) else {
            return Ok(false);
        };
        let snapshot = self.table.snapshot(Some(version)).await?;
        let newest = known::remembered(&self.table, &snapshot, app).await?;
        Ok(newest.is_some_and(|newest| newest >= *number))
    }
}
