//! Any rows in any batches, partitions and restarts give what one join of all rows gives.

use super::{exec, harness, names, rows, watermarks, within};
use arrow::array::{ArrayRef, Float64Array};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::common::JoinType;
use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop_assert_eq, prop_oneof, proptest,
};
use std::sync::Arc;

const FROM: i64 = -4;
const TO: i64 = 3;

#[derive(Debug, Clone)]
struct Row {
    left: bool,
    key: Option<f64>,
    time: i64,
}

fn row() -> impl Strategy<Value = Row> {
    let key = prop_oneof![
        Just(None),
        Just(Some(0.0)),
        Just(Some(-0.0)),
        Just(Some(f64::NAN)),
        Just(Some(f64::from_bits(0xfff8_0000_0000_0007))),
        (1..4_u8).prop_map(|key| Some(f64::from(key))),
    ];
    (any::<bool>(), key, 0..40_i64).prop_map(|(left, key, time)| Row { left, key, time })
}

#[derive(Debug, Clone)]
struct Batch {
    rows: Vec<Row>,
    partitions: u32,
    inputs: usize,
    abandoned: bool,
}

/// Batches whose rows come a little out of order.
fn batches() -> impl Strategy<Value = Vec<Batch>> {
    let rows = proptest::collection::vec((row(), 0..12_i64), 0..60);
    let shape = (1..6_usize, 1..4_u32, 1..3_usize, any::<bool>());
    (rows, proptest::collection::vec(shape, 1..6)).prop_map(|(mut rows, shapes)| {
        rows.sort_by_key(|(row, delay)| row.time + delay);
        let mut rows = rows.into_iter().map(|(row, _)| row);
        let last = shapes.len() - 1;
        let batch = |(place, (share, partitions, inputs, abandoned)): (
            usize,
            (usize, u32, usize, bool),
        )| {
            let count = if place == last { usize::MAX } else { share * 5 };
            Batch { rows: rows.by_ref().take(count).collect(), partitions, inputs, abandoned }
        };
        shapes.into_iter().enumerate().map(batch).collect()
    })
}

fn equal(one: Option<f64>, other: Option<f64>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one == other || (one.is_nan() && other.is_nan()),
        _ => false,
    }
}

/// Each row's name is its number.
fn reference(join_type: JoinType, rows: &[(String, Row)]) -> Vec<String> {
    let meets = |one: &Row, other: &Row| {
        let apart = one.time - other.time;
        equal(one.key, other.key) && (FROM..=TO).contains(&apart)
    };
    let lefts: Vec<_> = rows.iter().filter(|(_, row)| row.left).collect();
    let rights: Vec<_> = rows.iter().filter(|(_, row)| !row.left).collect();
    let mut out = Vec::new();
    for (name, left) in &lefts {
        let met: Vec<_> = rights.iter().filter(|(_, right)| meets(left, right)).collect();
        match join_type {
            JoinType::LeftSemi if !met.is_empty() => out.push(name.clone()),
            JoinType::LeftSemi => {}
            JoinType::Left | JoinType::Full if met.is_empty() => out.push(format!("{name} NULL")),
            _ => out.extend(met.iter().map(|(other, _)| format!("{name} {other}"))),
        }
    }
    if matches!(join_type, JoinType::Right | JoinType::Full) {
        for (name, right) in &rights {
            if !lefts.iter().any(|(_, left)| meets(left, right)) {
                out.push(format!("NULL {name}"));
            }
        }
    }
    out.sort();
    out
}

fn side(
    schema: &SchemaRef,
    given: &[(String, Row)],
    left: bool,
    inputs: usize,
) -> Vec<Vec<RecordBatch>> {
    let mut split = vec![Vec::new(); inputs];
    let own: Vec<_> = given.iter().filter(|(_, row)| row.left == left).collect();
    for (place, chunk) in own.chunks(3).enumerate() {
        let keys: ArrayRef =
            Arc::new(Float64Array::from(chunk.iter().map(|(_, row)| row.key).collect::<Vec<_>>()));
        let given: Vec<_> = chunk.iter().map(|(name, row)| (row.time, name.as_str())).collect();
        split[place % inputs].push(rows(schema, keys, &given));
    }
    split
}

fn check(join_type: JoinType, batches: &[Batch]) -> (Vec<String>, Vec<String>, usize) {
    let join = within(DataType::Float64, join_type, FROM, TO);
    let mut harness = harness(&join, 1);
    let mut number = 0;
    let mut named = Vec::new();
    for batch in batches {
        let own: Vec<_> = batch
            .rows
            .iter()
            .map(|row| {
                number += 1;
                (format!("{number}"), row.clone())
            })
            .collect();
        named.push(own);
    }
    // As tight as no row that follows allows.
    let mut following = i64::MAX / 2_000;
    let mut marks: Vec<i64> = batches
        .iter()
        .rev()
        .map(|batch| {
            let mark = following - 1;
            following = batch.rows.iter().map(|row| row.time).fold(following, i64::min);
            mark
        })
        .collect();
    marks.reverse();
    let mut out = Vec::new();
    let mut late = i64::MIN / 2_000;
    for ((batch, own), mark) in batches.iter().zip(&named).zip(marks) {
        harness.partitions = batch.partitions;
        watermarks(&mut harness, late, mark);
        late = mark;
        let left = side(&join.left.schema, own, true, batch.inputs);
        let right = side(&join.right.schema, own, false, batch.inputs);
        if batch.abandoned {
            harness.abandoned(exec(&join, &left, &right)).unwrap();
        }
        out.extend(names(&harness.batch(exec(&join, &left, &right)).unwrap()));
        assert_eq!(harness.metrics.late_rows(), 0);
    }
    watermarks(&mut harness, late, i64::MAX / 2_000);
    out.extend(names(&harness.batch(exec(&join, &[vec![]], &[vec![]])).unwrap()));
    out.sort();
    let left_over =
        harness.rows("left-keyWithIndexToValue") + harness.rows("right-keyWithIndexToValue");
    (out, reference(join_type, &named.concat()), left_over)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_join_in_batches_gives_what_one_join_of_all_rows_gives(batches in batches()) {
        for join_type in [
            JoinType::Inner, JoinType::Left, JoinType::Right, JoinType::Full, JoinType::LeftSemi,
        ] {
            let (out, expected, left_over) = check(join_type, &batches);
            prop_assert_eq!(out, expected, "{}", join_type);
            prop_assert_eq!(left_over, 0);
        }
    }
}
