//! Keys of the database: rows by operator, family, key group and key.

use crate::KeyGroup;
use crate::counts::FamilyCounts;
use crate::format::{Input, put_number};
use crate::place::Place;

/// Key of the database's version.
pub(super) const META: [u8; 1] = [0];

const ROWS: u8 = 1;
const COUNTS: u8 = 2;

/// Operator and family as three bytes that sort. No query has so many of either.
fn place_bytes(place: Place) -> [u8; 3] {
    let operator = u16::try_from(place.operator).unwrap_or(u16::MAX).to_be_bytes();
    let family = u8::try_from(place.family).unwrap_or(u8::MAX);
    [operator[0], operator[1], family]
}

/// What all keys of a family's rows start with.
pub(super) fn family_key(place: Place) -> [u8; 4] {
    let [high, low, family] = place_bytes(place);
    [ROWS, high, low, family]
}

/// The key of a row.
pub(super) fn row_key(place: Place, group: KeyGroup, key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(5 + key.len());
    bytes.extend_from_slice(&family_key(place));
    bytes.push(group);
    bytes.extend_from_slice(key);
    bytes
}

/// A key behind all rows of a group and before those of the next.
pub(super) fn group_end(place: Place, group: KeyGroup) -> Vec<u8> {
    let mut end = row_key(place, group, &[]);
    // The family of a place is below 255, so one of the last two bytes can grow.
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            break;
        }
    }
    end
}

/// The key of a family's counts.
pub(super) fn counts_key(place: Place) -> [u8; 4] {
    let [high, low, family] = place_bytes(place);
    [COUNTS, high, low, family]
}

pub(super) fn encode_counts(counts: &FamilyCounts) -> Vec<u8> {
    let mut bytes = Vec::new();
    for group in 0..=u8::MAX {
        let count = counts.group(group);
        put_number(&mut bytes, count.rows);
        put_number(&mut bytes, count.bytes);
    }
    bytes
}

pub(super) fn decode_counts(bytes: &[u8]) -> Option<FamilyCounts> {
    let mut input = Input::new(bytes);
    let mut counts = FamilyCounts::default();
    for group in 0..=u8::MAX {
        counts.set(group, input.count()?);
    }
    input.is_empty().then_some(counts)
}

#[cfg(test)]
mod tests {
    use super::{decode_counts, encode_counts, group_end, row_key};
    use crate::counts::{Count, FamilyCounts};
    use crate::place::Place;

    #[test]
    fn the_end_of_a_group_lies_behind_its_rows_and_before_the_next() {
        let place = Place { operator: 1, family: 2 };
        for group in [0, 7, 254, 255] {
            let end = group_end(place, group);
            assert!(end > row_key(place, group, &[255; 40]));
            let next = match group {
                255 => row_key(Place { family: 3, ..place }, 0, &[]),
                _ => row_key(place, group + 1, &[]),
            };
            assert!(end <= next);
        }
    }

    #[test]
    fn counts_come_back() {
        let mut counts = FamilyCounts::default();
        counts.set(0, Count { rows: 3, bytes: 400 });
        counts.set(255, Count { rows: u64::MAX, bytes: 1 });
        assert_eq!(decode_counts(&encode_counts(&counts)), Some(counts.clone()));
        assert_eq!(decode_counts(&encode_counts(&counts)[1..]), None);
    }
}
