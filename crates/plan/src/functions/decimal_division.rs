//! Division of decimals with Spark's precision and scale.

use super::typed::{Typed, argument};
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use arrow::datatypes::{DataType, Decimal128Type, i256};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;

/// Most digits of a decimal.
pub(super) const DIGITS_MAX: i32 = 38;
/// Digits behind the point that a quotient keeps as long as there is room.
const SCALE_LEAST: i32 = 6;

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![
        Typed {
            name: "spark_decimal_divide",
            least: 2,
            most: 2,
            returns: |types| match types {
                [left, right] => quotient(left, right),
                _ => None,
            },
            body: divide,
        }
        .udf(),
    ]
}

/// A number as a decimal: its digits, and those behind the point.
pub(super) fn digits(data_type: &DataType) -> Option<(i32, i32)> {
    Some(match data_type {
        DataType::Int8 => (3, 0),
        DataType::Int16 => (5, 0),
        DataType::Int32 => (10, 0),
        DataType::Int64 => (20, 0),
        DataType::Decimal128(precision, scale) => (i32::from(*precision), i32::from(*scale)),
        _ => return None,
    })
}

fn quotient(left: &DataType, right: &DataType) -> Option<DataType> {
    let ((p1, s1), (p2, s2)) = (digits(left)?, digits(right)?);
    let scale = SCALE_LEAST.max(s1 + p2 + 1);
    within((p1 - s1 + s2 + scale, scale))
}

/// The decimal for a result of so many digits, and so many of them behind the point: digits before the
/// point go before those behind it, but six of these stay.
pub(super) fn within((precision, scale): (i32, i32)) -> Option<DataType> {
    let (precision, scale) = match precision > DIGITS_MAX {
        true => (DIGITS_MAX, (DIGITS_MAX - (precision - scale)).max(scale.min(SCALE_LEAST))),
        false => (precision, scale),
    };
    Some(DataType::Decimal128(u8::try_from(precision).ok()?, i8::try_from(scale).ok()?))
}

/// An argument as a decimal, and its scale.
pub(super) fn wide(columns: &[ArrayRef], place: usize) -> Result<(Decimal128Array, i32)> {
    let from = columns.get(place).and_then(|column| digits(column.data_type()));
    let (precision, scale) = from.unwrap_or((DIGITS_MAX, 0));
    let decimal = DataType::Decimal128(
        u8::try_from(precision).unwrap_or(38),
        i8::try_from(scale).unwrap_or(0),
    );
    let column = argument(columns, place, &decimal)?;
    Ok((column.as_primitive::<Decimal128Type>().clone(), scale))
}

fn divide(columns: &[ArrayRef], to: &DataType) -> Result<ArrayRef> {
    let ((left, s1), (right, s2)) = (wide(columns, 0)?, wide(columns, 1)?);
    let DataType::Decimal128(precision, scale) = to else {
        return Err(DataFusionError::Internal("a quotient is a decimal".to_owned()));
    };
    let shift = i32::from(*scale) - s1 + s2;
    let mut made = Vec::with_capacity(left.len());
    for pair in left.iter().zip(&right) {
        made.push(match pair {
            (Some(_), Some(0)) => {
                return Err(DataFusionError::Execution(
                    "[DIVIDE_BY_ZERO] division by zero; use try_divide to get NULL instead"
                        .to_owned(),
                ));
            }
            (Some(left), Some(right)) => Some(rounded(left, right, shift).ok_or_else(|| {
                DataFusionError::Execution(
                    "[NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION] a quotient has too many digits"
                        .to_owned(),
                )
            })?),
            _ => None,
        });
    }
    let made = Decimal128Array::from(made).with_precision_and_scale(*precision, *scale)?;
    made.validate_decimal_precision(*precision)?;
    Ok(Arc::new(made))
}

/// `left * 10^shift / right`, halves away from zero.
fn rounded(left: i128, right: i128, shift: i32) -> Option<i128> {
    let ten = i256::from_i128(10);
    let (mut top, mut bottom) = (i256::from_i128(left), i256::from_i128(right));
    for _ in 0..shift.unsigned_abs() {
        if shift > 0 {
            top = top.checked_mul(ten)?;
        } else {
            bottom = bottom.checked_mul(ten)?;
        }
    }
    fitted(top, bottom)
}

/// `top / bottom`, halves away from zero.
pub(super) fn fitted(top: i256, bottom: i256) -> Option<i128> {
    let quotient = top.checked_div(bottom)?;
    let rest = top.checked_sub(quotient.checked_mul(bottom)?)?;
    let double = rest.checked_abs()?.checked_mul(i256::from_i128(2))?;
    let up = double >= bottom.checked_abs()?;
    let negative = |value: i256| value < i256::ZERO;
    let away = if negative(top) == negative(bottom) { i256::ONE } else { i256::MINUS_ONE };
    let quotient = if up { quotient.checked_add(away)? } else { quotient };
    quotient.to_i128()
}

#[cfg(test)]
mod tests {
    use super::{quotient, rounded};
    use arrow::datatypes::DataType;

    #[test]
    fn a_quotient_has_sparks_digits_and_is_rounded_away_from_zero() {
        let decimal = DataType::Decimal128;
        assert_eq!(quotient(&decimal(2, 1), &decimal(3, 2)), Some(decimal(9, 6)));
        assert_eq!(quotient(&decimal(38, 18), &decimal(38, 18)), Some(decimal(38, 6)));
        assert_eq!(rounded(15, 225, 7), Some(666_667));
        assert_eq!(rounded(-1, 2, 0), Some(-1));
        assert_eq!(rounded(1, 3, 2), Some(33));
    }
}
