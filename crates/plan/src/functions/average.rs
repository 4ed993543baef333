//! `avg`: of a `DECIMAL(p, s)` a `DECIMAL(p + 4, s + 4)`, rounded half up, as in Spark; of any other
//! number a `DOUBLE`.

use arrow::array::{ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL128_MAX_SCALE, DataType, Decimal128Type, DecimalType, Field,
    FieldRef, Float64Type, Int64Type, i256,
};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature,
    Volatility,
};
use std::collections::VecDeque;
use std::sync::Arc;

pub(super) fn function() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(Average {
        signature: Signature::user_defined(Volatility::Immutable),
        plain: datafusion_spark::function::aggregate::avg(),
    }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Average {
    signature: Signature,
    /// That of doubles.
    plain: Arc<AggregateUDF>,
}

fn one_argument(types: &[DataType]) -> Result<&DataType> {
    match types {
        [argument] => Ok(argument),
        _ => Err(DataFusionError::Plan("avg takes one argument".to_owned())),
    }
}

/// The type of the sum that an average of such values keeps.
fn sum_type(value: &DataType) -> Option<DataType> {
    match value {
        DataType::Decimal128(precision, scale) => {
            let precision = precision.saturating_add(10).min(DECIMAL128_MAX_PRECISION);
            Some(DataType::Decimal128(precision, *scale))
        }
        _ => None,
    }
}

impl AggregateUDFImpl for Average {
    fn name(&self) -> &str {
        "avg"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(vec![match one_argument(types)? {
            DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
                DataType::Decimal128(*precision, *scale)
            }
            DataType::Decimal128(precision, scale) => DataType::Decimal128(*precision, *scale),
            // Text is read as a number, as Spark does.
            DataType::Null | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                DataType::Float64
            }
            other if other.is_numeric() => DataType::Float64,
            other => {
                return Err(DataFusionError::Plan(format!("avg of {other} is not possible")));
            }
        }])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match one_argument(types)? {
            DataType::Decimal128(precision, scale) => DataType::Decimal128(
                precision.saturating_add(4).min(DECIMAL128_MAX_PRECISION),
                scale.saturating_add(4).min(DECIMAL128_MAX_SCALE),
            ),
            _ => DataType::Float64,
        })
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let value = args.input_fields.first().map(|field| field.data_type());
        let Some(sum) = value.and_then(sum_type) else { return self.plain.state_fields(args) };
        Ok(vec![
            Arc::new(Field::new(format_state_name(args.name, "sum"), sum, true)),
            Arc::new(Field::new(format_state_name(args.name, "count"), DataType::Int64, true)),
        ])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let value = args.exprs.first().map(|value| value.data_type(args.schema)).transpose()?;
        let Some(sum_type) = value.as_ref().and_then(sum_type) else {
            return self.plain.accumulator(args);
        };
        if args.is_distinct {
            return Err(DataFusionError::Plan("avg(DISTINCT …) is not supported".to_owned()));
        }
        let result_type = args.return_field.data_type().clone();
        Ok(Box::new(DecimalAverage { sum: 0, count: 0, sum_type, result_type }))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        args.return_field.data_type() == &DataType::Float64
            && self.plain.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.plain.create_groups_accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let value = args.exprs.first().map(|value| value.data_type(args.schema)).transpose()?;
        match value.as_ref().and_then(sum_type) {
            Some(_) => self.accumulator(args),
            None => Ok(Box::new(MovingAverage::default())),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// The average of doubles over a window of rows that moves, added up anew each time: what a double
/// lost to rounding cannot be given back.
#[derive(Debug, Default)]
struct MovingAverage {
    held: VecDeque<Option<f64>>,
}

fn doubles(arrays: &[ArrayRef]) -> Result<&Float64Array> {
    arrays.first().and_then(|it| it.as_primitive_opt::<Float64Type>()).ok_or_else(lacking)
}

impl Accumulator for MovingAverage {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        self.held.extend(doubles(arrays)?.iter());
        Ok(())
    }

    fn retract_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        let gone = doubles(arrays)?.len().min(self.held.len());
        self.held.drain(..gone);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let there = || self.held.iter().flatten();
        let count = there().count();
        // A count of rows in memory is exact in a double.
        #[allow(clippy::cast_precision_loss, reason = "fewer than 2^53")]
        let average = (count > 0).then(|| there().sum::<f64>() / count as f64);
        Ok(ScalarValue::Float64(average))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.held.capacity() * size_of::<Option<f64>>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Err(DataFusionError::Internal("a moving average is not merged".to_owned()))
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        Err(DataFusionError::Internal("a moving average is not merged".to_owned()))
    }
}

