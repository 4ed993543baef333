//! Which keys the database may have. To ask it for one that it has not is the dearest part of a
//! stream of new keys, so what surely is not there is not asked for.
//!
//! A group's filter has every key of the group that was written to the database since the group was
//! empty there, or since its keys were last read for that. It may be absent, as after a start: then
//! the database is asked, and when it was asked in vain so often that reading all its keys would
//! have cost no more, they are read.

use crate::place::Place;
use crate::{KEY_GROUPS, KeyGroup, OperatorSpec};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bits for each key, and how many of them are set: about one key in a hundred is taken for another.
const BITS: u64 = 10;
const PROBES: u32 = 6;

/// A line of a processor's cache: all bits of a key are in one.
const LINE: u64 = 512;

/// A filter of more parts than this is made anew in one.
const PARTS: usize = 4;

/// To read all keys costs as much as asking in vain for one in so many.
const READ: u64 = 4;

/// A part is for at least so many keys.
const LEAST: u64 = 64;

/// A group's filter.
#[derive(Debug, Default)]
struct Filter {
    parts: Vec<Part>,
    keys: u64,
}

/// Bits for a number of keys that was known when it was made.
#[derive(Debug)]
struct Part {
    lines: Vec<[u64; 8]>,
    /// Keys that may be added.
    room: u64,
}

impl Part {
    fn new(keys: u64) -> Self {
        let lines = (keys * BITS).div_ceil(LINE).max(1);
        Part { lines: vec![[0; 8]; usize::try_from(lines).unwrap_or(1)], room: keys }
    }

    /// Line and bits of a key.
    #[inline]
    fn spread(&self, hash: u64) -> (usize, impl Iterator<Item = (usize, u64)> + use<>) {
        let line = ((hash >> 32) * self.lines.len() as u64) >> 32;
        // The lower half chooses the bits, nine of the product for each.
        let mixed = (hash & 0xffff_ffff).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bits = (1..=PROBES).map(move |probe| {
            let bit = (mixed >> (64 - 9 * probe)) & (LINE - 1);
            ((bit / 64) as usize, 1 << (bit % 64))
        });
        (line as usize, bits)
    }

    fn add(&mut self, hash: u64) {
        let (line, bits) = self.spread(hash);
        if let Some(line) = self.lines.get_mut(line) {
            for (word, bit) in bits {
                if let Some(word) = line.get_mut(word) {
                    *word |= bit;
                }
            }
        }
        self.room = self.room.saturating_sub(1);
    }

    #[inline]
    fn may_have(&self, hash: u64) -> bool {
        let (line, mut bits) = self.spread(hash);
        self.lines.get(line).is_none_or(|line| {
            bits.all(|(word, bit)| line.get(word).is_none_or(|word| word & bit != 0))
        })
    }
}

impl Filter {
    /// Adds keys; `false` if it has become too large for its rows or is in too many parts.
    fn add(&mut self, hashes: &[u64], rows: u64) -> bool {
        for (index, hash) in hashes.iter().enumerate() {
            if self.parts.last().is_none_or(|part| part.room == 0) {
                let coming = (hashes.len() - index) as u64;
                self.parts.push(Part::new(LEAST.max(self.keys).max(coming)));
            }
            if let Some(part) = self.parts.last_mut() {
                part.add(*hash);
                self.keys += 1;
            }
        }
        self.parts.len() <= PARTS && self.keys <= LEAST.max(rows * 2)
    }

    fn memory(&self) -> u64 {
        let lines: usize = self.parts.iter().map(|part| part.lines.len()).sum();
        lines as u64 * (LINE / 8)
    }
}

/// A group's filter, if there is one, and how many keys were asked for in vain without.
#[derive(Debug, Default)]
struct Group {
    filter: Option<Filter>,
    missed: AtomicU64,
}

/// The filters of all families, by key group.
#[derive(Debug)]
pub(super) struct Filters {
    operators: Vec<Vec<Vec<Group>>>,
}

impl Filters {
    /// None yet.
    pub(super) fn new(operators: &[OperatorSpec]) -> Self {
        let groups = || (0..KEY_GROUPS).map(|_| Group::default()).collect();
        let families = |spec: &OperatorSpec| spec.families.iter().map(|_| groups()).collect();
        Filters { operators: operators.iter().map(families).collect() }
    }

    fn group(&self, place: Place, group: KeyGroup) -> Option<&Group> {
        self.operators.get(place.operator)?.get(place.family)?.get(usize::from(group))
    }

    fn group_mut(&mut self, place: Place, group: KeyGroup) -> Option<&mut Group> {
        let families = self.operators.get_mut(place.operator)?;
        families.get_mut(place.family)?.get_mut(usize::from(group))
    }

    /// Whether the database may have a key of this hash.
    #[inline]
    pub(super) fn may_have(&self, place: Place, group: KeyGroup, hash: u64) -> bool {
        let filter = self.group(place, group).and_then(|group| group.filter.as_ref());
        filter.is_none_or(|filter| filter.parts.iter().any(|part| part.may_have(hash)))
    }

