//! One driver's time in office: from taking the checkpoint over to the first failure.

use super::definition::QueryDefinition;
use super::sinks::Sinks;
use super::state::TermState;
use super::timed::TimedSource;
use super::watermark;
use crate::checkpoint::{self, Driver, Found, HostName, Retained, SinkFacts, Takeover};
use crate::effects::Effects;
use crate::query::QueryShared;
use crate::timer::Timer;
use datafusion::execution::session_state::SessionState;
use onefold_connector::{
    Clock, EffectsLog, SinkContext, SinkEffects, SourceContext, SourceDefinition,
};
use onefold_plan::stream::{BatchWatermark, StreamSource};
use onefold_protocol::record::{Intent, IntentVersion};
use onefold_protocol::recovery::{Facts, Next, decide};
use onefold_protocol::watermark::Watermarks;
use onefold_state::{MemoryBudget, OperatorSpec};
use onefold_storage::Store;
use onefold_storage::crash::{CrashPoint, crash_point};
use onefold_storage::planted::{Bug, planted};
use onefold_types::{BatchId, Error, Generation, Nonce, OffsetRange, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// What every term of a run shares.
pub(crate) struct Surroundings {
    pub(crate) definition: Arc<QueryDefinition>,
    pub(crate) query: Arc<QueryShared>,
    pub(crate) state: Arc<SessionState>,
    /// What the query's stateful operators keep; empty for a query without state.
    pub(crate) operators: Arc<[OperatorSpec]>,
    /// The memory that state may take.
    pub(crate) state_budget: MemoryBudget,
    pub(crate) timer: Arc<dyn Timer>,
    /// The mark of this run in its records.
    pub(crate) nonce: Nonce,
}

/// A source opened by this driver.
pub(crate) struct OpenSource {
    /// Its key in the checkpoint.
    pub(crate) id: String,
    pub(crate) definition: Arc<dyn SourceDefinition>,
    pub(crate) source: Arc<TimedSource>,
}

/// A driver in office with what it has open.
pub(crate) struct Term {
    pub(crate) driver: Driver,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) sources: Vec<OpenSource>,
    pub(crate) sinks: Sinks,
    /// What calls to the outside answered.
    pub(crate) effects: Arc<Effects>,
    pub(crate) retained: Retained,
    /// Records of batches long over that fenced drivers left.
    pub(crate) left_behind: Vec<String>,
    /// The purge that runs in the background, if any.
    pub(crate) purge: Option<JoinHandle<()>>,
    /// What to do next, and on what.
    pub(crate) next: Next,
    pub(crate) facts: Facts,
    /// The watermark after the newest commit.
    pub(crate) watermarks: Watermarks,
    pub(crate) operators: Arc<[OperatorSpec]>,
    /// The state after the newest commit; `None` for a query without.
    pub(crate) state: Option<TermState>,
}

impl Term {
    /// Takes the checkpoint over, opens sources and sink, and decides.
    pub(crate) async fn open(
        around: &Surroundings,
        before: &mut Option<Generation>,
    ) -> Result<Term> {
        let store = Arc::clone(&around.definition.checkpoint.store);
        let batches_retained = batches_retained(around)?;
        TermState::check_ahead(around, &store, batches_retained).await?;
        let takeover = Takeover {
            host: HostName::of_this_machine(),
            now_ms: around.timer.now_ms(),
            definition: around.definition.record(),
            nonce: around.nonce,
            before: *before,
        };
        let driver = checkpoint::take_over(&store, &takeover).await?;
        *before = Some(driver.generation);
        if let Err(error) = checkpoint::clear_leftovers(store.as_ref(), &*driver.fence).await {
            // Garbage at most; what stands in the way of the query itself will be met again.
            tracing::warn!("leftovers in {} stay: {}", store.url(), error.chain());
        }
        let mut found = checkpoint::gather(store.as_ref(), batches_retained).await?;
        let left_behind = std::mem::take(&mut found.left_behind);
        let sources = open_sources(around, &store, &found).await?;
        let effects = Effects::new(
            Arc::clone(&store),
            Arc::clone(&driver.fence) as _,
            around.query.id,
            driver.generation,
        );
        let sinks = open_sinks(around, &driver, &effects, &found).await?;
        let facts = with_mark(around, &store, &sinks, found).await?;
        crash_point(CrashPoint::RecoveryBefore);
        let retained = Retained {
            batches: batches_retained,
            from: facts.intent_ids.first().copied().unwrap_or(BatchId::FIRST),
        };
        let next = decided(&facts);
        let watermarks = watermark::restore(&around.definition.conf, &facts)?;
        let state = TermState::open(around, &store, driver.generation, &facts, &next).await?;
        Ok(Term {
            driver,
            store,
            sources,
            sinks,
            effects,
            retained,
            left_behind,
            purge: None,
            next,
            facts,
            watermarks,
            operators: Arc::clone(&around.operators),
            state,
        })
    }

