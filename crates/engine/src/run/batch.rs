//! The acts of one intended batch, steps S3 to S9, in the order of the protocol.

use super::Runner;
use super::beside::WaysOut;
use super::definition::Beside;
use super::halt::{Halt, unless_stopped};
use super::operators::{event_time, sightings, state_operators, watermarks};
use super::phases::{Phase, Phases};
use super::report::{AboutSink, Report, counts_rows, progress};
use super::sinks::{Outcome, Publication};
use super::stage::{AllRead, stage_all};
use super::term::{Term, needs_prepared};
use super::watermark;
use crate::checkpoint::{self, Purge};
use crate::progress::offset_json;
use datafusion::physical_plan::ExecutionPlanProperties;
use onefold_connector::{Attempt, EffectsLog, Fence, Source, StagedOutput};
use onefold_operators::EventTimeStats;
use onefold_plan::stream::{BatchContext, BatchPlan, OperatorInBatch};
use onefold_protocol::record::{Commit, Prepared, SinkOutput};
use onefold_protocol::recovery::{Next, Unpublished};
use onefold_protocol::retention::keep_from;
use onefold_protocol::watermark::Watermarks;
use onefold_state::{BatchState, StateBatch, StateRef};
use onefold_storage::crash::{CrashPoint, crash_point};
use onefold_storage::planted::{Bug, planted};
use onefold_types::{BatchId, Error, Offset, OffsetRange, Published, Result, Totals};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One batch under way.
pub(super) struct Work {
    pub(super) batch: BatchId,
    /// Whether an earlier driver may have run it.
    pub(super) again: bool,
    pub(super) ranges: Vec<OffsetRange>,
    pub(super) timestamp_ms: i64,
    pub(super) latest: Vec<Option<Offset>>,
    pub(super) phases: Phases,
}

/// What a batch computed.
pub(super) struct Computed {
    /// What was staged, for each sink by its place.
    pub(super) outputs: Vec<Vec<StagedOutput>>,
    did: Did,
    /// The watermarks once the batch is over.
    after: Watermarks,
    /// What the batch wrote into the state, and where that is durable.
    state: Option<(Arc<StateBatch>, StateRef)>,
}

/// What a batch did, for its progress.
#[derive(Default)]
struct Did {
    input_rows: Vec<u64>,
    event_times: Vec<Arc<EventTimeStats>>,
    operators: Vec<OperatorInBatch>,
    /// How long it took to make the state durable.
    state_ms: i64,
    /// What the main sink got of dead letters.
    letters_in_main: Option<Totals>,
}

/// What was staged of a batch.
struct Staged {
    /// By sink.
    outputs: Vec<Vec<StagedOutput>>,
    /// What the main sink's hold of dead letters.
    letters_in_main: Option<Totals>,
    /// Where the state is, and how many milliseconds it took to get there.
    state: Option<(StateRef, i64)>,
}

impl Runner {
    /// Runs an intended batch over the ranges of its intent.
    pub(super) async fn run_again(&self, term: &mut Term, batch: BatchId) -> Result<(), Halt> {
        let phases = Phases::new(Arc::clone(&self.around.timer));
        self.around.query.say("Running the last batch again", true);
        self.around.query.set_data_available(true);
        term.sinks.conceal(batch).await?;
        crash_point(CrashPoint::RecoveryDiscarded);
        let mut ranges = term.last_ranges();
        if planted(Bug::RangeChosenAgain) {
            let starts: Vec<Option<Offset>> =
                ranges.iter().map(|range| range.start.clone()).collect();
            for (range, latest) in ranges.iter_mut().zip(self.latest(term, &starts).await?) {
                (range.end, range.note) = (latest.end, latest.note);
            }
        }
        let timestamp_ms = term.facts.last_intent.as_ref().map_or(0, |it| it.batch_timestamp_ms);
        let work = Work { batch, again: true, ranges, timestamp_ms, latest: Vec::new(), phases };
        self.run_batch(term, work).await
    }

