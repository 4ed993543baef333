//! The write set of one operator in one partition within a batch.

use crate::arena::Tag;
use crate::budget::Share;
use crate::counts::Change;
use crate::layered::KeyVisitor;
use crate::place::WrittenRef;
use crate::rows::Rows;
use crate::{KeyGroup, OperatorSpec};
use onefold_types::{Error, Result};
use std::ops::{Bound, Range};

/// Memory is counted anew after so many writes, or so many bytes of them.
const WRITES_BETWEEN: usize = 512;
const BYTES_BETWEEN: usize = 64 * 1024;

/// What the batch did to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// Only read it.
    Read,
    Put,
    Removed,
}

/// What the batch knows of a row beside its value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    act: Act,
    /// Length of the value in the base, plus one; 0 if the base has no such row.
    base: u32,
}

impl Cell {
    pub(crate) fn new(act: Act, base: Option<usize>) -> Self {
        let length = |base| u32::try_from(base).unwrap_or(u32::MAX - 1).saturating_add(1);
        Cell { act, base: base.map_or(0, length) }
    }

    pub(crate) fn base(self) -> Option<usize> {
        self.base.checked_sub(1).map(|length| length as usize)
    }
}

impl Tag for Cell {
    type Bytes = [u8; 5];

    fn to_bytes(self) -> [u8; 5] {
        let act = match self.act {
            Act::Read => 0,
            Act::Put => 1,
            Act::Removed => 2,
        };
        let [a, b, c, d] = self.base.to_le_bytes();
        [act, a, b, c, d]
    }

    fn of_bytes([act, a, b, c, d]: [u8; 5]) -> Self {
        let act = match act {
            0 => Act::Read,
            1 => Act::Put,
            _ => Act::Removed,
        };
        Cell { act, base: u32::from_le_bytes([a, b, c, d]) }
    }
}

/// One family's cells.
#[derive(Debug)]
struct Family {
    /// One map for each key group of the partition.
    groups: Vec<Rows<Cell>>,
    changes: Vec<Change>,
    change: Change,
}

/// All that a batch wrote for one operator in one partition.
#[derive(Debug)]
pub(crate) struct Overlay {
    operator: usize,
    groups: Range<u32>,
    families: Vec<Family>,
    share: Share,
    /// Writes and bytes since memory was counted.
    writes: usize,
    bytes: usize,
}

/// What the overlay says of a row.
pub(crate) enum Seen<'a> {
    /// Written in this batch: the value, or `None` if removed.
    Written(Option<&'a [u8]>),
    /// Not written; ask the base.
    Base,
}

impl Overlay {
    pub(crate) fn new(
        operator: usize,
        spec: &OperatorSpec,
        groups: Range<u32>,
        share: Share,
    ) -> Self {
        let family = |access| Family {
            groups: groups.clone().map(|_| Rows::new(access)).collect(),
            changes: groups.clone().map(|_| Change::default()).collect(),
            change: Change::default(),
        };
        let families = spec.families.iter().map(|spec| family(spec.access)).collect();
        Overlay { operator, groups, families, share, writes: 0, bytes: 0 }
    }

    pub(crate) fn operator(&self) -> usize {
        self.operator
    }

    pub(crate) fn groups(&self) -> Range<u32> {
        self.groups.clone()
    }

    fn at(&self, group: KeyGroup) -> Option<usize> {
        u32::from(group).checked_sub(self.groups.start).map(|at| at as usize)
    }

    fn rows(&self, family: usize, group: KeyGroup) -> Result<&Rows<Cell>> {
        let at = self.at(group);
        let found = self.families.get(family).and_then(|family| family.groups.get(at?));
        found.ok_or_else(|| self.foreign(family, group))
    }

    fn foreign(&self, family: usize, group: KeyGroup) -> Error {
        Error::internal(format!(
            "family {family}, key group {group} is not of operator {} in key groups {}..{}",
            self.operator, self.groups.start, self.groups.end
        ))
    }