    /// Looks again at the checkpoint and the sink, and decides anew.
    pub(crate) async fn decide_again(&mut self, around: &Surroundings) -> Result<()> {
        let batches_retained = batches_retained(around)?;
        let found = checkpoint::gather(self.store.as_ref(), batches_retained).await?;
        self.facts = with_mark(around, &self.store, &self.sinks, found).await?;
        self.next = decided(&self.facts);
        self.watermarks = watermark::restore(&around.definition.conf, &self.facts)?;
        // The batch that was run may not be the one that counts: what it wrote is forgotten.
        self.state = None;
        let generation = self.driver.generation;
        self.state =
            TermState::open(around, &self.store, generation, &self.facts, &self.next).await?;
        Ok(())
    }

    /// The ranges of the newest intent, in plan order.
    pub(crate) fn last_ranges(&self) -> Vec<OffsetRange> {
        let Some(intent) = &self.facts.last_intent else { return Vec::new() };
        let before = self.facts.intent_before.as_ref();
        self.sources.iter().map(|source| intent.range(&source.id, before)).collect()
    }

    /// The format in which the log goes on.
    pub(crate) fn intent_version(&self, configured: u64) -> IntentVersion {
        if let Some(last) = &self.facts.last_intent {
            return last.version;
        }
        let named = self.sources.iter().enumerate().any(|(nth, it)| it.id != nth.to_string());
        if named || configured >= 2 { IntentVersion::V2 } else { IntentVersion::V1 }
    }

    /// The watermarks of the newest intent's batch: rows up to the watermark of the batch before are
    /// late, state up to its own is done with.
    pub(crate) fn batch_watermark(&self) -> BatchWatermark {
        let of = |intent: &Option<Intent>| intent.as_ref().map_or(0, |it| it.batch_watermark_ms);
        BatchWatermark {
            late_ms: of(&self.facts.intent_before),
            evict_ms: of(&self.facts.last_intent),
        }
    }

    /// A new intent is durable.
    pub(crate) fn intended(&mut self, batch: BatchId, intent: Intent) {
        self.facts.intent_before = self.facts.last_intent.replace(intent);
        // Only the newest ids matter from here on: the lists must not grow for ever.
        self.facts.intent_ids = vec![batch];
    }

    /// Waits for what runs in the background.
    pub(crate) async fn close(mut self) {
        if let Err(error) = self.effects.flush().await {
            tracing::warn!("not all replies of calls were written down: {}", error.chain());
        }
        if let Some(purge) = self.purge.take() {
            let _ = purge.await;
        }
        if let Some(state) = self.state.take() {
            state.close().await;
        }
    }
}

/// How many batches before the newest keep their logs.
fn batches_retained(around: &Surroundings) -> Result<u64> {
    around.definition.conf.count("spark.sql.streaming.minBatchesToRetain")
}

/// A sink that delivers exactly once remembers its marks; of another one nothing can be told.
async fn with_mark(
    around: &Surroundings,
    store: &Arc<dyn Store>,
    sinks: &Sinks,
    found: Found,
) -> Result<Facts> {
    let said = SinkFacts {
        query: around.query.id,
        marks: sinks.marks().await?,
        needs_prepared: needs_prepared(around, sinks),
        operators: &around.operators,
    };
    found.with_mark(store.as_ref(), said).await
}

