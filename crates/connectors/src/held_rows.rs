//! Staged rows of the sinks that keep them in the process: console and memory.

use crate::file_sink::plan_failed;
use arrow::array::RecordBatch;
use futures::StreamExt;
use onefold_connector::{Attempt, RowStream, StagedOutput};
use onefold_types::{BatchId, Generation, Result, Totals};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Rows by attempt and partition.
#[derive(Debug, Default)]
pub(crate) struct HeldRows {
    held: Mutex<BTreeMap<(BatchId, Generation, u32), Vec<RecordBatch>>>,
}

impl HeldRows {
    fn locked(&self) -> MutexGuard<'_, BTreeMap<(BatchId, Generation, u32), Vec<RecordBatch>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a partition to its end and keeps its first rows, `rows_max` at most.
    pub(crate) async fn stage(
        &self,
        attempt: &Attempt,
        partition: u32,
        rows: RowStream,
        rows_max: usize,
    ) -> Result<StagedOutput> {
        let mut kept = Vec::new();
        let mut room = rows_max;
        let staged = drain(partition, rows, |batch| {
            let count = room.min(batch.num_rows());
            if count > 0 {
                room -= count;
                kept.push(batch.slice(0, count));
            }
        });
        let staged = staged.await?;
        self.locked().insert((attempt.batch, attempt.generation, partition), kept);
        Ok(staged)
    }

    /// Takes what an attempt staged, in the order of its partitions.
    pub(crate) fn take(&self, attempt: &Attempt) -> Vec<RecordBatch> {
        let mut held = self.locked();
        let key = |partition| (attempt.batch, attempt.generation, partition);
        let keys: Vec<_> = held.range(key(0)..=key(u32::MAX)).map(|(key, _)| *key).collect();
        keys.iter().filter_map(|key| held.remove(key)).flatten().collect()
    }
}

/// Reads a partition to its end and counts its rows.
pub(crate) async fn drain(
    partition: u32,
    mut rows: RowStream,
    mut each: impl FnMut(&RecordBatch) + Send,
) -> Result<StagedOutput> {
    let mut count = 0;
    while let Some(batch) = rows.next().await {
        let batch = batch.map_err(plan_failed)?;
        count += batch.num_rows() as u64;
        each(&batch);
    }
    let totals = Totals { rows: count, ..Totals::default() };
    Ok(StagedOutput { partition, totals, detail: serde_json::Value::Null })
}
