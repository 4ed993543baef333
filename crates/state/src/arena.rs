//! Bytes of many rows in few allocations, and a hash map over them.
//!
//! A row costs its bytes, two short lengths and a slot of a hash table, and reading one touches the
//! table and the row and nothing else. Rows that are replaced by longer or shorter ones leave holes,
//! which are closed when they make up half of the bytes.

use crate::format::{Input, number_length, put_number};
use hashbrown::HashTable;
use onefold_types::{Error, Result};
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Length of the first page; each further one is twice as long, up to the last length.
const FIRST_PAGE: usize = 256;
/// Length of all pages of a large arena. A longer row has a page of its own.
const LAST_PAGE: usize = 1 << 16;
/// Below so many bytes of holes nothing is gained by closing them.
const HOLES: usize = 4 * 1024;

/// Where a row is: its page in the high half, its offset in the low half.
type Handle = u32;

/// Rows of key and value.
#[derive(Debug, Default, Clone)]
struct Arena {
    pages: Vec<Vec<u8>>,
    /// Bytes of rows that are there.
    live: usize,
    /// Bytes of rows that are gone.
    holes: usize,
    memory: usize,
}

impl Arena {
    /// Adds a row.
    ///
    /// # Errors
    /// Invalid, when the arena holds 4 GiB.
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<Handle> {
        let lengths = [key.len() as u64, value.len() as u64];
        let size = lengths.map(number_length).iter().sum::<usize>() + key.len() + value.len();
        let fits = |page: &Vec<u8>| page.capacity() - page.len() >= size && page.len() < LAST_PAGE;
        if !self.pages.last().is_some_and(fits) {
            let next = FIRST_PAGE << self.pages.len().min(8);
            let page = Vec::with_capacity(next.min(LAST_PAGE).max(size));
            self.memory += page.capacity();
            self.pages.push(page);
        }
        let number = self.pages.len() - 1;
        let full = || Error::invalid("one key group of a family holds 4 GiB of state");
        let number = u16::try_from(number).map_err(|_| full())?;
        let page = self.pages.last_mut().ok_or_else(full)?;
        let offset = u16::try_from(page.len()).map_err(|_| full())?;
        lengths.iter().for_each(|length| put_number(page, *length));
        page.extend_from_slice(key);
        page.extend_from_slice(value);
        self.live += size;
        Ok(Handle::from(number) << 16 | Handle::from(offset))
    }

    /// Key and value of a row, and where in its page the value is.
    fn row(&self, handle: Handle) -> Option<(&[u8], &[u8], usize)> {
        let (page, offset) = split(handle);
        let page = self.pages.get(page)?;
        let mut input = Input::new(page.get(offset..)?);
        let (key, value) = (input.length()?, input.length()?);
        let key = input.take(key)?;
        let start = page.len() - input.left();
        Some((key, input.take(value)?, start))
    }

    fn key(&self, handle: Handle) -> &[u8] {
        self.row(handle).map_or(&[], |(key, _, _)| key)
    }

    fn size(&self, handle: Handle) -> usize {
        let (_, offset) = split(handle);
        self.row(handle).map_or(0, |(_, value, start)| start + value.len() - offset)
    }

    /// Overwrites a value by one of the same length.
    fn overwrite(&mut self, handle: Handle, new: &[u8]) -> bool {
        let Some((_, value, start)) = self.row(handle) else { return false };
        if value.len() != new.len() {
            return false;
        }
        let page = self.pages.get_mut(split(handle).0);
        match page.and_then(|page| page.get_mut(start..start + new.len())) {
            Some(place) => {
                place.copy_from_slice(new);
                true
            }
            None => false,
        }
    }

    fn leave(&mut self, handle: Handle) {
        let size = self.size(handle);
        self.live -= size.min(self.live);
        self.holes += size;
    }
}

fn split(handle: Handle) -> (usize, usize) {
    ((handle >> 16) as usize, (handle & 0xffff) as usize)
}

/// A row in the hash table.
#[derive(Debug, Clone, Copy)]
struct Slot<T> {
    handle: Handle,
    tag: T,
}

/// A hash map from keys to values, each with a small tag.
#[derive(Debug, Clone)]
pub(crate) struct PointMap<T> {
    table: HashTable<Slot<T>>,
    arena: Arena,
    seed: u64,
}

impl<T: Copy> PointMap<T> {
    pub(crate) fn new() -> Self {
        PointMap { table: HashTable::new(), arena: Arena::default(), seed: seed() }
    }

