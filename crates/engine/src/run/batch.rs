//! The acts of one batch, steps S1 to S9, in the order of the protocol.

use super::Runner;
use super::halt::{Halt, unless_stopped};
use super::phases::{Phase, Phases};
use super::report::{Report, progress};
use super::stage::stage_all;
use super::term::{Term, frozen_conf};
use crate::checkpoint::{self, Named, Purge};
use crate::trigger::Trigger;
use futures::future::try_join_all;
use onefold_connector::{Attempt, Fence, LatestOffset, ReadLimit, Source, StagedOutput};
use onefold_plan::stream::{BatchContext, BatchWatermark};
use onefold_protocol::record::{Commit, Intent, Prepared};
use onefold_protocol::recovery::Next;
use onefold_protocol::retention::keep_from;
use onefold_storage::crash::{CrashPoint, crash_point};
use onefold_storage::planted::{Bug, planted};
use onefold_types::{BatchId, Error, ErrorKind, Offset, OffsetRange, Published, Result, Totals};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One batch under way.
struct Work {
    batch: BatchId,
    ranges: Vec<OffsetRange>,
    timestamp_ms: i64,
    latest: Vec<Option<Offset>>,
    phases: Phases,
}

/// What a batch computed.
struct Computed {
    outputs: Vec<StagedOutput>,
    input_rows: Vec<u64>,
}

impl Runner {
    /// S1 and S2, then the rest: chooses the ranges of a new batch and runs it. False when there is
    /// nothing new.
    pub(super) async fn plan_batch(&self, term: &mut Term, batch: BatchId) -> Result<bool, Halt> {
        let mut phases = Phases::new(Arc::clone(&self.around.timer));
        self.around.query.say("Getting offsets from sources", true);
        let starts: Vec<Option<Offset>> = term.ends();
        let proposed = unless_stopped(&self.around.query, self.latest(term, &starts)).await?;
        phases.lap(Phase::LatestOffset);
        let ranges: Vec<OffsetRange> = starts
            .into_iter()
            .zip(&proposed)
            .map(|(start, latest)| OffsetRange {
                start,
                end: latest.end.clone(),
                note: latest.note.clone(),
            })
            .collect();
        let available = !ranges.iter().all(OffsetRange::empty);
        self.around.query.set_data_available(available);
        if !available {
            return Ok(false);
        }
        let intent = self.intent(term, &ranges)?;
        let latest = proposed.into_iter().map(|proposal| proposal.latest).collect();
        let timestamp_ms = intent.batch_timestamp_ms;
        let mut work = Work { batch, ranges, timestamp_ms, latest, phases };
        if planted(Bug::PublishBeforeIntent) {
            let computed = self.compute(term, &mut work).await?;
            let published = self.publish(term, &mut work, computed.outputs).await?;
            self.create_intent(term, batch, intent).await?;
            self.commit(term, work, published, &computed.input_rows).await?;
            return Ok(true);
        }
        self.create_intent(term, batch, intent).await?;
        work.phases.lap(Phase::WalCommit);
        self.run_batch(term, work).await?;
        Ok(true)
    }

    /// Runs an intended batch over the ranges of its intent.
    pub(super) async fn run_again(&self, term: &mut Term, batch: BatchId) -> Result<(), Halt> {
        let phases = Phases::new(Arc::clone(&self.around.timer));
        self.around.query.say("Running the last batch again", true);
        self.around.query.set_data_available(true);
        term.sink.conceal(batch).await?;
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
        let work = Work { batch, ranges, timestamp_ms, latest: Vec::new(), phases };
        self.run_batch(term, work).await
    }

    /// Writes the commit of a batch that is published already; computes nothing.
    pub(super) async fn adopt(
        &self,
        term: &mut Term,
        batch: BatchId,
        published: Published,
        commit: Commit,
    ) -> Result<(), Halt> {
        let phases = Phases::new(Arc::clone(&self.around.timer));
        self.around.query.say("Committing the last batch", true);
        let ranges = term.last_ranges();
        let work = Work { batch, ranges, timestamp_ms: 0, latest: Vec::new(), phases };
        self.commit_with(term, work, published, commit, &[]).await
    }

    async fn latest(&self, term: &Term, starts: &[Option<Offset>]) -> Result<Vec<LatestOffset>> {
        let limit = match self.around.definition.trigger {
            Trigger::Once => ReadLimit::All,
            _ => ReadLimit::Options,
        };
        let asked = term.sources.iter().zip(starts);
        let asked = asked.map(|(it, start)| it.source.latest_offset(start.as_ref(), limit));
        try_join_all(asked).await
    }

