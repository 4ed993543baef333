//! Choosing what a new batch reads: steps S1 and S2.

use super::Runner;
use super::batch::Work;
use super::halt::{Halt, unless_stopped};
use super::phases::{Phase, Phases};
use super::term::{Term, frozen_conf};
use crate::checkpoint::{self, Named};
use crate::trigger::Trigger;
use futures::future::try_join_all;
use onefold_connector::{Fence, LatestOffset, ReadLimit, Source};
use onefold_protocol::record::Intent;
use onefold_storage::crash::{CrashPoint, crash_point};
use onefold_storage::planted::{Bug, planted};
use onefold_types::{BatchId, Error, Offset, OffsetRange, Result};
use std::sync::Arc;

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
        let now_ms = self.around.timer.now_ms();
        if !available && !self.wants_no_data_batch(term, now_ms) {
            return Ok(false);
        }
        let intent = self.intent(term, &ranges, now_ms)?;
        let latest = proposed.into_iter().map(|proposal| proposal.latest).collect();
        let timestamp_ms = intent.batch_timestamp_ms;
        let mut work = Work { batch, again: false, ranges, timestamp_ms, latest, phases };
        if planted(Bug::PublishBeforeIntent) {
            let mut computed = self.compute(term, &mut work).await?;
            let published = self.publish(term, &mut work, &mut computed).await?;
            self.create_intent(term, batch, intent).await?;
            self.commit(term, work, published, computed).await?;
            return Ok(true);
        }
        self.create_intent(term, batch, intent).await?;
        work.phases.lap(Phase::WalCommit);
        self.run_batch(term, work).await?;
        Ok(true)
    }

    /// Whether a batch without input is due: the watermark moved since the last batch, and state
    /// waits for that. Also after a restart, where Spark waits for input, since the log says all
    /// that is needed; so a crash between two batches changes neither of them.
    fn wants_no_data_batch(&self, term: &Term, now_ms: i64) -> bool {
        let definition = &self.around.definition;
        let Some(last) = &term.facts.last_intent else { return false };
        if !definition.conf.flag("spark.sql.streaming.noDataMicroBatches.enabled") {
            return false;
        }
        let (before, now) = (last.batch_watermark_ms, term.watermarks.in_force_ms(now_ms));
        // Some operators want one batch after the other for ever: a query that ends by itself makes
        // one of them.
        let repeated = now <= before && term.last_ranges().iter().all(OffsetRange::empty);
        definition.plan.wants_no_data_batch(before, now) && !(repeated && definition.trigger.ends())
    }

    pub(super) async fn latest(
        &self,
        term: &Term,
        starts: &[Option<Offset>],
    ) -> Result<Vec<LatestOffset>> {
        let limit = match self.around.definition.trigger {
            Trigger::Once => ReadLimit::All,
            _ => ReadLimit::Options,
        };
        let asked = term.sources.iter().zip(starts);
        let asked = asked.map(|(it, start)| it.source.latest_offset(start.as_ref(), limit));
        try_join_all(asked).await
    }

    fn intent(&self, term: &Term, ranges: &[OffsetRange], now_ms: i64) -> Result<Intent> {
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
            batch_watermark_ms: term.watermarks.in_force_ms(now_ms),
            batch_timestamp_ms: now_ms,
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
