//! One partition of groups with state in one batch.

use super::code::{GroupCalls, GroupReturns, GroupRun, StateChange};
use super::{GroupTimeout, GroupsPlan, STATE, TIMEOUTS};
use crate::OperatorContext;
use crate::failure::{external, internal};
use crate::grouped::{GroupedRows, Groups};
use crate::numbers::{NUMBER, push_number};
use crate::outlet::Outlet;
use crate::output;
use crate::unary::Unary;
use arrow::array::{Array, AsArray, Int64Array, StructArray, UInt32Array, new_null_array};
use arrow::compute::{interleave, take};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::instant::Instant;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::SendableRecordBatchStream;
use futures::TryStreamExt;
use onefold_state::{KeyGroup, PartitionState};
use std::ops::Bound;
use std::sync::Arc;

/// Timeouts read at a time.
const CHUNK: usize = 1_024;
/// What stands for no timeout in the state.
const NO_TIMEOUT: i64 = -1;

#[derive(Debug)]
pub(super) struct GroupsOperator {
    pub(super) plan: Arc<GroupsPlan>,
    pub(super) context: OperatorContext,
}

impl Unary for GroupsOperator {
    fn name(&self) -> &'static str {
        "GroupsWithStateExec"
    }

    fn run(
        &self,
        partition: usize,
        input: SendableRecordBatchStream,
        _task: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let number = output::number(partition)?;
        let schema = Arc::clone(&self.plan.output);
        let (plan, context) = (Arc::clone(&self.plan), self.context.clone());
        Ok(output::spawn(Arc::clone(&schema), move |to| async move {
            let columns = input.schema();
            let rows = input.try_collect().await?;
            let outlet = Outlet::new(schema, to);
            let state = context.state.open(context.id, number).map_err(external)?;
            let code = plan.function.start().map_err(external)?;
            let run = GroupsRun { plan, context, state, outlet, code, input: columns };
            run.run(rows).await
        }))
    }
}

struct GroupsRun {
    plan: Arc<GroupsPlan>,
    context: OperatorContext,
    state: Box<dyn PartitionState>,
    outlet: Outlet,
    code: Box<dyn GroupRun>,
    /// The input's columns.
    input: SchemaRef,
}

/// A key to call the code for.
struct Due<'a> {
    group: KeyGroup,
    key: &'a [u8],
}

/// What is kept of some keys.
struct Kept {
    states: StructArray,
    /// Whether there is a row, and its timeout.
    timeouts: Vec<(bool, i64)>,
}

impl GroupsRun {
    async fn run(mut self, rows: Vec<RecordBatch>) -> Result<()> {
        let begun = Instant::now();
        let plan = Arc::clone(&self.plan);
        let groups = Groups::gather(&plan.grouping, rows, &self.context)?;
        for part in groups.parts() {
            let due: Vec<Due<'_>> =
                part.iter().map(|group| Due { group: group.group, key: &group.key }).collect();
            self.call(groups.together(&plan.grouping, part)?, &due, false).await?;
        }
        self.context.metrics.update_time().add_elapsed(begun);

        let begun = Instant::now();
        let threshold = match self.plan.timeout {
            GroupTimeout::None => None,
            GroupTimeout::ProcessingTime => Some(self.context.batch_time_ms),
            GroupTimeout::EventTime => self.context.evict_ms,
        };
        if let Some(threshold) = threshold {
            self.time_out(threshold).await?;
        }
        self.context.metrics.removal_time().add_elapsed(begun);
        self.code.close().map_err(external)?;
        self.outlet.finish().await?;
        self.context.metrics.partition_done(self.state.rows(STATE));
        Ok(())
    }

    /// Calls for the keys whose timeout is before `threshold`. Keys with rows in this batch are
    /// not among them: their timeouts were set anew, none before the threshold.
    async fn time_out(&mut self, threshold: i64) -> Result<()> {
        let mut end = Vec::new();
        push_number(&mut end, threshold);
        for group in self.state.groups() {
            let group = KeyGroup::try_from(group).map_err(|_| internal("a key group over 255"))?;
            if self.state.rows_in(TIMEOUTS, group) == 0 {
                continue;
            }
            let mut from: Option<Box<[u8]>> = None;
            loop {
                let start = from.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                let to = Bound::Excluded(end.as_slice());
                let over = self.state.scan(TIMEOUTS, group, start, to, CHUNK).map_err(external)?;
                let due = over
                    .iter()
                    .map(|row| Due { group, key: row.key.get(NUMBER..).unwrap_or_default() });
                let due: Vec<Due<'_>> = due.collect();
                if !due.is_empty() {
                    let keys = self.plan.grouping.read(due.iter().map(|due| due.key))?;
                    let rows = RecordBatch::new_empty(Arc::clone(&self.input));
                    let groups = GroupedRows { keys, rows, ends: vec![0; due.len()] };
                    self.call(groups, &due, true).await?;
                }
                match over.into_iter().next_back() {
                    Some(row) => from = Some(row.key),
                    None => break,
                }
            }
        }
        Ok(())
    }

