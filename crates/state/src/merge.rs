//! The rows of one family out of many files: sorted, of each key only the newest.

use crate::format::{BlockEntry, BlockRows};
use crate::piece::{OpenPiece, ReadError, Window};
use crate::place::{Written, WrittenRef};
use crate::schema::Convert;
use crate::state_ref::Piece;
use onefold_storage::Store;
use onefold_types::Error;
use std::cmp::Ordering;
use std::sync::Arc;

/// Reads the blocks of one family in one file.
#[derive(Debug)]
struct Cursor {
    piece: Arc<OpenPiece>,
    blocks: std::vec::IntoIter<BlockEntry>,
    /// The one whose rows are at hand.
    block: Option<BlockEntry>,
    rows: Rows,
    window: Window,
    convert: Option<Arc<Convert>>,
}

/// The rows of a block, the one at hand and those to come.
#[derive(Debug)]
enum Rows {
    /// As they are in the file.
    Packed(BlockRows),
    /// As the present schema has them; the first is at hand.
    Converted(Vec<Written>, usize),
}

impl Cursor {
    /// Goes on to the next row; whether there is one.
    async fn step(&mut self) -> Result<bool, ReadError> {
        loop {
            if self.step_in_block()? {
                return Ok(true);
            }
            let Some(block) = self.blocks.next() else { return Ok(false) };
            let rows = self.piece.read(&block, &mut self.window).await?;
            self.block = Some(block);
            self.rows = Rows::Packed(rows);
            if let Some(convert) = self.convert.clone() {
                self.rows = self.converted(&convert)?;
            }
        }
    }

    #[inline]
    fn step_in_block(&mut self) -> Result<bool, ReadError> {
        let stepped = match &mut self.rows {
            Rows::Packed(rows) => rows.step(),
            Rows::Converted(rows, at) => {
                *at = at.wrapping_add(1);
                Some(*at < rows.len())
            }
        };
        stepped.ok_or_else(|| self.wrong_block())
    }

    /// The rows of the block, before the first of which it stands.
    fn converted(&mut self, convert: &Convert) -> Result<Rows, ReadError> {
        let mut rows = Vec::new();
        while self.step_in_block()? {
            rows.extend(self.row().map(WrittenRef::owned));
        }
        convert.apply(&mut rows)?;
        Ok(Rows::Converted(rows, usize::MAX))
    }

    fn wrong_block(&self) -> ReadError {
        match &self.block {
            Some(block) => self.piece.wrong_block(block),
            None => ReadError::Other(Error::internal("a block that was not read is damaged")),
        }
    }

    /// The row at hand.
    #[inline]
    fn row(&self) -> Option<WrittenRef<'_>> {
        match &self.rows {
            Rows::Packed(rows) => Some(rows.row()),
            Rows::Converted(rows, at) => rows.get(*at).map(Written::borrow),
        }
    }
}

/// A merge under way. Memory is bounded: about 1 MiB for each file.
#[derive(Debug)]
pub(crate) struct Merge {
    cursors: Vec<Cursor>,
    /// The cursors that have a row at hand: a heap with the smallest key first, and of equal keys
    /// that of the newest file.
    heap: Vec<usize>,
    /// Whether the first of the heap was given.
    given: bool,
    keep_removed: bool,
}

impl Merge {
    /// The next row; removed ones too if asked for.
    pub(crate) async fn next(&mut self) -> Result<Option<WrittenRef<'_>>, ReadError> {
        loop {
            if std::mem::replace(&mut self.given, true) {
                self.pass().await?;
            }
            match self.first() {
                Some(row) if row.value.is_none() && !self.keep_removed => {}
                _ => break,
            }
        }
        Ok(self.first())
    }

    fn first(&self) -> Option<WrittenRef<'_>> {
        self.row_at(0)
    }

    /// The row at a place of the heap.
    #[inline]
    fn row_at(&self, place: usize) -> Option<WrittenRef<'_>> {
        self.cursors.get(*self.heap.get(place)?)?.row()
    }

    /// Goes past the key that is first: its newest row, and those of older files.
    async fn pass(&mut self) -> Result<(), ReadError> {
        loop {
            // An equal key is right below the first, whatever lies further down.
            let older = [1, 2].into_iter().find(|place| self.is_same(0, *place));
            let Some(place) = older else { break };
            self.advance(place).await?;
        }
        self.advance(0).await
    }

    fn is_same(&self, one: usize, two: usize) -> bool {
        match (self.row_at(one), self.row_at(two)) {
            (Some(one), Some(two)) => (one.group, one.key) == (two.group, two.key),
            _ => false,
        }
    }

    /// The cursor at a place among the first three of the heap goes on to its next row.
    async fn advance(&mut self, place: usize) -> Result<(), ReadError> {
        let Some(cursor) = self.heap.get(place).copied() else { return Ok(()) };
        let Some(cursor) = self.cursors.get_mut(cursor) else { return Ok(()) };
        if !cursor.step().await? {
            self.heap.swap_remove(place);
        }
        self.sift(place);
        Ok(())
    }

    /// Lets what is at a place of the heap sink below what comes before it.
    fn sift(&mut self, mut place: usize) {
        loop {
            let left = 2 * place + 1;
            let mut least = place;
            for child in [left, left + 1] {
                if child < self.heap.len() && self.order(child, least) == Ordering::Less {
                    least = child;
                }
            }
            if least == place {
                return;
            }
            self.heap.swap(place, least);
            place = least;
        }
    }

    fn order(&self, one: usize, two: usize) -> Ordering {
        let key = |place| self.row_at(place).map(|row| (row.group, row.key));
        // Later files have higher numbers.
        key(one).cmp(&key(two)).then_with(|| self.heap.get(two).cmp(&self.heap.get(one)))
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
                    block: None,
                    rows: Rows::Packed(BlockRows::default()),
                    window: Window::default(),
                    convert: convert(piece.index.schema),
                });
            }
        }
        let mut heap = Vec::with_capacity(cursors.len());
        for (number, cursor) in cursors.iter_mut().enumerate() {
            if cursor.step().await? {
                heap.push(number);
            }
        }
        let mut merge = Merge { cursors, heap, given: false, keep_removed };
        (0..merge.heap.len()).rev().for_each(|place| merge.sift(place));
        Ok(merge)
    }
}
