//! Blocks of rows: sorted, sharing prefixes, compressed.

use super::BlockEntry;
use super::bytes::{Input, put_number};
use crate::KeyGroup;
use crate::place::{Place, WrittenRef};
use bytes::Bytes;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

/// A block is closed when its rows take this many bytes uncompressed.
const BLOCK_BYTES: usize = 64 * 1024;

/// A finished block.
#[derive(Debug)]
pub(crate) struct EncodedBlock {
    pub(crate) place: Place,
    pub(crate) first: KeyGroup,
    pub(crate) last: KeyGroup,
    pub(crate) rows: u64,
    /// Length before compression; equal to the length of `bytes` if they are not compressed.
    pub(crate) raw: usize,
    pub(crate) bytes: Vec<u8>,
    pub(crate) checksum: u64,
}

/// Makes blocks of the rows of one family, which come sorted by key group and key.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    place: Place,
    raw: Vec<u8>,
    rows: u64,
    groups: Option<(KeyGroup, KeyGroup)>,
    last_key: Vec<u8>,
}

impl BlockBuilder {
    pub(crate) fn new(place: Place) -> Self {
        BlockBuilder { place, raw: Vec::new(), rows: 0, groups: None, last_key: Vec::new() }
    }

    /// Adds a row (`None`: removed); a block, if this filled one.
    pub(crate) fn add(
        &mut self,
        group: KeyGroup,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Option<EncodedBlock> {
        let shared = if self.rows == 0 { 0 } else { shared(key, &self.last_key) };
        let rest = key.get(shared..).unwrap_or_default();
        self.raw.push(group);
        put_number(&mut self.raw, shared as u64);
        put_number(&mut self.raw, rest.len() as u64);
        self.raw.extend_from_slice(rest);
        // 0 stands for a removed row, so lengths are one more.
        put_number(&mut self.raw, value.map_or(0, |value| value.len() as u64 + 1));
        self.raw.extend_from_slice(value.unwrap_or_default());
        self.rows += 1;
        self.groups = Some((self.groups.map_or(group, |(first, _)| first), group));
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(rest);
        if self.raw.len() >= BLOCK_BYTES { self.finish() } else { None }
    }

    /// The block of what was added since the last one; `None` if nothing was.
    pub(crate) fn finish(&mut self) -> Option<EncodedBlock> {
        let (first, last) = self.groups.take()?;
        let raw = std::mem::take(&mut self.raw);
        let rows = std::mem::take(&mut self.rows);
        let length = raw.len();
        let packed = lz4_flex::block::compress(&raw);
        let bytes = if packed.len() < length { packed } else { raw };
        let checksum = xxh3_64(&bytes);
        Some(EncodedBlock { place: self.place, first, last, rows, raw: length, bytes, checksum })
    }
}

/// How many bytes two keys begin with in common; eight at a time.
fn shared(one: &[u8], two: &[u8]) -> usize {
    let (one_words, _) = one.as_chunks::<8>();
    let (two_words, _) = two.as_chunks::<8>();
    let mut length = 0;
    for (one, two) in one_words.iter().zip(two_words) {
        let differ = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*two);
        if differ != 0 {
            return length + (differ.trailing_zeros() / 8) as usize;
        }
        length += 8;
    }
    let rest = one.iter().zip(two).skip(length);
    length + rest.take_while(|(one, two)| one == two).count()
}

/// The rows of a block, one after the other, as they lie in it.
#[derive(Debug, Default)]
pub(crate) struct BlockRows {
    /// Unpacked.
    bytes: Bytes,
    /// Where the next row is.
    at: usize,
    /// How many rows are to come.
    left: u64,
    groups: Range<u32>,
    group: KeyGroup,
    key: Vec<u8>,
    /// Where the value of the row at hand is; `None` if it is removed.
    value: Option<Range<usize>>,
}

impl BlockRows {
    /// Of a block whose checksum was found right. `None` if it cannot be unpacked all the same.
    pub(crate) fn new(bytes: Bytes, block: &BlockEntry) -> Option<Self> {
        let bytes = match bytes.len() == block.raw {
            true => bytes,
            false => lz4_flex::block::decompress(&bytes, block.raw).ok()?.into(),
        };
        let groups = u32::from(block.first)..u32::from(block.last) + 1;
        Some(BlockRows { bytes, left: block.rows, groups, ..BlockRows::default() })
    }

