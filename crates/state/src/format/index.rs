//! The index of a state file, and the footer that says where it is.

use super::TRAILER;
use super::bytes::{Input, put_number, put_text};
use crate::KeyGroup;
use crate::place::Place;
use xxhash_rust::xxh3::xxh3_64;

/// Length of a footer in bytes.
pub(crate) const FOOTER_LENGTH: u64 = 32;

/// An operator whose rows a file may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OperatorEntry {
    pub(crate) label: String,
    pub(crate) families: Vec<String>,
}

/// One block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockEntry {
    /// Places in the index's own list of operators.
    pub(crate) place: Place,
    pub(crate) first: KeyGroup,
    pub(crate) last: KeyGroup,
    pub(crate) rows: u64,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) raw: usize,
    pub(crate) checksum: u64,
}

/// What a file holds and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Index {
    /// The versions whose changes it holds: those of batches `from..to`.
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) generation: u64,
    /// Hash of the schema file that tells how its rows are encoded.
    pub(crate) schema: u128,
    pub(crate) operators: Vec<OperatorEntry>,
    pub(crate) blocks: Vec<BlockEntry>,
}

impl Index {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for number in [self.from, self.to, self.generation] {
            put_number(&mut out, number);
        }
        out.extend_from_slice(&self.schema.to_le_bytes());
        put_number(&mut out, self.operators.len() as u64);
        for operator in &self.operators {
            put_text(&mut out, &operator.label);
            put_number(&mut out, operator.families.len() as u64);
            operator.families.iter().for_each(|family| put_text(&mut out, family));
        }
        put_number(&mut out, self.blocks.len() as u64);
        for block in &self.blocks {
            put_number(&mut out, block.place.operator as u64);
            put_number(&mut out, block.place.family as u64);
            out.extend_from_slice(&[block.first, block.last]);
            for number in [block.rows, block.offset, block.length, block.raw as u64] {
                put_number(&mut out, number);
            }
            out.extend_from_slice(&block.checksum.to_le_bytes());
        }
        out
    }

    /// `None` if the bytes mean nothing.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Index> {
        let mut input = Input::new(bytes);
        let (from, to, generation) = (input.number()?, input.number()?, input.number()?);
        let schema = input.u128()?;
        let mut operators = Vec::new();
        for _ in 0..input.number()? {
            let label = input.text()?;
            let mut families = Vec::new();
            for _ in 0..input.number()? {
                families.push(input.text()?);
            }
            operators.push(OperatorEntry { label, families });
        }
        let mut blocks = Vec::new();
        for _ in 0..input.number()? {
            let place = Place { operator: input.length()?, family: input.length()? };
            operators.get(place.operator)?.families.get(place.family)?;
            let (first, last) = (input.byte()?, input.byte()?);
            let (rows, offset, length) = (input.number()?, input.number()?, input.number()?);
            let (raw, checksum) = (input.length()?, input.u64()?);
            blocks.push(BlockEntry { place, first, last, rows, offset, length, raw, checksum });
        }
        let index = Index { from, to, generation, schema, operators, blocks };
        input.is_empty().then_some(index)
    }
}

/// Where the index is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) checksum: u64,
}

impl Footer {
    pub(crate) fn of(index: &[u8], offset: u64) -> Self {
        Footer { offset, length: index.len() as u64, checksum: xxh3_64(index) }
    }

    pub(crate) fn encode(self) -> Vec<u8> {
        let numbers = [self.offset, self.length, self.checksum];
        let mut out: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
        out.extend_from_slice(&TRAILER);
        out
    }

    /// `None` if the bytes are no footer of a file of `size` bytes.
    pub(crate) fn decode(bytes: &[u8], size: u64) -> Option<Footer> {
        let mut input = Input::new(bytes);
        let footer = Footer { offset: input.u64()?, length: input.u64()?, checksum: input.u64()? };
        let end = footer.offset.checked_add(footer.length)?.checked_add(FOOTER_LENGTH)?;
        (input.take(8)? == TRAILER && input.is_empty() && end == size).then_some(footer)
    }
}
