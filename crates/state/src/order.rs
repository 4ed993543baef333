//! The handles of rows in the order of their keys.
//!
//! New rows are only noted; they are sorted and merged in when the order is next asked for, so that
//! a row costs four bytes and no search. Handles lie in short pieces: merging in a few rows moves
//! a few pieces only.

use crate::arena::{Arena, Handle, Tag};
use std::cmp::Ordering;
use std::ops::Bound;

/// A piece has at most so many handles.
const PIECE: usize = 512;

/// Handles of an arena by the keys of their rows; no key has two that are not gone.
#[derive(Debug, Default, Clone)]
pub(crate) struct Order {
    /// Sorted, none empty.
    pieces: Vec<Vec<Handle>>,
    /// Not sorted in yet.
    new: Vec<Handle>,
    /// How many handles in the pieces are of rows that are gone, at most.
    gone: usize,
    /// How many handles the pieces hold.
    held: usize,
}

impl Order {
    /// Notes a new row.
    pub(crate) fn add(&mut self, handle: Handle) {
        self.new.push(handle);
    }

    /// Notes that a row is gone.
    pub(crate) fn lost(&mut self) {
        self.gone += 1;
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.new.is_empty()
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        (self.held + self.new.capacity()) * size_of::<Handle>()
            + self.pieces.capacity() * size_of::<Vec<Handle>>()
    }

    /// Sorts in what is new and forgets what is gone, if that is much.
    pub(crate) fn settle<T: Tag>(&mut self, arena: &Arena) {
        if self.gone * 2 > self.held {
            for piece in &mut self.pieces {
                piece.retain(|handle| !arena.is_gone(*handle));
                piece.shrink_to_fit();
            }
            self.pieces.retain(|piece| !piece.is_empty());
            self.held = self.pieces.iter().map(Vec::len).sum();
            self.gone = 0;
        }
        if self.new.is_empty() {
            return;
        }
        let new = std::mem::take(&mut self.new);
        let new = new.into_iter().filter(|handle| !arena.is_gone(*handle));
        self.merge::<T>(arena, &sorted::<T>(arena, new));
        self.held = self.pieces.iter().map(Vec::len).sum();
    }

    fn merge<T: Tag>(&mut self, arena: &Arena, mut new: &[Handle]) {
        let old = std::mem::take(&mut self.pieces);
        self.pieces.reserve(old.len() + new.len().div_ceil(PIECE));
        let mut old = old.into_iter().peekable();
        while let Some(piece) = old.next() {
            // What comes before the next piece belongs into this one.
            let next = old.peek().and_then(|piece| piece.first());
            let count = next.map_or(new.len(), |next| {
                let next = arena.key::<T>(*next);
                let before = new.iter().take_while(|handle| arena.key::<T>(**handle) < next);
                before.count()
            });
            let (here, rest) = new.split_at_checked(count).unwrap_or((new, &[]));
            new = rest;
            if here.is_empty() {
                self.pieces.push(piece);
            } else {
                self.put(&merged::<T>(arena, &piece, here));
            }
        }
        // There was no piece.
        self.put(new);
    }

    /// Adds handles, which are sorted, as pieces of about the same length.
    fn put(&mut self, handles: &[Handle]) {
        if !handles.is_empty() {
            let pieces = handles.len().div_ceil(PIECE);
            let length = handles.len().div_ceil(pieces);
            self.pieces.extend(handles.chunks(length).map(<[Handle]>::to_vec));
        }
    }

    /// All handles of the order, those of rows that are gone too. It must be settled.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Handle> {
        debug_assert!(self.is_settled(), "rows are not sorted in yet");
        self.pieces.iter().flatten().copied()
    }

    /// The handles from a key on, as [`Order::iter`].
    pub(crate) fn from<'a, T: Tag>(
        &'a self,
        arena: &Arena,
        from: Bound<&[u8]>,
    ) -> impl Iterator<Item = Handle> + use<'a, T> {
        debug_assert!(self.is_settled(), "rows are not sorted in yet");
        let before = |handle: &Handle| match from {
            Bound::Unbounded => false,
            Bound::Included(from) => arena.key::<T>(*handle) < from,
            Bound::Excluded(from) => arena.key::<T>(*handle) <= from,
        };
        let first = self.pieces.partition_point(|piece| piece.last().is_none_or(before));
        let mut pieces = self.pieces.get(first..).unwrap_or_default().iter();
        let piece = pieces.next().map(Vec::as_slice).unwrap_or_default();
        let skipped = piece.partition_point(before);
        let rest = piece.get(skipped..).unwrap_or_default();
        rest.iter().chain(pieces.flatten()).copied()
    }
}

/// Handles in the order of their keys.
pub(crate) fn sorted<T: Tag>(arena: &Arena, handles: impl Iterator<Item = Handle>) -> Vec<Handle> {
    // How keys begin stands beside the handles, so that few rows are looked at to compare them.
    let with_beginning = |handle| (beginning(arena.key::<T>(handle)), handle);
    let mut sorted: Vec<((u64, u64), Handle)> = handles.map(with_beginning).collect();
    sorted.sort_unstable_by(|(one, one_handle), (two, two_handle)| {
        let keys = || arena.key::<T>(*one_handle).cmp(arena.key::<T>(*two_handle));
        one.cmp(two).then_with(keys)
    });
    sorted.into_iter().map(|(_, handle)| handle).collect()
}

/// The first 16 bytes of a key, with zeros where it is shorter; compares as the key does unless it
/// is equal.
fn beginning(key: &[u8]) -> (u64, u64) {
    let mut bytes = [0; 16];
    let length = key.len().min(bytes.len());
    if let (Some(to), Some(from)) = (bytes.get_mut(..length), key.get(..length)) {
        to.copy_from_slice(from);
    }
    let bits = u128::from_be_bytes(bytes);
    ((bits >> 64) as u64, bits as u64)
}

/// Two sorted lists as one, without the rows of the first that are gone.
fn merged<T: Tag>(arena: &Arena, old: &[Handle], new: &[Handle]) -> Vec<Handle> {
    let mut all = Vec::with_capacity(old.len() + new.len());
    let mut new = new.iter().copied().peekable();
    for handle in old.iter().copied().filter(|handle| !arena.is_gone(*handle)) {
        let key = arena.key::<T>(handle);
        while let Some(next) = new.next_if(|next| arena.key::<T>(*next).cmp(key) == Ordering::Less)
        {
            all.push(next);
        }
        all.push(handle);
    }
    all.extend(new);
    all
}
