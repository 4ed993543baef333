//! What a stateful operator is given in a batch, and what it tells of it.

use crate::late::LateOutlet;
use datafusion::physical_plan::metrics::Time;
use onefold_state::{BatchState, OperatorId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// What an operator that keeps results emits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmitMode {
    /// Each result once, when no later row can change it.
    Append,
    /// The results that this batch changed.
    Update,
    /// All results.
    Complete,
}

/// One stateful operator in one batch.
#[derive(Debug, Clone)]
pub struct OperatorContext {
    /// The operator's number in the query.
    pub id: OperatorId,
    /// The state that the batch works on.
    pub state: Arc<dyn BatchState>,
    /// A row whose event time is at or before this is late and dropped: the watermark of the batch
    /// before, in milliseconds since 1970. `None`: nothing is late.
    pub late_ms: Option<i64>,
    /// State whose event time is at or before this is done with: this batch's watermark, in
    /// milliseconds since 1970. `None`: nothing is evicted.
    pub evict_ms: Option<i64>,
    /// The batch's time from its intent, in milliseconds since 1970.
    pub batch_time_ms: i64,
    /// What to emit.
    pub mode: EmitMode,
    /// Where to count.
    pub metrics: Arc<OperatorMetrics>,
    /// Where late rows go; `None` forgets them.
    pub late_rows: Option<LateOutlet>,
}

/// What one operator did in one batch, summed over its partitions. Whole when the batch's plan has
/// run to its end.
#[derive(Debug, Default)]
pub struct OperatorMetrics {
    rows_total: AtomicU64,
    rows_updated: AtomicU64,
    rows_removed: AtomicU64,
    rows_dropped_by_watermark: AtomicU64,
    late_rows: AtomicU64,
    rows_dropped_as_duplicates: AtomicU64,
    partitions: AtomicU64,
    variables: OnceLock<BTreeMap<&'static str, u64>>,
    update_time: Time,
    removal_time: Time,
}

impl OperatorMetrics {
    /// Rows of state after the batch (Spark's `numRowsTotal`).
    #[must_use]
    pub fn rows_total(&self) -> u64 {
        self.rows_total.load(Ordering::Relaxed)
    }

    /// Rows of state written (Spark's `numRowsUpdated`). Of sessions all count that a key with new
    /// rows has.
    #[must_use]
    pub fn rows_updated(&self) -> u64 {
        self.rows_updated.load(Ordering::Relaxed)
    }

    /// Rows of state removed (Spark's `numRowsRemoved`; of an outer join Spark counts only what it
    /// removes without giving it out).
    #[must_use]
    pub fn rows_removed(&self) -> u64 {
        self.rows_removed.load(Ordering::Relaxed)
    }

    /// What was late as Spark counts it (`numRowsDroppedByWatermark`): an aggregation counts its
    /// late groups, another operator its late rows.
    #[must_use]
    pub fn rows_dropped_by_watermark(&self) -> u64 {
        self.rows_dropped_by_watermark.load(Ordering::Relaxed)
    }

    /// Rows that were late, each counted.
    #[must_use]
    pub fn late_rows(&self) -> u64 {
        self.late_rows.load(Ordering::Relaxed)
    }

    /// Rows dropped as duplicates (Spark's `numDroppedDuplicateRows`).
    #[must_use]
    pub fn rows_dropped_as_duplicates(&self) -> u64 {
        self.rows_dropped_as_duplicates.load(Ordering::Relaxed)
    }

    /// In how many partitions the operator has run to its end.
    #[must_use]
    pub fn partitions(&self) -> u64 {
        self.partitions.load(Ordering::Relaxed)
    }

    /// Time spent on taking rows into the state, summed over partitions.
    #[must_use]
    pub fn update_time(&self) -> &Time {
        &self.update_time
    }

    /// Time spent on removing state, summed over partitions.
    #[must_use]
    pub fn removal_time(&self) -> &Time {
        &self.removal_time
    }

    /// How many variables of which kind a processor has, by Spark's names.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.variables.get().into_iter().flatten().map(|(name, count)| (*name, *count))
    }

    pub(crate) fn has_variables(&self, counts: &BTreeMap<&'static str, u64>) {
        // Each partition says the same.
        let _ = self.variables.set(counts.clone());
    }

    pub(crate) fn updated(&self, rows: usize) {
        add(&self.rows_updated, rows);
    }

    pub(crate) fn removed(&self, rows: usize) {
        add(&self.rows_removed, rows);
    }

    /// Late rows, and as how many Spark counts them.
    pub(crate) fn late(&self, rows: usize, as_in_spark: usize) {
        add(&self.late_rows, rows);
        add(&self.rows_dropped_by_watermark, as_in_spark);
    }

    pub(crate) fn duplicates(&self, rows: usize) {
        add(&self.rows_dropped_as_duplicates, rows);
    }

    /// A partition is through, with that many rows of state in it.
    pub(crate) fn partition_done(&self, rows: u64) {
        self.rows_total.fetch_add(rows, Ordering::Relaxed);
        self.partitions.fetch_add(1, Ordering::Relaxed);
    }
}

fn add(counter: &AtomicU64, rows: usize) {
    counter.fetch_add(u64::try_from(rows).unwrap_or(u64::MAX), Ordering::Relaxed);
}
