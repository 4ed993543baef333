//! Operators with state over several batches, with the state in memory.

use crate::memory::{Memory, batch, context, range};
use arrow::array::{ArrayRef, Int64Array, StringArray, TimestampMicrosecondArray};
use arrow::record_batch::RecordBatch;
use arrow::util::display::array_value_to_string;
use datafusion::physical_plan::execute_stream_partitioned;
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;
use onefold_connector::{OutputMode, Source};
use onefold_plan::sql;
use onefold_plan::stream::{BatchWatermark, StreamingPlan};
use onefold_state::StateStore;
use onefold_types::{BatchId, OffsetRange};
use std::sync::Arc;

mod dedup;
mod floats;
mod frames;
mod joins;
mod rules;
mod windows;

/// Rows of `ts TIMESTAMP, k STRING, v BIGINT`; times in seconds since 1970.
pub fn rows(rows: &[(f64, &str, i64)]) -> RecordBatch {
    let times = rows.iter().map(|(time, ..)| (time * 1e6).round() as i64);
    let times = TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC");
    let keys = StringArray::from_iter_values(rows.iter().map(|(_, key, _)| *key));
    let values = Int64Array::from_iter_values(rows.iter().map(|(.., value)| *value));
    let columns: [(&str, ArrayRef, bool); 3] =
        [("ts", Arc::new(times), true), ("k", Arc::new(keys), true), ("v", Arc::new(values), true)];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// A session with the streams `events` and `others`.
pub fn streams() -> SessionContext {
    let context = context();
    for name in ["events", "others"] {
        let memory = Memory::new(vec![vec![rows(&[])]]);
        context.register_table(name, memory.table(None)).unwrap();
    }
    context
}

/// A running query: its batches follow each other as the engine makes them, with the state in
/// memory and the least of the watermarks as the query's.
pub struct Running {
    context: SessionContext,
    pub plan: StreamingPlan,
    store: StateStore,
    next: u64,
    latest: Vec<Option<i64>>,
    watermark: BatchWatermark,
    /// Rows dropped as late in the last batch, by operator.
    pub late: Vec<u64>,
    /// Rows of state after the last batch, by operator.
    pub total: Vec<u64>,
}

impl Running {
    pub async fn sql(text: &str, mode: OutputMode) -> Self {
        let context = streams();
        let plan = sql::query(&context, text).await.unwrap();
        Self::new(context, StreamingPlan::new(plan, mode).unwrap())
    }

    pub fn new(context: SessionContext, plan: StreamingPlan) -> Self {
        let operators = plan.operators(&context.state()).unwrap();
        let store = StateStore::in_memory(operators, 3).unwrap();
        let latest = vec![None; plan.watermarks().len()];
        let watermark = BatchWatermark::default();
        let (late, total) = (Vec::new(), Vec::new());
        Running { context, plan, store, next: 0, latest, watermark, late, total }
    }

    /// Runs a batch over rows of one source: what comes out, sorted.
    pub async fn one(&mut self, rows: &[(f64, &str, i64)]) -> Vec<String> {
        self.batch(&[rows]).await
    }

    /// Runs a batch over rows of each source, spread over two partitions.
    pub async fn batch(&mut self, sources: &[&[(f64, &str, i64)]]) -> Vec<String> {
        let reads: Vec<(Arc<dyn Source>, OffsetRange)> = sources
            .iter()
            .map(|all| {
                let (first, second) = all.split_at(all.len() / 2);
                let memory = Memory::new(vec![vec![rows(first)], vec![rows(second)]]);
                (memory as Arc<dyn Source>, range())
            })
            .collect();
        let state = self.store.begin(BatchId(self.next)).unwrap();
        let mut about = batch(self.next);
        about.watermark = self.watermark;
        about.state = Some(Arc::clone(&state) as _);
        let instance = self.plan.instantiate(&self.context.state(), &reads, &about).await.unwrap();
        drop(about);
        let task = self.context.task_ctx();
        let streams = execute_stream_partitioned(instance.plan, task).unwrap();
        let all = streams.into_iter().map(TryStreamExt::try_collect::<Vec<RecordBatch>>);
        let mut lines = Vec::new();
        for batches in futures::future::try_join_all(all).await.unwrap() {
            for batch in batches {
                lines.extend((0..batch.num_rows()).map(|row| line(&batch, row)));
            }
        }
        self.late = instance.operators.iter().map(|it| it.metrics.late_rows()).collect();
        self.total = instance.operators.iter().map(|it| it.metrics.rows_total()).collect();
        for (place, stats) in instance.event_times.iter().enumerate() {
            let delay = self.plan.watermarks()[place].delay_ms;
            let seen = stats.max_ms().map(|max| max - delay);
            self.latest[place] = self.latest[place].max(seen);
        }
        self.store.apply(&state).await.unwrap();
        self.next += 1;
        let least = self.latest.iter().map(|it| it.unwrap_or(0)).min().unwrap_or(0);
        self.watermark = BatchWatermark {
            late_ms: self.watermark.evict_ms,
            evict_ms: self.watermark.evict_ms.max(least),
        };
        lines
    }

    /// What a batch gives, where the order of rows means nothing.
    pub async fn sorted(&mut self, rows: &[(f64, &str, i64)]) -> Vec<String> {
        let mut lines = self.one(rows).await;
        lines.sort();
        lines
    }

    /// Whether the engine would make a batch without new data now.
    pub fn wants_more(&self) -> bool {
        self.plan.wants_no_data_batch(self.watermark.late_ms, self.watermark.evict_ms)
    }
}

fn line(batch: &RecordBatch, row: usize) -> String {
    let values = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
    values.collect::<Vec<_>>().join(" ")
}

pub const NOTHING: [&str; 0] = [];
