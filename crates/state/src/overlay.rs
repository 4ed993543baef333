//! The write set of one operator in one partition within a batch.

use crate::budget::Share;
use crate::counts::Change;
use crate::place::{Place, Written};
use crate::rows::Rows;
use crate::{KeyGroup, OperatorSpec};
use onefold_types::{Error, Result};
use std::ops::{Bound, Range};

/// What holding a cell costs beyond its bytes; see the memory base.
const CELL_OVERHEAD: u64 = 112;

/// What the batch knows of one row.
#[derive(Debug)]
struct Cell {
    /// Length of the value in the base; `None` if it has no such row.
    base: Option<usize>,
    /// `None`: only read so far. `Some(None)`: removed.
    write: Option<Option<Box<[u8]>>>,
}

impl Cell {
    /// Length of the value as the batch sees it.
    fn length(&self) -> Option<usize> {
        match &self.write {
            Some(value) => value.as_ref().map(|value| value.len()),
            None => self.base,
        }
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
    held: u64,
}

/// A written row: its key group, key, and value unless it was removed.
pub(crate) type WrittenRef<'a> = (KeyGroup, &'a [u8], Option<&'a [u8]>);

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
        Overlay { operator, groups, families, share, held: 0 }
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
        let family_rows = self.families.get(family);
        family_rows.and_then(|rows| rows.groups.get(at?)).ok_or_else(|| self.foreign(family, group))
    }

    fn foreign(&self, family: usize, group: KeyGroup) -> Error {
        Error::internal(format!(
            "family {family}, key group {group} is not of operator {} in key groups {}..{}",
            self.operator, self.groups.start, self.groups.end
        ))
    }

    /// What this batch knows of a row.
    pub(crate) fn see(&self, family: usize, group: KeyGroup, key: &[u8]) -> Result<Seen<'_>> {
        let cell = self.rows(family, group)?.get(key);
        Ok(match cell.and_then(|cell| cell.write.as_ref()) {
            Some(value) => Seen::Written(value.as_deref()),
            None => Seen::Base,
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
        if self.rows(family, group)?.get(key).is_none() {
            self.hold(Some(key.len()), 0)?;
            let rows = self.rows_mut(family, group)?;
            rows.insert(key.into(), Cell { base, write: None });
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
        let new = value.map(<[u8]>::len);
        self.hold(None, new.unwrap_or(0))?;
        let rows = self.rows_mut(family, group)?;
        let old = match rows.get_mut(key) {
            Some(cell) => {
                let old = cell.length();
                cell.write = Some(value.map(Into::into));
                old
            }
            None => {
                let base = base()?;
                // What neither is in the base nor stays afterwards needs no cell.
                if base.is_none() && value.is_none() {
                    return Ok(());
                }
                self.hold(Some(key.len()), 0)?;
                let cell = Cell { base, write: Some(value.map(Into::into)) };
                self.rows_mut(family, group)?.insert(key.into(), cell);
                base
            }
        };
        let change = Change::of(key.len(), old, new);
        let at = self.at(group);
        if let Some(family) = self.families.get_mut(family) {
            family.change.add(change);
            if let Some(of_group) = at.and_then(|at| family.changes.get_mut(at)) {
                of_group.add(change);
            }
        }
        Ok(())
    }

    fn rows_mut(&mut self, family: usize, group: KeyGroup) -> Result<&mut Rows<Cell>> {
        let at = self.at(group);
        let foreign = self.foreign_if_missing(family, at, group);
        if let Some(error) = foreign {
            return Err(error);
        }
        let rows = self.families.get_mut(family).and_then(|rows| rows.groups.get_mut(at?));
        rows.ok_or_else(|| Error::internal("a key group that is there is gone"))
    }

    fn foreign_if_missing(
        &self,
        family: usize,
        at: Option<usize>,
        group: KeyGroup,
    ) -> Option<Error> {
        let there = self.families.get(family).and_then(|rows| rows.groups.get(at?)).is_some();
        (!there).then(|| self.foreign(family, group))
    }

    /// Counts memory: of a new cell with its key, or of a value. Values that are replaced stay
    /// counted until the batch is over, which errs on the safe side.
    fn hold(&mut self, key: Option<usize>, value: usize) -> Result<()> {
        let cell = key.map_or(0, |key| CELL_OVERHEAD + key as u64);
        self.held += cell + value as u64;
        self.share.cover(self.held)
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
        Ok(cells.filter_map(|(key, cell)| Some((key, cell.write.as_ref()?.as_deref()))))
    }

    /// The written rows of a family, in no order.
    pub(crate) fn written(&self, family: usize) -> impl Iterator<Item = WrittenRef<'_>> {
        let groups = self.families.get(family).into_iter().flat_map(|family| &family.groups);
        let numbers = self.groups.clone().filter_map(|group| u8::try_from(group).ok());
        numbers.zip(groups).flat_map(|(group, cells)| {
            cells
                .iter()
                .filter_map(move |(key, cell)| Some((group, key, cell.write.as_ref()?.as_deref())))
        })
    }

    /// The written rows of a family by group and key.
    pub(crate) fn sorted(&self, family: usize) -> Vec<WrittenRef<'_>> {
        let mut rows: Vec<_> = self.written(family).collect();
        rows.sort_unstable_by(|one, two| (one.0, one.1).cmp(&(two.0, two.1)));
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

    /// Takes it apart into the written rows, in no order.
    pub(crate) fn into_writes(self) -> impl Iterator<Item = (Place, Written)> {
        let Overlay { operator, groups, families, .. } = self;
        families.into_iter().enumerate().flat_map(move |(family, rows)| {
            let numbers = groups.clone().filter_map(|group| u8::try_from(group).ok());
            numbers.zip(rows.groups).flat_map(move |(group, cells)| {
                cells.into_iter().filter_map(move |(key, cell)| {
                    let value = cell.write?;
                    Some((Place { operator, family }, Written { group, key, value }))
                })
            })
        })
    }
}
