//! The rows of one family out of many files: sorted, of each key only the newest.

use crate::format::BlockEntry;
use crate::piece::{OpenPiece, ReadError, Window};
use crate::place::Written;
use crate::schema::Convert;
use crate::state_ref::Piece;
use onefold_storage::Store;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Reads the blocks of one family in one file.
#[derive(Debug)]
struct Cursor {
    piece: Arc<OpenPiece>,
    blocks: std::vec::IntoIter<BlockEntry>,
    rows: std::vec::IntoIter<Written>,
    window: Window,
    convert: Option<Arc<Convert>>,
}

impl Cursor {
    async fn next(&mut self) -> Result<Option<Written>, ReadError> {
        loop {
            if let Some(row) = self.rows.next() {
                return Ok(Some(row));
            }
            let Some(block) = self.blocks.next() else { return Ok(None) };
            let mut rows = self.piece.read(&block, &mut self.window).await?;
            if let Some(convert) = &self.convert {
                convert.apply(&mut rows)?;
            }
            self.rows = rows.into_iter();
        }
    }
}

/// The next row of a cursor, ordered so that the heap gives the smallest key first, and of equal
/// keys the one of the newest file.
#[derive(Debug)]
struct Head {
    row: Written,
    cursor: usize,
}

impl Head {
    fn key(&self) -> (u8, &[u8]) {
        (self.row.group, &self.row.key)
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key()).then(self.cursor.cmp(&other.cursor))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

/// A merge under way. Memory is bounded: about 1 MiB for each file.
#[derive(Debug)]
pub(crate) struct Merge {
    cursors: Vec<Cursor>,
    heap: BinaryHeap<Head>,
    keep_removed: bool,
}

impl Merge {
    /// The next row; removed ones too if asked for.
    pub(crate) async fn next(&mut self) -> Result<Option<Written>, ReadError> {
        if let [only] = self.cursors.as_mut_slice() {
            return Self::next_of(only, self.keep_removed).await;
        }
        loop {
            let Some(row) = self.pop().await? else { return Ok(None) };
            while self.heap.peek().is_some_and(|head| head.key() == (row.group, &*row.key)) {
                self.pop().await?;
            }
            if row.value.is_some() || self.keep_removed {
                return Ok(Some(row));
            }
        }
    }

    /// Where there is only one file there is nothing to compare.
    async fn next_of(
        cursor: &mut Cursor,
        keep_removed: bool,
    ) -> Result<Option<Written>, ReadError> {
        loop {
            match cursor.next().await? {
                Some(row) if row.value.is_none() && !keep_removed => {}
                next => return Ok(next),
            }
        }
    }

    /// The smallest row of all; that which follows it in its file takes its place.
    async fn pop(&mut self) -> Result<Option<Written>, ReadError> {
        let Some(cursor) = self.heap.peek().map(|head| head.cursor) else { return Ok(None) };
        let next = match self.cursors.get_mut(cursor) {
            Some(cursor) => cursor.next().await?,
            None => None,
        };
        let Some(next) = next else { return Ok(self.heap.pop().map(|head| head.row)) };
        let head = self.heap.peek_mut();
        Ok(head.map(|mut head| std::mem::replace(&mut head.row, next)))
    }

    async fn fill(&mut self, cursor: usize) -> Result<(), ReadError> {
        let Some(next) = self.cursors.get_mut(cursor) else { return Ok(()) };
        if let Some(row) = next.next().await? {
            self.heap.push(Head { row, cursor });
        }
        Ok(())
    }
}

/// Files opened to be read together, oldest first.
#[derive(Debug)]
pub(crate) struct Pieces {
    open: Vec<Arc<OpenPiece>>,
}

/// A family to merge.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) label: &'a str,
    pub(crate) family: &'a str,
    /// Files that end at or before this version hold rows of another operator of that label.
    pub(crate) since: u64,
}

impl Pieces {
    pub(crate) async fn open(
        store: &Arc<dyn Store>,
        pieces: &[Piece],
        partitions: u32,
    ) -> Result<Self, ReadError> {
        let mut open = Vec::with_capacity(pieces.len());
        for piece in pieces {
            open.push(Arc::new(OpenPiece::open(store, piece, partitions).await?));
        }
        Ok(Pieces { open })
    }

    /// Merges the rows of a family. `convert` gives, for the hash of a schema, what makes its rows
    /// ones of the present schema.
    pub(crate) async fn merge(
        &self,
        wanted: Wanted<'_>,
        keep_removed: bool,
        convert: impl Fn(u128) -> Option<Arc<Convert>>,
    ) -> Result<Merge, ReadError> {
        let mut cursors = Vec::new();
        for piece in self.open.iter().filter(|piece| piece.index.to > wanted.since) {
            let blocks = piece.blocks(wanted.label, wanted.family);
            if !blocks.is_empty() {
                cursors.push(Cursor {
                    piece: Arc::clone(piece),
                    blocks: blocks.into_iter(),
                    rows: Vec::new().into_iter(),
                    window: Window::default(),
                    convert: convert(piece.index.schema),
                });
            }
        }
        let count = cursors.len();
        let mut merge = Merge { cursors, heap: BinaryHeap::new(), keep_removed };
        for cursor in (0..count).filter(|_| count > 1) {
            merge.fill(cursor).await?;
        }
        Ok(merge)
    }
}
