//! Maps from keys to values, hashed, and sorted as well where the family is read in order.

use crate::Access;
use crate::arena::{Arena, Handle, Row, Tag};
use crate::order::{Order, sorted};
use hashbrown::HashTable;
use onefold_types::Result;
use std::hash::{BuildHasher, RandomState};
use std::marker::PhantomData;
use std::ops::Bound;
use std::sync::OnceLock;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A map from keys to values, each with a small tag. Reading a row touches the table and the row
/// and nothing else.
#[derive(Debug, Clone)]
pub(crate) struct Rows<T> {
    table: HashTable<Handle>,
    arena: Arena,
    /// Of ordered families.
    order: Option<Order>,
    tag: PhantomData<T>,
}

/// Where a key is or would be, until the map is next changed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spot {
    hash: u64,
    handle: Option<Handle>,
}

impl Spot {
    /// The hash of the key.
    #[cfg(feature = "rocksdb")]
    pub(crate) fn hash(self) -> u64 {
        self.hash
    }
}

impl<T: Tag> Rows<T> {
    pub(crate) fn new(access: Access) -> Self {
        let order = match access {
            Access::Point => None,
            Access::Ordered => Some(Order::default()),
        };
        Rows { table: HashTable::new(), arena: Arena::default(), order, tag: PhantomData }
    }

    /// An empty map of the same kind.
    pub(crate) fn emptied(&self) -> Self {
        Rows::new(if self.order.is_some() { Access::Ordered } else { Access::Point })
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Bytes of memory, free room included.
    pub(crate) fn memory(&self) -> usize {
        // One byte of control for each slot; see the table's own documentation.
        let slots = self.table.capacity() * 8 / 7 * (size_of::<Handle>() + 1);
        slots + self.arena.memory() + self.order.as_ref().map_or(0, Order::memory)
    }

    /// Looks for a key.
    pub(crate) fn spot(&self, key: &[u8]) -> Spot {
        let hash = hash(key);
        if self.table.is_empty() {
            return Spot { hash, handle: None };
        }
        let same = |handle: &Handle| self.arena.key::<T>(*handle) == key;
        Spot { hash, handle: self.table.find(hash, same).copied() }
    }

    /// Tag and value of the row there.
    pub(crate) fn at(&self, spot: Spot) -> Option<(T, &[u8])> {
        let row: Row<'_, T> = self.arena.row(spot.handle?)?;
        Some((row.tag, row.value))
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<(T, &[u8])> {
        if self.table.is_empty() { None } else { self.at(self.spot(key)) }
    }

    /// Puts a row at the spot of its key.
    ///
    /// # Errors
    /// Invalid, when the map holds 4 GiB.
    pub(crate) fn put(&mut self, spot: Spot, key: &[u8], tag: T, value: &[u8]) -> Result<()> {
        let Rows { table, arena, order, .. } = self;
        let Some(old) = spot.handle else {
            let handle = arena.push(key, tag, value)?;
            table.insert_unique(spot.hash, handle, |handle| hash(arena.key::<T>(*handle)));
            if let Some(order) = order {
                order.add(handle);
            }
            return Ok(());
        };
        if arena.overwrite(old, tag, value) {
            return Ok(());
        }
        let handle = arena.push(key, tag, value)?;
        if let Some(slot) = table.find_mut(spot.hash, |slot| *slot == old) {
            *slot = handle;
        }
        self.leave(old);
        if let Some(order) = &mut self.order {
            order.add(handle);
        }
        self.close_holes()
    }

    /// Puts a row; the tag and the value's length that it had before.
    ///
    /// # Errors
    /// As [`Rows::put`].
    pub(crate) fn insert(
        &mut self,
        key: &[u8],
        tag: T,
        value: &[u8],
    ) -> Result<Option<(T, usize)>> {
        let spot = self.spot(key);
        let old = self.at(spot).map(|(tag, value)| (tag, value.len()));
        self.put(spot, key, tag, value)?;
        Ok(old)
    }

    /// Removes a row; the length of its value.
    ///
    /// # Errors
    /// As [`Rows::put`].
    pub(crate) fn remove(&mut self, key: &[u8]) -> Result<Option<usize>> {
        let hash = hash(key);
        let arena = &self.arena;
        let Ok(found) = self.table.find_entry(hash, |handle| arena.key::<T>(*handle) == key) else {
            return Ok(None);
        };
        let (handle, _) = found.remove();
        let length = self.arena.row::<T>(handle).map_or(0, |row| row.value.len());
        self.leave(handle);
        self.close_holes()?;
        Ok(Some(length))
    }

    fn leave(&mut self, handle: Handle) {
        self.arena.leave::<T>(handle);
        if let Some(order) = &mut self.order {
            order.lost();
        }
    }

    /// All of them; in key order if the family is ordered and [settled](Rows::settle).
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], T, &[u8])> {
        let sorted = self.order.as_ref().filter(|order| order.is_settled());
        let hashed = self.table.iter().copied().filter(move |_| sorted.is_none());
        let sorted = sorted.into_iter().flat_map(Order::iter);
        hashed.chain(sorted).filter_map(|handle| self.live(handle))
    }