    fn hash(&self, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.seed)
    }

    fn find(&self, key: &[u8]) -> Option<&Slot<T>> {
        self.table.find(self.hash(key), |slot| self.arena.key(slot.handle) == key)
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Bytes of memory, free room included.
    pub(crate) fn memory(&self) -> usize {
        // One byte of control for each slot; see the table's own documentation.
        let slots = self.table.capacity() * 8 / 7 * (size_of::<Slot<T>>() + 1);
        slots + self.arena.memory + self.arena.pages.capacity() * size_of::<Vec<u8>>()
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<(T, &[u8])> {
        let slot = self.find(key)?;
        let (_, value, _) = self.arena.row(slot.handle)?;
        Some((slot.tag, value))
    }

    /// Puts a row; the tag and the value's length that it had before.
    ///
    /// # Errors
    /// Invalid, when the map holds 4 GiB.
    pub(crate) fn insert(
        &mut self,
        key: &[u8],
        tag: T,
        value: &[u8],
    ) -> Result<Option<(T, usize)>> {
        let hash = self.hash(key);
        let PointMap { table, arena, seed } = self;
        let found = table.find_mut(hash, |slot| arena.key(slot.handle) == key);
        let Some(slot) = found else {
            let slot = Slot { handle: arena.push(key, value)?, tag };
            let rehash = |slot: &Slot<T>| xxh3_64_with_seed(arena.key(slot.handle), *seed);
            table.insert_unique(hash, slot, rehash);
            return Ok(None);
        };
        let length = arena.row(slot.handle).map_or(0, |(_, value, _)| value.len());
        let old = (slot.tag, length);
        slot.tag = tag;
        if !arena.overwrite(slot.handle, value) {
            let gone = std::mem::replace(&mut slot.handle, arena.push(key, value)?);
            arena.leave(gone);
            self.close_holes()?;
        }
        Ok(Some(old))
    }

    /// Removes a row; the length of its value.
    ///
    /// # Errors
    /// Invalid, when the map holds 4 GiB.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Result<Option<usize>> {
        let hash = self.hash(key);
        let PointMap { table, arena, .. } = self;
        let Ok(found) = table.find_entry(hash, |slot| arena.key(slot.handle) == key) else {
            return Ok(None);
        };
        let (slot, _) = found.remove();
        let length = arena.row(slot.handle).map_or(0, |(_, value, _)| value.len());
        arena.leave(slot.handle);
        self.close_holes()?;
        Ok(Some(length))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], T, &[u8])> {
        self.table.iter().filter_map(|slot| {
            let (key, value, _) = self.arena.row(slot.handle)?;
            Some((key, slot.tag, value))
        })
    }

    fn close_holes(&mut self) -> Result<()> {
        if self.arena.holes < HOLES.max(self.arena.live) {
            return Ok(());
        }
        let mut packed = Arena::default();
        for slot in self.table.iter_mut() {
            if let Some((key, value, _)) = self.arena.row(slot.handle) {
                slot.handle = packed.push(key, value)?;
            }
        }
        self.arena = packed;
        // A map that was large once must not hold its memory for ever.
        if self.table.len() < self.table.capacity() / 4 {
            let (arena, seed) = (&self.arena, self.seed);
            let rehash = |slot: &Slot<T>| xxh3_64_with_seed(arena.key(slot.handle), seed);
            self.table.shrink_to(self.table.len() * 2, rehash);
        }
        Ok(())
    }
}

/// A seed of this process, so that nobody outside can choose keys that collide.
fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| RandomState::new().hash_one(0_u8))
}

#[cfg(test)]
mod tests {
    use super::PointMap;
    use std::collections::BTreeMap;

    #[test]
    fn rows_are_those_of_a_plain_map_through_growth_holes_and_long_values() {
        let mut map = PointMap::new();
        let mut model: BTreeMap<Vec<u8>, (u32, Vec<u8>)> = BTreeMap::new();
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for step in 0..60_000_u32 {
            let key = format!("key {}", random(900)).into_bytes();
            let length = match random(1_000) {
                0 => 70_000 + random(9),
                1..500 => 24,
                _ => random(40),
            };
            let value = vec![step as u8; usize::try_from(length).unwrap()];
            if random(4) == 0 {
                let old = model.remove(&key).map(|(_, value)| value.len());
                assert_eq!(map.remove(&key).unwrap(), old);
            } else {
                let old = model.insert(key.clone(), (step, value.clone()));
                let old = old.map(|(tag, value)| (tag, value.len()));
                assert_eq!(map.insert(&key, step, &value).unwrap(), old);
            }
            let expected = model.get(&key).map(|(tag, value)| (*tag, &**value));
            assert_eq!(map.get(&key), expected);
            assert_eq!(map.len(), model.len());
        }
        let found: BTreeMap<_, _> =
            map.iter().map(|(key, tag, value)| (key.to_vec(), (tag, value.to_vec()))).collect();
        assert_eq!(found, model);
        // Holes were closed on the way, and what is left is not held for ever.
        let bytes: usize = model.iter().map(|(key, (_, value))| key.len() + value.len()).sum();
        assert!(map.memory() < 3 * bytes + 200_000, "{} of {bytes}", map.memory());
        for key in model.keys() {
            map.remove(key).unwrap();
        }
        assert!(map.iter().next().is_none());
        assert!(map.memory() < 50_000, "{}", map.memory());
        assert_eq!(map.insert(b"", 1, b"").unwrap(), None);
        assert_eq!(map.get(b""), Some((1, &b""[..])));
    }
}
