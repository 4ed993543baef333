//! Maps from keys to values, hashed or ordered as the family is read.

use crate::Access;
use crate::arena::PointMap;
use onefold_types::Result;
use std::collections::BTreeMap;
use std::ops::Bound;

/// What a row of an ordered map costs beyond its bytes: its pointers in nodes that are two thirds
/// full, and what the allocator adds to two allocations.
const ORDERED_ROW: usize = 88;

/// A map from keys to values, each with a small tag.
#[derive(Debug, Clone)]
pub(crate) enum Rows<T> {
    /// For reading by key.
    Point(PointMap<T>),
    /// For reading by key and in order.
    Ordered(OrderedMap<T>),
}

/// A map in key order that knows its size.
#[derive(Debug, Clone)]
pub(crate) struct OrderedMap<T> {
    rows: BTreeMap<Box<[u8]>, Tagged<T>>,
    bytes: usize,
}

/// A value and its tag.
type Tagged<T> = (T, Box<[u8]>);

impl<T: Copy> OrderedMap<T> {
    fn insert(&mut self, key: &[u8], tag: T, value: &[u8]) -> Option<(T, usize)> {
        self.bytes += value.len();
        if let Some((old_tag, old)) = self.rows.get_mut(key) {
            let before = (*old_tag, old.len());
            self.bytes -= old.len();
            *old_tag = tag;
            *old = value.into();
            return Some(before);
        }
        self.bytes += key.len();
        self.rows.insert(key.into(), (tag, value.into()));
        None
    }

    fn remove(&mut self, key: &[u8]) -> Option<usize> {
        let (_, old) = self.rows.remove(key)?;
        self.bytes -= key.len() + old.len();
        Some(old.len())
    }
}

impl<T: Copy> Rows<T> {
    pub(crate) fn new(access: Access) -> Self {
        match access {
            Access::Point => Rows::Point(PointMap::new()),
            Access::Ordered => Rows::Ordered(OrderedMap { rows: BTreeMap::new(), bytes: 0 }),
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
            Rows::Ordered(rows) => rows.rows.len(),
        }
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Rows::Point(rows) => rows.memory(),
            Rows::Ordered(rows) => rows.bytes + rows.rows.len() * (ORDERED_ROW + size_of::<T>()),
        }
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<(T, &[u8])> {
        match self {
            Rows::Point(rows) => rows.get(key),
            Rows::Ordered(rows) => rows.rows.get(key).map(|(tag, value)| (*tag, &**value)),
        }
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
        match self {
            Rows::Point(rows) => rows.insert(key, tag, value),
            Rows::Ordered(rows) => Ok(rows.insert(key, tag, value)),
        }
    }

    /// Removes a row; the length of its value.
    ///
    /// # Errors
    /// As [`Rows::insert`].
    pub(crate) fn remove(&mut self, key: &[u8]) -> Result<Option<usize>> {
        match self {
            Rows::Point(rows) => rows.remove(key),
            Rows::Ordered(rows) => Ok(rows.remove(key)),
        }
    }

    /// All of them; in key order only if the family is ordered.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], T, &[u8])> {
        let (point, ordered) = match self {
            Rows::Point(rows) => (Some(rows.iter()), None),
            Rows::Ordered(rows) => (None, Some(rows.rows.iter())),
        };
        let ordered = ordered.into_iter().flatten();
        let ordered = ordered.map(|(key, (tag, value))| (&**key, *tag, &**value));
        point.into_iter().flatten().chain(ordered)
    }

    /// A range in key order; none if the family is not ordered or the range is empty.
    pub(crate) fn range<'a>(
        &'a self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> impl Iterator<Item = (&'a [u8], T, &'a [u8])> + use<'a, T> {
        let range = match self {
            Rows::Ordered(rows) if !is_empty(from, to) => {
                Some(rows.rows.range::<[u8], _>((from, to)))
            }
            _ => None,
        };
        range.into_iter().flatten().map(|(key, (tag, value))| (&**key, *tag, &**value))
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
