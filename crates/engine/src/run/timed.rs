//! A source that knows how long its reads took to plan.

use crate::timer::Timer;
use async_trait::async_trait;
use datafusion::physical_plan::ExecutionPlan;
use onefold_connector::{LatestOffset, ReadLimit, ScanRequest, Source};
use onefold_types::{BatchId, Offset, OffsetRange, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// A source with a stopwatch around `read`.
#[derive(Debug)]
pub(crate) struct TimedSource {
    inner: Arc<dyn Source>,
    timer: Arc<dyn Timer>,
    spent_ms: AtomicI64,
}

impl TimedSource {
    pub(crate) fn new(inner: Arc<dyn Source>, timer: Arc<dyn Timer>) -> Self {
        TimedSource { inner, timer, spent_ms: AtomicI64::new(0) }
    }

    /// Milliseconds since the last call.
    pub(crate) fn take_spent_ms(&self) -> i64 {
        self.spent_ms.swap(0, Ordering::Relaxed)
    }
}

#[async_trait]
impl Source for TimedSource {
    async fn pin_available(&self) -> Result<()> {
        self.inner.pin_available().await
    }

    async fn latest_offset(
        &self,
        start: Option<&Offset>,
        limit: ReadLimit,
    ) -> Result<LatestOffset> {
        self.inner.latest_offset(start, limit).await
    }

    fn notices_arrivals(&self) -> bool {
        self.inner.notices_arrivals()
    }

    async fn arrival(&self) {
        self.inner.arrival().await;
    }

    async fn read(
        &self,
        range: &OffsetRange,
        scan: ScanRequest<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let began = self.timer.now_ms();
        let plan = self.inner.read(range, scan).await;
        let spent = self.timer.now_ms().saturating_sub(began).max(0);
        self.spent_ms.fetch_add(spent, Ordering::Relaxed);
        plan
    }

    async fn release(&self, range: &OffsetRange) -> Result<()> {
        self.inner.release(range).await
    }

    async fn retain(&self, keep_from: BatchId) -> Result<()> {
        self.inner.retain(keep_from).await
    }

    fn metrics(&self, range: &OffsetRange) -> BTreeMap<String, String> {
        self.inner.metrics(range)
    }
}
