//! The limit over all batches.

use crate::harness::{Query, rows, schema};
use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use onefold_operators::{Deduplicate, EmitMode, GlobalLimit};
use std::sync::Arc;

fn input() -> SchemaRef {
    schema(&[("v", DataType::Int64)])
}

fn batch(values: &[i64]) -> RecordBatch {
    rows(&input(), vec![Arc::new(Int64Array::from(values.to_vec()))])
}

#[tokio::test]
async fn rows_are_counted_over_all_batches_and_partitions() {
    let limit = GlobalLimit { limit: 3 };
    let spec = limit.spec(0, "l");
    let mut query =
        Query::new(spec, &input(), EmitMode::Append, 2, Box::new(move |i, c| limit.exec(i, c)));
    assert_eq!(query.empty(None).await.metrics.rows_total(), 0);
    assert_eq!(query.batch(batch(&[1, 2]), None).await.rows, ["1", "2"]);
    let two = vec![vec![batch(&[3]), batch(&[4])], vec![batch(&[5])]];
    assert_eq!(query.try_batch(two, None).await.unwrap().rows.len(), 1);
    let outcome = query.batch(batch(&[6]), None).await;
    assert!(outcome.rows.is_empty());
    assert_eq!((outcome.metrics.rows_updated(), outcome.metrics.rows_total()), (0, 1));
}

#[tokio::test]
async fn what_is_below_a_limit_that_is_met_keeps_its_state() {
    // Case B09: the operator below has seen everything though the limit wanted two rows.
    let dedup = Deduplicate {
        keys: vec![crate::harness::column(&input(), "v")],
        event_time: None,
        late: None,
    };
    let limit = GlobalLimit { limit: 2 };
    let mut dedup_spec = dedup.spec(1, "d", &input()).unwrap();
    dedup_spec.id = 1;
    let specs = vec![limit.spec(0, "l"), dedup_spec];
    let mut store = onefold_state::StateStore::in_memory(specs, 2).unwrap();
    let mut given = 0;
    for (number, values) in [vec![1, 2, 3], vec![3, 4]].into_iter().enumerate() {
        let state = store.begin(onefold_types::BatchId(number as u64)).unwrap();
        let context = |id: u32| onefold_operators::OperatorContext {
            id,
            state: Arc::clone(&state) as _,
            late_ms: None,
            evict_ms: None,
            batch_time_ms: 0,
            mode: EmitMode::Append,
            metrics: Arc::default(),
            late_rows: None,
        };
        let source = datafusion::datasource::memory::MemorySourceConfig::try_new_exec(
            &[vec![batch(&values)]],
            input(),
            None,
        );
        let below = dedup.exec(source.unwrap(), context(1)).unwrap();
        let plan = limit.exec(below, context(0)).unwrap();
        let task = datafusion::prelude::SessionContext::new().task_ctx();
        let rows = datafusion::physical_plan::collect(plan, task).await.unwrap();
        given += rows.iter().map(RecordBatch::num_rows).sum::<usize>();
        store.apply(&state).await.unwrap();
        drop(state);
        assert_eq!((given, store.report()[1].rows), if number == 0 { (2, 3) } else { (2, 4) });
    }
}
