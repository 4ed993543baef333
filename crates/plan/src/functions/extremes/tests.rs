//! Any order of rows, in any batches, gives Spark's answer.

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, StructArray};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema};
use datafusion::logical_expr::{AggregateUDF, EmitTo};
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::col;
use proptest::prelude::*;
use proptest::sample::select;
use std::sync::Arc;

/// A NaN as `inf - inf` makes it on many machines: with its sign set.
fn negative_nan() -> f64 {
    f64::from_bits(f64::NAN.to_bits() | 1 << 63)
}

fn values() -> impl Strategy<Value = Vec<Option<f64>>> {
    let value = select(vec![
        Some(f64::NAN),
        Some(negative_nan()),
        Some(f64::INFINITY),
        Some(f64::NEG_INFINITY),
        Some(0.0),
        Some(-0.0),
        Some(1.5),
        Some(-1.5),
        None,
    ]);
    prop::collection::vec(value, 0..12)
}

/// Spark's order: NaN last, zeros equal.
fn place(value: f64) -> (bool, f64) {
    if value.is_nan() { (true, 0.0) } else { (false, value + 0.0) }
}

fn spark(values: &[Option<f64>], greatest: bool) -> Option<(bool, f64)> {
    let places = values.iter().flatten().map(|value| place(*value));
    places.reduce(|a, b| {
        let above = (b.0, b.1).partial_cmp(&(a.0, a.1)) == Some(std::cmp::Ordering::Greater);
        if above == greatest { b } else { a }
    })
}

fn function(name: &str) -> Arc<AggregateUDF> {
    let context = datafusion::prelude::SessionContext::new();
    crate::functions::register(&context).unwrap();
    let state = context.state();
    Arc::clone(state.aggregate_functions().get(name).unwrap())
}

fn expr(name: &str, fields: &[(&str, DataType)]) -> AggregateFunctionExpr {
    let fields: Vec<Field> =
        fields.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let arguments = schema.fields().iter().map(|field| col(field.name(), &schema).unwrap());
    AggregateExprBuilder::new(function(name), arguments.collect())
        .schema(schema)
        .alias("a")
        .build()
        .unwrap()
}

/// The result of partial states of each batch, merged, as a stream does it.
fn over_groups(expr: &AggregateFunctionExpr, batches: &[Vec<ArrayRef>]) -> ArrayRef {
    if !expr.groups_accumulator_supported() {
        return over_rows(expr, batches);
    }
    let mut merged = expr.create_groups_accumulator().unwrap();
    for batch in batches {
        let mut partial = expr.create_groups_accumulator().unwrap();
        let rows = batch[0].len();
        partial.update_batch(batch, &vec![0; rows], None, 1).unwrap();
        merged.merge_batch(&partial.state(EmitTo::All).unwrap(), &[0], 1).unwrap();
    }
    merged.evaluate(EmitTo::All).unwrap()
}

fn over_rows(expr: &AggregateFunctionExpr, batches: &[Vec<ArrayRef>]) -> ArrayRef {
    let mut merged = expr.create_accumulator().unwrap();
    for batch in batches {
        let mut partial = expr.create_accumulator().unwrap();
        partial.update_batch(batch).unwrap();
        let state = partial.state().unwrap();
        let state: Vec<ArrayRef> = state.iter().map(|it| it.to_array().unwrap()).collect();
        merged.merge_batch(&state).unwrap();
    }
    merged.evaluate().unwrap().to_array().unwrap()
}

fn float(array: &dyn Array) -> Option<f64> {
    let array = array.as_primitive::<Float64Type>();
    array.is_valid(0).then(|| array.value(0))
}

/// Batches of so many rows each.
fn split(rows: &[Option<f64>], each: usize) -> Vec<Vec<Option<f64>>> {
    let mut batches: Vec<_> = rows.chunks(each).map(<[_]>::to_vec).collect();
    batches.push(Vec::new());
    batches
}

