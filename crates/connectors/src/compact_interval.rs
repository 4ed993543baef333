//! How many numbers lie between two compact files of a log: Spark's rule, so that both engines agree.

/// The interval in force: what the compact files found tell, else the wanted one. `compacts` are
/// their numbers, the newest first.
///
/// Two or more compact files: the distance of the newest two. One: an interval that has put it
/// there and is as near to the wanted one as that allows.
pub(crate) fn effective(mut compacts: impl Iterator<Item = u64>, wanted: u64) -> u64 {
    let wanted = wanted.max(1);
    match (compacts.next(), compacts.next()) {
        (Some(newest), Some(before)) => newest.saturating_sub(before).max(1),
        (Some(only), None) => derived(wanted, only.saturating_add(1)),
        _ => wanted,
    }
}

/// A divisor of the count of numbers that the only compact file covers.
fn derived(wanted: u64, count: u64) -> u64 {
    if count <= wanted {
        return count;
    }
    if wanted < count / 2 {
        let divisor = (wanted..=count / 2).find(|d| count.is_multiple_of(*d));
        return divisor.unwrap_or(count);
    }
    count
}

/// Whether a number's file is a compact one.
pub(crate) fn compacts(number: u64, interval: u64) -> bool {
    number.saturating_add(1).is_multiple_of(interval.max(1))
}

/// The first number from this one on whose file is a compact one.
pub(crate) fn next_compact(number: u64, interval: u64) -> u64 {
    let interval = interval.max(1);
    (number / interval + 1).saturating_mul(interval) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_the_one_that_put_the_compact_files_there() {
        let effective = |found: &[u64], wanted| effective(found.iter().rev().copied(), wanted);
        assert_eq!(effective(&[], 10), 10);
        assert_eq!(effective(&[9], 10), 10);
        assert_eq!(effective(&[4], 10), 5);
        assert_eq!(effective(&[29], 4), 5);
        assert_eq!(effective(&[30], 4), 31);
        assert_eq!(effective(&[2, 5], 10), 3);
        assert_eq!(effective(&[], 0), 1);
    }

    #[test]
    fn every_number_of_a_whole_interval_is_compact() {
        assert_eq!(next_compact(0, 10), 9);
        assert_eq!(next_compact(9, 10), 9);
        assert_eq!(next_compact(10, 10), 19);
        assert_eq!(next_compact(7, 1), 7);
        let found: Vec<u64> = (0..25).filter(|number| compacts(*number, 10)).collect();
        assert_eq!(found, [9, 19]);
    }
}
