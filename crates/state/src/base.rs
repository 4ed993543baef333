//! The state at a committed version, which batches read and which only a finished batch changes.

mod maps;
mod memory;
#[cfg(feature = "rocksdb")]
mod rocks;

use crate::counts::{Change, Counts};
use crate::overlay::Overlay;
use crate::place::{Place, WrittenRef};
use crate::{KeyGroup, RowVisitor, StateRow};
use onefold_types::Result;
use std::fmt::Debug;
use std::ops::{Bound, Range};

pub(crate) use memory::MemoryBase;
#[cfg(feature = "rocksdb")]
pub(crate) use rocks::RocksBase;

/// Where the rows of the newest applied version are.
pub(crate) trait Base: Debug + Send + Sync {
    /// The values of keys, in their order.
    fn get(&self, place: Place, keys: &[(KeyGroup, &[u8])]) -> Result<Vec<Option<Box<[u8]>>>>;

    /// The length of a row's value; `None` if there is no row.
    fn value_length(&self, place: Place, group: KeyGroup, key: &[u8]) -> Result<Option<usize>>;

    /// Whether asking again is so dear that the overlay should remember the answers.
    fn remember_reads(&self) -> bool;

    /// At most `limit` rows of a group in key order.
    fn scan(
        &self,
        place: Place,
        group: KeyGroup,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        limit: usize,
    ) -> Result<Vec<StateRow>>;

    /// All rows of some groups, in no order.
    fn for_each(&self, place: Place, groups: Range<u32>, each: &mut RowVisitor<'_>) -> Result<()>;

    /// The numbers of rows and bytes.
    fn counts(&self) -> &Counts;

    /// Whether the memory suffices for another batch. What a batch adds is taken over in any case,
    /// since it is committed; so many small ones could go beyond the budget.
    ///
    /// # Errors
    /// Invalid, when it does not.
    fn has_room(&self) -> Result<()> {
        Ok(())
    }

    /// Takes the writes of a batch over.
    fn apply(&mut self, writes: Writes<'_>, version: &BaseVersion) -> Result<()>;

    /// Forgets all rows.
    fn clear(&mut self) -> Result<()>;

    /// Takes a row that is read from files, each key once.
    ///
    /// # Errors
    /// Invalid, when the memory does not suffice.
    fn load(&mut self, place: Place, row: WrittenRef<'_>) -> Result<()>;

    /// Ends loading: the rows are those of this version.
    fn loaded(&mut self, version: &BaseVersion) -> Result<()>;

    /// The version whose rows it holds from an earlier process, if any.
    fn held(&self) -> Option<&BaseVersion>;
}

/// What a batch wrote.
pub(crate) struct Writes<'a> {
    /// The rows, each key once.
    pub(crate) rows: WrittenRows<'a>,
    /// How the numbers of rows and bytes change by them.
    pub(crate) changes: &'a [(Place, KeyGroup, Change)],
}

/// Where written rows come from.
#[derive(Debug)]
pub(crate) enum WrittenRows<'a> {
    /// A batch, partition by partition.
    Batch(Vec<Overlay>),
    /// Files, read by somebody else.
    File(&'a [(Place, WrittenRef<'a>)]),
}

#[cfg(feature = "rocksdb")]
impl WrittenRows<'_> {
    /// About how many bytes a changelog of them has.
    fn bytes(&self) -> u64 {
        let of = |row: &WrittenRef<'_>| row.key.len() + row.value.map_or(0, <[u8]>::len);
        match self {
            WrittenRows::Batch(overlays) => {
                overlays.iter().map(Overlay::memory).sum::<usize>() as u64
            }
            WrittenRows::File(rows) => rows.iter().map(|(_, row)| of(row)).sum::<usize>() as u64,
        }
    }
}

/// What a base is a copy of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BaseVersion {
    /// The version of the state.
    pub(crate) version: u64,
    /// The hash over all changelogs up to it.
    pub(crate) chain: u128,
}
