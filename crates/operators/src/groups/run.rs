//! One partition of groups with state in one batch.

use super::function::Call;
use super::state::{CallTimes, GroupCell};
use super::{GroupTimeout, GroupsPlan, STATE, TIMEOUTS};
use crate::OperatorContext;
use crate::failure::{external, internal};
use crate::grouped::Groups;
use crate::keys::batch_of;
use crate::numbers::{NUMBER, push_number};
use crate::outlet::Outlet;
use crate::output;
use crate::rows::{Value, batch_of_values, value_at};
use crate::unary::Unary;
use arrow::record_batch::RecordBatch;
use datafusion::common::instant::Instant;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::SendableRecordBatchStream;
use futures::TryStreamExt;
use onefold_state::{KeyGroup, PartitionState};
use std::ops::Bound;
use std::sync::Arc;

/// Groups worked on at a time.
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
            let rows = input.try_collect().await?;
            let outlet = Outlet::new(schema, to);
            let state = context.state.open(context.id, number).map_err(external)?;
            let times = CallTimes {
                timeout: plan.timeout,
                watermark_ms: context.evict_ms.unwrap_or(0),
                batch_time_ms: context.batch_time_ms,
            };
            let run = GroupsRun { plan, context, state, outlet, times, out: Vec::new() };
            run.run(rows).await
        }))
    }
}

struct GroupsRun {
    plan: Arc<GroupsPlan>,
    context: OperatorContext,
    state: Box<dyn PartitionState>,
    outlet: Outlet,
    times: CallTimes,
    out: Vec<Value<'static>>,
}

/// A key to call the function for.
struct Due<'a> {
    group: KeyGroup,
    key: &'a [u8],
    rows: &'a [(usize, usize)],
}

/// What is kept of a key.
struct Kept {
    value: Value<'static>,
    timeout: i64,
    /// Whether there is a row.
    there: bool,
}

impl GroupsRun {
    async fn run(mut self, rows: Vec<RecordBatch>) -> Result<()> {
        let begun = Instant::now();
        let groups = Groups::gather(&self.plan.grouping, rows, &self.context)?;
        for chunk in groups.groups.chunks(CHUNK) {
            let due = chunk.iter().map(|group| Due {
                group: group.group,
                key: &group.key,
                rows: &group.rows,
            });
            self.call(&groups.batches, &due.collect::<Vec<_>>(), false)?;
            self.send(output::CHUNK).await?;
        }
        self.context.metrics.update_time().add_elapsed(begun);

        let begun = Instant::now();
        let threshold = match self.plan.timeout {
            GroupTimeout::None => None,
            GroupTimeout::ProcessingTime => Some(self.times.batch_time_ms),
            GroupTimeout::EventTime => self.context.evict_ms,
        };
        if let Some(threshold) = threshold {
            self.time_out(threshold).await?;
        }
        self.context.metrics.removal_time().add_elapsed(begun);
        self.send(1).await?;
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
                let due = over.iter().map(|row| Due {
                    group,
                    key: row.key.get(NUMBER..).unwrap_or_default(),
                    rows: &[],
                });
                self.call(&[], &due.collect::<Vec<_>>(), true)?;
                self.send(output::CHUNK).await?;
                match over.into_iter().next_back() {
                    Some(row) => from = Some(row.key),
                    None => break,
                }
            }
        }
        Ok(())
    }

    fn call(&mut self, batches: &[RecordBatch], due: &[Due<'_>], timed_out: bool) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        let keys = plan.grouping.read(due.iter().map(|due| due.key))?;
        let kept = self.read(due)?;
        let mut changes = Vec::new();
        for ((due, key), kept) in due.iter().zip(keys).zip(kept) {
            let mut cell = GroupCell::new(kept.value.clone(), timed_out, self.times);
            let call = Call { key, batches, rows: due.rows, cell: &mut cell, out: &mut self.out };
            plan.function.call(call).map_err(external)?;
            changes.push((due, kept, cell));
        }
        self.write(changes)
    }

    fn read(&mut self, due: &[Due<'_>]) -> Result<Vec<Kept>> {
        let keys: Vec<_> = due.iter().map(|due| (due.group, due.key)).collect();
        let found = self.state.get(STATE, &keys).map_err(external)?;
        let values: Vec<&[u8]> = found.iter().flatten().map(AsRef::as_ref).collect();
        let count = values.len();
        let columns = self.plan.codec.decode(values)?;
        let batch = batch_of(&self.plan.values, columns, count)?;
        let mut next = 0;
        let mut kept = Vec::with_capacity(found.len());
        for found in &found {
            if found.is_none() {
                kept.push(Kept { value: Value::Null, timeout: NO_TIMEOUT, there: false });
                continue;
            }
            let value = read_cell(&batch, 0, next)?;
            let timeout = match read_cell(&batch, 1, next)? {
                Value::Int(timeout) => i64::try_from(timeout).unwrap_or(NO_TIMEOUT),
                _ => NO_TIMEOUT,
            };
            kept.push(Kept { value, timeout, there: true });
            next += 1;
        }
        Ok(kept)
    }

    fn write(&mut self, changes: Vec<(&Due<'_>, Kept, GroupCell)>) -> Result<()> {
        let (mut puts, mut values) = (Vec::new(), Vec::new());
        for (due, kept, cell) in changes {
            let timeout = cell.timeout_ms.unwrap_or(NO_TIMEOUT);
            if timeout != kept.timeout {
                self.move_timeout(due, kept.timeout, timeout)?;
            }
            if cell.removed && timeout == NO_TIMEOUT {
                self.state.remove(STATE, due.group, due.key).map_err(external)?;
                self.context.metrics.removed(usize::from(kept.there));
            } else if cell.updated || cell.removed || timeout != kept.timeout {
                puts.push(due);
                let mut value = vec![cell.value];
                if self.plan.timeout != GroupTimeout::None {
                    value.push(Value::Int(i128::from(timeout)));
                }
                values.push(Value::List(value));
            }
        }
        self.context.metrics.updated(puts.len());
        let batch = batch_of_values(&self.plan.values, values, "the state of a group");
        let rows = self.plan.codec.encode(batch.map_err(external)?.columns())?;
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

    /// Sends what came out once there are `enough` rows.
    async fn send(&mut self, enough: usize) -> Result<()> {
        if self.out.len() < enough {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.out);
        let batch = batch_of_values(&self.plan.output, rows, "a row that the function gave");
        self.outlet.push(batch.map_err(external)?).await
    }
}

fn read_cell(batch: &RecordBatch, column: usize, row: usize) -> Result<Value<'static>> {
    match batch.columns().get(column) {
        Some(column) => Ok(value_at(column.as_ref(), row).map_err(external)?.into_owned()),
        None => Ok(Value::Null),
    }
}

fn timeout_key(bytes: &mut Vec<u8>, timeout: i64, key: &[u8]) {
    bytes.clear();
    push_number(bytes, timeout);
    bytes.extend_from_slice(key);
}
