//! One partition of a transformation with state in one batch.

use super::context::{ProcessorContext, damaged};
use super::kinds::Size;
use super::processor::{AnyProcessor, ExpiredTimer, GroupRows};
use super::timers::{Due, Timers};
use super::{TimeMode, TransformPlan};
use crate::OperatorContext;
use crate::failure::{external, internal};
use crate::grouped::Groups;
use crate::numbers::{NUMBER, push_number};
use crate::outlet::Outlet;
use crate::output;
use crate::rows::{Value, batch_of_values};
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

/// Keys whose bytes are read at a time.
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
        let number = output::number(partition)?;
        let schema = Arc::clone(&self.plan.output);
        let (plan, context) = (Arc::clone(&self.plan), self.context.clone());
        Ok(output::spawn(Arc::clone(&schema), move |to| async move {
            let rows = input.try_collect().await?;
            let outlet = Outlet::new(schema, to);
            let state = context.state.open(context.id, number).map_err(external)?;
            let mut processor = plan.processor.instance();
            let mut variables = super::Variables::new(plan.mode);
            processor.init(&mut variables).map_err(external)?;
            let timers = Timers::new(plan.layout.timers);
            let out = Vec::new();
            TransformRun { plan, context, state, processor, timers, outlet, out }.run(rows).await
        }))
    }
}

struct TransformRun {
    plan: Arc<TransformPlan>,
    context: OperatorContext,
    state: Box<dyn PartitionState>,
    processor: Box<dyn AnyProcessor>,
    timers: Timers,
    outlet: Outlet,
    out: Vec<Value<'static>>,
}

impl TransformRun {
    async fn run(mut self, rows: Vec<RecordBatch>) -> Result<()> {
        let handled = self.handle(rows).await;
        let closed = self.processor.close().map_err(external);
        handled?;
        closed?;
        self.outlet.finish().await?;
        let counted = self.plan.layout.families.iter().enumerate();
        let counted = counted.filter(|(_, family)| family.counted);
        let rows = counted.map(|(place, _)| self.state.rows(place)).sum();
        self.context.metrics.partition_done(rows);
        Ok(())
    }

    async fn handle(&mut self, rows: Vec<RecordBatch>) -> Result<()> {
        let begun = Instant::now();
        let groups = Groups::gather(&self.plan.grouping, rows, &self.context)?;
        let plan = Arc::clone(&self.plan);
        for chunk in groups.groups.chunks(CHUNK) {
            let keys = plan.grouping.read(chunk.iter().map(|group| group.key.as_ref()))?;
            for (group, key) in chunk.iter().zip(keys) {
                let rows = GroupRows { key, batches: &groups.batches, rows: &group.rows };
                self.call(group.group, &group.key, |processor, context, out| {
                    processor.rows(rows, context, out)
                })?;
                self.send(output::CHUNK).await?;
            }
        }
        self.context.metrics.update_time().add_elapsed(begun);

        let begun = Instant::now();
        let until = match plan.mode {
            TimeMode::None => None,
            TimeMode::ProcessingTime => Some(self.context.batch_time_ms),
            TimeMode::EventTime => self.context.evict_ms,
        };
        if let Some(until) = until {
            self.fire(until).await?;
        }
        self.expire()?;
        self.context.metrics.removal_time().add_elapsed(begun);
        self.send(1).await
    }

    fn call(
        &mut self,
        group: KeyGroup,
        key: &[u8],
        handle: impl FnOnce(
            &mut dyn AnyProcessor,
            &mut ProcessorContext<'_>,
            &mut Vec<Value<'static>>,
        ) -> onefold_types::Result<()>,
    ) -> Result<()> {
        let mut context = ProcessorContext {
            state: self.state.as_mut(),
            slots: &self.plan.layout.slots,
            timers: &mut self.timers,
            metrics: &self.context.metrics,
            key,
            group,
            watermark_ms: self.context.evict_ms.unwrap_or(0),
            batch_time_ms: self.context.batch_time_ms,
        };
        handle(self.processor.as_mut(), &mut context, &mut self.out).map_err(external)
    }

    /// Handles the timers with a time up to `until`.
    async fn fire(&mut self, until: i64) -> Result<()> {
        self.timers.begin();
        let plan = Arc::clone(&self.plan);
        for group in key_groups(self.state.as_ref())? {
            let mut last: Option<Due> = None;
            loop {
                let due = self.timers.due(self.state.as_mut(), group, until, last.as_ref());
                let due = due.map_err(external)?;
                let keys = plan.grouping.read(due.iter().map(|due| due.key.as_ref()))?;
                for (due, key) in due.iter().zip(keys) {
                    if !self.timers.take(self.state.as_mut(), group, due).map_err(external)? {
                        continue;
                    }
                    let timer = ExpiredTimer { expiry_ms: due.expiry_ms };
                    self.call(group, &due.key, |processor, context, out| {
                        processor.timer(key, timer, context, out)
                    })?;
                    self.send(output::CHUNK).await?;
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
        self.call(group, key, |_, context, _| {
            let Some(size) = Size::read(context, sizes)? else { return Ok(()) };
            Size { size: size.size - 1, ..size }.write(context, sizes)
        })
    }

    /// Sends what came out once there are `enough` rows.
    async fn send(&mut self, enough: usize) -> Result<()> {
        if self.out.len() < enough {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.out);
        let batch = batch_of_values(&self.plan.output, rows, "a row that the processor gave");
        self.outlet.push(batch.map_err(external)?).await
    }
}

fn key_groups(state: &dyn PartitionState) -> Result<Vec<KeyGroup>> {
    let groups = state.groups().map(KeyGroup::try_from);
    groups.collect::<std::result::Result<_, _>>().map_err(|_| internal("a key group over 255"))
}