    fn intent(&self, term: &Term, ranges: &[OffsetRange]) -> Result<Intent> {
        let conf = &self.around.definition.conf;
        let ids = || term.sources.iter().map(|source| source.id.clone());
        let notes = ids().zip(ranges).filter_map(|(id, range)| Some((id, range.note.clone()?)));
        let notes: std::collections::BTreeMap<String, String> = notes.collect();
        if let Some((id, note)) = notes.iter().find(|it| it.1.len() > OffsetRange::NOTE_BYTES_MAX) {
            return Err(Error::internal(format!(
                "source {id} asks for a note of {} bytes; the most is {}",
                note.len(),
                OffsetRange::NOTE_BYTES_MAX
            )));
        }
        let last = term.facts.last_intent.as_ref();
        let configured = conf.count("spark.sql.streaming.offsetLog.formatVersion")?;
        Ok(Intent {
            version: term.intent_version(configured),
            batch_watermark_ms: term.watermark_ms(),
            batch_timestamp_ms: self.around.timer.now_ms(),
            conf: frozen_conf(last, conf.values()),
            sources: ids().zip(ranges).map(|(id, range)| (id, range.end.clone())).collect(),
            notes,
            query: Some(self.around.query.id),
            generation: Some(term.driver.generation),
            nonce: Some(term.driver.nonce),
            source_metadata_info: last.and_then(|last| last.source_metadata_info.clone()),
            control_batch_info: None,
        })
    }

    async fn create_intent(
        &self,
        term: &mut Term,
        batch: BatchId,
        intent: Intent,
    ) -> Result<(), Halt> {
        term.driver.fence.check().await?;
        crash_point(CrashPoint::IntentBefore);
        match checkpoint::create_intent(term.store.as_ref(), batch, &intent).await? {
            Named::Mine => {}
            Named::Theirs => {
                term.driver.fence.check().await?;
                return Err(Halt::DecideAgain);
            }
        }
        crash_point(CrashPoint::IntentCreated);
        term.intended(batch, intent);
        Ok(())
    }

    /// S3 to S9 of an intended batch.
    async fn run_batch(&self, term: &mut Term, mut work: Work) -> Result<(), Halt> {
        let computed = self.compute(term, &mut work).await?;
        if planted(Bug::CommitBeforePublish) {
            let totals = total(&computed.outputs);
            let commit = self.commit_record(term, Some(totals));
            checkpoint::create_commit(term.store.as_ref(), work.batch, &commit).await?;
        }
        let published = self.publish(term, &mut work, computed.outputs).await?;
        self.commit(term, work, published, &computed.input_rows).await
    }

    /// S3 to S5: plans the ranges, runs the plan, stages its output. What was staged is thrown away
    /// when that fails or the user stops the query.
    async fn compute(&self, term: &Term, work: &mut Work) -> Result<Computed, Halt> {
        self.around.query.say("Processing new data", true);
        let computed = unless_stopped(&self.around.query, self.compute_all(term, work)).await;
        if computed.is_err()
            && let Err(error) = term.sink.discard(&self.attempt(term, work.batch)).await
        {
            tracing::warn!(
                "what batch {} staged is left behind until the next start: {}",
                work.batch,
                error.chain()
            );
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
        let context = BatchContext {
            query: self.around.query.id,
            batch: work.batch,
            timestamp_ms: work.timestamp_ms,
            watermark: BatchWatermark::default(),
            state: None,
        };
        let definition = &self.around.definition;
        let planned = definition.plan.instantiate(&self.around.state, &reads, &context).await?;
        work.phases.lap(Phase::QueryPlanning);
        let reading: i64 = term.sources.iter().map(|it| it.source.take_spent_ms()).sum();
        work.phases.shift(Phase::QueryPlanning, Phase::GetBatch, reading);
        self.around.query.set_physical_plan(Arc::clone(&planned.plan));
        let attempt = self.attempt(term, work.batch);
        let task_context = self.around.state.task_ctx();
        let at_once = self.around.state.config().target_partitions();
        let outputs =
            stage_all(&term.sink, &attempt, &planned.plan, &task_context, at_once).await?;
        crash_point(CrashPoint::StageDone);
        let input_rows = planned.input_rows.iter().map(|it| it.load(Ordering::Relaxed)).collect();
        Ok(Computed { outputs, input_rows })
    }

    fn attempt(&self, term: &Term, batch: BatchId) -> Attempt {
        Attempt { query: self.around.query.id, batch, generation: term.driver.generation }
    }

    /// S5b and S6: the moment of truth.
    async fn publish(
        &self,
        term: &Term,
        work: &mut Work,
        outputs: Vec<StagedOutput>,
    ) -> Result<Published, Halt> {
        let attempt = self.attempt(term, work.batch);
        let totals = total(&outputs);
        if !term.sink.tells_totals() {
            let prepared = Prepared {
                batch: work.batch,
                generation: term.driver.generation,
                next_batch_watermark_ms: term.watermark_ms(),
                totals,
                state: serde_json::Value::Null,
            };
            checkpoint::create_prepared(term.store.as_ref(), &prepared).await?;
            crash_point(CrashPoint::PreparedCreated);
        }
        let fence = Arc::clone(&term.driver.fence);
        let mut published = match term.sink.publish(&attempt, outputs, fence.as_ref()).await {
            Ok(published) => published,
            Err(error) => {
                self.give_up(term, &attempt, &error).await;
                return Err(error.into());
            }
        };
        work.phases.lap(Phase::AddBatch);
        let ours = published.mark.query == Some(attempt.query)
            && published.mark.generation == Some(attempt.generation);
        if !ours {
            // Another driver was first: stop if it is newer, take over what it did if it is older.
            fence.check().await?;
            return Err(Halt::DecideAgain);
        }
        published.totals = published.totals.or(Some(totals));
        Ok(published)
    }

    /// Throws the staged output away, but only where it is certain that nothing was published.
    async fn give_up(&self, term: &Term, attempt: &Attempt, error: &Error) {
        if !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Fenced) {
            return;
        }
        if let Err(error) = term.sink.discard(attempt).await {
            tracing::warn!("staged output of batch {} is left: {}", attempt.batch, error.chain());
        }
    }