#[derive(Debug)]
struct DecimalAverage {
    /// In units of the values' scale.
    sum: i128,
    count: i64,
    sum_type: DataType,
    result_type: DataType,
}

impl DecimalAverage {
    fn add(&mut self, sum: i128, count: i64) -> Result<()> {
        let total = self.sum.checked_add(sum).filter(|total| match self.sum_type {
            DataType::Decimal128(precision, _) => {
                Decimal128Type::is_valid_decimal_precision(*total, precision)
            }
            _ => false,
        });
        self.sum = total.ok_or_else(|| overflow(&self.sum_type))?;
        self.count += count;
        Ok(())
    }

    /// The sum over the count in the result's scale.
    fn result(&self) -> Option<i128> {
        let (DataType::Decimal128(_, from), DataType::Decimal128(precision, to)) =
            (&self.sum_type, &self.result_type)
        else {
            return None;
        };
        let shift = u32::try_from(to.checked_sub(*from)?).ok()?;
        let scaled = i256::from_i128(self.sum).checked_mul(i256::from_i128(10_i128.pow(shift)))?;
        let count = i256::from_i128(i128::from(self.count));
        let (whole, rest) = (scaled.checked_div(count)?, scaled.checked_rem(count)?);
        let twice = rest.wrapping_abs().checked_mul(i256::from_i128(2))?;
        let away = i256::from_i128(i128::from(twice >= count) * self.sum.signum());
        let result = whole.checked_add(away)?.to_i128()?;
        Decimal128Type::is_valid_decimal_precision(result, *precision).then_some(result)
    }
}

fn overflow(data_type: &DataType) -> DataFusionError {
    DataFusionError::Execution(format!(
        "[ARITHMETIC_OVERFLOW] the sum of an average does not fit {}; cast the values to DOUBLE",
        crate::schema::type_name(data_type)
    ))
}

fn lacking() -> DataFusionError {
    DataFusionError::Internal("avg got no column of its type".to_owned())
}

impl Accumulator for DecimalAverage {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        let values = arrays.first().and_then(|it| it.as_primitive_opt::<Decimal128Type>());
        for value in values.ok_or_else(lacking)?.iter().flatten() {
            self.add(value, 1)?;
        }
        Ok(())
    }

    fn retract_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        let values = arrays.first().and_then(|it| it.as_primitive_opt::<Decimal128Type>());
        for value in values.ok_or_else(lacking)?.iter().flatten() {
            self.add(-value, -1)?;
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [sums, counts] = states else { return Err(lacking()) };
        let sums = sums.as_primitive_opt::<Decimal128Type>().ok_or_else(lacking)?;
        let counts = counts.as_primitive_opt::<Int64Type>().ok_or_else(lacking)?;
        for (sum, count) in sums.iter().zip(counts) {
            if let (Some(sum), Some(count)) = (sum, count) {
                self.add(sum, count)?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sum = ScalarValue::new_primitive::<Decimal128Type>(Some(self.sum), &self.sum_type)?;
        Ok(vec![sum, ScalarValue::Int64(Some(self.count))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.count == 0 {
            return ScalarValue::try_from(&self.result_type);
        }
        let result = self.result().ok_or_else(|| overflow(&self.result_type))?;
        ScalarValue::new_primitive::<Decimal128Type>(Some(result), &self.result_type)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

#[cfg(test)]
mod tests {
    use super::DecimalAverage;
    use arrow::array::{ArrayRef, Decimal128Array};
    use arrow::datatypes::DataType;
    use datafusion::common::ScalarValue;
    use datafusion::logical_expr::Accumulator;
    use std::sync::Arc;

    fn average(values: &[i128]) -> ScalarValue {
        let mut average = DecimalAverage {
            sum: 0,
            count: 0,
            sum_type: DataType::Decimal128(20, 2),
            result_type: DataType::Decimal128(14, 6),
        };
        let values = Decimal128Array::from_iter_values(values.iter().copied());
        let values: ArrayRef = Arc::new(values.with_precision_and_scale(10, 2).unwrap());
        average.update_batch(&[values]).unwrap();
        average.evaluate().unwrap()
    }

    #[test]
    fn an_average_of_decimals_has_four_more_places_and_rounds_half_up() {
        let decimal = |value| ScalarValue::Decimal128(value, 14, 6);
        assert_eq!(average(&[]), decimal(None));
        assert_eq!(average(&[125, 250]), decimal(Some(1_875_000)));
        assert_eq!(average(&[1, 1, 0]), decimal(Some(6_667)));
        assert_eq!(average(&[-1, -1, 0]), decimal(Some(-6_667)));
        assert_eq!(average(&[1, 0, 0]), decimal(Some(3_333)));
    }
}
