//! The rows that a batch brings to one side.

use super::candidates::Meeting;
use super::keys::{KeyId, KeyTable};
use super::plan::{JoinPlan, SidePlan, value_of};
use crate::event_time::{instants, late_in, ticks};
use crate::failure;
use crate::keys::{Keys, batch_of, evaluate};
use arrow::array::Array;
use arrow::buffer::NullBuffer;
use arrow::compute::{concat_batches, filter_record_batch, not};
use arrow::record_batch::RecordBatch;
use datafusion::error::{DataFusionError, Result};

/// Small batches are put together up to this many rows.
const CHUNK: usize = 65_536;

/// The rows of one side, late ones left out.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    pub(super) batches: Vec<RecordBatch>,
    pub(super) rows: Vec<Arrival>,
    /// How many were late.
    pub(super) late: usize,
    /// Rows that can meet others, sorted by key.
    sorted: Vec<usize>,
    /// Where the rows of each key begin in `sorted`; one more at the end.
    starts: Vec<usize>,
}

/// A row that arrived.
#[derive(Debug)]
pub(super) struct Arrival {
    /// Batch and row in it.
    pub(super) place: (usize, usize),
    pub(super) key: KeyId,
    /// The value of the side's bound, where it has one that is not NULL.
    pub(super) bound: Option<i64>,
    /// Whether the conditions on the side alone hold and no key is NULL.
    pub(super) joinable: bool,
    /// Whether the conditions on the side alone hold.
    pub(super) admitted: bool,
    /// Whether it has met another row.
    pub(super) matched: bool,
    /// Whether nothing can come of it any more: a row of a semi join that came out.
    pub(super) done: bool,
}

impl Arrivals {
    /// Takes a side's rows of the batch.
    pub(super) fn gather(
        plan: &JoinPlan,
        side: &SidePlan,
        batches: Vec<RecordBatch>,
        late_ms: Option<i64>,
        keys: &mut KeyTable,
    ) -> Result<Self> {
        let mut arrivals = Arrivals::default();
        for batch in together(side, batches)? {
            let batch = arrivals.in_time(side, batch, late_ms)?;
            arrivals.take(plan, side, batch, keys)?;
        }
        Ok(arrivals)
    }

    fn in_time(
        &mut self,
        side: &SidePlan,
        batch: RecordBatch,
        late_ms: Option<i64>,
    ) -> Result<RecordBatch> {
        let (Some(event_time), Some(late_ms)) = (&side.event_time, late_ms) else {
            return Ok(batch);
        };
        let late = late_in(event_time, &batch, late_ms)?;
        let count = late.true_count();
        if count == 0 {
            return Ok(batch);
        }
        self.late += count;
        Ok(filter_record_batch(&batch, &not(&late)?)?)
    }

    fn take(
        &mut self,
        plan: &JoinPlan,
        side: &SidePlan,
        batch: RecordBatch,
        keys: &mut KeyTable,
    ) -> Result<()> {
        let columns = evaluate(&side.keys, &batch)?;
        let mut nulls = None;
        for column in &columns {
            nulls = NullBuffer::union(nulls.as_ref(), column.logical_nulls().as_ref());
        }
        let bounds = match &side.bound {
            Some(bound) => Some(ticks(&instants(&value_of(&bound.value, &batch)?)?)?),
            None => None,
        };
        let admitted = plan.condition.admits(side.side, &batch)?;
        let encoded = Keys::encode(&plan.key_codec, &columns)?;
        self.rows.reserve(batch.num_rows());
        for (row, (group, bytes)) in encoded.iter().enumerate() {
            let null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            let admitted = admitted.as_ref().is_none_or(|admitted| admitted.value(row));
            let bound = bounds.as_ref().filter(|bounds| bounds.is_valid(row));
            self.rows.push(Arrival {
                place: (self.batches.len(), row),
                key: keys.id(bytes, group),
                bound: bound.map(|bounds| bounds.value(row)),
                joinable: admitted && !null,
                admitted,
                matched: false,
                done: false,
            });
        }
        self.batches.push(batch);
        Ok(())
    }

    /// Sorts the rows by key, once all rows of both sides are there.
    pub(super) fn sort(&mut self, keys: usize) {
        let joinable = || self.rows.iter().enumerate().filter(|(_, row)| row.joinable);
        let mut starts = vec![0; keys + 1];
        for (_, row) in joinable() {
            if let Some(count) = starts.get_mut(row.key + 1) {
                *count += 1;
            }
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut next = starts.clone();
        let mut sorted = vec![0; sum];
        for (row, arrival) in joinable() {
            if let Some(next) = next.get_mut(arrival.key) {
                if let Some(slot) = sorted.get_mut(*next) {
                    *slot = row;
                }
                *next += 1;
            }
        }
        self.starts = starts;
        self.sorted = sorted;
    }

    /// The rows of a key that can meet others.
    pub(super) fn of_key(&self, key: KeyId) -> &[usize] {
        let range = self.starts.get(key).zip(self.starts.get(key + 1));
        range.and_then(|(from, to)| self.sorted.get(*from..*to)).unwrap_or_default()
    }

    /// A row, which must be there.
    pub(super) fn row(&self, row: usize) -> Result<&Arrival> {
        self.rows.get(row).ok_or_else(lost_row)
    }
}

impl Meeting for Arrivals {
    fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    fn place(&self, row: usize) -> Result<(usize, usize)> {
        Ok(self.row(row)?.place)
    }

    fn is_matched(&self, row: usize) -> bool {
        self.rows.get(row).is_some_and(|row| row.matched)
    }

    fn set_matched(&mut self, row: usize) {
        if let Some(row) = self.rows.get_mut(row) {
            row.matched = true;
        }
    }
}

/// The error for a number that stands for no row.
pub(super) fn lost_row() -> DataFusionError {
    failure::internal("a join lost a row of its batch")
}

/// The batches with small ones put together.
fn together(side: &SidePlan, batches: Vec<RecordBatch>) -> Result<Vec<RecordBatch>> {
    let (mut made, mut pending, mut rows) = (Vec::new(), Vec::new(), 0);
    for batch in batches.into_iter().filter(|batch| batch.num_rows() > 0) {
        if rows > 0 && rows + batch.num_rows() > CHUNK {
            made.push(concat_batches(&side.schema, &pending)?);
            pending.clear();
            rows = 0;
        }
        rows += batch.num_rows();
        pending.push(batch_of(&side.schema, batch.columns().to_vec(), batch.num_rows())?);
    }
    match pending.as_slice() {
        [] => {}
        [only] => made.push(only.clone()),
        several => made.push(concat_batches(&side.schema, several)?),
    }
    Ok(made)
}