    /// What this batch knows of a row.
    pub(crate) fn see(&self, family: usize, group: KeyGroup, key: &[u8]) -> Result<Seen<'_>> {
        Ok(match self.rows(family, group)?.get(key) {
            Some((Cell { act: Act::Put, .. }, value)) => Seen::Written(Some(value)),
            Some((Cell { act: Act::Removed, .. }, _)) => Seen::Written(None),
            Some((Cell { act: Act::Read, .. }, _)) | None => Seen::Base,
        })
    }

    /// Remembers what the base said of a row.
    pub(crate) fn remember(
        &mut self,
        family: usize,
        group: KeyGroup,
        key: &[u8],
        base: Option<usize>,
    ) -> Result<()> {
        let spot = self.rows(family, group)?.spot(key);
        if self.rows(family, group)?.at(spot).is_some() {
            return Ok(());
        }
        self.count(key.len())?;
        let at = self.at(group);
        let rows = self.families.get_mut(family).and_then(|family| family.groups.get_mut(at?));
        if let Some(rows) = rows {
            rows.put(spot, key, Cell::new(Act::Read, base), &[])?;
        }
        Ok(())
    }

    /// Writes a row. `base` is asked for the length of the value in the base unless known.
    pub(crate) fn write(
        &mut self,
        family: usize,
        group: KeyGroup,
        key: &[u8],
        value: Option<&[u8]>,
        base: impl FnOnce() -> Result<Option<usize>>,
    ) -> Result<()> {
        self.count(key.len() + value.map_or(0, <[u8]>::len))?;
        let at = self.at(group);
        let found = self.families.get_mut(family).and_then(|family| {
            let at = at?;
            let (rows, changed) = (family.groups.get_mut(at)?, family.changes.get_mut(at)?);
            Some((rows, changed, &mut family.change))
        });
        let Some((rows, of_group, of_family)) = found else {
            return Err(self.foreign(family, group));
        };
        let spot = rows.spot(key);
        let (old, base) = match rows.at(spot) {
            Some((cell @ Cell { act: Act::Read, .. }, _)) => (cell.base(), cell.base()),
            Some((cell @ Cell { act: Act::Removed, .. }, _)) => (None, cell.base()),
            Some((cell, held)) => (Some(held.len()), cell.base()),
            None => {
                let base = base()?;
                // What neither is in the base nor stays afterwards needs no cell.
                if base.is_none() && value.is_none() {
                    return Ok(());
                }
                (base, base)
            }
        };
        let act = if value.is_some() { Act::Put } else { Act::Removed };
        rows.put(spot, key, Cell::new(act, base), value.unwrap_or_default())?;
        let change = Change::of(key.len(), old, value.map(<[u8]>::len));
        of_group.add(change);
        of_family.add(change);
        Ok(())
    }

    /// Counts memory now and then, and before what would add much.
    fn count(&mut self, bytes: usize) -> Result<()> {
        self.writes += 1;
        self.bytes += bytes;
        if self.writes < WRITES_BETWEEN && self.bytes < BYTES_BETWEEN {
            return Ok(());
        }
        let coming = std::mem::take(&mut self.bytes);
        self.writes = 0;
        self.share.cover((self.memory() + coming) as u64)
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        self.families.iter().flat_map(|family| &family.groups).map(Rows::memory).sum()
    }

    /// How the rows of a family have changed, in a group or in all.
    pub(crate) fn change(&self, family: usize, group: Option<KeyGroup>) -> Change {
        let Some(family) = self.families.get(family) else { return Change::default() };
        match group {
            None => family.change,
            Some(group) => {
                let change = self.at(group).and_then(|at| family.changes.get(at));
                change.copied().unwrap_or_default()
            }
        }
    }

    /// The changes of a family by key group.
    pub(crate) fn changes(&self, family: usize) -> impl Iterator<Item = (KeyGroup, Change)> {
        let changes = self.families.get(family).into_iter().flat_map(|family| &family.changes);
        let groups = self.groups.clone().filter_map(|group| u8::try_from(group).ok());
        groups.zip(changes.copied())
    }

    /// Makes the order of what was written in a group known, for [`Overlay::range`].
    pub(crate) fn settle(&mut self, family: usize, group: KeyGroup) {
        let at = self.at(group);
        let rows = self.families.get_mut(family).and_then(|family| family.groups.get_mut(at?));
        if let Some(rows) = rows {
            rows.settle();
        }
    }

    /// Visits what was written in a group, which is [settled](Overlay::settle), in a range of keys,
    /// in order; of ordered families only.
    pub(crate) fn range(
        &self,
        family: usize,
        group: KeyGroup,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
        visit: &mut KeyVisitor<'_>,
    ) -> Result<()> {
        for (key, cell, value) in self.rows(family, group)?.range(from, to) {
            if let Some(value) = written(cell, value)
                && !visit(key, value)
            {
                break;
            }
        }
        Ok(())
    }

    /// The written rows of a family, in no order.
    pub(crate) fn written(&self, family: usize) -> impl Iterator<Item = WrittenRef<'_>> {
        let groups = self.families.get(family).into_iter().flat_map(|family| &family.groups);
        let numbers = self.groups.clone().filter_map(|group| u8::try_from(group).ok());
        numbers
            .zip(groups)
            .flat_map(|(group, cells)| cells.iter().filter_map(move |row| written_ref(group, row)))
    }

    /// Gives the written rows of a family by group and key.
    pub(crate) fn each_sorted(&self, family: usize, mut each: impl FnMut(WrittenRef<'_>)) {
        let groups = self.families.get(family).into_iter().flat_map(|family| &family.groups);
        let numbers = self.groups.clone().filter_map(|group| u8::try_from(group).ok());
        // One group at a time, so that little is held beside the rows themselves.
        for (group, cells) in numbers.zip(groups) {
            cells.sorted().filter_map(|row| written_ref(group, row)).for_each(&mut each);
        }
    }

    /// How many families the operator has.
    pub(crate) fn families(&self) -> usize {
        self.families.len()
    }

    /// About how many rows were written.
    pub(crate) fn cells(&self) -> usize {
        self.families.iter().flat_map(|family| &family.groups).map(Rows::len).sum()
    }

    /// Gives the written rows of each group of a family, in no order, and lets go of the group then.
    pub(crate) fn give(
        &mut self,
        family: usize,
        each: &mut dyn FnMut(&mut dyn Iterator<Item = WrittenRef<'_>>) -> Result<()>,
    ) -> Result<()> {
        let Some(family) = self.families.get_mut(family) else { return Ok(()) };
        let numbers = self.groups.clone().filter_map(|group| u8::try_from(group).ok());
        for (group, cells) in numbers.zip(family.groups.drain(..)) {
            each(&mut cells.iter().filter_map(|row| written_ref(group, row)))?;
        }
        Ok(())
    }
}

fn written_ref<'a>(
    group: KeyGroup,
    (key, cell, value): (&'a [u8], Cell, &'a [u8]),
) -> Option<WrittenRef<'a>> {
    let value = written(cell, value)?;
    Some(WrittenRef { group, key, value, existed: cell.base().is_some() })
}

/// What was written of a row; `None` if nothing was.
fn written(cell: Cell, value: &[u8]) -> Option<Option<&[u8]>> {
    match cell.act {
        Act::Read => None,
        Act::Put => Some(Some(value)),
        Act::Removed => Some(None),
    }
}
