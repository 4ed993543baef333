//! Code that handles a whole partition of a batch by itself, and asks for rows, keys and timers
//! when it wants them.

use super::TransformPlan;
use super::code::DueTimers;
use super::context::ProcessorContext;
use super::timers::{Due, Timers};
use crate::OperatorContext;
use crate::failure;
use crate::grouped::{Group, Groups};
use crate::keys::Keys;
use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use onefold_state::{KeyGroup, PartitionState};
use onefold_types::{Error, Result};
use std::collections::{HashSet, VecDeque};
use std::ops::Range;

/// Code that handles a partition of a batch. Its call may wait: other partitions go on, as far as
/// the session has threads.
pub trait PartitionRun: Send {
    /// Handles the initial state's rows, then the rows of the batch, then the timers that are due:
    /// the rows that come out.
    ///
    /// # Errors
    /// Any: the batch fails.
    fn run(
        &mut self,
        rows: &PartitionRows,
        keys: &mut PartitionKeys<'_>,
    ) -> Result<Vec<RecordBatch>>;
}

/// The rows that a partition has in a batch. Those of a key stand together.
#[derive(Debug)]
pub struct PartitionRows {
    pub(super) initial: Option<Groups>,
    pub(super) rows: Groups,
}

impl PartitionRows {
    /// The rows of the initial state, in parts of a good size: in the query's first batch only.
    pub fn initial(&self) -> impl Iterator<Item = Result<RecordBatch>> + '_ {
        self.initial.iter().flat_map(batches)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let none = |groups: &Groups| groups.groups.is_empty();
        none(&self.rows) && self.initial.as_ref().is_none_or(none)
    }

    /// The rows of the batch, in parts of a good size.
    pub fn rows(&self) -> impl Iterator<Item = Result<RecordBatch>> + '_ {
        batches(&self.rows)
    }
}

fn batches(groups: &Groups) -> impl Iterator<Item = Result<RecordBatch>> + '_ {
    groups.parts().map(|part: &[Group]| groups.rows_of(part).map_err(failure::planning))
}

/// The state of a partition's keys, of which one is at hand at a time, and its timers.
#[derive(Debug)]
pub struct PartitionKeys<'a> {
    state: &'a mut dyn PartitionState,
    plan: &'a TransformPlan,
    timers: &'a mut Timers,
    context: &'a OperatorContext,
    current: Option<(KeyGroup, Box<[u8]>)>,
    due: DueSearch,
}

/// Where the search for timers that are due stands.
#[derive(Debug)]
struct DueSearch {
    until: Option<i64>,
    begun: bool,
    groups: Range<u32>,
    found: VecDeque<Due>,
    /// The last one that was found in the first of the groups.
    last: Option<Due>,
}

impl<'a> PartitionKeys<'a> {
    pub(super) fn new(
        state: &'a mut dyn PartitionState,
        plan: &'a TransformPlan,
        timers: &'a mut Timers,
        context: &'a OperatorContext,
        until: Option<i64>,
    ) -> Self {
        let groups = state.groups();
        let (found, last) = (VecDeque::new(), None);
        let due = DueSearch { until, begun: false, groups, found, last };
        PartitionKeys { state, plan, timers, context, current: None, due }
    }

    /// The columns of what is to come out.
    #[must_use]
    pub fn output(&self) -> &SchemaRef {
        &self.plan.output
    }

    /// The columns of the key.
    #[must_use]
    pub fn key_schema(&self) -> &SchemaRef {
        &self.plan.grouping.schema
    }

    /// This batch's watermark in milliseconds since 1970; 0 while there is none.
    #[must_use]
    pub fn current_watermark_ms(&self) -> i64 {
        self.context.evict_ms.unwrap_or(0)
    }

    /// This batch's time in milliseconds since 1970: the same in every run of the batch.
    #[must_use]
    pub fn current_processing_time_ms(&self) -> i64 {
        self.context.batch_time_ms
    }

    /// Whether a timer is due.
    pub(super) fn has_due(&mut self) -> Result<bool> {
        let Some(until) = self.due.until else { return Ok(false) };
        for group in self.state.groups() {
            let group = key_group(group)?;
            if !self.timers.due(self.state, group, until, None)?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes a key at hand, given by its columns, which are arrays of one.
    ///
    /// # Errors
    /// Invalid: the key does not have the declared types, or is not of this partition.
    pub fn begin(&mut self, key: &[ArrayRef]) -> Result<()> {
        let keys = if key.is_empty() {
            Keys::empty(1)
        } else {
            Keys::encode(&self.plan.grouping.codec, key).map_err(failure::planning)?
        };
        let (group, key) = keys.get(0);
        if !self.state.groups().contains(&u32::from(group)) {
            return Err(Error::invalid(
                "a processor asked for a key that has no row and no timer here: a call may use \
                 the state of its own key only",
            ));
        }
        self.current = Some((group, key.into()));
        Ok(())
    }

    /// Puts the key at hand away.
    pub fn leave(&mut self) {
        self.current = None;
    }

    /// Works with the key at hand.
    ///
    /// # Errors
    /// Invalid: no key is at hand.
    pub fn context(&mut self) -> Result<ProcessorContext<'_>> {
        let (group, key) = self.current.as_ref().ok_or_else(|| {
            Error::invalid("state and timers are those of a key: there is none outside of a call")
        })?;
        Ok(ProcessorContext {
            state: &mut *self.state,
            slots: &self.plan.layout.slots,
            timers: &mut *self.timers,
            metrics: &self.context.metrics,
            key,
            group: *group,
            watermark_ms: self.context.evict_ms.unwrap_or(0),
            batch_time_ms: self.context.batch_time_ms,
        })
    }

    /// The next timers that are due, at most so many; no key twice among them. Each stays
    /// registered until it is deleted. None, when all were given. The first call begins the
    /// handling of timers: one that is registered afterwards waits for a later batch.
    ///
    /// # Errors
    /// What the state gives.
    pub fn due(&mut self, most: usize) -> Result<Option<DueTimers>> {
        let Some(until) = self.due.until else { return Ok(None) };
        if !self.due.begun {
            self.due.begun = true;
            self.timers.begin();
        }
        let (mut taken, mut seen): (Vec<Due>, HashSet<Box<[u8]>>) = (Vec::new(), HashSet::new());
        while taken.len() < most {
            let Some(group) = self.due.groups.clone().next() else { break };
            let group = key_group(group)?;
            let Some(next) = self.due.found.pop_front() else {
                let last = self.due.last.as_ref();
                let found = self.timers.due(self.state, group, until, last)?;
                if found.is_empty() {
                    self.due.last = None;
                    self.due.groups.start += 1;
                }
                self.due.found = found.into();
                continue;
            };
            if seen.contains(&next.key) {
                self.due.found.push_front(next);
                break;
            }
            if self.timers.is_there(self.state, group, &next)? {
                seen.insert(next.key.clone());
                taken.push(next.clone());
            }
            self.due.last = Some(next);
        }
        if taken.is_empty() {
            return Ok(None);
        }
        let keys = self.plan.grouping.read(taken.iter().map(|due| due.key.as_ref()));
        let keys = keys.map_err(failure::planning)?;
        Ok(Some(DueTimers { keys, expiries_ms: taken.iter().map(|due| due.expiry_ms).collect() }))
    }
}

fn key_group(group: u32) -> Result<KeyGroup> {
    KeyGroup::try_from(group).map_err(|_| Error::internal("a key group over 255"))
}
