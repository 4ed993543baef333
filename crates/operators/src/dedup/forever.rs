//! `dropDuplicates`: a key passes once for as long as it is remembered.

use super::{SEEN, fields, fresh};
use crate::context::OperatorContext;
use crate::event_time::last_late_tick;
use crate::failure::{self, external};
use crate::keys::{KeyLayout, Keys, state_schema};
use crate::late::{LateFilter, check_event_time};
use crate::output::{Output, number, spawn};
use crate::sweep::Sweep;
use crate::unary::{Unary, UnaryExec};
use arrow::compute::filter_record_batch;
use arrow::datatypes::Schema;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use futures::StreamExt;
use onefold_state::{Access, FamilySpec, OperatorId, OperatorSpec};
use onefold_types::{Error, Result as OwnResult};
use std::sync::Arc;

/// Spark's name for the operator.
const KIND: &str = "dedupe";

/// Passes the first row of each key on. A key with an event time in it is forgotten when the
/// watermark has passed that; other keys are remembered for ever.
#[derive(Debug, Clone)]
pub struct Deduplicate {
    /// The key columns over the input.
    pub keys: Vec<PhysicalExprRef>,
    /// Which of them is the event time.
    pub event_time: Option<usize>,
    /// The event time of the input where it is no key: as in Spark, late rows are dropped by it
    /// too. Passed over when `event_time` is given.
    pub late: Option<PhysicalExprRef>,
}

impl Deduplicate {
    /// The state that it keeps.
    ///
    /// # Errors
    /// Invalid: a key has a type that cannot be kept. Internal: the parts do not fit each other.
    pub fn spec(
        &self,
        id: OperatorId,
        label: impl Into<String>,
        input: &Schema,
    ) -> OwnResult<OperatorSpec> {
        let layout = self.layout(input)?;
        let access = if self.event_time.is_some() { Access::Ordered } else { Access::Point };
        let family = FamilySpec {
            name: "default".to_owned(),
            key: layout.schema,
            value: state_schema([]),
            access,
            counted: true,
        };
        Ok(OperatorSpec {
            id,
            kind: KIND.to_owned(),
            label: label.into(),
            families: vec![family],
            single: self.keys.is_empty(),
        })
    }

    /// The operator over a batch's input; its rows have the input's columns.
    ///
    /// # Errors
    /// As [`Deduplicate::spec`].
    pub fn exec(
        &self,
        input: Arc<dyn ExecutionPlan>,
        context: OperatorContext,
    ) -> OwnResult<Arc<dyn ExecutionPlan>> {
        let layout = self.layout(&input.schema())?;
        self.plan(input, layout, context).map_err(failure::planning)
    }

    fn layout(&self, input: &Schema) -> OwnResult<KeyLayout> {
        if let Some(place) = self.event_time {
            let missing = || Error::internal(format!("there is no key {place} for the event time"));
            check_event_time(self.keys.get(place).ok_or_else(missing)?, input)?;
        }
        if let Some(late) = &self.late {
            check_event_time(late, input)?;
        }
        let fields = fields(&self.keys, input).map_err(failure::planning)?;
        KeyLayout::new(&fields, self.event_time).map_err(failure::planning)
    }

    fn plan(
        &self,
        mut input: Arc<dyn ExecutionPlan>,
        layout: KeyLayout,
        context: OperatorContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let time = self.event_time.and_then(|place| self.keys.get(place)).or(self.late.as_ref());
        if let (Some(time), Some(late_ms)) = (time, context.late_ms) {
            let of = (&context, input.schema().fields().len());
            input = LateFilter::over(input, Arc::clone(time), late_ms, of, None)?;
        }
        let schema = input.schema();
        let keys = layout.exprs(&self.keys, &schema)?;
        let partitions = context.state.partitions();
        let seen = Seen { keys: keys.clone(), layout, context };
        let exec = Arc::new(DeduplicateExec(Arc::new(seen)));
        UnaryExec::over_key_groups(input, keys, partitions, schema, exec).map_err(external)
    }
}

#[derive(Debug)]
struct DeduplicateExec(Arc<Seen>);

#[derive(Debug)]
struct Seen {
    keys: Vec<PhysicalExprRef>,
    layout: KeyLayout,
    context: OperatorContext,
}

impl Unary for DeduplicateExec {
    fn name(&self) -> &'static str {
        "DeduplicateExec"
    }

    fn describe(&self) -> String {
        format!("operator={}", self.0.context.id)
    }

    fn run(
        &self,
        partition: usize,
        input: SendableRecordBatchStream,
        _task: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let seen = Arc::clone(&self.0);
        Ok(spawn(input.schema(), move |output| seen.run(partition, input, output)))
    }
}

impl Seen {
    async fn run(
        self: Arc<Self>,
        partition: usize,
        mut input: SendableRecordBatchStream,
        output: Output,
    ) -> Result<()> {
        let context = &self.context;
        let metrics = &context.metrics;
        let mut state = context.state.open(context.id, number(partition)?).map_err(external)?;
        while let Some(batch) = input.next().await {
            let batch = batch?;
            let passed = {
                let _timer = metrics.update_time().timer();
                let keys = Keys::of(&self.keys, &self.layout.codec, &batch)?;
                let (rows, pass) = fresh(&keys, state.as_mut())?;
                for row in &rows {
                    let (group, key) = keys.get(*row);
                    state.put(SEEN, group, key, &[]).map_err(external)?;
                }
                metrics.updated(rows.len());
                metrics.duplicates(batch.num_rows() - rows.len());
                filter_record_batch(&batch, &pass)?
            };
            output.send(passed).await;
        }
        if let (Some(unit), Some(evict_ms)) = (self.layout.unit, context.evict_ms) {
            let _timer = metrics.removal_time().timer();
            let mut sweep = Sweep::new(SEEN, last_late_tick(evict_ms, unit), state.groups());
            loop {
                let removed = sweep.next(state.as_mut())?.len();
                if removed == 0 {
                    break;
                }
                metrics.removed(removed);
            }
        }
        metrics.partition_done(state.rows(SEEN));
        Ok(())
    }
}
