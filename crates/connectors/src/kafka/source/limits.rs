//! How far the next batch goes: the share of each partition under a limit, and waiting for more.

use super::offsets::Positions;

/// Where the next batch ends: the newest offsets, or under a limit each partition's share by its
/// size. A share is rounded down, but is at least one record, so that small partitions do not
/// starve; so the sum may be more than the limit by the number of partitions.
///
/// `starts` and `latest` name the same partitions. A partition whose newest offset lies before its
/// start keeps its start.
pub(crate) fn ends(starts: &Positions, latest: &Positions, limit: Option<u64>) -> Positions {
    let size =
        |start: i64, end: i64| u128::try_from(i128::from(end) - i128::from(start)).unwrap_or(0);
    let total: u128 =
        starts.iter().map(|(at, start)| latest.get(at).map_or(0, |end| size(*start, *end))).sum();
    starts
        .iter()
        .map(|(at, start)| {
            let end = latest.get(at).copied().unwrap_or(*start).max(*start);
            let Some(limit) = limit else { return (at.clone(), end) };
            let size = size(*start, end);
            // Both factors are below 2^64, so that the product fits.
            let share = (u128::from(limit) * size / total.max(1)).max(1).min(size);
            let share = i64::try_from(share).unwrap_or(i64::MAX);
            (at.clone(), start.saturating_add(share).min(end))
        })
        .collect()
}

/// Records that wait.
pub(crate) fn waiting(starts: &Positions, latest: &Positions) -> u64 {
    let sizes = starts.iter().map(|(at, start)| {
        let end = latest.get(at).copied().unwrap_or(*start);
        u64::try_from(end.saturating_sub(*start)).unwrap_or(0)
    });
    sizes.fold(0, u64::saturating_add)
}

/// Wait until a batch is worth it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Patience {
    /// Records that make a batch.
    pub(crate) min: u64,
    /// How long to wait for them at most.
    pub(crate) delay_ms: u64,
}

impl Patience {
    /// Whether to wait on. The time is counted from the last batch; the first does not wait.
    pub(crate) fn waits(self, waiting: u64, now_ms: i64, last_ms: Option<i64>) -> bool {
        let Some(last_ms) = last_ms else { return false };
        let waited = now_ms.saturating_sub(last_ms);
        waiting < self.min && u64::try_from(waited).unwrap_or(0) < self.delay_ms
    }
}

#[cfg(test)]
mod tests {
    use super::super::offsets::TopicPartition;
    use super::*;
    use proptest::prelude::*;

    fn at(offsets: &[i64]) -> Positions {
        let numbered = (0..).zip(offsets);
        numbered.map(|(partition, offset)| (TopicPartition::new("t", partition), *offset)).collect()
    }

    fn all(positions: &Positions) -> Vec<i64> {
        positions.values().copied().collect()
    }

    #[test]
    fn a_large_partition_does_not_overflow_the_share_of_a_small_one() {
        let ends = ends(&at(&[0, 0]), &at(&[1 << 33, 5]), Some(1 << 32));
        assert_eq!(all(&ends), [(1 << 32) - 3, 2]);
        let ends = super::ends(&at(&[7, i64::MAX - 2]), &at(&[i64::MAX, i64::MAX]), Some(u64::MAX));
        assert_eq!(all(&ends), [i64::MAX, i64::MAX]);
    }

    #[test]
    fn a_limit_of_one_takes_one_record_of_each_partition_that_has_some() {
        let ends = ends(&at(&[0, 5, 9]), &at(&[100, 5, 10]), Some(1));
        assert_eq!(all(&ends), [1, 5, 10]);
    }

    #[test]
    fn a_batch_waits_for_its_records_but_not_for_ever() {
        let patience = Patience { min: 10, delay_ms: 1_000 };
        assert!(!patience.waits(0, 5_000, None));
        assert!(patience.waits(9, 5_999, Some(5_000)));
        assert!(!patience.waits(9, 6_000, Some(5_000)));
        assert!(!patience.waits(10, 5_001, Some(5_000)));
        // The clock went back.
        assert!(patience.waits(9, 0, Some(5_000)));
    }

    proptest! {
        #[test]
        fn every_end_lies_between_start_and_latest_and_something_is_always_taken(
            pairs in proptest::collection::vec((0..i64::MAX, 0..i64::MAX), 1..9),
            limit in proptest::option::of(1..u64::MAX),
        ) {
            let starts = at(&pairs.iter().map(|(a, b)| *a.min(b)).collect::<Vec<_>>());
            let latest = at(&pairs.iter().map(|(a, b)| *a.max(b)).collect::<Vec<_>>());
            let ends = ends(&starts, &latest, limit);
            let taken = waiting(&starts, &ends);
            for (at, end) in &ends {
                prop_assert!(starts[at] <= *end && *end <= latest[at]);
                prop_assert!(latest[at] == starts[at] || *end > starts[at]);
            }
            if let Some(limit) = limit {
                prop_assert!(taken <= limit.saturating_add(pairs.len() as u64));
            }
        }

        #[test]
        fn the_share_is_by_size(
            sizes in proptest::collection::vec(0..1_000_i64, 1..9),
            limit in 1..1_000_u64,
        ) {
            let starts = at(&vec![0; sizes.len()]);
            let ends = ends(&starts, &at(&sizes), Some(limit));
            let total: i64 = sizes.iter().sum();
            for (size, end) in sizes.iter().zip(ends.values()) {
                let share = (limit as f64 * *size as f64 / total.max(1) as f64).floor() as i64;
                prop_assert_eq!(*end, share.max(1).min(*size));
            }
        }
    }
}
