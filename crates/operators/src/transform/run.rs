//! One partition of a transformation with state in one batch.

use super::code::{DueTimers, Handled, ProcessorRun, ProcessorStart, ProcessorState};
use super::context::damaged;
use super::kinds::Size;
use super::partition::{PartitionKeys, PartitionRows, PartitionRun};
use super::timers::{Due, Timers};
use super::{TimeMode, TransformPlan};
use crate::OperatorContext;
use crate::failure::{external, internal};
use crate::grouped::{Group, Groups};
use crate::numbers::{NUMBER, push_number};
use crate::outlet::Outlet;
use crate::output;
use crate::unary::Unary;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::instant::Instant;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use futures::TryStreamExt;
use onefold_state::{KeyGroup, PartitionState};
use onefold_types::Error;
use std::ops::Bound;
use std::sync::Arc;

/// Expiries read at a time.
const CHUNK: usize = 1_024;

#[derive(Debug)]
pub(super) struct TransformOperator {
    pub(super) plan: Arc<TransformPlan>,
    pub(super) context: OperatorContext,
}

impl Unary for TransformOperator {
    fn name(&self) -> &'static str {
        "TransformWithStateExec"
    }

    fn run(
        &self,
        partition: usize,
        input: SendableRecordBatchStream,
        _task: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.start(partition, input, None)
    }

    fn run_beside(
        &self,
        partition: usize,
        input: SendableRecordBatchStream,
        initial: Arc<dyn ExecutionPlan>,
        task: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.start(partition, input, Some((initial, task)))
    }
}

/// Where rows of an initial state come from.
type Initial = (Arc<dyn ExecutionPlan>, Arc<TaskContext>);

impl TransformOperator {
    fn start(
        &self,
        partition: usize,
        input: SendableRecordBatchStream,
        initial: Option<Initial>,
    ) -> Result<SendableRecordBatchStream> {
        let number = output::number(partition)?;
        let schema = Arc::clone(&self.plan.output);
        let (plan, context) = (Arc::clone(&self.plan), self.context.clone());
        Ok(output::spawn(Arc::clone(&schema), move |to| async move {
            let outlet = Outlet::new(schema, to);
            let mut state = context.state.open(context.id, number).map_err(external)?;
            // Both at once: the rows before may come from the same table.
            let first = first_rows(plan.layout.begun, state.as_mut(), initial, partition);
            let (first, rows): (_, Vec<RecordBatch>) =
                futures::try_join!(first, input.try_collect())?;
            let code = plan.processor.get().start().map_err(external)?;
            let timers = Timers::new(plan.layout.timers);
            context.metrics.has_variables(&plan.layout.counts);
            let run = TransformRun { plan, context, state, timers, outlet };
            run.run(code, first, rows).await
        }))
    }
}

/// The rows of the initial state, in the first batch only: a mark in each key group says that they
/// were taken. Afterwards they are not read at all.
async fn first_rows(
    begun: Option<usize>,
    state: &mut dyn PartitionState,
    initial: Option<Initial>,
    partition: usize,
) -> Result<Vec<RecordBatch>> {
    let Some(((initial, task), begun)) = initial.zip(begun) else { return Ok(Vec::new()) };
    let groups = key_groups(state)?;
    let Some(group) = groups.first() else { return Ok(Vec::new()) };
    let mark = state.get(begun, &[(*group, &[])]).map_err(external)?;
    if mark.into_iter().next().flatten().is_some() {
        return Ok(Vec::new());
    }
    let rows = initial.execute(partition, task)?.try_collect().await?;
    for group in groups {
        state.put(begun, group, &[], &[]).map_err(external)?;
    }
    Ok(rows)
}

struct TransformRun {
    plan: Arc<TransformPlan>,
    context: OperatorContext,
    state: Box<dyn PartitionState>,
    timers: Timers,
    outlet: Outlet,
}

