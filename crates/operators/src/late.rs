//! Drops late rows and counts them.

mod outlet;

pub use outlet::{LateOutlet, LateShape};

pub(crate) use outlet::LateTap;

use crate::context::{OperatorContext, OperatorMetrics};
use crate::event_time::late_in;
use crate::failure;
use crate::keys::{RowCodec, evaluate};
use crate::unary::{Unary, UnaryExec};
use arrow::compute::{filter_record_batch, not};
use arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use futures::StreamExt;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use xxhash_rust::xxh3::xxh3_64;

/// Passes on the rows whose event time is after the watermark or NULL.
#[derive(Debug)]
pub(crate) struct LateFilter(Arc<Filter>);

#[derive(Debug)]
struct Filter {
    event_time: PhysicalExprRef,
    watermark_ms: i64,
    metrics: Arc<OperatorMetrics>,
    groups: Option<LateGroups>,
    /// Where the late rows go, and of how many first columns.
    outlet: Option<(LateOutlet, usize)>,
}

/// Counts late groups, as Spark's aggregations do: they meet late rows behind a partial
/// aggregation.
#[derive(Debug)]
struct LateGroups {
    keys: Vec<PhysicalExprRef>,
    codec: RowCodec,
    /// Hashes of the groups seen in any partition.
    seen: Mutex<HashSet<u64>>,
}

impl LateFilter {
    /// Over an input whose first `width` columns are the operator's input; counts late groups by
    /// `groups` if given, else late rows.
    pub(crate) fn over(
        input: Arc<dyn ExecutionPlan>,
        event_time: PhysicalExprRef,
        watermark_ms: i64,
        (context, width): (&OperatorContext, usize),
        groups: Option<Vec<PhysicalExprRef>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = input.schema();
        let metrics = Arc::clone(&context.metrics);
        let outlet = context.late_rows.clone().map(|outlet| (outlet, width));
        let groups = match groups {
            None => None,
            Some(keys) => {
                let types = keys.iter().map(|key| key.data_type(&schema));
                let codec = RowCodec::try_new(types.collect::<Result<Vec<_>>>()?)?;
                Some(LateGroups { keys, codec, seen: Mutex::default() })
            }
        };
        let filter = Filter { event_time, watermark_ms, metrics, groups, outlet };
        Ok(UnaryExec::over(input, schema, Arc::new(LateFilter(Arc::new(filter)))))
    }
}

impl Filter {
    async fn keep(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let late = late_in(&self.event_time, &batch, self.watermark_ms)?;
        let count = late.true_count();
        if count == 0 {
            return Ok(batch);
        }
        let wanted = self.groups.is_some() || self.outlet.is_some();
        let dropped = wanted.then(|| filter_record_batch(&batch, &late)).transpose()?;
        if let (Some((outlet, width)), Some(dropped)) = (&self.outlet, &dropped) {
            let columns: Vec<usize> = (0..*width).collect();
            outlet.send(0, &dropped.project(&columns)?).await?;
        }
        let as_in_spark = match (&self.groups, &dropped) {
            (Some(groups), Some(dropped)) => groups.add(dropped)?,
            _ => count,
        };
        self.metrics.late(count, as_in_spark);
        Ok(filter_record_batch(&batch, &not(&late)?)?)
    }
}

impl LateGroups {
    /// How many groups of these rows are new.
    fn add(&self, late: &RecordBatch) -> Result<usize> {
        let rows = self.codec.encode_keys(&evaluate(&self.keys, late)?)?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(rows.iter().filter(|row| seen.insert(xxh3_64(row.data()))).count())
    }
}

impl Unary for LateFilter {
    fn name(&self) -> &'static str {
        "LateFilterExec"
    }

    fn describe(&self) -> String {
        format!("{} > {} ms", self.0.event_time, self.0.watermark_ms)
    }

    fn run(
        &self,
        _partition: usize,
        input: SendableRecordBatchStream,
        _task: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let (schema, filter) = (input.schema(), Arc::clone(&self.0));
        let kept = input.then(move |batch| {
            let filter = Arc::clone(&filter);
            async move { filter.keep(batch?).await }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, kept)))
    }
}

/// The check of an event-time expression before any batch.
pub(crate) fn check_event_time(
    event_time: &PhysicalExprRef,
    schema: &arrow::datatypes::Schema,
) -> onefold_types::Result<()> {
    let data_type = event_time.data_type(schema).map_err(failure::planning)?;
    crate::event_time::unit_of(&data_type).map(|_| ()).map_err(failure::planning)
}
