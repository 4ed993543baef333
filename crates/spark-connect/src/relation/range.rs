//! `spark.range`: rows that are made when they are read.

use super::{Planner, built};
use crate::failure::{Failure, Outcome};
use arrow::array::Int64Array;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::datasource::provider_as_source;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, UNNAMED_TABLE};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use spark_connect_proto::Range;
use std::sync::Arc;

/// Most partitions: each is a task.
const PARTITIONS_MAX: usize = 1_024;

/// Numbers from `first` on, `count` of them.
#[derive(Debug)]
struct Numbers {
    schema: SchemaRef,
    first: i128,
    step: i128,
    count: u64,
}

impl PartitionStream for Numbers {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let size = u64::try_from(context.session_config().batch_size().max(1)).unwrap_or(8_192);
        let (first, step, count) = (self.first, self.step, self.count);
        let starts = (0..count.div_ceil(size)).map(move |batch| batch * size);
        let batches = starts.map(move |from| {
            let here = from..from.saturating_add(size).min(count);
            let values = here.map(|place| {
                // Between start and end by the count.
                i64::try_from(first + i128::from(place) * step).unwrap_or(i64::MAX)
            });
            let column = Arc::new(Int64Array::from_iter_values(values));
            Ok(RecordBatch::try_new(Arc::clone(&schema), vec![column])?)
        });
        let stream = futures::stream::iter(batches);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream))
    }
}

/// As even parts as can be of a range, in order.
fn parts(range: &Range, partitions: usize) -> Outcome<Vec<Numbers>> {
    let (start, end) = (i128::from(range.start.unwrap_or(0)), i128::from(range.end));
    let step = i128::from(range.step);
    if step == 0 {
        return Err(Failure::invalid("requirement failed: step (0) cannot be 0"));
    }
    let span = end - start;
    let count = span / step + i128::from(span % step != 0);
    let count = u64::try_from(count).unwrap_or(0);
    let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
    let parts = u64::try_from(partitions.clamp(1, PARTITIONS_MAX)).unwrap_or(1);
    let border = |part: u64| {
        let border = u128::from(count) * u128::from(part) / u128::from(parts);
        u64::try_from(border).unwrap_or(count)
    };
    let numbers = |part: u64| {
        let (from, to) = (border(part), border(part + 1));
        let schema = Arc::clone(&schema);
        Numbers { schema, first: start + i128::from(from) * step, step, count: to - from }
    };
    Ok((0..parts).map(numbers).collect())
}

impl Planner<'_> {
    pub(super) fn range(&mut self, range: &Range) -> Outcome<LogicalPlan> {
        let own = self.session.engine.context().state().config().target_partitions();
        let partitions = range.num_partitions.and_then(|it| usize::try_from(it).ok());
        let parts = parts(range, partitions.unwrap_or(own))?;
        let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
        let parts = parts.into_iter().map(|part| Arc::new(part) as Arc<dyn PartitionStream>);
        let table = StreamingTable::try_new(schema, parts.collect())?;
        built(LogicalPlanBuilder::scan(UNNAMED_TABLE, provider_as_source(Arc::new(table)), None))
    }
}

#[cfg(test)]
mod tests {
    use super::parts;
    use spark_connect_proto::Range;

    fn all(start: i64, end: i64, step: i64, partitions: usize) -> Vec<i128> {
        let range = Range { start: Some(start), end, step, num_partitions: None };
        let parts = parts(&range, partitions).unwrap();
        let values = parts.iter().flat_map(|part| {
            (0..part.count).map(|place| part.first + i128::from(place) * part.step)
        });
        values.collect()
    }

    #[test]
    fn parts_of_a_range_have_each_number_once_and_in_order() {
        for partitions in 1..7 {
            assert_eq!(all(0, 5, 1, partitions), [0, 1, 2, 3, 4]);
            assert_eq!(all(5, 0, -2, partitions), [5, 3, 1]);
            assert_eq!(all(5, 0, 1, partitions), [0_i128; 0]);
            let last = i128::from(i64::MAX) - 1;
            assert_eq!(all(i64::MAX - 1, i64::MAX, 3, partitions), [last]);
        }
        let wide = Range { start: Some(i64::MIN), end: i64::MAX, step: 1, num_partitions: None };
        assert_eq!(parts(&wide, 1).unwrap().first().unwrap().count, u64::MAX);
        let still = Range { start: None, end: 1, step: 0, num_partitions: None };
        assert!(parts(&still, 1).is_err());
    }
}
