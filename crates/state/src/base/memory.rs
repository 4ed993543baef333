//! A base in the memory of the process.

use super::{Base, BaseVersion, Writes};
use crate::budget::{MemoryBudget, Share};
use crate::counts::{Change, Counts};
use crate::place::{Place, Written, WrittenRef};
use crate::rows::Rows;
use crate::{KEY_GROUPS, KeyGroup, OperatorSpec, RowVisitor, StateRow};
use onefold_types::{Error, Result};
use std::ops::{Bound, Range};

/// Memory is counted anew after so many loaded rows.
const LOADS_BETWEEN: usize = 4_096;

/// The rows of one family in one key group.
type Group = Rows<()>;

/// All rows in memory: a map for each family and key group.
#[derive(Debug)]
pub(crate) struct MemoryBase {
    operators: Vec<Vec<Vec<Group>>>,
    counts: Counts,
    share: Share,
    /// Rows loaded since memory was counted.
    loads: usize,
}

impl MemoryBase {
    pub(crate) fn new(operators: &[OperatorSpec], budget: &MemoryBudget) -> Self {
        let groups = |access| (0..KEY_GROUPS).map(move |_| Rows::new(access)).collect();
        let families = |spec: &OperatorSpec| {
            spec.families.iter().map(|family| groups(family.access)).collect()
        };
        MemoryBase {
            operators: operators.iter().map(families).collect(),
            counts: Counts::empty(operators),
            share: budget.share(),
            loads: 0,
        }
    }

    fn group(&self, place: Place, group: KeyGroup) -> Result<&Group> {
        let family = self.operators.get(place.operator).and_then(|at| at.get(place.family));
        family.and_then(|at| at.get(usize::from(group))).ok_or_else(|| no_such(place))
    }

    /// Puts or removes a row, whatever the budget says, and tells how the counts change.
    fn write(&mut self, place: Place, row: WrittenRef<'_>) -> Result<Change> {
        let family = self.operators.get_mut(place.operator).and_then(|at| at.get_mut(place.family));
        let rows = family.and_then(|at| at.get_mut(usize::from(row.group)));
        let rows = rows.ok_or_else(|| no_such(place))?;
        let old = match row.value {
            Some(value) => rows.insert(row.key, (), value)?.map(|((), length)| length),
            None => rows.remove(row.key)?,
        };
        Ok(Change::of(row.key.len(), old, row.value.map(<[u8]>::len)))
    }

    fn count(&mut self, place: Place, group: KeyGroup, change: Change) {
        if let Some(counts) = self.counts.family_mut(place.operator, place.family) {
            counts.change(group, change);
        }
    }

    fn memory(&self) -> u64 {
        let groups = self.operators.iter().flatten().flatten();
        groups.map(|rows| rows.memory() as u64).sum()
    }
}

fn no_such(place: Place) -> Error {
    Error::internal(format!("no family {} of operator {}", place.family, place.operator))
}

impl Base for MemoryBase {
    fn get(&self, place: Place, keys: &[(KeyGroup, &[u8])]) -> Result<Vec<Option<Box<[u8]>>>> {
        let get = |(group, key): &(KeyGroup, &[u8])| {
            Ok(self.group(place, *group)?.get(key).map(|((), value)| value.into()))
        };
        keys.iter().map(get).collect()
    }

    fn value_length(&self, place: Place, group: KeyGroup, key: &[u8]) -> Result<Option<usize>> {
        Ok(self.group(place, group)?.get(key).map(|((), value)| value.len()))
    }

    fn remember_reads(&self) -> bool {
        false
    }

    fn scan(
        &self,
        place: Place,
        group: KeyGroup,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        limit: usize,
    ) -> Result<Vec<StateRow>> {
        let rows = self.group(place, group)?.range(from, to).take(limit);
        Ok(rows.map(|(key, (), value)| StateRow { key: key.into(), value: value.into() }).collect())
    }

    fn for_each(&self, place: Place, groups: Range<u32>, each: &mut RowVisitor<'_>) -> Result<()> {
        for group in groups.filter_map(|group| u8::try_from(group).ok()) {
            for (key, (), value) in self.group(place, group)?.iter() {
                each(group, key, value)?;
            }
        }
        Ok(())
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }

    fn apply(&mut self, writes: Writes<'_, '_>, _version: &BaseVersion) -> Result<()> {
        for (place, row) in writes.rows {
            self.write(place, row)?;
        }
        for (place, group, change) in writes.changes {
            self.count(*place, *group, *change);
        }
        self.share.set(self.memory());
        Ok(())
    }

    fn clear(&mut self) -> Result<()> {
        let access = |groups: &Vec<Group>| groups.iter().map(Rows::emptied).collect();
        for families in &mut self.operators {
            *families = families.iter().map(access).collect();
        }
        self.counts.clear();
        self.loads = 0;
        self.share.set(0);
        Ok(())
    }

    fn load(&mut self, place: Place, row: Written) -> Result<()> {
        let group = row.group;
        let change = self.write(place, row.borrow())?;
        self.count(place, group, change);
        self.loads += 1;
        if self.loads.is_multiple_of(LOADS_BETWEEN) {
            self.share.cover(self.memory())
        } else {
            Ok(())
        }
    }

    fn loaded(&mut self, _version: &BaseVersion) -> Result<()> {
        self.share.cover(self.memory())
    }

    fn held(&self) -> Option<&BaseVersion> {
        None
    }
}
