//! Bytes of many rows in few allocations.
//!
//! A row costs its bytes, two short lengths and a small tag. Rows that are replaced by longer or
//! shorter ones leave holes; whoever holds the handles packs the rows anew when the holes are many.

use crate::format::{Input, number_length, put_number};
use onefold_types::{Error, Result};

/// Length of the first page. A further one is an eighth of what is there, so that little is free.
const FIRST_PAGE: usize = 256;
/// Length of all pages of a large arena. A longer row has a page of its own.
const LAST_PAGE: usize = 1 << 16;
/// Below so many bytes of holes nothing is gained by closing them.
const HOLES: usize = 4 * 1024;

/// Where a row is: its page in the high half, its offset in the low half.
pub(crate) type Handle = u32;

/// What stands beside key and value of a row, of a fixed length.
pub(crate) trait Tag: Copy {
    /// As bytes.
    type Bytes: AsRef<[u8]> + AsMut<[u8]> + Default;

    fn to_bytes(self) -> Self::Bytes;

    fn of_bytes(bytes: Self::Bytes) -> Self;
}

impl Tag for () {
    type Bytes = [u8; 0];

    fn to_bytes(self) -> [u8; 0] {
        []
    }

    fn of_bytes(_: [u8; 0]) {}
}

/// A row as it lies in an arena.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row<'a, T> {
    pub(crate) tag: T,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    /// Whether it has been left. Its bytes stay until the rows are packed.
    pub(crate) gone: bool,
    /// Where in its page the tag and the value are.
    tag_at: usize,
    value_at: usize,
}

/// Rows of key, value and tag.
#[derive(Debug, Default, Clone)]
pub(crate) struct Arena {
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
    pub(crate) fn push<T: Tag>(&mut self, key: &[u8], tag: T, value: &[u8]) -> Result<Handle> {
        // The lowest bit of the first byte tells whether the row is gone.
        let lengths = [(key.len() as u64) << 1, value.len() as u64];
        let tag = tag.to_bytes();
        let tag = tag.as_ref();
        let size =
            lengths.map(number_length).iter().sum::<usize>() + tag.len() + key.len() + value.len();
        let fits = |page: &Vec<u8>| page.capacity() - page.len() >= size && page.len() < LAST_PAGE;
        if !self.pages.last().is_some_and(fits) {
            let next = (self.memory / 8).clamp(FIRST_PAGE, LAST_PAGE);
            let page = Vec::with_capacity(next.max(size));
            self.memory += page.capacity();
            self.pages.push(page);
        }
        let number = self.pages.len() - 1;
        let full = || Error::invalid("one key group of a family holds 4 GiB of state");
        let number = u16::try_from(number).map_err(|_| full())?;
        let page = self.pages.last_mut().ok_or_else(full)?;
        let offset = u16::try_from(page.len()).map_err(|_| full())?;
        lengths.iter().for_each(|length| put_number(page, *length));
        page.extend_from_slice(tag);
        page.extend_from_slice(key);
        page.extend_from_slice(value);
        self.live += size;
        Ok(Handle::from(number) << 16 | Handle::from(offset))
    }

    #[inline]
    pub(crate) fn row<T: Tag>(&self, handle: Handle) -> Option<Row<'_, T>> {
        let (page, offset) = split(handle);
        let page = self.pages.get(page)?;
        let mut input = Input::new(page.get(offset..)?);
        let (key, value) = (input.length()?, input.length()?);
        let mut tag = T::Bytes::default();
        let tag_at = page.len() - input.left();
        let length = tag.as_ref().len();
        tag.as_mut().copy_from_slice(input.take(length)?);
        let (gone, key) = (key & 1 == 1, input.take(key >> 1)?);
        let value_at = page.len() - input.left();
        let value = input.take(value)?;
        Some(Row { tag: T::of_bytes(tag), key, value, gone, tag_at, value_at })
    }

    #[inline]
    pub(crate) fn key<T: Tag>(&self, handle: Handle) -> &[u8] {
        self.row::<T>(handle).map_or(&[], |row| row.key)
    }

    #[inline]
    pub(crate) fn is_gone(&self, handle: Handle) -> bool {
        let (page, offset) = split(handle);
        let first = self.pages.get(page).and_then(|page| page.get(offset));
        first.is_none_or(|first| first & 1 == 1)
    }

    /// Overwrites tag and value, if the value has the length of the one before.
    pub(crate) fn overwrite<T: Tag>(&mut self, handle: Handle, tag: T, new: &[u8]) -> bool {
        let Some(row) = self.row::<T>(handle) else { return false };
        if row.value.len() != new.len() {
            return false;
        }
        let (tag_at, value_at) = (row.tag_at, row.value_at);
        let Some(page) = self.pages.get_mut(split(handle).0) else { return false };
        let tag = tag.to_bytes();
        let tag = tag.as_ref();
        for (at, bytes) in [(tag_at, tag), (value_at, new)] {
            if let Some(place) = page.get_mut(at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        }
        true
    }

    /// Gives a row up.
    pub(crate) fn leave<T: Tag>(&mut self, handle: Handle) {
        let (page, offset) = split(handle);
        let end = self.row::<T>(handle).map_or(offset, |row| row.value_at + row.value.len());
        self.live -= (end - offset).min(self.live);
        self.holes += end - offset;
        if let Some(first) = self.pages.get_mut(page).and_then(|page| page.get_mut(offset)) {
            *first |= 1;
        }
    }

    /// Whether so much is gone that the rows should be packed into another arena.
    pub(crate) fn is_hollow(&self) -> bool {
        self.holes >= HOLES.max(self.live)
    }

    /// Bytes of memory, free room included.
    pub(crate) fn memory(&self) -> usize {
        self.memory + self.pages.capacity() * size_of::<Vec<u8>>()
    }
}

fn split(handle: Handle) -> (usize, usize) {
    ((handle >> 16) as usize, (handle & 0xffff) as usize)
}
