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

/// The folders of the checkpoint's logs in the order in which a batch's records go: an intent
/// outlives the commit that needs it, so that a purge cut off anywhere leaves no commit alone.
pub const PURGE_ORDER: [&str; 3] = ["_onefold/prepared", "commits", "offsets"];

/// Of the ids found, those to delete, oldest first, so that a purge cut off leaves no hole. The
/// newest two stay, whatever `keep_from` says.
#[must_use]
pub fn outdated(ids: &[BatchId], keep_from: BatchId) -> Vec<BatchId> {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids.dedup();
    ids.truncate(ids.len().saturating_sub(2));
    ids.retain(|id| *id < keep_from);
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[u64]) -> Vec<BatchId> {
        ids.iter().copied().map(BatchId).collect()
    }

    #[test]
    fn as_many_batches_stay_as_asked_for_but_never_fewer_than_two() {
        assert_eq!(keep_from(BatchId(250), 100), BatchId(150));
        assert_eq!(keep_from(BatchId(5), 100), BatchId(0));
        assert_eq!(keep_from(BatchId(5), 0), BatchId(4));
        assert_eq!(outdated(&ids(&[3, 1, 2]), BatchId(9)), ids(&[1]));
        assert_eq!(outdated(&ids(&[7, 8, 9, 10]), BatchId(8)), ids(&[7]));
        assert_eq!(outdated(&[], BatchId(8)), ids(&[]));
    }
}