    /// All of them in key order, whether the family is ordered or not.
    pub(crate) fn sorted(&self) -> impl Iterator<Item = (&[u8], T, &[u8])> {
        let known = self.order.as_ref().filter(|order| order.is_settled());
        let handles = match known {
            Some(order) => order.iter().collect(),
            None => sorted::<T>(&self.arena, self.table.iter().copied()),
        };
        handles.into_iter().filter_map(|handle| self.live(handle))
    }

    /// Makes the order of keys known; to be called after writes and before [`Rows::range`].
    pub(crate) fn settle(&mut self) {
        if let Some(order) = &mut self.order {
            order.settle::<T>(&self.arena);
        }
    }

    /// A range in key order, of rows that are settled; none if the family is not ordered or the
    /// range is empty.
    pub(crate) fn range<'a>(
        &'a self,
        from: Bound<&[u8]>,
        to: Bound<&'a [u8]>,
    ) -> impl Iterator<Item = (&'a [u8], T, &'a [u8])> + use<'a, T> {
        let order = self.order.as_ref().filter(|_| !is_empty(from, to));
        let handles = order.map(|order| order.from::<T>(&self.arena, from));
        let rows = handles.into_iter().flatten().filter_map(|handle| self.live(handle));
        rows.take_while(move |(key, _, _)| match to {
            Bound::Unbounded => true,
            Bound::Included(to) => *key <= to,
            Bound::Excluded(to) => *key < to,
        })
    }

    fn live(&self, handle: Handle) -> Option<(&[u8], T, &[u8])> {
        let row: Row<'_, T> = self.arena.row(handle)?;
        (!row.gone).then_some((row.key, row.tag, row.value))
    }

    fn close_holes(&mut self) -> Result<()> {
        if !self.arena.is_hollow() {
            return Ok(());
        }
        self.settle();
        let rows = self.table.len();
        let mut arena = Arena::default();
        let mut order = self.order.as_ref().map(|_| Order::default());
        // A map that was large once must not hold its memory for ever.
        let mut table = HashTable::with_capacity(rows);
        for (key, tag, value) in self.iter() {
            let handle = arena.push(key, tag, value)?;
            if let Some(order) = &mut order {
                order.add(handle);
            }
            table.insert_unique(hash(key), handle, |handle| hash(arena.key::<T>(*handle)));
        }
        if let Some(order) = &mut order {
            order.settle::<T>(&arena);
        }
        (self.table, self.arena, self.order) = (table, arena, order);
        Ok(())
    }
}

/// The hash of a key in this process.
#[inline]
pub(crate) fn hash(key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, seed())
}

/// A seed of this process, so that nobody outside can choose keys that collide.
#[inline]
fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| RandomState::new().hash_one(0_u8))
}

/// Whether no key can lie between the bounds.
pub(crate) fn is_empty(from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
    match (from, to) {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (
            Bound::Included(from) | Bound::Excluded(from),
            Bound::Included(to) | Bound::Excluded(to),
        ) => from >= to,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
