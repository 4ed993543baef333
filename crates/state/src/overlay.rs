//! The write set of one operator in one partition within a batch.

use crate::budget::Share;
use crate::counts::Change;
use crate::place::{Place, WrittenRef};
use crate::rows::Rows;
use crate::{KeyGroup, OperatorSpec};
use onefold_types::{Error, Result};
use std::ops::{Bound, Range};

/// Memory is counted anew after so many writes, or so many bytes of them.
const WRITES_BETWEEN: usize = 512;
const BYTES_BETWEEN: usize = 64 * 1024;

/// What the batch did to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// Only read it.
    Read,
    Put,
    Removed,
}

/// What the batch knows of a row beside its value.
#[derive(Debug, Clone, Copy)]
struct Cell {
    act: Act,
    /// Length of the value in the base, plus one; 0 if the base has no such row.
    base: u32,
}

impl Cell {
    fn new(act: Act, base: Option<usize>) -> Self {
        let length = |base| u32::try_from(base).unwrap_or(u32::MAX - 1).saturating_add(1);
        Cell { act, base: base.map_or(0, length) }
    }

    fn base(self) -> Option<usize> {
        self.base.checked_sub(1).map(|length| length as usize)
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
        if self.rows(family, group)?.get(key).is_some() {
            return Ok(());
        }
        self.count(key.len())?;
        let at = self.at(group);
        let rows = self.families.get_mut(family).and_then(|family| family.groups.get_mut(at?));
        if let Some(rows) = rows {
            rows.insert(key, Cell::new(Act::Read, base), &[])?;
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
        let (old, base) = match rows.get(key) {
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
        rows.insert(key, Cell::new(act, base), value.unwrap_or_default())?;
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
        let memory: usize =
            self.families.iter().flat_map(|family| &family.groups).map(Rows::memory).sum();
        self.share.cover((memory + coming) as u64)
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

    /// The written rows of a group in a range of keys, in order; of ordered families only.
    pub(crate) fn range<'a>(
        &'a self,
        family: usize,
        group: KeyGroup,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Result<impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a>> {
        let cells = self.rows(family, group)?.range(from, to);
        Ok(cells.filter_map(|(key, cell, value)| Some((key, written(cell, value)?))))
    }

    /// The written rows of a family, in no order.
    pub(crate) fn written(&self, family: usize) -> impl Iterator<Item = WrittenRef<'_>> {
        let groups = self.families.get(family).into_iter().flat_map(|family| &family.groups);
        let numbers = self.groups.clone().filter_map(|group| u8::try_from(group).ok());
        numbers.zip(groups).flat_map(|(group, cells)| {
            let row = move |(key, cell, value)| {
                Some(WrittenRef { group, key, value: written(cell, value)? })
            };
            cells.iter().filter_map(row)
        })
    }

    /// The written rows of a family by group and key.
    pub(crate) fn sorted(&self, family: usize) -> Vec<WrittenRef<'_>> {
        let mut rows: Vec<_> = self.written(family).collect();
        rows.sort_unstable_by(|one, two| (one.group, one.key).cmp(&(two.group, two.key)));
        rows
    }

    /// How many families the operator has.
    pub(crate) fn families(&self) -> usize {
        self.families.len()
    }

    /// About how many rows were written.
    pub(crate) fn cells(&self) -> usize {
        self.families.iter().flat_map(|family| &family.groups).map(Rows::len).sum()
    }

    /// All written rows, in no order.
    pub(crate) fn writes(&self) -> impl Iterator<Item = (Place, WrittenRef<'_>)> {
        (0..self.families.len()).flat_map(|family| {
            let place = Place { operator: self.operator, family };
            self.written(family).map(move |row| (place, row))
        })
    }
}

/// What was written of a row; `None` if nothing was.
fn written(cell: Cell, value: &[u8]) -> Option<Option<&[u8]>> {
    match cell.act {
        Act::Read => None,
        Act::Put => Some(Some(value)),
        Act::Removed => Some(None),
    }
}
