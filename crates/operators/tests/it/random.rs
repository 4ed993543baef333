//! Any split of rows into batches, partitions and arrival orders gives what one batch gives.

use crate::harness::{Query, aggregate, column, named};
use crate::session::{Row, batch, input, operator as sessions};
use arrow::array::RecordBatch;
use datafusion::functions_aggregate as functions;
use datafusion::physical_expr::PhysicalExprRef;
use onefold_operators::{Deduplicate, EmitMode, StatefulAggregate};
use proptest::prelude::*;

const DELAY: i64 = 40;

/// Rows of a query in the order in which they come, cut into batches and these into partitions.
type Batches = Vec<Vec<Vec<Row>>>;

fn keys() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![
        Just(None),
        Just(Some(f64::NAN)),
        Just(Some(-f64::NAN)),
        Just(Some(0.0)),
        Just(Some(-0.0)),
        (1..4_i64).prop_map(|key| Some(key as f64)),
    ]
}

/// Times go forward, and back by less than the delay.
fn batches() -> impl Strategy<Value = Batches> {
    let row = (keys(), (0..DELAY).prop_map(Some), 1..20_i64, -5..5_i64);
    let partition = prop::collection::vec(row, 0..12);
    let batch = prop::collection::vec(partition, 1..4);
    prop::collection::vec(batch, 1..6).prop_map(|mut batches: Batches| {
        for (number, batch) in (0..).zip(&mut batches) {
            for (_, second, ..) in batch.iter_mut().flatten() {
                *second = second.map(|second| second + number * 13);
            }
        }
        batches
    })
}

/// What a query gives in all, ended by a watermark that is done with everything.
fn run(mut query: Query, batches: &Batches) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut given = Vec::new();
    let mut watermark = None;
    let mut latest: Option<i64> = None;
    for rows in batches {
        let partitions: Vec<Vec<RecordBatch>> = rows.iter().map(|rows| vec![batch(rows)]).collect();
        let outcome = runtime.block_on(query.try_batch(partitions, watermark)).unwrap();
        assert_eq!(outcome.metrics.late_rows(), 0);
        given.extend(outcome.rows);
        latest = latest.max(rows.iter().flatten().filter_map(|row| row.1).max());
        watermark = latest.map(|latest| (latest - DELAY - 20) * 1000);
    }
    given.extend(runtime.block_on(query.empty(Some(i64::MAX / 1_000_000))).rows);
    assert_eq!(query.families().iter().sum::<u64>(), 0);
    given.sort();
    given
}

fn all_in_one(batches: &Batches) -> Batches {
    vec![vec![batches.iter().flatten().flatten().copied().collect()]]
}

fn aggregated(partitions: u32) -> Query {
    let operator = StatefulAggregate {
        group: named(&input(), &["k", "s"]),
        aggregates: vec![
            aggregate(&input(), functions::count::count_udaf(), "v"),
            aggregate(&input(), functions::sum::sum_udaf(), "v"),
            aggregate(&input(), functions::min_max::min_udaf(), "v"),
            aggregate(&input(), functions::min_max::max_udaf(), "v"),
            aggregate(&input(), functions::approx_distinct::approx_distinct_udaf(), "v"),
        ],
        filters: vec![None; 5],
        event_time: Some(1),
    };
    let spec = operator.spec(0, "a", &input()).unwrap();
    let make = Box::new(move |i, c| operator.exec(i, c));
    Query::new(spec, &input(), EmitMode::Append, partitions, make)
}

fn by_session(partitions: u32) -> Query {
    let mut operator = sessions(&["s", "k"]);
    operator.aggregates = vec![
        aggregate(&input(), functions::count::count_udaf(), "v"),
        aggregate(&input(), functions::sum::sum_udaf(), "v"),
        aggregate(&input(), functions::min_max::max_udaf(), "v"),
    ];
    operator.filters = vec![None; 3];
    let spec = operator.spec(0, "s", &input()).unwrap();
    let make = Box::new(move |i, c| operator.exec(i, c));
    Query::new(spec, &input(), EmitMode::Append, partitions, make)
}

fn deduplicated(partitions: u32) -> Query {
    let keys: Vec<PhysicalExprRef> = ["k", "s"].map(|name| column(&input(), name)).into();
    let operator = Deduplicate { keys, event_time: Some(1), late: None };
    let spec = operator.spec(0, "d", &input()).unwrap();
    let make = Box::new(move |i, c| operator.exec(i, c));
    Query::new(spec, &input(), EmitMode::Append, partitions, make)
}

/// The keys of deduplicated rows, made normal: which of two equal rows passed is open.
fn passed(rows: Vec<String>) -> Vec<String> {
    let mut keys: Vec<String> =
        rows.iter().map(|row| row.rsplit_once(' ').unwrap().0.replace("-0.0 ", "0.0 ")).collect();
    keys.sort();
    keys
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn aggregation_of_any_split_is_that_of_one_batch(batches in batches(), parts in 1..9_u32) {
        prop_assert_eq!(run(aggregated(parts), &batches), run(aggregated(1), &all_in_one(&batches)));
    }

    #[test]
    fn sessions_of_any_split_are_those_of_one_batch(batches in batches(), parts in 1..9_u32) {
        prop_assert_eq!(run(by_session(parts), &batches), run(by_session(1), &all_in_one(&batches)));
    }

    #[test]
    fn deduplication_of_any_split_passes_the_keys_of_one_batch(
        batches in batches(),
        parts in 1..9_u32,
    ) {
        let split = passed(run(deduplicated(parts), &batches));
        prop_assert_eq!(split, passed(run(deduplicated(1), &all_in_one(&batches))));
    }
}