    /// Writes the commit of a batch that is decided already, once further sinks have what they lack
    /// of it; computes nothing.
    pub(super) async fn adopt(
        &self,
        term: &mut Term,
        batch: BatchId,
        (published, unpublished): (Published, Vec<Unpublished>),
        commit: Commit,
    ) -> Result<(), Halt> {
        let phases = Phases::new(Arc::clone(&self.around.timer));
        self.around.query.say("Committing the last batch", true);
        let ranges = term.last_ranges();
        let work = Work { batch, again: true, ranges, timestamp_ms: 0, latest: Vec::new(), phases };
        let fence = Arc::clone(&term.driver.fence);
        let finished = term.sinks.finish(&published, unpublished, &term.facts, fence.as_ref());
        let mut publication = finished.await?;
        publication.main.totals = commit.totals;
        self.commit_with(term, work, publication, commit, (Did::default(), None)).await
    }

    /// S3 to S9 of an intended batch.
    pub(super) async fn run_batch(&self, term: &mut Term, mut work: Work) -> Result<(), Halt> {
        let mut computed = self.compute(term, &mut work).await?;
        if planted(Bug::CommitBeforePublish) {
            let commit = commit_record(term, &totals(&computed.outputs), &computed.after);
            checkpoint::create_commit(term.store.as_ref(), work.batch, &commit).await?;
        }
        let published = self.publish(term, &mut work, &mut computed).await?;
        self.commit(term, work, published, computed).await
    }

    /// S3 to S5: plans the ranges, runs the plan, stages its output. What was staged is thrown away
    /// when that fails or the user stops the query.
    pub(super) async fn compute(&self, term: &Term, work: &mut Work) -> Result<Computed, Halt> {
        self.around.query.say("Processing new data", true);
        for observer in &self.around.definition.observers {
            observer.begin();
        }
        let computed = unless_stopped(&self.around.query, self.compute_all(term, work)).await;
        if computed.is_err() {
            term.sinks.discard(&self.attempt(term, work.batch)).await;
        }
        computed
    }

    async fn compute_all(&self, term: &Term, work: &mut Work) -> Result<Computed> {
        let reads: Vec<(Arc<dyn Source>, OffsetRange)> = term
            .sources
            .iter()
            .zip(&work.ranges)
            .map(|(it, range)| {
                (Arc::<super::timed::TimedSource>::clone(&it.source) as _, range.clone())
            })
            .collect();
        let state = match &term.state {
            Some(state) => Some(state.store.begin(work.batch)?),
            None => None,
        };
        let definition = &self.around.definition;
        let (out, ways) = WaysOut::of(definition);
        term.effects.begin(work.batch, work.again);
        let context = BatchContext {
            query: self.around.query.id,
            batch: work.batch,
            timestamp_ms: work.timestamp_ms,
            watermark: term.batch_watermark(),
            state: state.clone().map(|state| state as Arc<dyn BatchState>),
            late_rows: out.late_rows,
            dead_letters: out.dead_letters,
            effects: Some(Arc::clone(&term.effects) as Arc<dyn EffectsLog>),
        };
        let planned = definition.plan.instantiate(&self.around.state, &reads, &context).await?;
        work.phases.lap(Phase::QueryPlanning);
        let reading: i64 = term.sources.iter().map(|it| it.source.take_spent_ms()).sum();
        work.phases.shift(Phase::QueryPlanning, Phase::GetBatch, reading);
        self.around.query.set_physical_plan(Arc::clone(&planned.plan));
        let state_of_batch = state.as_deref();
        let staged = self.stage(term, work, (&planned, ways), state_of_batch).await?;
        let Staged { outputs, letters_in_main, state: state_ref } = staged;
        // What functions heard is written down before anything is published.
        term.effects.flush().await?;
        let state_ms = state_ref.as_ref().map_or(0, |(_, ms)| *ms);
        let state_ref = state_ref.map(|(reference, _)| reference);
        crash_point(CrashPoint::StageDone);
        let sightings = sightings(definition.plan.watermarks(), &planned.event_times);
        let input_rows = planned.input_rows.iter().map(|it| it.load(Ordering::Relaxed)).collect();
        Ok(Computed {
            outputs,
            did: Did {
                input_rows,
                event_times: planned.event_times,
                operators: planned.operators,
                state_ms,
                letters_in_main,
            },
            after: term.watermarks.after(work.timestamp_ms, &sightings),
            state: state.zip(state_ref),
        })
    }

