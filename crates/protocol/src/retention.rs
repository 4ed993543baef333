//! Which old log records may go.

use onefold_types::BatchId;

/// Fewest batches before the newest that are kept, whatever the settings say: a batch can only run
/// again from the end of the one before.
pub const BATCHES_BEFORE_NEWEST_MIN: u64 = 1;

/// The oldest batch whose records stay once `newest` is committed (or intended), when the settings
/// ask for `batches` (`spark.sql.streaming.minBatchesToRetain`) before it.
#[must_use]
pub fn keep_from(newest: BatchId, batches: u64) -> BatchId {
    BatchId(newest.0.saturating_sub(batches.max(BATCHES_BEFORE_NEWEST_MIN)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_batches_stay_as_asked_for_but_never_fewer_than_two() {
        assert_eq!(keep_from(BatchId(250), 100), BatchId(150));
        assert_eq!(keep_from(BatchId(5), 100), BatchId(0));
        assert_eq!(keep_from(BatchId(5), 0), BatchId(4));
    }
}