    /// Goes on to the next row; whether there is one. `None` if the bytes mean nothing.
    pub(crate) fn step(&mut self) -> Option<bool> {
        if self.left == 0 {
            return (self.at == self.bytes.len()).then_some(false);
        }
        let mut input = Input::new(self.bytes.get(self.at..)?);
        let group = input.byte()?;
        let shared = input.length()?;
        let rest = input.length()?;
        let rest = input.take(rest)?;
        if shared > self.key.len() || !self.groups.contains(&u32::from(group)) {
            return None;
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(rest);
        self.value = match input.length()?.checked_sub(1) {
            None => None,
            Some(length) => {
                let start = self.bytes.len() - input.left();
                input.take(length)?;
                Some(start..start + length)
            }
        };
        self.group = group;
        self.at = self.bytes.len() - input.left();
        self.left -= 1;
        Some(true)
    }

    /// The row at hand.
    #[inline]
    pub(crate) fn row(&self) -> WrittenRef<'_> {
        let value = self.value.clone().map(|at| self.bytes.get(at).unwrap_or_default());
        WrittenRef { group: self.group, key: &self.key, value, existed: true }
    }
}

#[cfg(test)]
mod tests {
    use super::{BlockBuilder, BlockRows, EncodedBlock};
    use crate::format::BlockEntry;
    use crate::place::{Place, Written};

    fn decode(block: &EncodedBlock, length: usize, rows: u64) -> Option<Vec<Written>> {
        let entry = BlockEntry {
            place: block.place,
            first: block.first,
            last: block.last,
            rows,
            offset: 0,
            length: length as u64,
            raw: block.raw,
            checksum: 0,
        };
        let bytes = block.bytes[..length].to_vec().into();
        let mut rows = BlockRows::new(bytes, &entry)?;
        let mut decoded = Vec::new();
        while rows.step()? {
            decoded.push(rows.row().owned());
        }
        Some(decoded)
    }

    #[test]
    fn rows_come_back_from_blocks_and_any_cut_of_one_is_none() {
        let place = Place { operator: 0, family: 0 };
        let mut builder = BlockBuilder::new(place);
        let mut rows = Vec::new();
        let mut blocks = Vec::new();
        for number in 0..20_000_u32 {
            let group = u8::try_from(number / 100).unwrap();
            let key = format!("user-{number:07}").into_bytes().into_boxed_slice();
            let value = (number % 7 != 0).then(|| format!("value {number}").into_bytes().into());
            blocks.extend(builder.add(group, &key, value.as_deref()));
            rows.push(Written { group, key, value });
        }
        blocks.extend(builder.finish());
        assert!(builder.finish().is_none());
        assert!(blocks.len() > 2);
        let whole = |block: &EncodedBlock| decode(block, block.bytes.len(), block.rows).unwrap();
        let decoded: Vec<_> = blocks.iter().flat_map(whole).collect();
        assert_eq!(decoded, rows);
        let groups: Vec<_> = blocks.iter().map(|block| (block.first, block.last)).collect();
        assert!(groups.is_sorted());
        let last = blocks.last().unwrap();
        for length in 0..last.bytes.len().min(200) {
            assert_eq!(decode(last, length, last.rows), None);
        }
        assert_eq!(decode(last, last.bytes.len(), last.rows + 1), None);
        assert_eq!(decode(last, last.bytes.len(), last.rows - 1), None);
    }

    #[test]
    fn a_row_of_a_group_that_the_index_does_not_name_means_nothing() {
        let mut builder = BlockBuilder::new(Place { operator: 0, family: 0 });
        assert!(builder.add(3, b"a", Some(b"1")).is_none());
        assert!(builder.add(4, b"b", None).is_none());
        let block = builder.finish().unwrap();
        assert_eq!(decode(&block, block.bytes.len(), 2).unwrap().len(), 2);
        let wrong = EncodedBlock { last: 3, ..block };
        assert_eq!(decode(&wrong, wrong.bytes.len(), 2), None);
    }
}
