//! `min` and `max` in Spark's order: NaN is larger than any other number, whatever its bits. Which of
//! two zeros comes out does not depend on the order of rows either: `min` gives −0.0, `max` 0.0, which
//! Spark takes for equal.
//!
//! DataFusion's own keep whatever comes after a NaN, and a NULL inside of a struct or a list above any
//! value, where Spark has it below. They do the work for all types without parts and without floats.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray, make_comparator};
use arrow::compute::{SortOptions, concat, not, nullif, prep_null_mask_filter};
use arrow::datatypes::{ArrowNativeTypeOp, ArrowPrimitiveType, DataType, Float32Type, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs, Volatility,
};
use onefold_operators::normalise;
use std::cmp::Ordering;
use std::sync::Arc;

pub(super) fn functions() -> [Arc<AggregateUDF>; 2] {
    [End::Least, End::Greatest].map(|end| {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(AggregateUDF::new_from_impl(Extreme { end, signature }))
    })
}

/// Which end of the order is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum End {
    Least,
    Greatest,
}

impl End {
    /// DataFusion's function.
    fn plain(self) -> Arc<AggregateUDF> {
        match self {
            End::Least => min_udaf(),
            End::Greatest => max_udaf(),
        }
    }

    /// Puts a value in the place of the one held, if it is further to this end.
    fn hold<T: Float>(self, held: &mut Option<T::Native>, value: T::Native) {
        let value = T::canonical(value);
        if held.is_none_or(|held| value.compare(held) == self.wanted()) {
            *held = Some(value);
        }
    }

    /// How a value compares with the one in whose place it comes.
    fn wanted(self) -> Ordering {
        match self {
            End::Least => Ordering::Less,
            End::Greatest => Ordering::Greater,
        }
    }
}

/// A floating-point type.
trait Float: ArrowPrimitiveType + std::fmt::Debug + Send {
    /// Every NaN as one; `compare` has it above all numbers then.
    fn canonical(value: Self::Native) -> Self::Native;
}

impl Float for Float32Type {
    fn canonical(value: f32) -> f32 {
        if value.is_nan() { f32::NAN } else { value }
    }
}

impl Float for Float64Type {
    fn canonical(value: f64) -> f64 {
        if value.is_nan() { f64::NAN } else { value }
    }
}

/// Types whose values have parts, which may be NULL or floats.
fn holds_parts(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Float16
            | DataType::Struct(_)
            | DataType::List(_)
            | DataType::LargeList(_)
            | DataType::FixedSizeList(..)
    )
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    end: End,
    signature: Signature,
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        match self.end {
            End::Least => "min",
            End::Greatest => "max",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.end.plain().coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.end.plain().return_type(types)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let end = self.end;
        match args.return_field.data_type() {
            DataType::Float32 => Ok(Box::new(Best::<Float32Type> { end, best: None })),
            DataType::Float64 => Ok(Box::new(Best::<Float64Type> { end, best: None })),
            other if holds_parts(other) => {
                Ok(Box::new(Whole { end, best: ScalarValue::try_from(other)? }))
            }
            _ => end.plain().accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !holds_parts(args.return_field.data_type())
            && self.end.plain().groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let end = self.end;
        match args.return_field.data_type() {
            DataType::Float32 => Ok(Box::new(Bests::<Float32Type> { end, bests: Vec::new() })),
            DataType::Float64 => Ok(Box::new(Bests::<Float64Type> { end, bests: Vec::new() })),
            _ => self.end.plain().create_groups_accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let inner = self.end.plain().create_sliding_accumulator(args)?;
        Ok(Box::new(OneForm { inner }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    /// Statistics of files leave NaN out.
    fn value_from_stats(&self, args: &StatisticsArgs) -> Option<ScalarValue> {
        let floats = args.return_type.is_floating() || holds_parts(args.return_type);
        if floats { None } else { self.end.plain().value_from_stats(args) }
    }

    fn set_monotonicity(&self, _data_type: &DataType) -> SetMonotonicity {
        match self.end {
            End::Least => SetMonotonicity::Decreasing,
            End::Greatest => SetMonotonicity::Increasing,
        }
    }
}

fn floats<T: Float>(arrays: &[ArrayRef]) -> Result<&PrimitiveArray<T>> {
    let column = arrays.first().and_then(|column| column.as_primitive_opt::<T>());
    column.ok_or_else(|| {
        DataFusionError::Internal("min and max got no column of their type".to_owned())
    })
}

/// One extreme.
#[derive(Debug)]
struct Best<T: Float> {
    end: End,
    best: Option<T::Native>,
}

impl<T: Float> Accumulator for Best<T> {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        for value in floats::<T>(arrays)?.iter().flatten() {
            self.end.hold::<T>(&mut self.best, value);
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::new_primitive::<T>(self.best, &T::DATA_TYPE)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

/// An extreme for each group.
#[derive(Debug)]
struct Bests<T: Float> {
    end: End,
    bests: Vec<Option<T::Native>>,
}

impl<T: Float> GroupsAccumulator for Bests<T> {
    fn update_batch(
        &mut self,
        arrays: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.bests.resize(total, None);
        for (row, (value, group)) in floats::<T>(arrays)?.iter().zip(groups).enumerate() {
            let passes = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
            if let (Some(value), true, Some(held)) = (value, passes, self.bests.get_mut(*group)) {
                self.end.hold::<T>(held, value);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let bests = emit_to.take_needed(&mut self.bests);
        Ok(Arc::new(PrimitiveArray::<T>::from_iter(bests)))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update_batch(states, groups, None, total)
    }

    fn convert_to_state(
        &self,
        arrays: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values: ArrayRef = Arc::new(floats::<T>(arrays)?.clone());
        Ok(vec![match filter {
            None => values,
            // What does not pass is NULL.
            Some(filter) => nullif(&values, &not(&prep_null_mask_filter(filter))?)?,
        }])
    }

    fn size(&self) -> usize {
        self.bests.capacity() * size_of::<Option<T::Native>>()
    }
}

/// DataFusion's accumulator over values that have one form each.
#[derive(Debug)]
struct OneForm {
    inner: Box<dyn Accumulator>,
}

fn in_one_form(arrays: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
    arrays.iter().map(normalise).collect()
}

impl Accumulator for OneForm {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(&in_one_form(arrays)?)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.inner.evaluate()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(&in_one_form(states)?)
    }

    fn retract_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(&in_one_form(arrays)?)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

/// One extreme of values that have parts, compared part by part; NULL is the least of a part.
#[derive(Debug)]
struct Whole {
    end: End,
    best: ScalarValue,
}

impl Accumulator for Whole {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        let column = arrays
            .first()
            .ok_or_else(|| DataFusionError::Internal("min and max got no column".to_owned()))?;
        let held = if self.best.is_null() { None } else { Some(self.best.to_array()?) };
        let arrays: Vec<&dyn Array> =
            held.iter().map(AsRef::as_ref).chain([column.as_ref()]).collect();
        let all = normalise(&concat(&arrays)?)?;
        let compare = make_comparator(all.as_ref(), all.as_ref(), SortOptions::default())?;
        let wanted = self.end.wanted();
        let known = (0..all.len()).filter(|row| all.is_valid(*row));
        let best = known.reduce(|best, row| if compare(row, best) == wanted { row } else { best });
        if let Some(row) = best {
            self.best = ScalarValue::try_from_array(&all, row)?.compacted();
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.best.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.best.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

#[cfg(test)]
mod tests;