proptest! {
    #[test]
    fn min_and_max_are_sparks_in_any_order_and_any_batches(rows in values(), each in 1..5_usize) {
        for (name, greatest) in [("min", false), ("max", true)] {
            let expr = expr(name, &[("v", DataType::Float64)]);
            let batches: Vec<Vec<ArrayRef>> = split(&rows, each)
                .into_iter()
                .map(|batch| vec![Arc::new(Float64Array::from(batch)) as ArrayRef])
                .collect();
            let wanted = spark(&rows, greatest);
            for found in [over_groups(&expr, &batches), over_rows(&expr, &batches)] {
                prop_assert_eq!(float(&found).map(place), wanted, "{} {:?}", name, rows);
            }
            // The very bits do not depend on the order either.
            let mut moved = rows.clone();
            moved.reverse();
            moved.rotate_left(rows.len() / 2);
            let column: ArrayRef = Arc::new(Float64Array::from(moved));
            let other = over_groups(&expr, &[vec![column]]);
            let bits = |array: &ArrayRef| float(array).map(f64::to_bits);
            prop_assert_eq!(bits(&over_groups(&expr, &batches)), bits(&other), "{} {:?}", name, rows);
        }
    }

    #[test]
    fn extremes_of_structs_are_sparks(rows in values(), each in 1..5_usize) {
        let fields = vec![Field::new("v", DataType::Float64, true)];
        let kind = DataType::Struct(fields.clone().into());
        let known: Vec<Option<f64>> = rows.into_iter().filter(Option::is_some).collect();
        prop_assume!(!known.is_empty());
        for (name, greatest) in [("min", false), ("max", true)] {
            let expr = expr(name, &[("s", kind.clone())]);
            let batches: Vec<Vec<ArrayRef>> = known
                .chunks(each)
                .map(|batch| {
                    let column: ArrayRef = Arc::new(Float64Array::from(batch.to_vec()));
                    let rows = StructArray::new(fields.clone().into(), vec![column], None);
                    vec![Arc::new(rows) as ArrayRef]
                })
                .collect();
            let wanted = spark(&known, greatest);
            for found in [over_groups(&expr, &batches), over_rows(&expr, &batches)] {
                let found = found.as_struct();
                let found = found.is_valid(0).then(|| float(found.column(0).as_ref())).flatten();
                prop_assert_eq!(found.map(place), wanted, "{} {:?}", name, known);
            }
        }
    }

    #[test]
    fn min_by_and_max_by_order_as_spark_does(rows in values(), each in 1..5_usize) {
        for (name, greatest) in [("min_by", false), ("max_by", true)] {
            let expr = expr(name, &[("n", DataType::Int64), ("v", DataType::Float64)]);
            let numbered: Vec<(i64, Option<f64>)> = (0_i64..).zip(rows.iter().copied()).collect();
            let batches: Vec<Vec<ArrayRef>> = numbered
                .chunks(each)
                .map(|batch| {
                    let numbers = Int64Array::from_iter_values(batch.iter().map(|row| row.0));
                    let orders = Float64Array::from_iter(batch.iter().map(|row| row.1));
                    vec![Arc::new(numbers) as ArrayRef, Arc::new(orders)]
                })
                .collect();
            // Of equal ones the last row counts.
            let best = spark(&rows, greatest);
            let wanted = numbered.iter().rev().find(|(_, v)| v.map(place) == best && v.is_some());
            let found = over_rows(&expr, &batches);
            let found = found.as_primitive::<Int64Type>();
            let found = found.is_valid(0).then(|| found.value(0));
            prop_assert_eq!(found, wanted.map(|row| row.0), "{} {:?}", name, rows);
        }
    }
}

#[test]
fn a_zero_alone_keeps_its_sign() {
    let expr = expr("max", &[("v", DataType::Float64)]);
    let column: ArrayRef = Arc::new(Float64Array::from(vec![-0.0]));
    let found = over_groups(&expr, &[vec![column]]);
    assert_eq!(float(&found).unwrap().to_bits(), (-0.0_f64).to_bits());
}

#[test]
fn other_types_go_on_to_datafusion() {
    let expr = expr("max", &[("v", DataType::Int64)]);
    let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(3), None, Some(7), Some(5)]));
    let found = over_groups(&expr, &[vec![column]]);
    assert_eq!(found.as_primitive::<Int64Type>().value(0), 7);
}

#[test]
fn null_is_the_least_part_of_a_struct() {
    let fields = vec![Field::new("v", DataType::Int64, true)];
    let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None, Some(-9)]));
    let rows = StructArray::new(fields.clone().into(), vec![column], None);
    let batch: ArrayRef = Arc::new(rows);
    for (name, wanted) in [("min", None), ("max", Some(7))] {
        let expr = expr(name, &[("s", DataType::Struct(fields.clone().into()))]);
        assert!(!expr.groups_accumulator_supported());
        let found = over_rows(&expr, &[vec![Arc::clone(&batch)], vec![batch.slice(1, 2)]]);
        let found = found.as_struct().column(0).as_primitive::<Int64Type>().clone();
        assert_eq!(found, Int64Array::from(vec![wanted]), "{name}");
    }
}