/// Whether a batch leaves a record of what it computed: of state, of watermarks, of totals that the
/// sink cannot tell, and of what is staged for further sinks.
pub(crate) fn needs_prepared(around: &Surroundings, sinks: &Sinks) -> bool {
    !around.operators.is_empty()
        || !around.definition.plan.watermarks().is_empty()
        || !sinks.tell_totals()
}

fn decided(facts: &Facts) -> Next {
    match decide(facts) {
        Next::AdoptCommit { batch, .. } if planted(Bug::PublishWithoutReadingMark) => {
            Next::RunAgain { batch }
        }
        next => next,
    }
}

async fn open_sources(
    around: &Surroundings,
    store: &Arc<dyn Store>,
    found: &Found,
) -> Result<Vec<OpenSource>> {
    let planned = around.definition.plan.sources();
    let ids = source_ids(planned, found.last_intent().map(|(_, intent)| intent))?;
    let histories = checkpoint::history(store.as_ref(), found, &ids).await?;
    let mut sources = Vec::with_capacity(planned.len());
    for ((source, id), history) in planned.iter().zip(ids).zip(histories) {
        let context = SourceContext {
            query: around.query.id,
            checkpoint: Arc::clone(store),
            log_folder: format!("sources/{id}"),
            history,
            clock: clock(&around.timer),
            conf: around.definition.conf.values().clone(),
        };
        let opened = source.definition.open(context).await?;
        let timed = TimedSource::new(opened, Arc::clone(&around.timer));
        sources.push(OpenSource {
            id,
            definition: Arc::clone(&source.definition),
            source: Arc::new(timed),
        });
    }
    Ok(sources)
}

async fn open_sinks(
    around: &Surroundings,
    driver: &Driver,
    effects: &Arc<Effects>,
    found: &Found,
) -> Result<Sinks> {
    let context = SinkContext {
        query: around.query.id,
        run: around.query.run_id,
        generation: driver.generation,
        last_commit: found.last_commit(),
        last_intent: found.last_intent().map(|(batch, _)| batch),
        follows: false,
        schema: around.definition.plan.schema(),
        clock: clock(&around.timer),
        effects: SinkEffects {
            log: Arc::clone(effects) as Arc<dyn EffectsLog>,
            site: "sink".to_owned(),
        },
        conf: around.definition.conf.values().clone(),
    };
    Sinks::open(&around.definition, context, &found.facts).await
}

/// A timer as a clock.
fn clock(timer: &Arc<dyn Timer>) -> Arc<dyn Clock> {
    Arc::<dyn Timer>::clone(timer)
}

/// The key of each source in the checkpoint. A log of the first version knows sources by place
/// only; one of the second must name the same ones, and may get named ones added.
fn source_ids(planned: &[StreamSource], last: Option<&Intent>) -> Result<Vec<String>> {
    let ids: Vec<String> = planned.iter().map(|source| source.id.clone()).collect();
    let Some(last) = last else { return Ok(ids) };
    let logged: Vec<&str> = last.sources.iter().map(|(id, _)| id.as_str()).collect();
    let by_place: Vec<String> = (0..planned.len()).map(|place| place.to_string()).collect();
    match last.version {
        IntentVersion::V1 if logged.len() == planned.len() => return Ok(by_place),
        IntentVersion::V1 => {}
        IntentVersion::V2 => {
            let all_there = logged.iter().all(|id| ids.iter().any(|known| known == id));
            if all_there && (logged.len() == ids.len() || ids != by_place) {
                return Ok(ids);
            }
        }
    }
    Err(Error::invalid(format!(
        "the checkpoint has the streams {}, but the query reads {}; start the query that wrote it, \
         or use a new checkpointLocation",
        logged.join(", "),
        ids.join(", ")
    )))
}

/// The settings that stay as they were when the query first started.
pub(crate) fn frozen_conf(
    last: Option<&Intent>,
    session: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    match last {
        Some(last) => last.conf.clone(),
        None => onefold_protocol::conf::fresh(session),
    }
}
