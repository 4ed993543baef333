//! Rows in the memory of the process: a map for each family and key group.

use super::WrittenRows;
use crate::arena::Tag;
use crate::overlay::Overlay;
use crate::place::{Place, WrittenRef};
use crate::rows::Rows;
use crate::{KEY_GROUPS, KeyGroup, OperatorSpec};
use onefold_types::{Error, Result};

/// Below so many written rows one thread is as fast as several.
const ROWS_FOR_THREADS: usize = 20_000;

/// The maps of one family, by key group.
type Family<T> = Vec<Rows<T>>;

/// All maps, by operator and family.
#[derive(Debug)]
pub(super) struct Maps<T> {
    operators: Vec<Vec<Family<T>>>,
}

/// Takes a written row into the map of its group.
pub(super) type Take<T> = fn(&mut Rows<T>, WrittenRef<'_>) -> Result<()>;

impl<T: Tag + Send> Maps<T> {
    pub(super) fn new(operators: &[OperatorSpec]) -> Self {
        let groups = |access| (0..KEY_GROUPS).map(move |_| Rows::new(access)).collect();
        let families = |spec: &OperatorSpec| {
            spec.families.iter().map(|family| groups(family.access)).collect()
        };
        Maps { operators: operators.iter().map(families).collect() }
    }

    pub(super) fn group(&self, place: Place, group: KeyGroup) -> Result<&Rows<T>> {
        let family = self.operators.get(place.operator).and_then(|at| at.get(place.family));
        family.and_then(|at| at.get(usize::from(group))).ok_or_else(|| no_such(place))
    }

    pub(super) fn group_mut(&mut self, place: Place, group: KeyGroup) -> Result<&mut Rows<T>> {
        let family = self.operators.get_mut(place.operator).and_then(|at| at.get_mut(place.family));
        family.and_then(|at| at.get_mut(usize::from(group))).ok_or_else(|| no_such(place))
    }

    /// Takes the rows of a batch and makes the order of keys known.
    pub(super) fn take(&mut self, rows: WrittenRows<'_>, take: Take<T>) -> Result<()> {
        match rows {
            WrittenRows::Batch(overlays) => self.take_overlays(overlays, take),
            WrittenRows::File(rows) => {
                for (place, row) in rows {
                    take(self.group_mut(*place, row.group)?, *row)?;
                }
                self.settle();
                Ok(())
            }
        }
    }

    fn take_overlays(&mut self, mut overlays: Vec<Overlay>, take: Take<T>) -> Result<()> {
        let rows: usize = overlays.iter().map(Overlay::cells).sum();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        overlays.sort_by_key(|overlay| (overlay.operator(), overlay.groups().start));
        let mut works = Vec::with_capacity(overlays.len());
        let mut overlays = overlays.into_iter().peekable();
        for (operator, families) in self.operators.iter_mut().enumerate() {
            // What is left of each family, and the group that it begins with.
            let mut left: Vec<&mut [Rows<T>]> =
                families.iter_mut().map(Vec::as_mut_slice).collect();
            let mut first = 0;
            while let Some(overlay) = overlays.next_if(|overlay| overlay.operator() == operator) {
                let range = overlay.groups();
                let (skip, count) = (range.start.saturating_sub(first), range.len());
                let mut own = Vec::with_capacity(left.len());
                for family in &mut left {
                    let rest = std::mem::take(family);
                    let rest = rest.get_mut(skip as usize..).unwrap_or_default();
                    let (groups, rest) = rest.split_at_mut_checked(count).unwrap_or_default();
                    own.push(groups);
                    *family = rest;
                }
                first = range.end;
                works.push(Work { overlay, own });
            }
        }
        if rows < ROWS_FOR_THREADS || threads < 2 || works.len() < 2 {
            return works.into_iter().try_for_each(|work| work.carry_out(take));
        }
        let share = works.len().div_ceil(threads);
        std::thread::scope(|scope| {
            // This thread takes the first share.
            let mut works = works.into_iter().peekable();
            let here: Vec<Work<'_, T>> = works.by_ref().take(share).collect();
            let mut spawned = Vec::new();
            while works.peek().is_some() {
                let own: Vec<Work<'_, T>> = works.by_ref().take(share).collect();
                let carry_out = move || own.into_iter().try_for_each(|work| work.carry_out(take));
                spawned.push(scope.spawn(carry_out));
            }
            here.into_iter().try_for_each(|work| work.carry_out(take))?;
            let ended = || Error::internal("a thread that applied a batch's state ended early");
            spawned.into_iter().try_for_each(|thread| thread.join().map_err(|_| ended())?)
        })
    }

    /// Makes the order of keys known, which reading needs.
    pub(super) fn settle(&mut self) {
        self.operators.iter_mut().flatten().flatten().for_each(Rows::settle);
    }

    pub(super) fn clear(&mut self) {
        let maps = self.operators.iter_mut().flatten().flatten();
        maps.for_each(|rows| *rows = rows.emptied());
    }

    pub(super) fn memory(&self) -> u64 {
        let groups = self.operators.iter().flatten().flatten();
        groups.map(|rows| rows.memory() as u64).sum()
    }

    /// The maps in the order of their places and groups.
    #[cfg(feature = "rocksdb")]
    pub(super) fn iter(&self) -> impl Iterator<Item = (Place, KeyGroup, &Rows<T>)> {
        self.operators.iter().enumerate().flat_map(|(operator, families)| {
            families.iter().enumerate().flat_map(move |(family, groups)| {
                let numbered = (0..=KeyGroup::MAX).zip(groups);
                numbered.map(move |(group, rows)| (Place { operator, family }, group, rows))
            })
        })
    }
}

/// What one partition wrote, and the maps of its groups, by family.
struct Work<'a, T> {
    overlay: Overlay,
    own: Vec<&'a mut [Rows<T>]>,
}

impl<T: Tag> Work<'_, T> {
    fn carry_out(self, take: Take<T>) -> Result<()> {
        let Work { mut overlay, mut own } = self;
        for family in 0..overlay.families() {
            let place = Place { operator: overlay.operator(), family };
            let groups = own.get_mut(family).map(|groups| &mut **groups).unwrap_or_default();
            let mut maps = groups.iter_mut();
            overlay.give(family, &mut |rows| {
                let map = maps.next().ok_or_else(|| no_such(place))?;
                for row in rows {
                    take(map, row)?;
                }
                map.settle();
                Ok(())
            })?;
        }
        Ok(())
    }
}

fn no_such(place: Place) -> Error {
    Error::internal(format!("no family {} of operator {}", place.family, place.operator))
}
