//! Which old log records may go.

use onefold_types::BatchId;
use std::ops::Range;

/// Fewest batches before the newest that are kept, whatever the settings say: a batch can only run
/// again from the end of the one before.
pub const BATCHES_BEFORE_NEWEST_MIN: u64 = 1;

/// The oldest batch whose records stay once `newest` is committed (or intended), when the settings
/// ask for `batches` (`spark.sql.streaming.minBatchesToRetain`) before it.
#[must_use]
pub fn keep_from(newest: BatchId, batches: u64) -> BatchId {
    BatchId(newest.0.saturating_sub(batches.max(BATCHES_BEFORE_NEWEST_MIN)))
}

/// Takes out of both logs, each ascending, what drivers left there that slept through the purge of
/// a batch: such a driver found the name free when it woke, created its record, and was then fenced.
/// These records say nothing about the batches that are kept, and the next start deletes them.
///
/// Such an id stands below everything that is kept, in one log alone, and the other log has no
/// batch that is missing between. Where a record of a kept batch is lost, one of these does not
/// hold. A purge that is cut off has deleted commits whose intents are still there.
pub fn take_left_behind(intents: &mut Vec<BatchId>, commits: &mut Vec<BatchId>) -> LeftBehind {
    let (Some(planned), Some(done)) = (newest_run(intents), newest_run(commits)) else {
        return LeftBehind::default();
    };
    if planned.end < done.start || done.end < planned.start {
        return LeftBehind::default();
    }
    let of_intents =
        if done.start >= planned.start { alone_below(&planned, intents, commits) } else { 0 };
    let of_commits = alone_below(&done, commits, intents);
    LeftBehind {
        intents: intents.drain(..of_intents).collect(),
        commits: commits.drain(..of_commits).collect(),
    }
}

/// Records of batches long over that a fenced driver left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftBehind {
    /// Ids in `offsets/`.
    pub intents: Vec<BatchId>,
    /// Ids in `commits/`.
    pub commits: Vec<BatchId>,
}

/// How many ids a log has below its newest run, if the other log has none of them.
fn alone_below(run: &Range<BatchId>, log: &[BatchId], other: &[BatchId]) -> usize {
    let below = log.get(..log.partition_point(|id| *id < run.start)).unwrap_or_default();
    if below.iter().any(|id| other.binary_search(id).is_ok()) { 0 } else { below.len() }
}

/// The ids without a hole up to the newest: the lowest of them and the id after the newest.
fn newest_run(ids: &[BatchId]) -> Option<Range<BatchId>> {
    let newest = *ids.last()?;
    let run =
        ids.iter().rev().zip(0..).take_while(|(id, n)| id.0.checked_add(*n) == Some(newest.0));
    let first = run.last().map_or(newest, |(id, _)| *id);
    Some(first..newest.next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(intents: &[u64], commits: &[u64]) -> (usize, usize) {
        let ids = |ids: &[u64]| ids.iter().copied().map(BatchId).collect::<Vec<_>>();
        let (mut kept_intents, mut kept_commits) = (ids(intents), ids(commits));
        let left = take_left_behind(&mut kept_intents, &mut kept_commits);
        assert_eq!([left.intents.clone(), kept_intents].concat(), ids(intents));
        assert_eq!([left.commits.clone(), kept_commits].concat(), ids(commits));
        (left.intents.len(), left.commits.len())
    }

    #[test]
    fn what_sleepers_left_below_a_purge_is_told_from_a_lost_record() {
        assert_eq!(left(&[2, 38, 39, 40], &[38, 39]), (1, 0));
        assert_eq!(left(&[38, 39, 40], &[2, 38, 39]), (0, 1));
        assert_eq!(left(&[1, 4, 38, 39], &[2, 38, 39]), (2, 1));
        // The purge was cut off between commits and intents.
        assert_eq!(left(&[30, 31, 32, 33], &[2, 32, 33]), (0, 1));
        assert_eq!(left(&[2, 30, 31, 32, 33], &[32, 33]), (1, 0));
        assert_eq!(left(&[3, 4, 5], &[4, 5]), (0, 0));
    }

    #[test]
    fn a_lost_record_is_no_left_over() {
        assert_eq!(left(&[0, 1, 2, 4], &[0, 1, 2, 3, 4]), (0, 0));
        assert_eq!(left(&[0, 1, 2, 4], &[0, 1, 2]), (0, 0));
        assert_eq!(left(&[0, 1, 2, 4], &[0, 1, 2, 4]), (0, 0));
        assert_eq!(left(&[0, 1, 2, 3, 4], &[0, 1, 2, 4]), (0, 0));
        assert_eq!(left(&[2, 4, 5], &[3, 4, 5]), (0, 0));
        assert_eq!(left(&[0, 2], &[]), (0, 0));
        assert_eq!(left(&[], &[0, 2]), (0, 0));
        assert_eq!(left(&[2, 40], &[39]), (0, 0));
        assert_eq!(left(&[], &[]), (0, 0));
    }

    #[test]
    fn as_many_batches_stay_as_asked_for_but_never_fewer_than_two() {
        assert_eq!(keep_from(BatchId(250), 100), BatchId(150));
        assert_eq!(keep_from(BatchId(5), 100), BatchId(0));
        assert_eq!(keep_from(BatchId(5), 0), BatchId(4));
    }
}
