//! The Delta sink as the engine drives it.

use super::checkpoint;
use super::files::{self, Detail};
use super::known::{self, Known};
use super::mark::{self, Verdict};
use super::options::WriteOptions;
use super::publish::{Wanted, fenced};
use super::shape::Shape;
use super::table::Table;
use crate::file_sink::leftovers;
use crate::file_sink::names::DataFile;
use crate::file_sink::stage::Stager;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use onefold_connector::{Attempt, Clock, Fence, RowStream, Sink, StagedOutput};
use onefold_storage::Staged;
use onefold_storage::crash::{CrashPoint, crash_point};
use onefold_types::{BatchId, Error, Published, QueryId, Result, Totals};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    pub(super) known: Known,
    /// How rows become files; `None` for one that only looks.
    pub(super) shape: Option<Arc<Shape>>,
    /// Batches up to this one may have files of another driver.
    shared_to: Option<BatchId>,
    /// What each attempt of this process staged.
    staged: HashMap<Attempt, Vec<Staged>>,
    /// A version that is due for a checkpoint of the log.
    pub(super) checkpoint: Option<u64>,
    /// The versions of the batches in the log, once they were asked for.
    batches: Option<BTreeMap<BatchId, u64>>,
}

impl State {
    /// What a sink knows when it opens.
    pub(super) fn opened(known: Known, shape: Option<Shape>, shared_to: Option<BatchId>) -> State {
        State { known, shape: shape.map(Arc::new), shared_to, ..State::default() }
    }
}

impl DeltaSink {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn known(&self) -> Known {
        self.state().known.clone()
    }

    pub(super) fn shape(&self) -> Result<Arc<Shape>> {
        self.state()
            .shape
            .clone()
            .ok_or_else(|| Error::internal("a sink that only looks cannot write"))
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
