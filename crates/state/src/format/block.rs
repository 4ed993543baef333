//! Blocks of rows: sorted, sharing prefixes, compressed.

use super::bytes::{Input, put_number};
use crate::KeyGroup;
use crate::place::{Place, Written};
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

/// The rows of a block whose checksum was found right. `None` if they mean nothing all the same.
pub(crate) fn decode_block(bytes: &[u8], raw: usize, rows: u64) -> Option<Vec<Written>> {
    let unpacked;
    let bytes = if bytes.len() == raw {
        bytes
    } else {
        unpacked = lz4_flex::block::decompress(bytes, raw).ok()?;
        &unpacked
    };
    let mut input = Input::new(bytes);
    let mut decoded: Vec<Written> = Vec::new();
    while !input.is_empty() {
        let group = input.byte()?;
        let shared = input.length()?;
        let rest = input.length()?;
        let rest = input.take(rest)?;
        let before = decoded.last().map(|row| &*row.key).unwrap_or_default();
        let mut key = Vec::with_capacity(shared.min(before.len()) + rest.len());
        key.extend_from_slice(before.get(..shared)?);
        key.extend_from_slice(rest);
        let value = match input.length()?.checked_sub(1) {
            None => None,
            Some(length) => Some(input.take(length)?.into()),
        };
        decoded.push(Written { group, key: key.into_boxed_slice(), value });
    }
    (decoded.len() as u64 == rows).then_some(decoded)
}

#[cfg(test)]
mod tests {
    use super::{BlockBuilder, decode_block};
    use crate::place::{Place, Written};

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
        let decode = |block: &super::EncodedBlock| {
            decode_block(&block.bytes, block.raw, block.rows).unwrap()
        };
        let decoded: Vec<_> = blocks.iter().flat_map(decode).collect();
        assert_eq!(decoded, rows);
        let groups: Vec<_> = blocks.iter().map(|block| (block.first, block.last)).collect();
        assert!(groups.is_sorted());
        let last = blocks.last().unwrap();
        for length in 0..last.bytes.len().min(200) {
            assert_eq!(decode_block(&last.bytes[..length], last.raw, last.rows), None);
        }
        assert_eq!(decode_block(&last.bytes, last.raw, last.rows + 1), None);
    }
}
