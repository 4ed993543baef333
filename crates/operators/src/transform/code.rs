//! What handles the keys of a partition, in Arrow: where code of any language comes in.

use super::context::ProcessorContext;
use super::partition::PartitionRun;
use super::timers::{Due, Timers};
use super::variables::{Slot, Variables};
use crate::OperatorMetrics;
use crate::grouped::GroupedRows;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use onefold_state::{KeyGroup, PartitionState};
use onefold_types::{Error, Result};
use std::fmt;

/// Code that a plan carries and that each partition of each batch runs for its keys.
///
/// It must give the same for the same calls: a batch may run again.
pub trait ProcessorCode: fmt::Debug + Send + Sync {
    /// Declares the variables, the same ones each time. They are numbered from 0 in this order.
    ///
    /// # Errors
    /// Any: the query does not start.
    fn declare(&self, variables: &mut Variables) -> Result<()>;

    /// Makes ready for one partition of one batch.
    ///
    /// # Errors
    /// Any: the batch fails.
    fn start(&self) -> Result<ProcessorStart>;

    /// What the state calls this kind of operator.
    fn kind(&self) -> &'static str {
        "transformWithStateExec"
    }
}

/// How code handles a partition.
pub enum ProcessorStart {
    /// It is called with some keys or timers at a time.
    Calls(Box<dyn ProcessorRun>),
    /// It is called once, and asks for rows, keys and timers by itself.
    Whole(Box<dyn PartitionRun>),
}

impl fmt::Debug for ProcessorStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProcessorStart::Calls(_) => "Calls",
            ProcessorStart::Whole(_) => "Whole",
        })
    }
}

/// Code at work in one partition of one batch. Its calls may wait: other partitions go on, as far
/// as the session has threads.
pub trait ProcessorRun: Send {
    /// Handles the initial state's rows of some keys, in the query's first batch, before all else.
    ///
    /// # Errors
    /// Any: the batch fails.
    fn initial(
        &mut self,
        groups: &GroupedRows,
        state: &mut ProcessorState<'_>,
    ) -> Result<Vec<RecordBatch>> {
        let _ = (groups, state);
        Err(Error::invalid("the processor takes no initial state; leave the initial state out"))
    }

    /// Handles the rows of some keys.
    ///
    /// # Errors
    /// Any: the batch fails.
    fn rows(
        &mut self,
        groups: &GroupedRows,
        state: &mut ProcessorState<'_>,
    ) -> Result<Vec<RecordBatch>>;

    /// Handles timers that are due. Whether each is still there [`ProcessorState::at`] says.
    ///
    /// # Errors
    /// Any: the batch fails.
    fn timers(
        &mut self,
        due: &DueTimers,
        state: &mut ProcessorState<'_>,
    ) -> Result<Vec<RecordBatch>>;

    /// Called when a partition of a batch is through, also when a call failed.
    ///
    /// # Errors
    /// Any: the batch fails.
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Timers that are due, in the order in which they are handled.
#[derive(Debug, Clone)]
pub struct DueTimers {
    /// The key's columns, a row for each timer.
    pub keys: RecordBatch,
    /// For when each was registered, in milliseconds since 1970.
    pub expiries_ms: Vec<i64>,
}

/// The state of the keys that are handled.
#[derive(Debug)]
pub struct ProcessorState<'a> {
    pub(super) state: &'a mut dyn PartitionState,
    pub(super) slots: &'a [Slot],
    pub(super) timers: &'a mut Timers,
    pub(super) metrics: &'a OperatorMetrics,
    pub(super) output: &'a SchemaRef,
    pub(super) watermark_ms: i64,
    pub(super) batch_time_ms: i64,
    pub(super) handled: Handled<'a>,
}

/// What is handled: keys with rows, or timers.
#[derive(Debug)]
pub(super) enum Handled<'a> {
    Keys(Vec<(KeyGroup, &'a [u8])>),
    Timers(KeyGroup, &'a [Due]),
}

impl ProcessorState<'_> {
    /// The columns of what is to come out.
    #[must_use]
    pub fn output(&self) -> &SchemaRef {
        self.output
    }

    /// Begins with a key, by its place among those of the call. A timer is taken off by this, so
    /// that each place is asked for once; `None`: the timer was deleted meanwhile, and is not to be
    /// handled.
    ///
    /// # Errors
    /// Internal: no such place; what the state gives.
    pub fn at(&mut self, place: usize) -> Result<Option<ProcessorContext<'_>>> {
        let nowhere = || Error::internal("a processor asked for a key that is not at hand");
        let (group, key) = match &self.handled {
            Handled::Keys(keys) => *keys.get(place).ok_or_else(nowhere)?,
            Handled::Timers(group, due) => {
                let due = due.get(place).ok_or_else(nowhere)?;
                if !self.timers.take(self.state, *group, due)? {
                    return Ok(None);
                }
                (*group, due.key.as_ref())
            }
        };
        Ok(Some(ProcessorContext {
            state: &mut *self.state,
            slots: self.slots,
            timers: &mut *self.timers,
            metrics: self.metrics,
            key,
            group,
            watermark_ms: self.watermark_ms,
            batch_time_ms: self.batch_time_ms,
        }))
    }
}
