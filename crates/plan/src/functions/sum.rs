//! `sum` that notices an overflow, as Spark's does in ANSI mode: a result that does not fit is an
//! error, in the batch that makes it so, and never a wrapped number in the state.

use arrow::array::{ArrayRef, ArrowNumericType, AsArray, BooleanArray, PrimitiveArray};
use arrow::compute::{cast, not, nullif, prep_null_mask_filter};
use arrow::datatypes::{
    ArrowNativeTypeOp, DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, DecimalType, Field,
    FieldRef, Float64Type, Int64Type,
};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
    Signature, Volatility,
};
use datafusion::physical_expr::NullState;
use std::collections::VecDeque;
use std::sync::Arc;

pub(super) fn function() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(Sum::default()))
}

/// Whole numbers sum up to `BIGINT`, floats to `DOUBLE`, `DECIMAL(p, s)` to
/// `DECIMAL(min(38, p + 10), s)`. What else can be summed is left to DataFusion's own.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Sum {
    signature: Signature,
}

impl Default for Sum {
    fn default() -> Self {
        Sum { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

/// Calls with the arrow type of a sum.
macro_rules! with_type {
    ($data_type:expr, $other:expr, $call:ident) => {
        match $data_type {
            DataType::Int64 => $call!(Int64Type),
            DataType::Float64 => $call!(Float64Type),
            DataType::Decimal128(..) => $call!(Decimal128Type),
            _ => $other,
        }
    };
}

fn own() -> Arc<AggregateUDF> {
    datafusion::functions_aggregate::sum::sum_udaf()
}

impl AggregateUDFImpl for Sum {
    fn name(&self) -> &str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let [argument] = arg_types else {
            return Err(DataFusionError::Plan("sum takes one argument".to_owned()));
        };
        Ok(vec![match argument {
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => DataType::Int64,
            // Text is read as a number, as Spark does.
            DataType::Null
            | DataType::Float16
            | DataType::Float32
            | DataType::Float64
            | DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View => DataType::Float64,
            DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
                DataType::Decimal128(*precision, *scale)
            }
            DataType::Decimal128(..)
            | DataType::UInt64
            | DataType::Duration(_)
            | DataType::Interval(_) => argument.clone(),
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => DataType::UInt64,
            other => {
                return Err(DataFusionError::Plan(format!("sum of {other} is not possible")));
            }
        }])
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types.first() {
            Some(DataType::Decimal128(precision, scale)) => {
                let precision = precision.saturating_add(10).min(DECIMAL128_MAX_PRECISION);
                Ok(DataType::Decimal128(precision, *scale))
            }
            Some(other) => Ok(other.clone()),
            None => Err(DataFusionError::Plan("sum takes one argument".to_owned())),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let data_type = args.return_field.data_type().clone();
        if args.is_distinct {
            return own().accumulator(args);
        }
        macro_rules! total {
            ($type:ty) => {
                Ok(Box::new(Total::<$type> { total: None, data_type: data_type.clone() }))
            };
        }
        with_type!(data_type, own().accumulator(args), total)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if args.is_distinct {
            return own().state_fields(args);
        }
        let name = format_state_name(args.name, "sum");
        Ok(vec![Arc::new(Field::new(name, args.return_field.data_type().clone(), true))])
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let data_type = args.return_field.data_type().clone();
        macro_rules! totals {
            ($type:ty) => {
                Ok(Box::new(Totals::<$type> {
                    totals: Vec::new(),
                    seen: NullState::new(),
                    data_type: data_type.clone(),
                }))
            };
        }
        with_type!(data_type, own().create_groups_accumulator(args), totals)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let data_type = args.return_field.data_type().clone();
        macro_rules! sliding {
            ($type:ty) => {
                Ok(Box::new(Sliding::<$type> {
                    held: VecDeque::new(),
                    data_type: data_type.clone(),
                }))
            };
        }
        with_type!(data_type, own().create_sliding_accumulator(args), sliding)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

fn overflow(data_type: &DataType) -> DataFusionError {
    DataFusionError::Execution(format!(
        "[ARITHMETIC_OVERFLOW] a sum does not fit {}; use try_sum to have NULL instead",
        crate::schema::type_name(data_type)
    ))
}

/// A sum's type.
trait Summed: ArrowNumericType + std::fmt::Debug + Send {
    /// Whether a sum has no more digits than `data_type` takes.
    fn fits(_total: Self::Native, _data_type: &DataType) -> bool {
        true
    }
}

impl Summed for Int64Type {}

impl Summed for Float64Type {}

impl Summed for Decimal128Type {
    fn fits(total: i128, data_type: &DataType) -> bool {
        match data_type {
            DataType::Decimal128(precision, _) => {
                Decimal128Type::is_valid_decimal_precision(total, *precision)
            }
            _ => true,
        }
    }
}

/// The values as the sum's type: a `DECIMAL(p, s)` may come into a wider sum of the same scale.
fn values<T: Summed>(arrays: &[ArrayRef]) -> Result<&PrimitiveArray<T>> {
    let column = arrays.first().and_then(|column| column.as_primitive_opt::<T>());
    column.ok_or_else(|| DataFusionError::Internal("sum got no column of its type".to_owned()))
}

/// One sum.
#[derive(Debug)]
struct Total<T: Summed> {
    total: Option<T::Native>,
    data_type: DataType,
}

impl<T: Summed> Accumulator for Total<T> {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        for value in values::<T>(arrays)?.iter().flatten() {
            let total = self.total.unwrap_or_default();
            let total = total.add_checked(value).map_err(|_| overflow(&self.data_type))?;
            self.total = Some(total);
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.total.is_some_and(|total| !T::fits(total, &self.data_type)) {
            return Err(overflow(&self.data_type));
        }
        ScalarValue::new_primitive::<T>(self.total, &self.data_type)
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

/// The sum of a window of rows that moves. It is added up anew each time: what a value took away
/// from a float or an overflow cannot be given back.
#[derive(Debug)]
struct Sliding<T: Summed> {
    held: VecDeque<Option<T::Native>>,
    data_type: DataType,
}

impl<T: Summed> Accumulator for Sliding<T> {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        self.held.extend(values::<T>(arrays)?.iter());
        Ok(())
    }

    fn retract_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        let gone = values::<T>(arrays)?.len().min(self.held.len());
        self.held.drain(..gone);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut total = Total::<T> { total: None, data_type: self.data_type.clone() };
        for value in self.held.iter().flatten() {
            let sum = total.total.unwrap_or_default().add_checked(*value);
            total.total = Some(sum.map_err(|_| overflow(&self.data_type))?);
        }
        total.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.held.capacity() * size_of::<Option<T::Native>>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

/// A sum for each group.
#[derive(Debug)]
struct Totals<T: Summed> {
    totals: Vec<T::Native>,
    seen: NullState,
    data_type: DataType,
}

impl<T: Summed> GroupsAccumulator for Totals<T> {
    fn update_batch(
        &mut self,
        arrays: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        let values = values::<T>(arrays)?;
        self.totals.resize(total, T::default_value());
        let (totals, mut fits) = (&mut self.totals, true);
        self.seen.accumulate(groups, values, filter, total, |group, value| {
            if let Some(total) = totals.get_mut(group) {
                match total.add_checked(value) {
                    Ok(sum) => *total = sum,
                    Err(_) => fits = false,
                }
            }
        });
        if fits { Ok(()) } else { Err(overflow(&self.data_type)) }
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let totals = emit_to.take_needed(&mut self.totals);
        let nulls = self.seen.build(emit_to);
        if totals.iter().any(|total| !T::fits(*total, &self.data_type)) {
            return Err(overflow(&self.data_type));
        }
        let sums = PrimitiveArray::<T>::new(totals.into(), nulls);
        Ok(Arc::new(sums.with_data_type(self.data_type.clone())))
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
        let values: ArrayRef = Arc::new(values::<T>(arrays)?.clone());
        let values = match filter {
            None => values,
            Some(filter) => {
                // What does not pass is NULL.
                let dropped = not(&prep_null_mask_filter(filter))?;
                nullif(&values, &dropped)?
            }
        };
        Ok(vec![cast(&values, &self.data_type)?])
    }

    fn size(&self) -> usize {
        self.totals.capacity() * size_of::<T::Native>() + self.seen.size()
    }
}

#[cfg(test)]
mod tests {
    use super::function;
    use arrow::array::{ArrayRef, BooleanArray, Decimal128Array, Int64Array};
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
    use datafusion::physical_expr::aggregate::AggregateExprBuilder;
    use datafusion::physical_expr::expressions::col;
    use std::sync::Arc;

    fn groups(data_type: DataType) -> Box<dyn GroupsAccumulator> {
        let schema = Arc::new(Schema::new(vec![Field::new("v", data_type, true)]));
        let argument = col("v", &schema).unwrap();
        let sum = AggregateExprBuilder::new(function(), vec![argument]).schema(schema).alias("s");
        sum.build().unwrap().create_groups_accumulator().unwrap()
    }

    fn decimals(units: &[i64]) -> ArrayRef {
        let scaled = units.iter().map(|unit| i128::from(*unit) * 10_i128.pow(18));
        let values = Decimal128Array::from_iter_values(scaled);
        Arc::new(values.with_precision_and_scale(38, 18).unwrap())
    }

    #[test]
    fn a_decimal_sum_that_overflows_ends_the_batch() {
        // Case B19: nine times 10^19 fits 38 digits with 18 behind the point, twelve times not.
        let big = 10_i64.pow(18);
        let tens = |count: usize| decimals(&vec![big; count * 10]);
        let mut first = groups(DataType::Decimal128(38, 18));
        first.update_batch(&[tens(9)], &[0; 90], None, 1).unwrap();
        let state = first.state(EmitTo::All).unwrap();
        let mut second = groups(DataType::Decimal128(38, 18));
        second.merge_batch(&state, &[0], 1).unwrap();
        second.update_batch(&[tens(3)], &[0; 30], None, 1).unwrap();
        let error = second.state(EmitTo::All).unwrap_err().to_string();
        assert!(error.contains("[ARITHMETIC_OVERFLOW]"), "{error}");
    }

    #[test]
    fn a_whole_sum_that_overflows_is_an_error_and_not_a_wrapped_number() {
        let mut sum = groups(DataType::Int64);
        let values: ArrayRef = Arc::new(Int64Array::from(vec![i64::MAX, 1, 1]));
        let error = sum.update_batch(&[values], &[0, 1, 0], None, 2).unwrap_err().to_string();
        assert!(error.contains("BIGINT"), "{error}");
    }

    #[test]
    fn rows_that_a_filter_drops_are_null_in_partial_state() {
        let sum = groups(DataType::Int64);
        let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), None, Some(4)]));
        let filter = BooleanArray::from(vec![Some(true), Some(false), Some(true), None]);
        let state = sum.convert_to_state(&[values], Some(&filter)).unwrap();
        let wanted: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, None, None]));
        assert_eq!(state, [wanted]);
    }
}