    async fn call(&mut self, groups: GroupedRows, due: &[Due<'_>], timed_out: bool) -> Result<()> {
        let kept = self.read(due)?;
        let calls = GroupCalls {
            groups,
            states: kept.states,
            timed_out,
            timeout: self.plan.timeout,
            watermark_ms: self.context.evict_ms.unwrap_or(0),
            batch_time_ms: self.context.batch_time_ms,
            output: Arc::clone(&self.plan.output),
        };
        let mut given = self.code.call(&calls).map_err(external)?;
        for batch in std::mem::take(&mut given.output) {
            let batch = self.plan.fit_output(batch).map_err(external)?;
            self.outlet.push(batch).await?;
        }
        self.write(due, &calls.states, &kept.timeouts, &given)
    }

    fn read(&mut self, due: &[Due<'_>]) -> Result<Kept> {
        let keys: Vec<_> = due.iter().map(|due| (due.group, due.key)).collect();
        let found = self.state.get(STATE, &keys).map_err(external)?;
        let values: Vec<&[u8]> = found.iter().flatten().map(AsRef::as_ref).collect();
        let mut columns = self.plan.codec.decode(values)?.into_iter();
        let (states, timeouts) = (columns.next(), columns.next());
        let states = states.ok_or_else(|| internal("a group's state has no column"))?;
        let mut next = 0..;
        let places: UInt32Array =
            found.iter().map(|found| found.as_ref().and_then(|_| next.next())).collect();
        let states = take(states.as_ref(), &places, None)?;
        let states = states.as_struct_opt().cloned();
        let timeouts: Option<Int64Array> = timeouts
            .map(|timeouts| take(timeouts.as_ref(), &places, None))
            .transpose()?
            .and_then(|timeouts| timeouts.as_primitive_opt().cloned());
        let timeout = |place| {
            let timeouts = timeouts.as_ref().filter(|timeouts| timeouts.is_valid(place));
            timeouts.map_or(NO_TIMEOUT, |timeouts| timeouts.value(place))
        };
        let timeouts = (0..found.len())
            .map(|place| (found.get(place).is_some_and(Option::is_some), timeout(place)));
        Ok(Kept {
            timeouts: timeouts.collect(),
            states: states.ok_or_else(|| internal("a group's state is no struct"))?,
        })
    }

    fn write(
        &mut self,
        due: &[Due<'_>],
        before: &StructArray,
        kept: &[(bool, i64)],
        given: &GroupReturns,
    ) -> Result<()> {
        self.plan.check(due.len(), given).map_err(external)?;
        let nothing = new_null_array(before.data_type(), 1);
        let (mut puts, mut places, mut timeouts) = (Vec::new(), Vec::new(), Vec::new());
        let each = due.iter().zip(kept).zip(given.changes.iter().zip(&given.timeouts_ms));
        for (place, ((due, (there, old)), (change, timeout))) in each.enumerate() {
            let timeout = timeout.unwrap_or(NO_TIMEOUT);
            if timeout != *old {
                self.move_timeout(due, *old, timeout)?;
            }
            match change {
                StateChange::Remove if timeout == NO_TIMEOUT => {
                    self.state.remove(STATE, due.group, due.key).map_err(external)?;
                    self.context.metrics.removed(usize::from(*there));
                    continue;
                }
                StateChange::Keep if timeout == *old => continue,
                StateChange::Keep => places.push((0, place)),
                StateChange::Update => places.push((1, place)),
                StateChange::Remove => places.push((2, 0)),
            }
            puts.push(due);
            timeouts.push(timeout);
        }
        self.context.metrics.updated(puts.len());
        if puts.is_empty() {
            return Ok(());
        }
        let mut columns = vec![interleave(&[before, &given.states, nothing.as_ref()], &places)?];
        if self.plan.timeout != GroupTimeout::None {
            columns.push(Arc::new(Int64Array::from(timeouts)));
        }
        let rows = self.plan.codec.encode(&columns)?;
        for (due, row) in puts.into_iter().zip(rows.iter()) {
            self.state.put(STATE, due.group, due.key, row.data()).map_err(external)?;
        }
        Ok(())
    }

    fn move_timeout(&mut self, due: &Due<'_>, from: i64, to: i64) -> Result<()> {
        let mut key = Vec::new();
        if from != NO_TIMEOUT {
            timeout_key(&mut key, from, due.key);
            self.state.remove(TIMEOUTS, due.group, &key).map_err(external)?;
        }
        if to != NO_TIMEOUT {
            timeout_key(&mut key, to, due.key);
            self.state.put(TIMEOUTS, due.group, &key, &[]).map_err(external)?;
        }
        Ok(())
    }
}

fn timeout_key(bytes: &mut Vec<u8>, timeout: i64, key: &[u8]) {
    bytes.clear();
    push_number(bytes, timeout);
    bytes.extend_from_slice(key);
}