    /// S4 and S5: the output is staged, and what leaves beside it; once all rows are read the state is
    /// made durable.
    async fn stage(
        &self,
        term: &Term,
        work: &Work,
        (planned, ways): (&BatchPlan, WaysOut),
        state: Option<&StateBatch>,
    ) -> Result<Staged> {
        let attempt = self.attempt(term, work.batch);
        let task_context = self.around.state.task_ctx();
        let partitions = planned.plan.output_partitioning().partition_count();
        // Partitions that exchange rows wait for each other: all of them must run.
        let at_once = match state {
            Some(_) => partitions,
            None => self.around.state.config().target_partitions(),
        };
        let all = AllRead::new(partitions);
        let definition = &self.around.definition;
        let of_result = definition.of_result();
        let sinks = of_result.iter().map(|place| term.sinks.at(*place).cloned());
        let sinks = sinks.collect::<Result<Arc<[_]>>>()?;
        let staged = stage_all(&sinks, &attempt, &planned.plan, &task_context, at_once, &all);
        let beside = ways.stage(definition, &term.sinks, &attempt, &all);
        let prepared = async {
            let (Some(open), Some(state)) = (&term.state, state) else { return Ok(None) };
            all.wait().await;
            crash_point(CrashPoint::StateBefore);
            let began_ms = self.around.timer.now_ms();
            let reference = open.store.prepare(state).await?;
            crash_point(CrashPoint::StateCreated);
            let took_ms = self.around.timer.now_ms().saturating_sub(began_ms).max(0);
            Ok(Some((reference, took_ms)))
        };
        // First those that would make the others fail too, so that their errors are told.
        let (beside, staged, state) = futures::future::try_join3(beside, staged, prepared).await?;
        let letters_in_main = beside.in_main.as_ref().map(|it| it.totals);
        let mut by_place: BTreeMap<usize, Vec<StagedOutput>> =
            of_result.into_iter().zip(staged).chain(beside.further).collect();
        by_place.entry(0).or_default().extend(beside.in_main);
        let outputs = by_place.into_values().collect();
        Ok(Staged { outputs, letters_in_main, state })
    }

    fn attempt(&self, term: &Term, batch: BatchId) -> Attempt {
        Attempt { query: self.around.query.id, batch, generation: term.driver.generation }
    }

    /// S5b and S6: the moment of truth.
    pub(super) async fn publish(
        &self,
        term: &Term,
        work: &mut Work,
        computed: &mut Computed,
    ) -> Result<(Publication, Vec<Totals>), Halt> {
        let attempt = self.attempt(term, work.batch);
        let outputs = std::mem::take(&mut computed.outputs);
        let totals = totals(&outputs);
        if needs_prepared(&self.around, &term.sinks) {
            let prepared = Prepared {
                batch: work.batch,
                generation: term.driver.generation,
                next_batch_watermark_ms: computed.after.global_ms(),
                watermarks: computed.after.nodes().clone(),
                totals: totals.first().copied().unwrap_or_default(),
                sinks: sink_outputs(term, &outputs)?,
                state: state_json(computed.state.as_ref())?,
            };
            crash_point(CrashPoint::PreparedBefore);
            checkpoint::create_prepared(term.store.as_ref(), &prepared).await?;
            crash_point(CrashPoint::PreparedCreated);
        }
        term.sinks.at(0)?.ends_at(&attempt, &ends_of(term, &work.ranges));
        let fence = Arc::clone(&term.driver.fence);
        let outcome = match term.sinks.publish(&attempt, outputs, fence.as_ref()).await {
            Ok(outcome) => outcome,
            Err(failed) => {
                term.sinks.give_up(&attempt, &failed).await;
                return Err(failed.error.into());
            }
        };
        work.phases.lap(Phase::AddBatch);
        let Outcome::Ours(mut publication) = outcome else {
            // Another driver was first: stop if it is newer, take over what it did if it is older.
            fence.check().await?;
            return Err(Halt::DecideAgain);
        };
        publication.main.totals = publication.main.totals.or(totals.first().copied());
        Ok((publication, totals))
    }

