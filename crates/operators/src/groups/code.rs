//! What is called for groups, in Arrow: where code of any language comes in.

use super::GroupTimeout;
use crate::grouped::GroupedRows;
use arrow::array::StructArray;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use onefold_types::Result;
use std::fmt;

/// Code that a plan carries and that each partition of each batch calls for its groups.
///
/// It must give the same for the same calls: a batch may run again.
pub trait GroupCode: fmt::Debug + Send + Sync {
    /// Makes ready for one partition of one batch.
    ///
    /// # Errors
    /// Any: the batch fails.
    fn start(&self) -> Result<Box<dyn GroupRun>>;

    /// The operator's name in progress and in the checkpoint.
    fn operator_name(&self) -> &'static str {
        "flatMapGroupsWithState"
    }
}

/// Code at work in one partition of one batch. Its calls may wait: other partitions go on, as far
/// as the session has threads.
pub trait GroupRun: Send {
    /// Handles some groups, each of them once in a batch.
    ///
    /// # Errors
    /// Any: the batch fails.
    fn call(&mut self, calls: &GroupCalls) -> Result<GroupReturns>;

    /// Called after the last groups; not if a call failed.
    ///
    /// # Errors
    /// Any: the batch fails.
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Groups to handle.
#[derive(Debug, Clone)]
pub struct GroupCalls {
    /// Their keys and rows; no rows where a timeout is over.
    pub groups: GroupedRows,
    /// The state of each, NULL where there is none.
    pub states: StructArray,
    /// Whether they are called because their timeouts are over.
    pub timed_out: bool,
    /// The kind of timeout that was declared.
    pub timeout: GroupTimeout,
    /// This batch's watermark in milliseconds since 1970; 0 while there is none.
    pub watermark_ms: i64,
    /// This batch's time in milliseconds since 1970: the same in every run of the batch.
    pub batch_time_ms: i64,
    /// The columns of what is to come out.
    pub output: SchemaRef,
}

/// What becomes of a group's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateChange {
    /// It stays as it was.
    Keep,
    /// It is the new one.
    Update,
    /// There is none any more.
    Remove,
}

/// What the code gave.
#[derive(Debug, Clone)]
pub struct GroupReturns {
    /// The rows that come out, in order.
    pub output: Vec<RecordBatch>,
    /// The new states, one for each group; looked at where the change is
    /// [`StateChange::Update`].
    pub states: StructArray,
    /// What becomes of each group's state.
    pub changes: Vec<StateChange>,
    /// Until when each group waits, in milliseconds since 1970; `None`: it does not.
    pub timeouts_ms: Vec<Option<i64>>,
}
