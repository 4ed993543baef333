//! Batches of a plan, put together and cut to the size of a message.
//!
//! *Why:* a plan gives batches of a few thousand rows. Each message costs the client an Arrow stream
//! with its schema, and each batch of the result some time in every later step.

use crate::failure::{Failure, Outcome};
use arrow::array::Array;
use arrow::compute::concat_batches;
use arrow::record_batch::RecordBatch;
use onefold_types::Error;

/// Rows of one message: what a client takes well.
const ROWS_MAX: usize = 64 << 10;
/// Bytes of one message, about.
const BYTES_MAX: usize = 4 << 20;

/// What waits for its message.
#[derive(Debug, Default)]
pub(super) struct Gather {
    held: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

impl Gather {
    /// Takes a batch and gives those that are full, in order.
    pub(super) fn add(&mut self, batch: RecordBatch) -> Outcome<Vec<RecordBatch>> {
        let mut full = Vec::new();
        let total = size(&batch);
        let row = (total / batch.num_rows().max(1)).max(1);
        let mut from = 0;
        while from < batch.num_rows() {
            let left = batch.num_rows().saturating_sub(from);
            let by_bytes = BYTES_MAX.saturating_sub(self.bytes) / row;
            let room = ROWS_MAX.saturating_sub(self.rows).min(by_bytes);
            if room == 0 && self.rows > 0 {
                full.extend(self.rest()?);
                continue;
            }
            let count = room.clamp(1, left);
            self.held.push(batch.slice(from, count));
            self.rows = self.rows.saturating_add(count);
            self.bytes = self.bytes.saturating_add(count.saturating_mul(row));
            from = from.saturating_add(count);
        }
        Ok(full)
    }

    /// What is left, as one batch.
    pub(super) fn rest(&mut self) -> Outcome<Option<RecordBatch>> {
        let held = std::mem::take(&mut self.held);
        (self.rows, self.bytes) = (0, 0);
        match held.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(one.clone())),
            [first, ..] => concat_batches(&first.schema(), &held).map(Some).map_err(|error| {
                Failure::execution(&Error::internal("rows cannot be put together").because(error))
            }),
        }
    }
}

/// Bytes of a batch's own rows, whatever its buffers hold besides.
fn size(batch: &RecordBatch) -> usize {
    let columns = batch.columns().iter();
    // A type whose size cannot be told counts with its buffers.
    columns
        .map(|it| it.to_data().get_slice_memory_size().unwrap_or(it.get_array_memory_size()))
        .fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray};
    use arrow::datatypes::Int64Type;
    use std::sync::Arc;

    fn numbers(from: i64, to: i64) -> RecordBatch {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(from..to));
        RecordBatch::try_from_iter([("id", ids)]).unwrap()
    }

    #[test]
    fn small_batches_come_together_and_large_ones_are_cut_and_none_is_lost() {
        let mut gather = Gather::default();
        let mut sizes = Vec::new();
        let mut ids: Vec<i64> = Vec::new();
        let mut note = |batches: Vec<RecordBatch>| {
            for batch in batches {
                sizes.push(batch.num_rows());
                ids.extend(batch.column(0).as_primitive::<Int64Type>().values());
            }
        };
        let mut next = 0;
        for rows in [0, 8192, 8192, 1, 60_000, 200_000, 0, 5] {
            note(gather.add(numbers(next, next + rows)).unwrap());
            next += rows;
        }
        note(gather.rest().unwrap().into_iter().collect());
        assert_eq!(sizes, [65_536, 65_536, 65_536, 65_536, 14_246]);
        assert!(ids.into_iter().eq(0..next));
        assert!(gather.rest().unwrap().is_none());
    }

    #[test]
    fn long_rows_make_shorter_messages_and_one_that_is_too_long_goes_alone() {
        let long = "x".repeat(3 << 20);
        let texts: ArrayRef = Arc::new(StringArray::from(vec![long.as_str(); 3]));
        let batch = RecordBatch::try_from_iter([("t", texts)]).unwrap();
        let mut gather = Gather::default();
        let full = gather.add(batch).unwrap();
        assert_eq!(full.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(gather.rest().unwrap().map(|it| it.num_rows()), Some(1));
        let huge = "x".repeat(9 << 20);
        let texts: ArrayRef = Arc::new(StringArray::from(vec![huge.as_str(); 2]));
        let batch = RecordBatch::try_from_iter([("t", texts)]).unwrap();
        let full = gather.add(batch).unwrap();
        assert_eq!(full.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [1]);
    }
}
