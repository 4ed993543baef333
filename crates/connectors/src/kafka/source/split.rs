//! How the ranges of a batch are shared out, so that they are read side by side. The same ranges
//! give the same shares, so that a batch that runs again reads in the same order.

use super::offsets::TopicPartition;

/// A part of one partition, from `start` up to but not including `end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Split {
    pub(crate) at: TopicPartition,
    pub(crate) start: i64,
    pub(crate) end: i64,
}

impl Split {
    fn size(&self) -> u64 {
        u64::try_from(self.end.saturating_sub(self.start)).unwrap_or(0)
    }

    /// Parts of nearly the same size, in order.
    fn divided(&self, parts: u64) -> Vec<Split> {
        let parts = parts.min(self.size()).max(1);
        let mut start = self.start;
        let mut left = self.size();
        (0..parts)
            .map(|part| {
                let size = left / (parts - part);
                left -= size;
                let end = start.saturating_add(i64::try_from(size).unwrap_or(i64::MAX));
                let split = Split { at: self.at.clone(), start, end };
                start = end;
                split
            })
            .collect()
    }
}

/// What a user asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Wish {
    /// `minPartitions`.
    pub(crate) at_least: Option<u64>,
    /// `maxRecordsPerPartition`.
    pub(crate) records_max: Option<u64>,
}

/// More parts than this serve nobody.
const PARTS_MAX: u64 = 100_000;

/// Divides the ranges that hold something as the user wishes; without a wish each is one part.
pub(crate) fn split(ranges: Vec<Split>, wish: Wish) -> Vec<Split> {
    let mut splits: Vec<Split> = ranges.into_iter().filter(|range| range.size() > 0).collect();
    if let Some(max) = wish.records_max {
        let parts = |range: &Split| range.size().div_ceil(max.max(1)).min(PARTS_MAX);
        splits = splits.iter().flat_map(|range| range.divided(parts(range))).collect();
    }
    let wanted = wish.at_least.unwrap_or(0).min(PARTS_MAX);
    if (splits.len() as u64) < wanted { more(&splits, wanted) } else { splits }
}

/// Divides the large ones, each by its share of what the large ones hold.
fn more(splits: &[Split], wanted: u64) -> Vec<Split> {
    let total: u128 = splits.iter().map(|split| u128::from(split.size())).sum();
    let whole = |split: &&Split| parts(split.size(), total, wanted) == 1;
    let small = splits.iter().filter(whole);
    let (count, size) = small
        .fold((0_u64, 0_u128), |(count, size), split| (count + 1, size + u128::from(split.size())));
    let wanted_of_large = wanted.saturating_sub(count).max(1);
    let divide = |split: &Split| {
        if whole(&split) {
            return vec![split.clone()];
        }
        split.divided(parts(split.size(), total - size, wanted_of_large))
    };
    splits.iter().flat_map(divide).collect()
}

/// The share of `wanted`, rounded, at least one.
fn parts(size: u64, total: u128, wanted: u64) -> u64 {
    let doubled = 2 * u128::from(size) * u128::from(wanted);
    let rounded = (doubled + total) / (2 * total.max(1));
    u64::try_from(rounded).unwrap_or(u64::MAX).clamp(1, PARTS_MAX)
}

/// What is read one after the other, by one consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lane {
    /// The same partition is on the same lane from batch to batch, so that its consumer is warm.
    pub(crate) number: usize,
    pub(crate) splits: Vec<Split>,
}