    fn commit_record(&self, term: &Term, totals: Option<Totals>) -> Commit {
        let version = term.facts.last_commit.as_ref().map_or(1, |last| last.version);
        Commit {
            version,
            next_batch_watermark_ms: term.watermark_ms(),
            state_unique_ids: (version >= 2).then(|| "{}".to_owned()),
            generation: Some(term.driver.generation),
            totals,
        }
    }

    async fn commit(
        &self,
        term: &mut Term,
        work: Work,
        published: Published,
        input_rows: &[u64],
    ) -> Result<(), Halt> {
        let commit = self.commit_record(term, published.totals);
        self.commit_with(term, work, published, commit, input_rows).await
    }

    /// S7 to S9: the batch is over for ever; sources let go; old logs go in the background.
    async fn commit_with(
        &self,
        term: &mut Term,
        mut work: Work,
        published: Published,
        commit: Commit,
        input_rows: &[u64],
    ) -> Result<(), Halt> {
        self.around.query.say("Committing", true);
        term.sink.settle(&published).await?;
        if planted(Bug::ReleaseBeforeCommit) {
            release(term, &work.ranges).await;
        }
        term.driver.fence.check().await?;
        crash_point(CrashPoint::CommitBefore);
        checkpoint::create_commit(term.store.as_ref(), work.batch, &commit).await?;
        crash_point(CrashPoint::CommitCreated);
        term.facts.last_commit = Some(commit);
        term.facts.commit_ids = vec![work.batch];
        term.facts.mark = Some(published);
        term.next = Next::Plan { batch: work.batch.next() };
        release(term, &work.ranges).await;
        self.purge(term, work.batch).await;
        work.phases.lap(Phase::CommitOffsets);
        let report = Report {
            batch: work.batch,
            ranges: &work.ranges,
            latest: &work.latest,
            input_rows,
            published,
            phases: &work.phases,
            looked_before_ms: self.looked_before_ms(),
        };
        let description = self.around.definition.sink.description();
        self.tell(progress(&self.around.query, term, &description, &report));
        Ok(())
    }

    /// Starts to delete the logs that are older than the settings ask for. One purge at a time: the
    /// next one takes what a slow one left.
    async fn purge(&self, term: &mut Term, committed: BatchId) {
        let keep_from = if planted(Bug::PurgeTooMuch) {
            committed.next()
        } else {
            keep_from(committed, term.retained.batches)
        };
        if keep_from <= term.retained.from {
            return;
        }
        match &term.purge {
            Some(running) if !running.is_finished() => return,
            _ => {}
        }
        let purge = Purge {
            store: Arc::clone(&term.store),
            sink: Arc::clone(&term.sink),
            sources: term.sources.iter().map(|it| Arc::clone(&it.source) as _).collect(),
            gone_before: term.retained.from,
            keep_from,
            prepared_by: (!term.sink.tells_totals()).then_some(term.driver.generation),
        };
        term.retained.from = keep_from;
        term.purge = Some(tokio::spawn(async move {
            if let Err(error) = purge.run().await {
                tracing::warn!("old logs were not all deleted: {}", error.chain());
            }
        }));
    }
}

impl Term {
    /// Where the newest intent ends for each source: where the next batch begins.
    fn ends(&self) -> Vec<Option<Offset>> {
        let end = |id: &str| {
            let last = self.facts.last_intent.as_ref()?;
            last.sources.iter().find(|(known, _)| known == id)?.1.clone()
        };
        self.sources.iter().map(|source| end(&source.id)).collect()
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

fn total(outputs: &[StagedOutput]) -> Totals {
    outputs.iter().fold(Totals::default(), |sum, output| sum.plus(output.totals))
}
