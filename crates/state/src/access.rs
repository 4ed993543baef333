//! How operators read and write state within a batch.

use crate::{KeyGroup, OperatorId};
use onefold_types::Result;
use std::fmt::Debug;
use std::ops::{Bound, Range};

/// A row of state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateRow {
    /// The key's bytes.
    pub key: Box<[u8]>,
    /// The value's bytes.
    pub value: Box<[u8]>,
}

/// Takes the key group, key and value of a row.
pub type RowVisitor<'a> = dyn FnMut(KeyGroup, &[u8], &[u8]) -> Result<()> + 'a;

/// The state that one batch works on: the version it starts from plus its own writes.
pub trait BatchState: Debug + Send + Sync {
    /// How many partitions the state of a keyed operator has in this run.
    fn partitions(&self) -> u32;

    /// Opens the state of an operator in a partition. Once for each partition in a batch: a second
    /// call for the same one is an internal error.
    ///
    /// # Errors
    /// Internal: no such operator or partition, or opened already. Corrupt, Unavailable: the state
    /// cannot be read.
    fn open(&self, operator: OperatorId, partition: u32) -> Result<Box<dyn PartitionState>>;
}

/// The state of one operator in one partition within one batch.
///
/// A family is given by its place in [`OperatorSpec::families`](crate::OperatorSpec). Every call
/// sees the writes before it; a scan gives a bounded number of rows as they are at the time of the
/// call, so that writing between two calls is well defined. Dropping it hands the writes back to
/// the batch.
///
/// # Errors
/// All calls: Internal for a family or key group that is not this partition's; Corrupt or
/// Unavailable when the store below fails; Invalid, naming the option, when the memory budget of
/// the process is used up.
pub trait PartitionState: Debug + Send {
    /// The key groups of this partition, half-open.
    fn groups(&self) -> Range<u32>;

    /// The values of keys, in their order; `None` where there is no row.
    fn get(&mut self, family: usize, keys: &[(KeyGroup, &[u8])]) -> Result<Vec<Option<Box<[u8]>>>>;

    /// Writes a row, in place of the one with its key if there is one.
    fn put(&mut self, family: usize, group: KeyGroup, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes a row; there need not be one.
    fn remove(&mut self, family: usize, group: KeyGroup, key: &[u8]) -> Result<()>;

    /// At most `limit` rows of a key group in ascending key order. Go on with
    /// `Bound::Excluded(last key)`. Only for [`Access::Ordered`](crate::Access) families.
    fn scan(
        &mut self,
        family: usize,
        group: KeyGroup,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        limit: usize,
    ) -> Result<Vec<StateRow>>;

    /// Gives every row of a family to `each`, in no order. Writing meanwhile is not possible.
    fn for_each(&mut self, family: usize, each: &mut RowVisitor<'_>) -> Result<()>;

    /// How many rows a family has, own writes included.
    fn rows(&self, family: usize) -> u64;

    /// How many rows of a family a key group has, own writes included: lets an eviction pass over
    /// what is empty.
    fn rows_in(&self, family: usize, group: KeyGroup) -> u64;
}