    pub(super) async fn commit(
        &self,
        term: &mut Term,
        work: Work,
        (publication, totals): (Publication, Vec<Totals>),
        computed: Computed,
    ) -> Result<(), Halt> {
        let Computed { did, after, state, .. } = computed;
        let mut commit = commit_record(term, &totals, &after);
        commit.totals = publication.main.totals;
        self.commit_with(term, work, publication, commit, (did, state)).await
    }

    /// S7 to S9: the batch is over for ever; sources let go; old logs go in the background.
    async fn commit_with(
        &self,
        term: &mut Term,
        mut work: Work,
        publication: Publication,
        commit: Commit,
        (did, state): (Did, Option<(Arc<StateBatch>, StateRef)>),
    ) -> Result<(), Halt> {
        self.around.query.say("Committing", true);
        term.sinks.settle(&publication).await?;
        if planted(Bug::ReleaseBeforeCommit) {
            release(term, &work.ranges).await;
        }
        term.driver.fence.check().await?;
        crash_point(CrashPoint::CommitBefore);
        checkpoint::create_commit(term.store.as_ref(), work.batch, &commit).await?;
        crash_point(CrashPoint::CommitCreated);
        let in_main =
            did.letters_in_main.map(|totals| (Beside::DeadLetters.name().to_owned(), totals));
        let further = commit.sinks.iter().map(|(name, totals)| (name.clone(), *totals));
        let further: Vec<(String, Totals)> = further.chain(in_main).collect();
        term.facts.last_commit = Some(commit);
        term.facts.commit_ids = vec![work.batch];
        term.facts.mark = publication.decided(&term.sinks).or(Some(publication.main));
        apply(term, work.batch, state).await?;
        term.watermarks = watermark::restore(&self.around.definition.conf, &term.facts)?;
        term.next = Next::Plan { batch: work.batch.next() };
        release(term, &work.ranges).await;
        self.purge(term, work.batch).await;
        work.phases.lap(Phase::CommitOffsets);
        let observed = self.observed().await;
        self.report(term, &work, (publication.main, further, observed), did);
        Ok(())
    }

    /// What observers tell of the batch. One that cannot is left out.
    async fn observed(&self) -> BTreeMap<String, Value> {
        let mut observed = BTreeMap::new();
        for observer in &self.around.definition.observers {
            match observer.tell().await {
                Ok(value) => {
                    observed.insert(observer.name().to_owned(), value);
                }
                Err(error) => {
                    tracing::warn!("metric {} has no value: {}", observer.name(), error.chain());
                }
            }
        }
        observed
    }

    fn report(
        &self,
        term: &Term,
        work: &Work,
        (published, further, observed): (Published, Vec<(String, Totals)>, BTreeMap<String, Value>),
        did: Did,
    ) {
        let definition = &self.around.definition;
        let nodes = definition.plan.watermarks();
        let report = Report {
            batch: work.batch,
            ranges: &work.ranges,
            latest: &work.latest,
            input_rows: &did.input_rows,
            published,
            further,
            observed,
            event_time: event_time(nodes, &did.event_times, term.batch_watermark().evict_ms),
            state_operators: state_operators(term, &did.operators, did.state_ms),
            watermarks: watermarks(nodes, term, self.around.timer.now_ms()),
            phases: &work.phases,
            looked_before_ms: self.looked_before_ms(),
        };
        let sink = AboutSink {
            description: definition.sink.description(),
            letters: definition.sink.dead_letters(),
            counts_rows: counts_rows(definition.sink_record.format.as_deref()),
        };
        self.tell(progress(&self.around.query, term, &sink, report));
    }