    /// The database was asked for a key that it does not have.
    pub(super) fn missed(&self, place: Place, group: KeyGroup) {
        if let Some(group) = self.group(place, group).filter(|group| group.filter.is_none()) {
            group.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether keys written to a group are to be added; `anew`: it had none before.
    pub(super) fn wants(&self, place: Place, group: KeyGroup, anew: bool) -> bool {
        anew || self.group(place, group).is_some_and(|group| group.filter.is_some())
    }

    /// Keys are written to the database, after which a group has at most `rows` there. `anew`: it
    /// had none before.
    pub(super) fn add(
        &mut self,
        place: Place,
        group: KeyGroup,
        hashes: &[u64],
        (rows, anew): (u64, bool),
    ) {
        let Some(group) = self.group_mut(place, group) else { return };
        if anew {
            *group = Group { filter: Some(Filter::default()), missed: AtomicU64::new(0) };
        }
        if group.filter.as_mut().is_some_and(|filter| !filter.add(hashes, rows)) {
            *group = Group::default();
        }
    }

    /// Whether a group with that many rows was asked in vain so often that a filter pays.
    pub(super) fn pays(&self, place: Place, group: KeyGroup, rows: u64) -> bool {
        let group = self.group(place, group).filter(|group| group.filter.is_none());
        group.is_some_and(|group| group.missed.load(Ordering::Relaxed) > LEAST.max(rows / READ))
    }

    pub(super) fn clear(&mut self) {
        self.operators.iter_mut().flatten().flatten().for_each(|group| *group = Group::default());
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> u64 {
        let groups = self.operators.iter().flatten().flatten();
        groups.filter_map(|group| group.filter.as_ref()).map(Filter::memory).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::Filters;
    use crate::place::Place;
    use crate::{Access, FamilySpec, OperatorSpec};
    use arrow::datatypes::Schema;
    use std::sync::Arc;

    const PLACE: Place = Place { operator: 0, family: 0 };

    fn filters() -> Filters {
        let schema = Arc::new(Schema::empty());
        let family = FamilySpec {
            name: "f".into(),
            key: Arc::clone(&schema),
            value: schema,
            access: Access::Point,
            counted: true,
        };
        Filters::new(&[OperatorSpec {
            id: 0,
            kind: "k".into(),
            label: "l".into(),
            families: vec![family],
            single: false,
        }])
    }

    /// Looks random and depends on the number alone.
    fn hash(number: u64) -> u64 {
        xxhash_rust::xxh3::xxh3_64(&number.to_le_bytes())
    }

    #[test]
    fn all_keys_written_may_be_there_and_few_others() {
        let mut filters = filters();
        let mut rows = 0;
        for part in 0..3 {
            let more = 1_000 << part;
            let hashes: Vec<u64> = (rows..rows + more).map(hash).collect();
            rows += more;
            filters.add(PLACE, 7, &hashes, (rows, part == 0));
        }
        assert!((0..rows).all(|number| filters.may_have(PLACE, 7, hash(number))));
        let wrong =
            (rows..rows + 10_000).filter(|number| filters.may_have(PLACE, 7, hash(*number)));
        let wrong = wrong.count();
        assert!(wrong < 600, "{wrong} of 10,000");
        assert!(filters.memory() < rows * 3, "{} bytes for {rows} keys", filters.memory());
        // Another group has no filter.
        assert!(filters.may_have(PLACE, 8, hash(1)));
    }

    #[test]
    fn a_filter_of_keys_that_are_mostly_gone_is_given_up_and_made_anew_when_that_pays() {
        let mut filters = filters();
        let hashes: Vec<u64> = (0..1_000).map(hash).collect();
        filters.add(PLACE, 0, &hashes, (1_000, true));
        assert!(!filters.may_have(PLACE, 0, hash(5_000)));
        filters.add(PLACE, 0, &hashes, (900, false));
        // 2,000 keys were added for 900 rows.
        assert!(filters.may_have(PLACE, 0, hash(5_000)));
        assert_eq!(filters.memory(), 0);
        assert!(!filters.pays(PLACE, 0, 900));
        (0..225).for_each(|_| filters.missed(PLACE, 0));
        assert!(!filters.pays(PLACE, 0, 900));
        filters.missed(PLACE, 0);
        assert!(filters.pays(PLACE, 0, 900));
        filters.add(PLACE, 0, &hashes[..900], (900, true));
        assert!(!filters.pays(PLACE, 0, 900));
        assert!(!filters.may_have(PLACE, 0, hash(5_000)));
    }

    #[test]
    fn keys_of_a_group_without_a_filter_do_not_make_one() {
        let mut filters = filters();
        filters.add(PLACE, 0, &[hash(1)], (10, false));
        assert!(filters.may_have(PLACE, 0, hash(2)));
    }
}
