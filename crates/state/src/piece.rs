//! Reading state files: every byte is checked before it is believed.

use crate::format::{BlockEntry, BlockRows, FOOTER_LENGTH, Footer, HEADER, Index};
use crate::partition_of;
use crate::place::Place;
use crate::state_ref::Piece;
use bytes::Bytes;
use onefold_storage::Store;
use onefold_types::{Error, ErrorKind};
use std::sync::Arc;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// Bytes read at a time.
const WINDOW: u64 = 1 << 20;

/// Why a state file cannot be read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The file is missing or its bytes are wrong: something else may take its place.
    Damaged {
        /// Its path below the folder of state.
        path: String,
        /// What is wrong.
        error: Error,
    },
    /// The store does not answer, or a limit is reached.
    Other(Error),
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Damaged { error, .. } | ReadError::Other(error) => error,
        }
    }
}

impl From<Error> for ReadError {
    fn from(error: Error) -> Self {
        ReadError::Other(error)
    }
}

/// A state file whose index was read and found right.
#[derive(Debug)]
pub(crate) struct OpenPiece {
    store: Arc<dyn Store>,
    pub(crate) piece: Piece,
    pub(crate) index: Index,
    partitions: u32,
}

impl OpenPiece {
    /// Opens a file. `partitions` is for messages.
    pub(crate) async fn open(
        store: &Arc<dyn Store>,
        piece: &Piece,
        partitions: u32,
    ) -> Result<Self, ReadError> {
        let path = piece.full_path();
        let wrong = |what: &str| damaged(store.as_ref(), piece, what);
        match store.stat(&path).await? {
            None => return Err(wrong("it is missing")),
            Some(entry) if entry.size != piece.size => {
                let what = format!("it has {} bytes instead of {}", entry.size, piece.size);
                return Err(wrong(&what));
            }
            Some(_) => {}
        }
        let footer = match piece.size.checked_sub(FOOTER_LENGTH) {
            Some(start) => read_exact(store, piece, start, FOOTER_LENGTH).await?,
            None => return Err(wrong("it is too short")),
        };
        let footer =
            Footer::decode(&footer, piece.size).ok_or_else(|| wrong("its footer is damaged"))?;
        let bytes = read_exact(store, piece, footer.offset, footer.length).await?;
        if xxh3_64(&bytes) != footer.checksum {
            return Err(wrong("its index does not fit its checksum"));
        }
        if xxh3_128(&bytes) != piece.hash.0 {
            return Err(wrong("its index is not the one that was written"));
        }
        let index = Index::decode(&bytes).ok_or_else(|| wrong("its index cannot be read"))?;
        let header = read_exact(store, piece, 0, HEADER.len() as u64).await?;
        if *header != HEADER {
            return Err(wrong("its header is damaged"));
        }
        Ok(OpenPiece { store: Arc::clone(store), piece: piece.clone(), index, partitions })
    }

    /// The place of a family in this file, if it holds rows of it.
    fn place(&self, label: &str, family: &str) -> Option<Place> {
        let operator = self.index.operators.iter().position(|entry| entry.label == label)?;
        let families = &self.index.operators.get(operator)?.families;
        let family = families.iter().position(|name| name == family)?;
        Some(Place { operator, family })
    }

    /// The blocks of a family, in order.
    pub(crate) fn blocks(&self, label: &str, family: &str) -> Vec<BlockEntry> {
        let place = self.place(label, family);
        let blocks = self.index.blocks.iter().filter(|block| Some(block.place) == place);
        blocks.cloned().collect()
    }

    /// The rows of a block.
    pub(crate) async fn read(
        &self,
        block: &BlockEntry,
        window: &mut Window,
    ) -> Result<BlockRows, ReadError> {
        let bytes = match window.get(block) {
            Some(bytes) => bytes,
            None => {
                let end = self.piece.size.saturating_sub(block.offset);
                let length = block.length.max(WINDOW).min(end);
                let bytes = read_exact(&self.store, &self.piece, block.offset, length).await?;
                *window = Window { start: block.offset, bytes };
                window.get(block).ok_or_else(|| self.wrong_block(block))?
            }
        };
        if xxh3_64(&bytes) != block.checksum {
            return Err(self.wrong_block(block));
        }
        BlockRows::new(bytes, block).ok_or_else(|| self.wrong_block(block))
    }

    /// That what a block holds means nothing, though its checksum may be right.
    pub(crate) fn wrong_block(&self, block: &BlockEntry) -> ReadError {
        let operator = self.index.operators.get(block.place.operator);
        let family = operator.and_then(|entry| entry.families.get(block.place.family));
        let what = format!(
            "rows of operator '{}', family '{}', partitions {} to {} do not fit their checksum",
            operator.map_or("", |entry| &entry.label),
            family.map_or("", String::as_str),
            partition_of(block.first, self.partitions),
            partition_of(block.last, self.partitions),
        );
        damaged(self.store.as_ref(), &self.piece, &what)
    }
}

/// Bytes of a file that were read ahead.
#[derive(Debug, Default)]
pub(crate) struct Window {
    start: u64,
    bytes: Bytes,
}

impl Window {
    fn get(&self, block: &BlockEntry) -> Option<Bytes> {
        let from = usize::try_from(block.offset.checked_sub(self.start)?).ok()?;
        let to = from.checked_add(usize::try_from(block.length).ok()?)?;
        (to <= self.bytes.len()).then(|| self.bytes.slice(from..to))
    }
}

async fn read_exact(
    store: &Arc<dyn Store>,
    piece: &Piece,
    start: u64,
    length: u64,
) -> Result<Bytes, ReadError> {
    let bytes = store.read_range(&piece.full_path(), start, length).await.map_err(|error| {
        match error.kind() {
            ErrorKind::Corrupt => ReadError::Damaged { path: piece.path.clone(), error },
            _ => ReadError::Other(error),
        }
    })?;
    if bytes.len() as u64 == length {
        return Ok(bytes);
    }
    Err(damaged(store.as_ref(), piece, "it ends too early"))
}

fn damaged(store: &dyn Store, piece: &Piece, what: &str) -> ReadError {
    let error = Error::corrupt(format!(
        "state file {}/{} (versions {} to {}) is damaged: {what}; put it back from a copy, or go \
         back to an older batch with 'onefold checkpoint rewind'",
        store.url(),
        piece.full_path(),
        piece.from,
        piece.to
    ));
    ReadError::Damaged { path: piece.path.clone(), error }
}
