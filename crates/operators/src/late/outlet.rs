//! Where late rows go, if somebody wants them.

use crate::context::OperatorContext;
use crate::event_time::late_in;
use crate::side::{self, SideSender};
use crate::unary::{Unary, UnaryExec};
use arrow::compute::filter_record_batch;
use arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use futures::StreamExt;
use std::fmt::Debug;
use std::sync::Arc;

/// Gives late rows of one operator the columns that are common to all.
pub trait LateShape: Debug + Send + Sync {
    /// Shapes rows of one of the operator's inputs.
    ///
    /// # Errors
    /// When the rows do not have the columns that were planned.
    fn shape(&self, input: usize, rows: &RecordBatch) -> Result<RecordBatch>;
}

/// Where the late rows of one operator go.
#[derive(Debug, Clone)]
pub struct LateOutlet {
    /// What they look like.
    pub shape: Arc<dyn LateShape>,
    /// Where they go.
    pub to: SideSender,
}

impl LateOutlet {
    /// Sends rows of an input on; waits while too many wait.
    pub(crate) async fn send(&self, input: usize, rows: &RecordBatch) -> Result<()> {
        side::send(&self.to, self.shape.shape(input, rows)?).await
    }
}

/// Passes all rows on, and the late ones to the outlet as well: below operators that leave late rows
/// out where they cannot wait for a reader.
#[derive(Debug)]
pub(crate) struct LateTap(Arc<Tap>);

#[derive(Debug)]
struct Tap {
    input: usize,
    event_time: PhysicalExprRef,
    watermark_ms: i64,
    outlet: LateOutlet,
}

impl LateTap {
    /// Over an input of an operator, as it is where nothing is late or nobody wants late rows.
    pub(crate) fn over(
        plan: Arc<dyn ExecutionPlan>,
        input: usize,
        event_time: Option<&PhysicalExprRef>,
        context: &OperatorContext,
    ) -> Arc<dyn ExecutionPlan> {
        let (Some(event_time), Some(watermark_ms), Some(outlet)) =
            (event_time.cloned(), context.late_ms, context.late_rows.clone())
        else {
            return plan;
        };
        let schema = plan.schema();
        let tap = Arc::new(Tap { input, event_time, watermark_ms, outlet });
        UnaryExec::over(plan, schema, Arc::new(LateTap(tap)))
    }
}

impl Tap {
    async fn pass(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let late = late_in(&self.event_time, &batch, self.watermark_ms)?;
        if late.true_count() > 0 {
            self.outlet.send(self.input, &filter_record_batch(&batch, &late)?).await?;
        }
        Ok(batch)
    }
}

impl Unary for LateTap {
    fn name(&self) -> &'static str {
        "LateRowsExec"
    }

    fn describe(&self) -> String {
        format!("{} <= {} ms", self.0.event_time, self.0.watermark_ms)
    }

    fn run(
        &self,
        _partition: usize,
        input: SendableRecordBatchStream,
        _task: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let (schema, tap) = (input.schema(), Arc::clone(&self.0));
        let passed = input.then(move |batch| {
            let tap = Arc::clone(&tap);
            async move { tap.pass(batch?).await }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, passed)))
    }
}
