//! The exchange by key groups.

use crate::harness::{column, rows, schema, text};
use arrow::array::{Float64Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::physical_plan::{ExecutionPlan, execute_stream_partitioned};
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;
use onefold_operators::{KeyGroupExchangeExec, Keys, RowCodec};
use onefold_state::partition_of;
use std::sync::Arc;

fn input() -> SchemaRef {
    schema(&[("k", DataType::Float64), ("v", DataType::Int64)])
}

fn batch(from: i64, to: i64) -> RecordBatch {
    let keys = Float64Array::from_iter_values((from..to).map(|value| (value % 50) as f64));
    rows(&input(), vec![Arc::new(keys), Arc::new(Int64Array::from_iter_values(from..to))])
}

async fn outputs(partitions: u32, inputs: Vec<Vec<RecordBatch>>) -> Vec<Vec<RecordBatch>> {
    let source = MemorySourceConfig::try_new_exec(&inputs, input(), None).unwrap();
    let keys = vec![column(&input(), "k")];
    let exchange = KeyGroupExchangeExec::try_new(source, keys, partitions).unwrap();
    let streams =
        execute_stream_partitioned(Arc::new(exchange), SessionContext::new().task_ctx()).unwrap();
    let mut outputs = Vec::new();
    // One after the other: none may wait for another.
    for stream in streams {
        outputs.push(stream.try_collect().await.unwrap());
    }
    outputs
}

#[tokio::test]
async fn every_row_goes_to_the_owner_of_its_key_in_order() {
    let inputs: Vec<Vec<RecordBatch>> = (0..3)
        .map(|i| (0..20).map(|j| batch(i * 1000 + j * 40, i * 1000 + j * 40 + 40)).collect())
        .collect();
    let outputs = outputs(5, inputs).await;
    assert_eq!(outputs.len(), 5);
    let codec = RowCodec::of(&schema(&[("k", DataType::Float64)])).unwrap();
    let mut all = 0;
    for (partition, batches) in (0_u32..).zip(&outputs) {
        let mut last = [i64::MIN; 3];
        for batch in batches {
            all += batch.num_rows();
            let keys = Keys::encode(&codec, &batch.columns()[..1]).unwrap();
            assert!(keys.groups().iter().all(|group| partition_of(*group, 5) == partition));
            for row in text(batch) {
                let value: i64 = row.split(' ').nth(1).unwrap().parse().unwrap();
                let last = &mut last[usize::try_from(value / 1000).unwrap()];
                assert!(value > *last, "{value} after {last}");
                *last = value;
            }
        }
    }
    assert_eq!(all, 3 * 800);
}

#[tokio::test]
async fn an_error_of_one_input_reaches_every_output() {
    let failing = datafusion::physical_expr::expressions::cast(
        column(&schema(&[("s", DataType::Utf8)]), "s"),
        &schema(&[("s", DataType::Utf8)]),
        DataType::Int64,
    );
    let words = schema(&[("s", DataType::Utf8)]);
    let bad = rows(&words, vec![Arc::new(arrow::array::StringArray::from(vec!["no number"]))]);
    let source = MemorySourceConfig::try_new_exec(&[vec![bad]], words, None).unwrap();
    let exchange = KeyGroupExchangeExec::try_new(source, vec![failing.unwrap()], 3).unwrap();
    let exchange: Arc<dyn ExecutionPlan> = Arc::new(exchange);
    for stream in execute_stream_partitioned(exchange, SessionContext::new().task_ctx()).unwrap() {
        assert!(stream.try_collect::<Vec<_>>().await.is_err());
    }
}

#[tokio::test]
async fn an_output_that_nobody_reads_holds_no_other_up() {
    let inputs = vec![(0..50).map(|j| batch(j * 40, j * 40 + 40)).collect::<Vec<_>>()];
    let source = MemorySourceConfig::try_new_exec(&inputs, input(), None).unwrap();
    let exchange =
        Arc::new(KeyGroupExchangeExec::try_new(source, vec![column(&input(), "k")], 4).unwrap());
    let task = SessionContext::new().task_ctx();
    let mut streams = execute_stream_partitioned(exchange, task).unwrap();
    drop(streams.remove(0));
    let mut rows = 0;
    for stream in streams {
        let batches = stream.try_collect::<Vec<_>>().await.unwrap();
        rows += batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    }
    assert!(rows > 0 && rows < 2000);
}
