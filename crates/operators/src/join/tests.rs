//! Joins against what they must give: known cases, and all rows joined at once.

mod cases;
mod random;

use crate::harness::{Harness, input, texts};
use crate::{OperatorContext, StateBound, StreamJoin, StreamJoinSide};
use arrow::array::{ArrayRef, Int64Array, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::record_batch::RecordBatch;
use datafusion::common::{JoinSide, JoinType};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::{binary, col, lit};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use onefold_types::Result;
use std::sync::Arc;

/// Columns `key`, `ts` (a timestamp), `t` (the same as a number) and `name`, with a prefix.
fn schema(prefix: &str, key: DataType) -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Millisecond, None);
    Arc::new(Schema::new(vec![
        Field::new(format!("{prefix}key"), key, true),
        Field::new(format!("{prefix}ts"), time, true),
        Field::new(format!("{prefix}t"), DataType::Int64, true),
        Field::new(format!("{prefix}name"), DataType::Utf8, true),
    ]))
}

fn rows(schema: &SchemaRef, keys: ArrayRef, rows: &[(i64, &str)]) -> RecordBatch {
    let times: Vec<i64> = rows.iter().map(|(time, _)| *time).collect();
    let names: Vec<&str> = rows.iter().map(|(_, name)| *name).collect();
    let columns: Vec<ArrayRef> = vec![
        keys,
        Arc::new(TimestampMillisecondArray::from(times.clone())),
        Arc::new(Int64Array::from(times)),
        Arc::new(StringArray::from(names)),
    ];
    RecordBatch::try_new(Arc::clone(schema), columns).unwrap()
}

/// `left.t - right.t >= from and left.t - right.t <= to`.
fn between(from: i64, to: i64) -> JoinFilter {
    let fields = ["l_t", "r_t"].map(|name| Field::new(name, DataType::Int64, true));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let difference = || -> PhysicalExprRef {
        let (left, right) = (col("l_t", &schema).unwrap(), col("r_t", &schema).unwrap());
        binary(left, Operator::Minus, right, &schema).unwrap()
    };
    let low = binary(difference(), Operator::GtEq, lit(from), &schema).unwrap();
    let high = binary(difference(), Operator::LtEq, lit(to), &schema).unwrap();
    let both = binary(low, Operator::And, high, &schema).unwrap();
    let columns = [(2, JoinSide::Left), (2, JoinSide::Right)];
    let columns = columns.map(|(index, side)| ColumnIndex { index, side });
    JoinFilter::new(both, columns.to_vec(), schema)
}

/// A join on the key, with `from <= left.t - right.t <= to`, with the bounds that follow.
fn within(key: DataType, join_type: JoinType, from: i64, to: i64) -> StreamJoin {
    let side = |prefix: &str, offset_ms: i64| {
        let schema = schema(prefix, key.clone());
        let time = col(&format!("{prefix}ts"), &schema).unwrap();
        StreamJoinSide {
            keys: vec![col(&format!("{prefix}key"), &schema).unwrap()],
            event_time: Some(Arc::clone(&time)),
            bound: Some(StateBound { value: time, offset_ms }),
            schema,
        }
    };
    StreamJoin {
        // A later right row has `right > w`, so that `left >= right + from > w + from`.
        left: side("l_", from - 1),
        right: side("r_", -to - 1),
        join_type,
        filter: Some(between(from, to)),
    }
}

/// One batch: rows of both sides, each in some partitions.
fn exec<'a>(
    join: &'a StreamJoin,
    left: &[Vec<RecordBatch>],
    right: &[Vec<RecordBatch>],
) -> impl FnOnce(OperatorContext) -> Result<Arc<dyn ExecutionPlan>> + 'a {
    let (left, right) = (input(&join.left.schema, left), input(&join.right.schema, right));
    move |context| join.exec(left, right, context)
}

fn harness(join: &StreamJoin, partitions: u32) -> Harness {
    Harness::new(join.spec(0, "join").unwrap(), partitions)
}

/// Sets the batch's watermarks: late by the batch before, evicted by this one.
fn watermarks(harness: &mut Harness, late_ms: i64, evict_ms: i64) {
    harness.late_ms = Some(late_ms);
    harness.evict_ms = Some(evict_ms);
}

fn names(batches: &[RecordBatch]) -> Vec<String> {
    let columns: Vec<usize> = match batches.first() {
        Some(batch) if batch.num_columns() == 4 => vec![3],
        _ => vec![3, 7],
    };
    let named: Vec<_> = batches.iter().map(|batch| batch.project(&columns).unwrap()).collect();
    texts(&named)
}
