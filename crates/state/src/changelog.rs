//! What a batch wrote, as the bytes of a file.

use crate::OperatorSpec;
use crate::format::{BlockBuilder, EncodedBlock, FileWriter, Finished};
use crate::overlay::Overlay;
use crate::place::Place;
use std::ops::Range;

/// Below so many written rows one thread is as fast as several.
const ROWS_FOR_THREADS: usize = 20_000;

/// Whose changes, and of which versions, a file holds.
#[derive(Debug, Clone)]
pub(crate) struct Heading<'a> {
    pub(crate) versions: Range<u64>,
    pub(crate) generation: u64,
    pub(crate) schema: u128,
    pub(crate) operators: &'a [OperatorSpec],
}

impl Heading<'_> {
    pub(crate) fn writer(&self) -> FileWriter {
        FileWriter::new(self.versions.clone(), self.generation, self.schema, self.operators)
    }
}

/// The file of what a batch wrote; `None` if it wrote nothing. One section for each operator,
/// family and partition, in that order.
pub(crate) fn encode(overlays: &[&Overlay], heading: &Heading<'_>) -> Option<Finished> {
    let mut blocks: Vec<EncodedBlock> = encode_all(overlays);
    if blocks.is_empty() {
        return None;
    }
    blocks.sort_by_key(|block| (block.place, block.first, block.last));
    let mut writer = heading.writer();
    writer.reserve(blocks.iter().map(|block| block.bytes.len()).sum());
    blocks.into_iter().for_each(|block| writer.push(block));
    Some(writer.finish())
}

fn encode_all(overlays: &[&Overlay]) -> Vec<EncodedBlock> {
    let rows: usize = overlays.iter().map(|overlay| overlay.cells()).sum();
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(overlays.len());
    if rows < ROWS_FOR_THREADS || threads < 2 {
        return overlays.iter().flat_map(|overlay| encode_one(overlay)).collect();
    }
    let share = overlays.len().div_ceil(threads);
    std::thread::scope(|scope| {
        let of_share = |share: &[&Overlay]| -> Vec<EncodedBlock> {
            share.iter().flat_map(|overlay| encode_one(overlay)).collect()
        };
        // This thread takes the first share.
        let (own, others) = overlays.split_at(share.min(overlays.len()));
        let threads: Vec<_> = others
            .chunks(share)
            .map(|share| (share, scope.spawn(move || of_share(share))))
            .collect();
        let mut blocks = of_share(own);
        // A thread that did not come back is made up for here.
        let join = |(share, thread): (_, std::thread::ScopedJoinHandle<'_, Vec<EncodedBlock>>)| {
            thread.join().unwrap_or_else(|_| of_share(share))
        };
        blocks.extend(threads.into_iter().flat_map(join));
        blocks
    })
}

fn encode_one(overlay: &Overlay) -> Vec<EncodedBlock> {
    let mut blocks = Vec::new();
    for family in 0..overlay.families() {
        let place = Place { operator: overlay.operator(), family };
        let mut builder = BlockBuilder::new(place);
        overlay.each_sorted(family, |row| {
            blocks.extend(builder.add(row.group, row.key, row.value));
        });
        blocks.extend(builder.finish());
    }
    blocks
}
