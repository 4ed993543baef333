//! Spark's names for aggregates, and those that DataFusion lacks.

use crate::failure;
use arrow::array::{Array, ArrayRef, make_comparator};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};
use onefold_operators::normalise;
use std::cmp::Ordering;
use std::sync::Arc;

/// DataFusion's name and Spark's for the same aggregate.
const ALIASES: [(&str, &[&str]); 7] = [
    ("first_value", &["first"]),
    ("last_value", &["last"]),
    ("bool_or", &["any", "some"]),
    ("bool_and", &["every"]),
    ("approx_distinct", &["approx_count_distinct"]),
    ("stddev", &["std"]),
    ("var", &["variance"]),
];

/// Registers all of them.
pub(super) fn register(registry: &mut dyn FunctionRegistry) -> onefold_types::Result<()> {
    for (known, aliases) in ALIASES {
        if let Ok(function) = registry.udaf(known) {
            let function = function.as_ref().clone().with_aliases(aliases.iter().copied());
            registry.register_udaf(Arc::new(function)).map_err(failure::planning)?;
        }
    }
    for kind in [Extreme::Least, Extreme::Greatest] {
        let function = AggregateUDF::new_from_impl(By::new(kind));
        registry.register_udaf(Arc::new(function)).map_err(failure::planning)?;
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Extreme {
    Least,
    Greatest,
}

/// `min_by(value, order)` and `max_by(value, order)`: the value of the row whose order is the least
/// or the greatest. Rows without an order do not count; of equal ones a later row counts. NaN is the
/// largest number, and zeros are equal whatever their sign.
#[derive(Debug, PartialEq, Eq, Hash)]
struct By {
    kind: Extreme,
    signature: Signature,
}

impl By {
    fn new(kind: Extreme) -> Self {
        By { kind, signature: Signature::any(2, Volatility::Immutable) }
    }
}

fn arguments(types: &[DataType]) -> Result<(&DataType, &DataType)> {
    match types {
        [value, order] => Ok((value, order)),
        _ => Err(DataFusionError::Plan("min_by and max_by take a value and an order".to_owned())),
    }
}

impl AggregateUDFImpl for By {
    fn name(&self) -> &str {
        match self.kind {
            Extreme::Least => "min_by",
            Extreme::Greatest => "max_by",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(arguments(types)?.0.clone())
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let types: Vec<DataType> =
            args.input_fields.iter().map(|field| field.data_type().clone()).collect();
        let (value, order) = arguments(&types)?;
        let field = |part: &str, data_type: &DataType| {
            Arc::new(Field::new(format!("{}[{part}]", args.name), data_type.clone(), true))
        };
        Ok(vec![field("value", value), field("order", order)])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let types: Vec<DataType> =
            args.expr_fields.iter().map(|field| field.data_type().clone()).collect();
        let (value, order) = arguments(&types)?;
        Ok(Box::new(ByAccumulator {
            kind: self.kind,
            value: ScalarValue::try_from(value)?,
            order: ScalarValue::try_from(order)?,
        }))
    }
}

#[derive(Debug)]
struct ByAccumulator {
    kind: Extreme,
    value: ScalarValue,
    order: ScalarValue,
}

impl ByAccumulator {
    /// Whether the first of two orders stays.
    fn stays(&self, held: &ArrayRef, place: usize, other: &ArrayRef, row: usize) -> Result<bool> {
        let compare = make_comparator(held.as_ref(), other.as_ref(), SortOptions::default())?;
        Ok(self.keeps(compare(place, row)))
    }

    fn keeps(&self, held_to_new: Ordering) -> bool {
        match self.kind {
            Extreme::Least => held_to_new == Ordering::Less,
            Extreme::Greatest => held_to_new == Ordering::Greater,
        }
    }
}

impl Accumulator for ByAccumulator {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let [values, orders] = columns else {
            return Err(DataFusionError::Internal("min_by and max_by have two parts".to_owned()));
        };
        let orders = &normalise(orders)?;
        let compare = make_comparator(orders.as_ref(), orders.as_ref(), SortOptions::default())?;
        let mut best: Option<usize> = None;
        for row in (0..orders.len()).filter(|row| !orders.is_null(*row)) {
            if best.is_none_or(|held| !self.keeps(compare(held, row))) {
                best = Some(row);
            }
        }
        let Some(row) = best else { return Ok(()) };
        if !self.order.is_null() && self.stays(&self.order.to_array()?, 0, orders, row)? {
            return Ok(());
        }
        self.value = ScalarValue::try_from_array(values, row)?.compacted();
        self.order = ScalarValue::try_from_array(orders, row)?.compacted();
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), self.order.clone()])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size() + self.order.size()
    }
}
