//! `dropDuplicatesWithinWatermark`: a key passes once within the watermark's delay.

use super::{SEEN, fields, fresh};
use crate::context::OperatorContext;
use crate::event_time::{instants, tick_to_us, ticks, unit_of};
use crate::failure::{self, external};
use crate::keys::{KeyLayout, Keys, state_schema};
use crate::late::{LateFilter, check_event_time};
use crate::output::{Output, number, spawn};
use crate::sweep::{Sweep, TICK, encode_tick};
use crate::unary::{Unary, UnaryExec};
use arrow::array::Array;
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, TimeUnit};
use arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use futures::StreamExt;
use onefold_state::{Access, FamilySpec, OperatorId, OperatorSpec, PartitionState};
use onefold_types::Result as OwnResult;
use std::sync::Arc;

/// Spark's name for the operator.
const KIND: &str = "dedupeWithinWatermark";

/// Keys by when they are forgotten.
const EXPIRY: usize = 1;

/// Passes the first row of each key on; forgets the key when the watermark reaches that row's event
/// time plus the delay. Keys are kept with that time, in microseconds since 1970.
#[derive(Debug, Clone)]
pub struct DeduplicateWithin {
    /// The key columns over the input.
    pub keys: Vec<PhysicalExprRef>,
    /// The event time.
    pub event_time: PhysicalExprRef,
    /// The watermark's delay, in milliseconds.
    pub delay_ms: i64,
}

impl DeduplicateWithin {
    /// The state that it keeps.
    ///
    /// # Errors
    /// Invalid: a key has a type that cannot be kept. Internal: the event time is none.
    pub fn spec(
        &self,
        id: OperatorId,
        label: impl Into<String>,
        input: &Schema,
    ) -> OwnResult<OperatorSpec> {
        let layout = self.layout(input)?;
        let expires: FieldRef = Arc::new(Field::new("expiresAtMicros", DataType::Int64, true));
        let keys = layout.schema.fields().iter().cloned();
        let by_expiry = state_schema(std::iter::once(Arc::clone(&expires)).chain(keys));
        let seen = FamilySpec {
            name: "default".to_owned(),
            key: Arc::clone(&layout.schema),
            value: state_schema([expires]),
            access: Access::Point,
            counted: true,
        };
        let expiry = FamilySpec {
            name: "expiry".to_owned(),
            key: by_expiry,
            value: state_schema([]),
            access: Access::Ordered,
            counted: false,
        };
        Ok(OperatorSpec {
            id,
            kind: KIND.to_owned(),
            label: label.into(),
            families: vec![seen, expiry],
            single: self.keys.is_empty(),
        })
    }

    /// The operator over a batch's input; its rows have the input's columns.
    ///
    /// # Errors
    /// As [`DeduplicateWithin::spec`].
    pub fn exec(
        &self,
        input: Arc<dyn ExecutionPlan>,
        context: OperatorContext,
    ) -> OwnResult<Arc<dyn ExecutionPlan>> {
        let layout = self.layout(&input.schema())?;
        self.plan(input, layout, context).map_err(failure::planning)
    }

    fn layout(&self, input: &Schema) -> OwnResult<KeyLayout> {
        check_event_time(&self.event_time, input)?;
        let fields = fields(&self.keys, input).map_err(failure::planning)?;
        KeyLayout::new(&fields, None).map_err(failure::planning)
    }

    fn plan(
        &self,
        mut input: Arc<dyn ExecutionPlan>,
        layout: KeyLayout,
        context: OperatorContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = input.schema();
        let unit = unit_of(&self.event_time.data_type(&schema)?)?;
        if let Some(late_ms) = context.late_ms {
            let (time, of) = (Arc::clone(&self.event_time), (&context, schema.fields().len()));
            input = LateFilter::over(input, time, late_ms, of, None)?;
        }
        let partitions = context.state.partitions();
        let keys = self.keys.clone();
        let seen = Seen { operator: self.clone(), unit, layout, context };
        let exec = Arc::new(DeduplicateWithinExec(Arc::new(seen)));
        UnaryExec::over_key_groups(input, keys, partitions, schema, exec).map_err(external)
    }
}

#[derive(Debug)]
struct DeduplicateWithinExec(Arc<Seen>);

#[derive(Debug)]
struct Seen {
    operator: DeduplicateWithin,
    unit: TimeUnit,
    layout: KeyLayout,
    context: OperatorContext,
}

impl Unary for DeduplicateWithinExec {
    fn name(&self) -> &'static str {
        "DeduplicateWithinExec"
    }

    fn describe(&self) -> String {
        format!("operator={}, delay={} ms", self.0.context.id, self.0.operator.delay_ms)
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
        let mut state = context.state.open(context.id, number(partition)?).map_err(external)?;
        while let Some(batch) = input.next().await {
            let passed = self.take(&batch?, state.as_mut())?;
            output.send(passed).await;
        }
        if let Some(evict_ms) = context.evict_ms {
            self.evict(evict_ms, state.as_mut())?;
        }
        context.metrics.partition_done(state.rows(SEEN));
        Ok(())
    }

    /// Remembers the keys that are new and gives their rows.
    fn take(&self, batch: &RecordBatch, state: &mut dyn PartitionState) -> Result<RecordBatch> {
        let metrics = &self.context.metrics;
        let _timer = metrics.update_time().timer();
        let keys = Keys::of(&self.operator.keys, &self.layout.codec, batch)?;
        let times = self.operator.event_time.evaluate(batch)?.into_array(batch.num_rows())?;
        let times = ticks(&instants(&times)?)?;
        let (rows, pass) = fresh(&keys, state)?;
        for row in &rows {
            // Spark takes NULL for 1970 here.
            let time = if times.is_null(*row) { 0 } else { times.value(*row) };
            let delay = self.operator.delay_ms.saturating_mul(1_000);
            let expires = encode_tick(tick_to_us(time, self.unit).saturating_add(delay));
            let (group, key) = keys.get(*row);
            state.put(SEEN, group, key, &expires).map_err(external)?;
            let by_expiry = [&expires, key].concat();
            state.put(EXPIRY, group, &by_expiry, &[]).map_err(external)?;
        }
        metrics.updated(rows.len());
        metrics.duplicates(batch.num_rows() - rows.len());
        Ok(filter_record_batch(batch, &pass)?)
    }

    fn evict(&self, evict_ms: i64, state: &mut dyn PartitionState) -> Result<()> {
        let metrics = &self.context.metrics;
        let _timer = metrics.removal_time().timer();
        let mut sweep = Sweep::new(EXPIRY, evict_ms.saturating_mul(1_000), state.groups());
        loop {
            let rows = sweep.next(state)?;
            if rows.is_empty() {
                return Ok(());
            }
            for (group, row) in &rows {
                let key = row.key.get(TICK..).unwrap_or_default();
                state.remove(SEEN, *group, key).map_err(external)?;
            }
            metrics.removed(rows.len());
        }
    }
}
