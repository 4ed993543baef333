//! A base in the memory of the process.

use super::maps::Maps;
use super::{Base, BaseVersion, Writes};
use crate::budget::{MemoryBudget, Share};
use crate::counts::{Change, Counts};
use crate::place::{Place, WrittenRef};
use crate::rows::Rows;
use crate::{KeyGroup, OperatorSpec, RowVisitor, StateRow};
use onefold_types::Result;
use std::ops::{Bound, Range};

/// Memory is counted anew after so many loaded rows.
const LOADS_BETWEEN: usize = 4_096;

/// All rows in memory.
#[derive(Debug)]
pub(crate) struct MemoryBase {
    maps: Maps<()>,
    counts: Counts,
    share: Share,
    /// Rows loaded since memory was counted.
    loads: usize,
}

impl MemoryBase {
    pub(crate) fn new(operators: &[OperatorSpec], budget: &MemoryBudget) -> Self {
        MemoryBase {
            maps: Maps::new(operators),
            counts: Counts::empty(operators),
            share: budget.share(),
            loads: 0,
        }
    }
}

/// Puts or removes a row, whatever the budget says.
fn take(rows: &mut Rows<()>, row: WrittenRef<'_>) -> Result<()> {
    match row.value {
        Some(value) => rows.insert(row.key, (), value).map(|_| ()),
        None => rows.remove(row.key).map(|_| ()),
    }
}

impl Base for MemoryBase {
    fn get(&self, place: Place, keys: &[(KeyGroup, &[u8])]) -> Result<Vec<Option<Box<[u8]>>>> {
        let get = |(group, key): &(KeyGroup, &[u8])| {
            Ok(self.maps.group(place, *group)?.get(key).map(|((), value)| value.into()))
        };
        keys.iter().map(get).collect()
    }

    fn value_length(&self, place: Place, group: KeyGroup, key: &[u8]) -> Result<Option<usize>> {
        Ok(self.maps.group(place, group)?.get(key).map(|((), value)| value.len()))
    }

    fn remember_reads(&self) -> bool {
        false
    }

    fn has_room(&self) -> Result<()> {
        self.share.within()
    }

    fn scan(
        &self,
        place: Place,
        group: KeyGroup,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        limit: usize,
    ) -> Result<Vec<StateRow>> {
        let rows = self.maps.group(place, group)?.range(from, to).take(limit);
        Ok(rows.map(|(key, (), value)| StateRow { key: key.into(), value: value.into() }).collect())
    }

    fn for_each(&self, place: Place, groups: Range<u32>, each: &mut RowVisitor<'_>) -> Result<()> {
        for group in groups.filter_map(|group| u8::try_from(group).ok()) {
            for (key, (), value) in self.maps.group(place, group)?.iter() {
                each(group, key, value)?;
            }
        }
        Ok(())
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }

    fn apply(&mut self, writes: Writes<'_>, _version: &BaseVersion) -> Result<()> {
        self.maps.take(writes.rows, take)?;
        self.counts.change_all(writes.changes);
        self.share.set(self.maps.memory());
        Ok(())
    }

    fn clear(&mut self) -> Result<()> {
        self.maps.clear();
        self.counts.clear();
        self.loads = 0;
        self.share.set(0);
        Ok(())
    }

    fn load(&mut self, place: Place, row: WrittenRef<'_>) -> Result<()> {
        let Some(value) = row.value else { return Ok(()) };
        let rows = self.maps.group_mut(place, row.group)?;
        let old = rows.insert(row.key, (), value)?.map(|((), length)| length);
        let change = Change::of(row.key.len(), old, Some(value.len()));
        self.counts.change_all(&[(place, row.group, change)]);
        self.loads += 1;
        if self.loads.is_multiple_of(LOADS_BETWEEN) {
            self.share.cover(self.maps.memory())
        } else {
            Ok(())
        }
    }

    fn loaded(&mut self, _version: &BaseVersion) -> Result<()> {
        self.maps.settle();
        self.share.cover(self.maps.memory())
    }

    fn held(&self) -> Option<&BaseVersion> {
        None
    }
}