    /// Starts to delete the logs that are older than the settings ask for. One purge at a time: the
    /// next one takes what a slow one left.
    async fn purge(&self, term: &mut Term, committed: BatchId) {
        let keep_from = if planted(Bug::PurgeTooMuch) {
            committed.next()
        } else {
            keep_from(committed, term.retained.batches)
        };
        if !term.retained.worth_a_purge(keep_from) && !planted(Bug::PurgeTooMuch) {
            return;
        }
        match &term.purge {
            Some(running) if !running.is_finished() => return,
            _ => {}
        }
        if let Some(state) = &mut term.state {
            state.purge(keep_from).await;
        }
        let purge = Purge {
            store: Arc::clone(&term.store),
            sinks: term.sinks.all(),
            effects: Arc::clone(&term.effects),
            sources: term.sources.iter().map(|it| Arc::clone(&it.source) as _).collect(),
            gone_before: term.retained.from,
            keep_from,
            prepared_by: needs_prepared(&self.around, &term.sinks)
                .then_some(term.driver.generation),
        };
        term.retained.from = keep_from;
        term.purge = Some(tokio::spawn(async move {
            if let Err(error) = purge.run().await {
                tracing::warn!("old logs were not all deleted: {}", error.chain());
            }
        }));
    }
}

/// S8. A release is asked for again at the next start, so that a failure is only said.
pub(super) async fn release(term: &Term, ranges: &[OffsetRange]) {
    for (it, range) in term.sources.iter().zip(ranges) {
        if let Err(error) = it.source.release(range).await {
            let description = it.definition.description();
            tracing::warn!("{description} did not release what is committed: {}", error.chain());
        }
        crash_point(CrashPoint::ReleaseDuring);
    }
}

/// The state moves on to what a committed batch left.
async fn apply(
    term: &mut Term,
    batch: BatchId,
    wrote: Option<(Arc<StateBatch>, StateRef)>,
) -> Result<()> {
    if let (Some(state), Some((wrote, left))) = (&mut term.state, wrote) {
        state.store.apply(&wrote).await?;
        state.retain(batch, left);
    }
    Ok(())
}

fn state_json(state: Option<&(Arc<StateBatch>, StateRef)>) -> Result<serde_json::Value> {
    let Some((_, left)) = state else { return Ok(serde_json::Value::Null) };
    serde_json::to_value(left)
        .map_err(|error| Error::internal("a reference to state has no JSON").because(error))
}

/// Where a batch ends in each source, by the source's key.
fn ends_of(term: &Term, ranges: &[OffsetRange]) -> Value {
    let ends = term.sources.iter().zip(ranges);
    let ends =
        ends.filter_map(|(it, range)| Some((it.id.clone(), offset_json(range.end.as_ref()?))));
    Value::Object(ends.collect())
}

/// The commit of a batch that staged so much for each sink, by its place.
fn commit_record(term: &Term, totals: &[Totals], after: &Watermarks) -> Commit {
    let further = term.sinks.further().zip(totals.iter().skip(1));
    let version = term.facts.last_commit.as_ref().map_or(1, |last| last.version);
    Commit {
        version,
        next_batch_watermark_ms: after.global_ms(),
        state_unique_ids: (version >= 2).then(|| "{}".to_owned()),
        generation: Some(term.driver.generation),
        totals: totals.first().copied(),
        watermarks: after.nodes().clone(),
        sinks: further.map(|((name, _), totals)| (name.to_owned(), *totals)).collect(),
    }
}

/// What is staged for the further sinks, as any driver can publish it.
fn sink_outputs(
    term: &Term,
    outputs: &[Vec<StagedOutput>],
) -> Result<BTreeMap<String, SinkOutput>> {
    let further = term.sinks.further().zip(outputs.iter().enumerate().skip(1));
    let staged = further.map(|((name, description), (place, outputs))| {
        let unfit = |error| Error::internal("staged output cannot be noted").because(error);
        let noted = match term.sinks.follows(place) {
            true => serde_json::to_value(outputs).map_err(unfit)?,
            false => Value::Null,
        };
        let sink = description.to_owned();
        Ok((name.to_owned(), SinkOutput { sink, totals: total(outputs), outputs: noted }))
    });
    staged.collect()
}

/// What was staged for each sink.
fn totals(outputs: &[Vec<StagedOutput>]) -> Vec<Totals> {
    outputs.iter().map(|outputs| total(outputs)).collect()
}

fn total(outputs: &[StagedOutput]) -> Totals {
    outputs.iter().fold(Totals::default(), |sum, output| sum.plus(output.totals))
}
