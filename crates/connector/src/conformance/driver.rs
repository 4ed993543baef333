//! A driver that follows the protocol, over a world that never fails.

use super::effects::{Durable, MemoryEffects};
use super::{Faults, SinkFixture};
use crate::{Attempt, Clock, Fence, RowStream, Sink, SinkContext, SinkEffects, StagedOutput};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use onefold_types::{BatchId, Error, ErrorKind, Generation, Published, QueryId, Result, RunId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const PARTITIONS: u32 = 2;
const ROWS: i64 = 3;
/// Restarts that a run may need at most: every fault is met once.
const RESTARTS: usize = 4;

/// How a driver ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All batches are committed.
    Done,
    /// It died, was fenced, or gave up.
    Stopped,
}

/// The checkpoint, as far as a sink can tell.
#[derive(Debug)]
pub struct World {
    batches: u64,
    state: Arc<Mutex<State>>,
    effects: Arc<Mutex<Durable>>,
}

#[derive(Debug, Default)]
struct State {
    generation: u64,
    intents: Vec<BatchId>,
    commits: BTreeMap<BatchId, Published>,
    /// Why drivers began again, for who reads that one did not come through.
    told: Vec<String>,
}

#[derive(Debug)]
struct WorldFence {
    state: Arc<Mutex<State>>,
    generation: Generation,
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Fence for WorldFence {
    async fn check(&self) -> Result<()> {
        if locked(&self.state).generation == self.generation.0 {
            return Ok(());
        }
        Err(Error::fenced("a newer driver runs this query"))
    }
}

#[derive(Debug)]
struct Noon;

impl Clock for Noon {
    fn now_ms(&self) -> i64 {
        1_800_000_000_000
    }
}

fn query() -> QueryId {
    QueryId(uuid::Uuid::from_u128(0x0f0f_0f0f_0000_4000_8000_0000_0000_0001))
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]))
}

fn batch_ids(batch: u64, partition: u32) -> Vec<i64> {
    let batch = i64::try_from(batch).unwrap_or(i64::MAX);
    let first = (batch * i64::from(PARTITIONS) + i64::from(partition)) * ROWS;
    (first..first + ROWS).collect()
}

fn rows(batch: u64, partition: u32) -> Result<RowStream> {
    let ids: ArrayRef = Arc::new(Int64Array::from(batch_ids(batch, partition)));
    let rows = RecordBatch::try_new(schema(), vec![ids])
        .map_err(|e| Error::internal("rows of the suite").because(e))?;
    let rows = futures::stream::iter([Ok(rows)]);
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema(), rows)))
}

impl World {
    /// A world without any driver.
    #[must_use]
    pub fn new(batches: u64) -> World {
        World { batches, state: Arc::default(), effects: Arc::default() }
    }

    /// The ids of all batches, ascending.
    #[must_use]
    pub fn all_ids(&self) -> Vec<i64> {
        (0..self.batches).flat_map(ids_of).collect()
    }