impl TransformRun {
    async fn run(
        mut self,
        code: ProcessorStart,
        first: Vec<RecordBatch>,
        rows: Vec<RecordBatch>,
    ) -> Result<()> {
        match code {
            ProcessorStart::Calls(mut code) => {
                let handled = self.handle(code.as_mut(), first, rows).await;
                let closed = code.close().map_err(external);
                handled?;
                closed?;
            }
            ProcessorStart::Whole(mut code) => self.whole(code.as_mut(), first, rows).await?,
        }
        self.outlet.finish().await?;
        let counted = self.plan.layout.families.iter().enumerate();
        let counted = counted.filter(|(_, family)| family.counted);
        let rows = counted.map(|(place, _)| self.state.rows(place)).sum();
        self.context.metrics.partition_done(rows);
        Ok(())
    }

    /// Lets code handle the partition that asks for all by itself.
    async fn whole(
        &mut self,
        code: &mut dyn PartitionRun,
        first: Vec<RecordBatch>,
        rows: Vec<RecordBatch>,
    ) -> Result<()> {
        let begun = Instant::now();
        let plan = Arc::clone(&self.plan);
        let initial = plan.initial.as_ref();
        let initial = initial.map(|grouping| Groups::gather(grouping, first, &self.context));
        let rows = PartitionRows {
            initial: initial.transpose()?,
            rows: Groups::gather(&plan.grouping, rows, &self.context)?,
        };
        let until = self.due_until();
        let mut keys =
            PartitionKeys::new(self.state.as_mut(), &plan, &mut self.timers, &self.context, until);
        // Code of another language may be dear to call.
        let idle = rows.is_empty() && !keys.has_due().map_err(external)?;
        let out = if idle { Vec::new() } else { code.run(&rows, &mut keys).map_err(external)? };
        drop(rows);
        self.context.metrics.update_time().add_elapsed(begun);
        self.send(out).await?;
        let begun = Instant::now();
        self.expire()?;
        self.context.metrics.removal_time().add_elapsed(begun);
        Ok(())
    }

    /// Up to when timers are due.
    fn due_until(&self) -> Option<i64> {
        match self.plan.mode {
            TimeMode::None => None,
            TimeMode::ProcessingTime => Some(self.context.batch_time_ms),
            // As in Spark the watermark is 0 while there is none.
            TimeMode::EventTime => Some(self.context.evict_ms.unwrap_or(0)),
        }
    }

    async fn handle(
        &mut self,
        code: &mut dyn ProcessorRun,
        first: Vec<RecordBatch>,
        rows: Vec<RecordBatch>,
    ) -> Result<()> {
        let begun = Instant::now();
        let plan = Arc::clone(&self.plan);
        if let Some(grouping) = plan.initial.as_ref().filter(|_| !first.is_empty()) {
            let groups = Groups::gather(grouping, first, &self.context)?;
            for part in groups.parts() {
                let rows = groups.together(grouping, part)?;
                let out = self.call(keys_of(part), |state| code.initial(&rows, state))?;
                self.send(out).await?;
            }
        }
        let groups = Groups::gather(&plan.grouping, rows, &self.context)?;
        for part in groups.parts() {
            let rows = groups.together(&plan.grouping, part)?;
            let out = self.call(keys_of(part), |state| code.rows(&rows, state))?;
            self.send(out).await?;
        }
        self.context.metrics.update_time().add_elapsed(begun);

        let begun = Instant::now();
        if let Some(until) = self.due_until() {
            self.fire(code, until).await?;
        }
        self.expire()?;
        self.context.metrics.removal_time().add_elapsed(begun);
        Ok(())
    }

