//! Maps from keys to something, hashed or ordered as the family is read.

use crate::Access;
use std::collections::{BTreeMap, HashMap, btree_map, hash_map};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Bound;
use std::sync::OnceLock;

/// A map from keys to `T`.
#[derive(Debug, Clone)]
pub(crate) enum Rows<T> {
    /// For reading by key.
    Point(HashMap<Box<[u8]>, T, KeyHash>),
    /// For reading by key and in order.
    Ordered(BTreeMap<Box<[u8]>, T>),
}

impl<T> Rows<T> {
    pub(crate) fn new(access: Access) -> Self {
        match access {
            Access::Point => Rows::Point(HashMap::default()),
            Access::Ordered => Rows::Ordered(BTreeMap::new()),
        }
    }

    /// An empty map of the same kind.
    pub(crate) fn emptied(&self) -> Self {
        match self {
            Rows::Point(_) => Rows::new(Access::Point),
            Rows::Ordered(_) => Rows::new(Access::Ordered),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Rows::Point(rows) => rows.len(),
            Rows::Ordered(rows) => rows.len(),
        }
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&T> {
        match self {
            Rows::Point(rows) => rows.get(key),
            Rows::Ordered(rows) => rows.get(key),
        }
    }

    pub(crate) fn get_mut(&mut self, key: &[u8]) -> Option<&mut T> {
        match self {
            Rows::Point(rows) => rows.get_mut(key),
            Rows::Ordered(rows) => rows.get_mut(key),
        }
    }

    pub(crate) fn insert(&mut self, key: Box<[u8]>, value: T) -> Option<T> {
        match self {
            Rows::Point(rows) => rows.insert(key, value),
            Rows::Ordered(rows) => rows.insert(key, value),
        }
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<T> {
        match self {
            Rows::Point(rows) => {
                let gone = rows.remove(key);
                // A family that was large once must not hold its memory for ever.
                if rows.capacity() > 64 && rows.len() < rows.capacity() / 8 {
                    rows.shrink_to(rows.len() * 2);
                }
                gone
            }
            Rows::Ordered(rows) => rows.remove(key),
        }
    }

    /// All of them; in key order only if the family is ordered.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &T)> {
        let (point, ordered) = match self {
            Rows::Point(rows) => (Some(rows.iter()), None),
            Rows::Ordered(rows) => (None, Some(rows.iter())),
        };
        let point = point.into_iter().flatten().map(|(key, value)| (&**key, value));
        point.chain(ordered.into_iter().flatten().map(|(key, value)| (&**key, value)))
    }

    /// A range in key order; none if the family is not ordered or the range is empty.
    pub(crate) fn range<'a>(
        &'a self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> impl Iterator<Item = (&'a [u8], &'a T)> + use<'a, T> {
        let range = match self {
            Rows::Ordered(rows) if !is_empty(from, to) => Some(rows.range::<[u8], _>((from, to))),
            _ => None,
        };
        range.into_iter().flatten().map(|(key, value)| (&**key, value))
    }
}

/// Whether no key can lie between the bounds; a `BTreeMap` panics at such a range.
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

/// Owned rows of a map, for taking it apart.
pub(crate) enum IntoRows<T> {
    Point(hash_map::IntoIter<Box<[u8]>, T>),
    Ordered(btree_map::IntoIter<Box<[u8]>, T>),
}

impl<T> IntoIterator for Rows<T> {
    type Item = (Box<[u8]>, T);
    type IntoIter = IntoRows<T>;

    fn into_iter(self) -> IntoRows<T> {
        match self {
            Rows::Point(rows) => IntoRows::Point(rows.into_iter()),
            Rows::Ordered(rows) => IntoRows::Ordered(rows.into_iter()),
        }
    }
}

impl<T> Iterator for IntoRows<T> {
    type Item = (Box<[u8]>, T);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            IntoRows::Point(rows) => rows.next(),
            IntoRows::Ordered(rows) => rows.next(),
        }
    }
}

/// XXH3 with a seed of this process, so that nobody outside can choose keys that collide.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyHash {
    seed: u64,
}

impl Default for KeyHash {
    fn default() -> Self {
        static SEED: OnceLock<u64> = OnceLock::new();
        KeyHash { seed: *SEED.get_or_init(|| RandomState::new().hash_one(0_u8)) }
    }
}

impl BuildHasher for KeyHash {
    type Hasher = KeyHasher;

    fn build_hasher(&self) -> KeyHasher {
        KeyHasher { hash: self.seed }
    }
}

/// Hashes the bytes of one key.
pub(crate) struct KeyHasher {
    hash: u64,
}

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.hash = xxhash_rust::xxh3::xxh3_64_with_seed(bytes, self.hash);
    }

    /// The length that goes before a slice's bytes: one key is one slice, so it adds nothing.
    fn write_usize(&mut self, _length: usize) {}

    fn finish(&self) -> u64 {
        self.hash
    }
}
