//! Aggregate functions over state.

use crate::harness::{Query, aggregate, column, named, rows, schema};
use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::functions_aggregate as functions;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use onefold_operators::{EmitMode, StatefulAggregate};
use std::sync::Arc;

fn input() -> SchemaRef {
    schema(&[("k", DataType::Int64), ("v", DataType::Float64), ("s", DataType::Utf8)])
}

fn batch(rows_: &[(i64, Option<f64>, Option<&str>)]) -> RecordBatch {
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(rows_.iter().map(|row| row.0)));
    let values: Float64Array = rows_.iter().map(|row| row.1).collect();
    let words: StringArray = rows_.iter().map(|row| row.2).collect();
    rows(&input(), vec![keys, Arc::new(values), Arc::new(words)])
}

async fn results(
    aggregates: Vec<Arc<AggregateFunctionExpr>>,
    group: &[&str],
    batches: &[RecordBatch],
) -> Vec<String> {
    let filters = vec![None; aggregates.len()];
    let operator =
        StatefulAggregate { group: named(&input(), group), aggregates, filters, event_time: None };
    let spec = operator.spec(0, "a", &input()).unwrap();
    let mut query = Query::new(
        spec,
        &input(),
        EmitMode::Complete,
        2,
        Box::new(move |i, c| operator.exec(i, c)),
    );
    let mut last = Vec::new();
    for batch in batches {
        last = query.batch(batch.clone(), None).await.rows;
    }
    last
}

fn data() -> Vec<RecordBatch> {
    vec![
        batch(&[(1, Some(1.0), Some("b")), (1, Some(2.0), Some("a")), (2, None, None)]),
        batch(&[(1, Some(4.0), Some("a")), (2, Some(5.0), Some("z"))]),
        batch(&[]),
        batch(&[(1, None, Some("c"))]),
    ]
}

#[tokio::test]
async fn first_and_last_follow_the_order_of_batches() {
    let aggregates = || {
        vec![
            aggregate(&input(), functions::first_last::first_value_udaf(), "s"),
            aggregate(&input(), functions::first_last::last_value_udaf(), "s"),
            aggregate(&input(), functions::array_agg::array_agg_udaf(), "s"),
        ]
    };
    let grouped = results(aggregates(), &["k"], &data()).await;
    assert_eq!(grouped, ["1 b c [b, a, a, c]", "2 NULL z [NULL, z]"]);
    let global = results(aggregates(), &[], &data()).await;
    assert_eq!(global, ["b c [b, a, NULL, a, z, c]"]);
}

#[tokio::test]
async fn averages_and_extremes_come_from_partial_state() {
    let aggregates = || {
        vec![
            aggregate(&input(), functions::average::avg_udaf(), "v"),
            aggregate(&input(), functions::min_max::min_udaf(), "s"),
            aggregate(&input(), functions::min_max::max_udaf(), "v"),
            aggregate(&input(), functions::stddev::stddev_pop_udaf(), "v"),
        ]
    };
    let grouped = results(aggregates(), &["k"], &data()).await;
    assert_eq!(grouped.len(), 2);
    assert!(grouped[0].starts_with("1 2.3333333333333335 a 4.0 1.247219128924647"), "{grouped:?}");
    assert_eq!(grouped[1], "2 5.0 z 5.0 0.0");
    let global = results(aggregates(), &[], &data()).await;
    assert!(global[0].starts_with("3.0 a 5.0 1.58113883"), "{global:?}");
}

#[tokio::test]
async fn distinct_counts_keep_what_they_have_seen() {
    let distinct = || {
        let built =
            AggregateExprBuilder::new(functions::count::count_udaf(), vec![column(&input(), "s")])
                .schema(input())
                .alias("d")
                .distinct()
                .build();
        let about = aggregate(&input(), functions::approx_distinct::approx_distinct_udaf(), "s");
        vec![Arc::new(built.unwrap()), about]
    };
    assert_eq!(results(distinct(), &["k"], &data()).await, ["1 3 3", "2 1 1"]);
    assert_eq!(results(distinct(), &[], &data()).await, ["4 4"]);
}

#[tokio::test]
async fn percentiles_and_booleans_work_over_state() {
    let built = AggregateExprBuilder::new(
        functions::approx_percentile_cont::approx_percentile_cont_udaf(),
        vec![column(&input(), "v"), datafusion::physical_expr::expressions::lit(0.5)],
    )
    .schema(input())
    .alias("p")
    .build();
    let median = Arc::new(built.unwrap());
    let exact = aggregate(&input(), functions::median::median_udaf(), "v");
    let rows = results(vec![median, exact], &["k"], &data()).await;
    assert_eq!(rows, ["1 2.0 2.0", "2 5.0 5.0"]);
}