    fn call(
        &mut self,
        handled: Handled<'_>,
        handle: impl FnOnce(&mut ProcessorState<'_>) -> onefold_types::Result<Vec<RecordBatch>>,
    ) -> Result<Vec<RecordBatch>> {
        let mut state = ProcessorState {
            state: self.state.as_mut(),
            slots: &self.plan.layout.slots,
            timers: &mut self.timers,
            metrics: &self.context.metrics,
            output: &self.plan.output,
            watermark_ms: self.context.evict_ms.unwrap_or(0),
            batch_time_ms: self.context.batch_time_ms,
            handled,
        };
        handle(&mut state).map_err(external)
    }

    /// Handles the timers with a time up to `until`.
    async fn fire(&mut self, code: &mut dyn ProcessorRun, until: i64) -> Result<()> {
        self.timers.begin();
        let plan = Arc::clone(&self.plan);
        for group in key_groups(self.state.as_ref())? {
            let mut last: Option<Due> = None;
            loop {
                let due = self.timers.due(self.state.as_mut(), group, until, last.as_ref());
                let due = due.map_err(external)?;
                if !due.is_empty() {
                    let keys = plan.grouping.read(due.iter().map(|due| due.key.as_ref()))?;
                    let expiries_ms = due.iter().map(|due| due.expiry_ms).collect();
                    let timers = DueTimers { keys, expiries_ms };
                    let out = self
                        .call(Handled::Timers(group, &due), |state| code.timers(&timers, state))?;
                    self.send(out).await?;
                }
                match due.into_iter().next_back() {
                    Some(due) => last = Some(due),
                    None => break,
                }
            }
        }
        Ok(())
    }

    /// Removes what has expired by the batch's time.
    fn expire(&mut self) -> Result<()> {
        let mut end = Vec::new();
        push_number(&mut end, self.context.batch_time_ms.saturating_add(1));
        let plan = Arc::clone(&self.plan);
        for slot in &plan.layout.slots {
            let Some(expiries) = slot.expiries else { continue };
            for group in key_groups(self.state.as_ref())? {
                while self.state.rows_in(expiries, group) > 0 {
                    let to = Bound::Excluded(end.as_slice());
                    let over = self.state.scan(expiries, group, Bound::Unbounded, to, CHUNK);
                    let over = over.map_err(external)?;
                    if over.is_empty() {
                        break;
                    }
                    for row in over {
                        let key = row.key.get(NUMBER..).ok_or_else(|| external(damaged()))?;
                        self.state.remove(expiries, group, &row.key).map_err(external)?;
                        self.state.remove(slot.rows, group, key).map_err(external)?;
                        self.context.metrics.removed(1);
                        if let Some(sizes) = slot.sizes {
                            self.shrink(sizes, group, key)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// One element less in the list of a row.
    fn shrink(&mut self, sizes: usize, group: KeyGroup, row: &[u8]) -> Result<()> {
        let key = row.len().checked_sub(NUMBER).and_then(|end| row.get(..end));
        let key = key.ok_or_else(|| external(damaged()))?;
        let keys = Handled::Keys(vec![(group, key)]);
        self.call(keys, |state| {
            let Some(mut context) = state.at(0)? else { return Ok(Vec::new()) };
            if let Some(size) = Size::read(&mut context, sizes)? {
                Size { size: size.size - 1, ..size }.write(&mut context, sizes)?;
            }
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// Sends what came out.
    async fn send(&mut self, out: Vec<RecordBatch>) -> Result<()> {
        for batch in out {
            let columns = batch.columns().to_vec();
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let output = Arc::clone(&self.plan.output);
            let batch = RecordBatch::try_new_with_options(output, columns, &options);
            let batch = batch.map_err(|error| {
                let text = "what a processor gave does not fit its schema";
                external(Error::invalid(text).because(error))
            })?;
            self.outlet.push(batch).await?;
        }
        Ok(())
    }
}

fn keys_of(part: &[Group]) -> Handled<'_> {
    Handled::Keys(part.iter().map(|group| (group.group, group.key.as_ref())).collect())
}

fn key_groups(state: &dyn PartitionState) -> Result<Vec<KeyGroup>> {
    let groups = state.groups().map(KeyGroup::try_from);
    groups.collect::<std::result::Result<_, _>>().map_err(|_| internal("a key group over 255"))
}