/// Puts splits on lanes. `all` is the sorted list of partitions, of which `splits` hold data; `width`
/// is how many lanes the machine has. Where the user divides ranges each split has its own lane.
pub(crate) fn lanes(
    splits: Vec<Split>,
    all: &[TopicPartition],
    width: usize,
    divided: bool,
) -> Vec<Lane> {
    if divided {
        let numbered = splits.into_iter().enumerate();
        return numbered.map(|(number, split)| Lane { number, splits: vec![split] }).collect();
    }
    let width = width.clamp(1, all.len().max(1));
    let mut lanes: Vec<Lane> =
        (0..width).map(|number| Lane { number, splits: Vec::new() }).collect();
    for split in splits {
        let rank = all.partition_point(|at| *at < split.at);
        if let Some(lane) = lanes.get_mut(rank % width) {
            lane.splits.push(split);
        }
    }
    lanes.retain(|lane| !lane.splits.is_empty());
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(partition: i32, start: i64, end: i64) -> Split {
        Split { at: TopicPartition::new("t", partition), start, end }
    }

    fn sizes(splits: &[Split]) -> Vec<u64> {
        splits.iter().map(Split::size).collect()
    }

    #[test]
    fn without_a_wish_each_partition_with_data_is_one_split() {
        let ranges = vec![range(0, 0, 5), range(1, 3, 3), range(2, 9, 10)];
        assert_eq!(sizes(&split(ranges, Wish::default())), [5, 1]);
    }

    #[test]
    fn a_hot_partition_is_divided_and_small_ones_are_left_whole() {
        let wish = Wish { at_least: Some(6), records_max: None };
        let ranges = vec![range(0, 0, 1), range(1, 0, 1), range(2, 0, 100)];
        assert_eq!(sizes(&split(ranges, wish)), [1, 1, 25, 25, 25, 25]);
    }

    #[test]
    fn no_split_holds_more_records_than_asked() {
        let wish = Wish { at_least: None, records_max: Some(4) };
        assert_eq!(sizes(&split(vec![range(0, 0, 9)], wish)), [3, 3, 3]);
    }

    #[test]
    fn ranges_of_any_size_are_divided_without_overflow() {
        let wish = Wish { at_least: Some(4), records_max: None };
        let ranges = vec![range(0, 0, i64::MAX), range(1, 0, 1 << 33)];
        let splits = split(ranges, wish);
        assert_eq!(splits.len(), 4);
        assert_eq!(splits[2].end, i64::MAX);
    }

    #[test]
    fn a_partition_keeps_its_lane_whoever_else_has_data() {
        let all: Vec<_> = (0..5).map(|partition| TopicPartition::new("t", partition)).collect();
        let lane_of = |splits: Vec<Split>, partition: i32| {
            let lanes = lanes(splits, &all, 2, false);
            let has = |lane: &&Lane| lane.splits.iter().any(|s| s.at.partition == partition);
            lanes.iter().find(has).map(|lane| lane.number)
        };
        let alone = lane_of(vec![range(3, 0, 1)], 3);
        let together = lane_of((0..5).map(|partition| range(partition, 0, 1)).collect(), 3);
        assert_eq!(alone, Some(1));
        assert_eq!(alone, together);
    }

    fn ranges() -> impl Strategy<Value = Vec<Split>> {
        proptest::collection::vec((0..1_i64 << 40, 0..1_i64 << 35), 0..7).prop_map(|all| {
            let numbered = (0..).zip(all);
            numbered
                .map(|(partition, (start, size))| range(partition, start, start + size))
                .collect()
        })
    }

    proptest! {
        #[test]
        fn every_record_is_in_exactly_one_split(
            ranges in ranges(),
            at_least in proptest::option::of(1..50_u64),
            // So that there are not too many.
            records_max in proptest::option::of(1_u64 << 28..1 << 35),
        ) {
            let splits = split(ranges.clone(), Wish { at_least, records_max });
            for range in &ranges {
                let mut next = range.start;
                for split in splits.iter().filter(|split| split.at == range.at) {
                    prop_assert_eq!(split.start, next);
                    prop_assert!(split.end > split.start);
                    next = split.end;
                }
                prop_assert_eq!(next, range.end);
            }
            if let Some(max) = records_max {
                prop_assert!(splits.iter().all(|split| split.size() <= max));
            }
            prop_assert_eq!(&splits, &split(ranges, Wish { at_least, records_max }));
        }

        #[test]
        fn every_split_is_on_exactly_one_lane(ranges in ranges(), width in 1..9_usize) {
            let all: Vec<_> = ranges.iter().map(|range| range.at.clone()).collect();
            let splits = split(ranges, Wish::default());
            let lanes = lanes(splits.clone(), &all, width, false);
            let mut found: Vec<_> = lanes.into_iter().flat_map(|lane| lane.splits).collect();
            found.sort_by(|a, b| a.at.cmp(&b.at));
            prop_assert_eq!(found, splits);
        }
    }
}
