//! Reading the database itself, without what lies over it in memory.

use super::RocksBase;
use super::keys::{family_key, group_end, row_key};
use crate::counts::Counts;
use crate::place::Place;
use crate::rows::hash;
use crate::{KEY_GROUPS, KeyGroup, RowVisitor, StateRow};
use onefold_types::{Error, Result};
use rocksdb::{DBPinnableSlice, DEFAULT_COLUMN_FAMILY_NAME, ReadOptions};
use std::ops::{Bound, Range};

impl RocksBase {
    /// Whether the database has rows of a group.
    pub(super) fn has_below(&self, place: Place, group: KeyGroup) -> bool {
        rows_in(&self.below, place, group) > 0
    }

    /// Whether the database may have a key of that hash.
    #[inline]
    pub(super) fn may_have_below(&self, place: Place, group: KeyGroup, hash: u64) -> bool {
        self.has_below(place, group) && self.filters.may_have(place, group, hash)
    }

    /// Adds to the filters what was written to the database. `below` is what it had before.
    pub(super) fn filter_recent(&mut self) {
        let mut hashes = Vec::new();
        for (place, group, rows) in self.recent.iter() {
            let anew = rows_in(&self.below, place, group) == 0;
            if !self.filters.wants(place, group, anew) {
                continue;
            }
            hashes.clear();
            let new = rows.iter().filter(|(_, recent, _)| !recent.removed && !recent.below);
            hashes.extend(new.map(|(key, _, _)| hash(key)));
            self.filters.add(place, group, &hashes, (rows_in(&self.counts, place, group), anew));
        }
    }

    /// Reads the keys of groups for which filters pay that have none.
    pub(super) fn make_filters(&mut self) -> Result<()> {
        for place in self.places() {
            let pays = |group: &KeyGroup| {
                let rows = rows_in(&self.below, place, *group);
                self.filters.pays(place, *group, rows)
            };
            let wanted: Vec<KeyGroup> = (0..=KeyGroup::MAX).filter(pays).collect();
            for group in wanted {
                let rows = rows_in(&self.below, place, group);
                let mut hashes = Vec::with_capacity(usize::try_from(rows).unwrap_or(0));
                let groups = u32::from(group)..u32::from(group) + 1;
                self.for_each_below(place, groups, &mut |_, key, _| {
                    hashes.push(hash(key));
                    Ok(())
                })?;
                self.filters.add(place, group, &hashes, (rows, true));
            }
        }
        Ok(())
    }

    /// Whether the database has no rows at all.
    pub(super) fn is_below_empty(&self) -> bool {
        let rows = |place: Place| {
            self.below.family(place.operator, place.family).map_or(0, |counts| counts.all().rows)
        };
        self.places().into_iter().all(|place| rows(place) == 0)
    }

    /// Rows of the database itself.
    pub(super) fn scan_below(
        &self,
        place: Place,
        group: KeyGroup,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
        limit: usize,
    ) -> Result<Vec<StateRow>> {
        if !self.has_below(place, group) || crate::rows::is_empty(from, to) {
            return Ok(Vec::new());
        }
        let prefix = row_key(place, group, &[]);
        // The smallest key after another is that one with a zero byte behind it.
        let after = |key: &[u8]| [row_key(place, group, key), vec![0]].concat();
        let start = match from {
            Bound::Unbounded => prefix.clone(),
            Bound::Included(key) => row_key(place, group, key),
            Bound::Excluded(key) => after(key),
        };
        let end = match to {
            Bound::Unbounded => group_end(place, group),
            Bound::Included(key) => after(key),
            Bound::Excluded(key) => row_key(place, group, key),
        };
        let mut read = ReadOptions::default();
        read.set_iterate_upper_bound(end);
        let mut rows = self.db()?.raw_iterator_opt(read);
        rows.seek(start);
        let mut found = Vec::new();
        while found.len() < limit
            && let Some((key, value)) = rows.item()
        {
            let key = key.get(prefix.len()..).unwrap_or_default().into();
            found.push(StateRow { key, value: value.into() });
            rows.next();
        }
        rows.status().map_err(|error| self.read_fault(error))?;
        Ok(found)
    }

    /// Gives all rows that the database itself has in some groups.
    pub(super) fn for_each_below(
        &self,
        place: Place,
        groups: Range<u32>,
        each: &mut RowVisitor<'_>,
    ) -> Result<()> {
        let Some(first) = u8::try_from(groups.start).ok().filter(|_| !groups.is_empty()) else {
            return Ok(());
        };
        // The last group may be 255, behind which no byte comes.
        let end = match groups.end {
            KEY_GROUPS.. => group_end(place, u8::MAX),
            end => row_key(place, u8::try_from(end).unwrap_or(u8::MAX), &[]),
        };
        let mut read = ReadOptions::default();
        read.set_iterate_upper_bound(end);
        read.set_readahead_size(1 << 20);
        read.fill_cache(false);
        let mut rows = self.db()?.raw_iterator_opt(read);
        rows.seek(row_key(place, first, &[]));
        let prefix = family_key(place).len();
        while let Some((key, value)) = rows.item() {
            if let Some((group, key)) = key.get(prefix..).and_then(<[u8]>::split_first) {
                each(*group, key, value)?;
            }
            rows.next();
        }
        rows.status().map_err(|error| self.read_fault(error))
    }

    /// The values of whole keys, in their order.
    pub(super) fn get_below(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<DBPinnableSlice<'_>>>> {
        let db = self.db()?;
        let rows = db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME);
        let rows = rows.ok_or_else(|| Error::internal("the local state has no rows"))?;
        let found = db.batched_multi_get_cf(rows, keys, false).into_iter();
        found.map(|found| found.map_err(|error| self.read_fault(error))).collect()
    }

    pub(super) fn length_below(
        &self,
        place: Place,
        group: KeyGroup,
        key: &[u8],
    ) -> Result<Option<usize>> {
        let found = self.db()?.get_pinned(row_key(place, group, key));
        let found = found.map_err(|error| self.read_fault(error))?;
        if found.is_none() {
            self.filters.missed(place, group);
        }
        Ok(found.map(|value| value.len()))
    }
}

fn rows_in(counts: &Counts, place: Place, group: KeyGroup) -> u64 {
    let family = counts.family(place.operator, place.family);
    family.map_or(0, |family| family.group(group).rows)
}
