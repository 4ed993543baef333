//! Key groups: which partition owns a key.

use std::ops::Range;

/// How many key groups there are. Fixed for ever: it is part of the format of state files.
pub const KEY_GROUPS: u32 = 256;

/// A key group, `0..KEY_GROUPS`.
pub type KeyGroup = u8;

/// The key group of a grouping key: the low byte of its XXH3 (64 bits, seed 0). Part of the format
/// of state files.
#[must_use]
pub fn key_group(grouping_key: &[u8]) -> KeyGroup {
    // The low byte is what is wanted.
    xxhash_rust::xxh3::xxh3_64(grouping_key).to_le_bytes()[0]
}

/// The partition that owns a key group when there are `partitions` (`1..=KEY_GROUPS`) of them.
#[must_use]
pub fn partition_of(group: KeyGroup, partitions: u32) -> u32 {
    u32::from(group) * partitions / KEY_GROUPS
}

/// The key groups that a partition owns, as numbers `0..=KEY_GROUPS` half-open.
#[must_use]
pub fn groups_of(partition: u32, partitions: u32) -> Range<u32> {
    let first = |partition: u32| (partition * KEY_GROUPS).div_ceil(partitions);
    first(partition)..first(partition + 1)
}

#[cfg(test)]
mod tests {
    use super::{KEY_GROUPS, groups_of, key_group, partition_of};

    #[test]
    fn every_group_has_one_owner_for_any_number_of_partitions() {
        for partitions in 1..=KEY_GROUPS {
            let mut owned = 0;
            for partition in 0..partitions {
                for group in groups_of(partition, partitions) {
                    assert_eq!(partition_of(u8::try_from(group).unwrap(), partitions), partition);
                    owned += 1;
                }
            }
            assert_eq!(owned, KEY_GROUPS);
        }
    }

    #[test]
    fn the_group_of_a_key_never_changes() {
        // XXH3 gives 2d06800538d394c2 for the empty input and e6c632b61e964e1f for "a".
        assert_eq!(key_group(b""), 0xc2);
        assert_eq!(key_group(b"a"), 0x1f);
    }
}
