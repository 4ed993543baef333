//! A base in the memory of the process.

use super::{Base, BaseVersion, Writes};
use crate::budget::{MemoryBudget, Share};
use crate::counts::{Change, Counts};
use crate::place::{Place, Written};
use crate::rows::Rows;
use crate::{KEY_GROUPS, KeyGroup, OperatorSpec, RowVisitor, StateRow};
use onefold_types::{Error, Result};
use std::ops::{Bound, Range};

/// What holding a row costs beyond the bytes of its key and value: two fat pointers, their share
/// of the map's free room, and what the allocator adds to two allocations.
pub(crate) const ROW_OVERHEAD: u64 = 80;

/// The rows of one family in one key group.
type Group = Rows<Box<[u8]>>;

/// All rows in memory: a map for each family and key group.
#[derive(Debug)]
pub(crate) struct MemoryBase {
    operators: Vec<Vec<Vec<Group>>>,
    counts: Counts,
    share: Share,
    rows: u64,
    bytes: u64,
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
            rows: 0,
            bytes: 0,
        }
    }

    fn group(&self, place: Place, group: KeyGroup) -> Result<&Group> {
        let family = self.operators.get(place.operator).and_then(|at| at.get(place.family));
        family.and_then(|at| at.get(usize::from(group))).ok_or_else(|| no_such(place))
    }

    /// Puts or removes a row, whatever the budget says, and tells how the counts change.
    fn write(&mut self, place: Place, row: Written) -> Result<Change> {
        let family = self.operators.get_mut(place.operator).and_then(|at| at.get_mut(place.family));
        let rows = family.and_then(|at| at.get_mut(usize::from(row.group)));
        let rows = rows.ok_or_else(|| no_such(place))?;
        let key = row.key.len();
        let new = row.value.as_ref().map(|value| value.len());
        let old = match row.value {
            // The key that is there stays: the new one is dropped.
            Some(value) => match rows.get_mut(&row.key) {
                Some(held) => Some(std::mem::replace(held, value)),
                None => rows.insert(row.key, value),
            },
            None => rows.remove(&row.key),
        };
        Ok(Change::of(key, old.map(|value| value.len()), new))
    }

    fn count(&mut self, place: Place, group: KeyGroup, change: Change) {
        if let Some(counts) = self.counts.family_mut(place.operator, place.family) {
            counts.change(group, change);
        }
        self.rows = self.rows.saturating_add_signed(change.rows);
        self.bytes = self.bytes.saturating_add_signed(change.bytes);
    }

    fn memory(&self) -> u64 {
        self.bytes + self.rows * ROW_OVERHEAD
    }
}

fn no_such(place: Place) -> Error {
    Error::internal(format!("no family {} of operator {}", place.family, place.operator))
}

impl Base for MemoryBase {
    fn get(&self, place: Place, keys: &[(KeyGroup, &[u8])]) -> Result<Vec<Option<Box<[u8]>>>> {
        let get =
            |(group, key): &(KeyGroup, &[u8])| Ok(self.group(place, *group)?.get(key).cloned());
        keys.iter().map(get).collect()
    }

    fn value_length(&self, place: Place, group: KeyGroup, key: &[u8]) -> Result<Option<usize>> {
        Ok(self.group(place, group)?.get(key).map(|value| value.len()))
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
        Ok(rows.map(|(key, value)| StateRow { key: key.into(), value: value.clone() }).collect())
    }

    fn for_each(&self, place: Place, groups: Range<u32>, each: &mut RowVisitor<'_>) -> Result<()> {
        for group in groups.filter_map(|group| u8::try_from(group).ok()) {
            for (key, value) in self.group(place, group)?.iter() {
                each(group, key, value)?;
            }
        }
        Ok(())
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }

    fn apply(&mut self, writes: Writes<'_>, _version: &BaseVersion) -> Result<()> {
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
        (self.rows, self.bytes) = (0, 0);
        self.share.set(0);
        Ok(())
    }

    fn load(&mut self, place: Place, row: Written) -> Result<()> {
        let group = row.group;
        let change = self.write(place, row)?;
        self.count(place, group, change);
        self.share.cover(self.memory())
    }

    fn loaded(&mut self, _version: &BaseVersion) -> Result<()> {
        Ok(())
    }

    fn held(&self) -> Option<&BaseVersion> {
        None
    }
}
