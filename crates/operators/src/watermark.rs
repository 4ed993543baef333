//! The node of `withWatermark`: looks at event times as they pass.

use crate::event_time::{EventTimeStats, instants, tick_to_ms, ticks, unit_of};
use crate::failure;
use crate::unary::{Unary, UnaryExec};
use arrow::array::Array;
use arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use futures::StreamExt;
use onefold_types::Result as OwnResult;
use std::sync::Arc;

/// Passes rows on as they are and gathers their event times; drops nothing, since what is late is
/// for each stateful operator to say.
#[derive(Debug)]
pub struct WatermarkExec {
    event_time: usize,
    stats: Arc<EventTimeStats>,
}

impl WatermarkExec {
    /// Over an input whose column `event_time` is a timestamp of any unit, or a window, whose
    /// event time is its end.
    ///
    /// # Errors
    /// Internal: there is no such column, or it is no event time.
    pub fn try_new(
        input: Arc<dyn ExecutionPlan>,
        event_time: usize,
        stats: Arc<EventTimeStats>,
    ) -> OwnResult<Arc<dyn ExecutionPlan>> {
        let schema = input.schema();
        let field = schema.fields().get(event_time).ok_or_else(|| {
            onefold_types::Error::internal(format!("there is no event-time column {event_time}"))
        })?;
        unit_of(field.data_type()).map_err(failure::planning)?;
        Ok(UnaryExec::over(input, schema, Arc::new(WatermarkExec { event_time, stats })))
    }
}

impl Unary for WatermarkExec {
    fn name(&self) -> &'static str {
        "WatermarkExec"
    }

    fn describe(&self) -> String {
        format!("event_time=@{}", self.event_time)
    }

    fn run(
        &self,
        _partition: usize,
        input: SendableRecordBatchStream,
        _task: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let (schema, column, stats) = (input.schema(), self.event_time, Arc::clone(&self.stats));
        let seen = input.map(move |batch| {
            let batch = batch?;
            gather(&batch, column, &stats)?;
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, seen)))
    }
}

fn gather(batch: &RecordBatch, column: usize, stats: &EventTimeStats) -> Result<()> {
    let column = batch.columns().get(column);
    let column = column.ok_or_else(|| failure::internal("a batch lacks its event-time column"))?;
    let unit = unit_of(column.data_type())?;
    let times = ticks(&instants(column)?)?;
    if times.null_count() == 0 {
        stats.add(times.values().iter().map(|tick| tick_to_ms(*tick, unit)));
    } else {
        stats.add(times.iter().flatten().map(|tick| tick_to_ms(tick, unit)));
    }
    Ok(())
}