    fn effects(&self, faults: &Arc<Faults>) -> SinkEffects {
        let log = MemoryEffects::new(&self.effects, query(), Arc::clone(faults));
        SinkEffects { log, site: "sink".to_owned() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Starts drivers, as a supervisor would within one process, until all batches are committed or
    /// the process dies, is fenced or must stop.
    pub async fn drive_until_stopped<F: SinkFixture>(
        &self,
        fixture: &F,
        faults: Arc<Faults>,
    ) -> Outcome {
        for _ in 0..RESTARTS {
            match self.drive(fixture, Arc::clone(&faults)).await {
                Ok(()) => return Outcome::Done,
                Err(error) if faults.died() || error.kind() == ErrorKind::Fenced => break,
                Err(error)
                    if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown) =>
                {
                    self.state().told.push(error.chain());
                }
                Err(error) => {
                    assert!(
                        faults.met(),
                        "a driver without faults stopped: {} after {:?}",
                        error.chain(),
                        faults.names()
                    );
                    break;
                }
            }
        }
        Outcome::Stopped
    }

    /// One driver, from its generation to the last commit.
    async fn drive<F: SinkFixture>(&self, fixture: &F, faults: Arc<Faults>) -> Result<()> {
        let (context, generation) = {
            let mut state = self.state();
            state.generation += 1;
            let generation = Generation(state.generation);
            let last_commit = state.commits.last_key_value().map(|(batch, _)| *batch);
            let last_intent = state.intents.last().copied();
            let effects = self.effects(&faults);
            (context(generation, last_commit, last_intent, effects), generation)
        };
        let fence = WorldFence { state: Arc::clone(&self.state), generation };
        let (last_commit, last_intent) = (context.last_commit, context.last_intent);
        let sink = fixture.open(context, Arc::clone(&faults)).await?;
        let mark = sink.last_mark().await?;
        let mut next = last_commit.map_or(BatchId::FIRST, BatchId::next);
        if last_intent == Some(next) {
            match mark.filter(|mark| mark.mark.batch == next) {
                Some(published) => {
                    sink.settle(&published).await?;
                    self.commit(&fence, published).await?;
                    next = next.next();
                }
                None => sink.conceal(next).await?,
            }
        }
        while next.0 < self.batches {
            self.run(sink.as_ref(), &fence, next).await?;
            next = next.next();
        }
        Ok(())
    }

    async fn run(&self, sink: &dyn Sink, fence: &WorldFence, batch: BatchId) -> Result<()> {
        fence.check().await?;
        self.intend(batch);
        let attempt = Attempt { query: query(), batch, generation: fence.generation };
        let mut outputs: Vec<StagedOutput> = Vec::new();
        for partition in 0..PARTITIONS {
            match sink.stage(&attempt, partition, rows(batch.0, partition)?).await {
                Ok(output) => outputs.push(output),
                Err(error) => {
                    let _ = sink.discard(&attempt).await;
                    return Err(error);
                }
            }
        }
        let published = sink.publish(&attempt, outputs, fence).await?;
        sink.settle(&published).await?;
        self.commit(fence, published).await
    }

    fn intend(&self, batch: BatchId) {
        let mut state = self.state();
        if !state.intents.contains(&batch) {
            state.intents.push(batch);
        }
    }

    async fn commit(&self, fence: &WorldFence, published: Published) -> Result<()> {
        fence.check().await?;
        let before = self.state().commits.insert(published.mark.batch, published);
        assert!(before.is_none_or(|b| b == published), "one batch has two outcomes");
        Ok(())
    }

    /// Restarts without faults until all is committed, and checks everything.
    ///
    /// # Panics
    /// When a row is lost or doubled, or totals do not fit.
    pub async fn finish<F: SinkFixture>(&self, fixture: &F, case: &str) {
        self.state().told.clear();
        let outcome = self.drive_until_stopped(fixture, Faults::none()).await;
        let told = self.state().told.clone();
        assert_eq!(
            outcome,
            Outcome::Done,
            "{case}: a restart without faults did not come through: {told:?}"
        );
        let mut seen = fixture.ids().await;
        seen.sort_unstable();
        assert_eq!(seen, self.all_ids(), "{case}: not every row arrived once");
        let (last, commits) = {
            let state = self.state();
            (state.intents.last().copied(), state.commits.clone())
        };
        let generation = Generation(self.state().generation + 1);
        let effects = self.effects(&Faults::none());
        let context = context(generation, last, last, effects);
        let opened = fixture.open(context, Faults::none()).await;
        let Ok(sink) = opened else {
            assert!(opened.is_ok(), "{case}: {:?}", opened.err());
            return;
        };
        for (batch, published) in commits {
            let audited = sink.audit(batch).await;
            let held = published.totals.filter(|_| fixture.audits());
            assert!(
                matches!(&audited, Ok(totals) if *totals == held),
                "{case}: batch {batch} was committed with {:?}, but holds {audited:?}",
                published.totals
            );
        }
    }

    /// Looks as a reader does, at any moment: no row of a committed batch is lost or doubled.
    ///
    /// # Panics
    /// When one is.
    pub async fn check_seen<F: SinkFixture>(&self, fixture: &F, case: &str) {
        if !fixture.exact_at_every_moment() {
            return;
        }
        let committed: Vec<i64> =
            self.state().commits.keys().flat_map(|batch| ids_of(batch.0)).collect();
        let mut seen = fixture.ids().await;
        seen.retain(|id| committed.contains(id));
        seen.sort_unstable();
        assert_eq!(seen, committed, "{case}: a committed batch is not seen once");
    }
}

fn ids_of(batch: u64) -> Vec<i64> {
    (0..PARTITIONS).flat_map(|partition| batch_ids(batch, partition)).collect()
}

fn context(
    generation: Generation,
    last_commit: Option<BatchId>,
    last_intent: Option<BatchId>,
    effects: SinkEffects,
) -> SinkContext {
    SinkContext {
        query: query(),
        run: RunId(query().0),
        generation,
        last_commit,
        last_intent,
        follows: false,
        schema: schema(),
        clock: Arc::new(Noon),
        effects,
        conf: BTreeMap::new(),
    }
}
