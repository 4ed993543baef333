//! Puts blocks, index and footer together.

use super::{BlockEntry, EncodedBlock, Footer, HEADER, Index, OperatorEntry};
use crate::spec::OperatorSpec;
use xxhash_rust::xxh3::xxh3_128;

/// Makes the bytes of a file; whoever uses it takes them away now and then.
#[derive(Debug)]
pub(crate) struct FileWriter {
    index: Index,
    offset: u64,
    bytes: Vec<u8>,
    rows: u64,
}

/// A finished file.
#[derive(Debug)]
pub(crate) struct Finished {
    /// What was not taken away yet.
    pub(crate) bytes: Vec<u8>,
    /// Length of the whole file.
    pub(crate) size: u64,
    pub(crate) rows: u64,
    /// XXH3-128 of the index, which holds the checksums of all blocks.
    pub(crate) hash: u128,
}

impl FileWriter {
    pub(crate) fn new(
        versions: std::ops::Range<u64>,
        generation: u64,
        schema: u128,
        operators: &[OperatorSpec],
    ) -> Self {
        let entry = |spec: &OperatorSpec| OperatorEntry {
            label: spec.label.clone(),
            families: spec.families.iter().map(|family| family.name.clone()).collect(),
        };
        let index = Index {
            from: versions.start,
            to: versions.end,
            generation,
            schema,
            operators: operators.iter().map(entry).collect(),
            blocks: Vec::new(),
        };
        FileWriter { index, offset: HEADER.len() as u64, bytes: HEADER.to_vec(), rows: 0 }
    }

    /// Makes room for so many bytes of blocks.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve_exact(bytes);
    }

    pub(crate) fn push(&mut self, block: EncodedBlock) {
        let EncodedBlock { place, first, last, rows, raw, bytes, checksum } = block;
        let (offset, length) = (self.offset, bytes.len() as u64);
        self.index.blocks.push(BlockEntry {
            place,
            first,
            last,
            rows,
            offset,
            length,
            raw,
            checksum,
        });
        self.bytes.extend_from_slice(&bytes);
        self.offset += length;
        self.rows += rows;
    }

    /// How many bytes wait to be taken.
    pub(crate) fn waiting(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    pub(crate) fn finish(self) -> Finished {
        let FileWriter { index, offset, mut bytes, rows } = self;
        let index = index.encode();
        let footer = Footer::of(&index, offset).encode();
        bytes.extend_from_slice(&index);
        bytes.extend_from_slice(&footer);
        let size = offset + (index.len() + footer.len()) as u64;
        Finished { bytes, size, rows, hash: xxh3_128(&index) }
    }
}
