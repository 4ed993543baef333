//! Sums, differences and products of decimals that have more than 38 digits: Spark gives up digits behind
//! the point, down to six, and keeps those before it. Where 38 are enough the planner's own operators
//! give the same.

use super::decimal_division::{DIGITS_MAX, digits, fitted, wide, within};
use super::typed::Typed;
use arrow::array::{ArrayRef, Decimal128Array};
use arrow::datatypes::{DataType, i256};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ScalarUDF;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::Arc;

pub(super) fn functions() -> Vec<ScalarUDF> {
    let function = |name, returns: fn(&[DataType]) -> Option<DataType>, body| {
        Typed { name, least: 2, most: 2, returns, body }.udf()
    };
    vec![
        function("spark_decimal_add", sum, |columns, to| {
            computed(columns, to, &BinaryOperator::Plus)
        }),
        function("spark_decimal_subtract", sum, |columns, to| {
            computed(columns, to, &BinaryOperator::Minus)
        }),
        function("spark_decimal_multiply", product, |columns, to| {
            computed(columns, to, &BinaryOperator::Multiply)
        }),
    ]
}

/// The function for an operation whose exact result does not fit into 38 digits.
pub(super) fn instead(
    operator: &BinaryOperator,
    left: &DataType,
    right: &DataType,
) -> Option<&'static str> {
    if !left.is_decimal() && !right.is_decimal() {
        return None;
    }
    let (left, right) = (digits(left)?, digits(right)?);
    let (name, (precision, _)) = match operator {
        BinaryOperator::Plus => ("spark_decimal_add", exact_sum(left, right)),
        BinaryOperator::Minus => ("spark_decimal_subtract", exact_sum(left, right)),
        BinaryOperator::Multiply => ("spark_decimal_multiply", exact_product(left, right)),
        _ => return None,
    };
    (precision > DIGITS_MAX).then_some(name)
}

fn exact_sum((p1, s1): (i32, i32), (p2, s2): (i32, i32)) -> (i32, i32) {
    let scale = s1.max(s2);
    ((p1 - s1).max(p2 - s2) + scale + 1, scale)
}

fn exact_product((p1, s1): (i32, i32), (p2, s2): (i32, i32)) -> (i32, i32) {
    (p1 + p2 + 1, s1 + s2)
}

fn sum(types: &[DataType]) -> Option<DataType> {
    let [left, right] = types else { return None };
    within(exact_sum(digits(left)?, digits(right)?))
}

fn product(types: &[DataType]) -> Option<DataType> {
    let [left, right] = types else { return None };
    within(exact_product(digits(left)?, digits(right)?))
}

fn computed(columns: &[ArrayRef], to: &DataType, operator: &BinaryOperator) -> Result<ArrayRef> {
    let ((left, s1), (right, s2)) = (wide(columns, 0)?, wide(columns, 1)?);
    let DataType::Decimal128(precision, scale) = to else {
        return Err(DataFusionError::Internal("a result is not a decimal".to_owned()));
    };
    let common = s1.max(s2);
    let exact = |left: i128, right: i128| -> Option<i128> {
        let (left, right) = (i256::from_i128(left), i256::from_i128(right));
        let (value, own) = match operator {
            BinaryOperator::Multiply => (left.checked_mul(right)?, s1 + s2),
            _ => {
                let (left, right) = (grown(left, common - s1)?, grown(right, common - s2)?);
                let value = match operator {
                    BinaryOperator::Minus => left.checked_sub(right)?,
                    _ => left.checked_add(right)?,
                };
                (value, common)
            }
        };
        fitted(value, grown(i256::ONE, own - i32::from(*scale))?)
    };
    let mut made = Vec::with_capacity(left.len());
    for pair in left.iter().zip(&right) {
        made.push(match pair {
            (Some(left), Some(right)) => Some(exact(left, right).ok_or_else(too_large)?),
            _ => None,
        });
    }
    let made = Decimal128Array::from(made).with_precision_and_scale(*precision, *scale)?;
    made.validate_decimal_precision(*precision).map_err(|_| too_large())?;
    Ok(Arc::new(made))
}

fn too_large() -> DataFusionError {
    DataFusionError::Execution(
        "[NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION] a result has more than 38 digits; cast its \
         operands to decimals with fewer, or to DOUBLE"
            .to_owned(),
    )
}

/// `value * 10^digits`.
fn grown(value: i256, digits: i32) -> Option<i256> {
    let ten = i256::from_i128(10);
    (0..digits).try_fold(value, |value, _| value.checked_mul(ten))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use arrow::datatypes::Decimal128Type;

    fn column(value: i128, precision: u8, scale: i8) -> ArrayRef {
        let column = Decimal128Array::from(vec![value]);
        Arc::new(column.with_precision_and_scale(precision, scale).unwrap())
    }

    #[test]
    fn wide_results_have_sparks_types() {
        let decimal = DataType::Decimal128;
        assert_eq!(sum(&[decimal(38, 18), decimal(38, 18)]), Some(decimal(38, 17)));
        assert_eq!(sum(&[decimal(38, 0), decimal(38, 10)]), Some(decimal(38, 6)));
        assert_eq!(product(&[decimal(38, 18), decimal(38, 18)]), Some(decimal(38, 6)));
        assert_eq!(product(&[decimal(20, 9), decimal(20, 9)]), Some(decimal(38, 15)));
        assert_eq!(instead(&BinaryOperator::Plus, &decimal(10, 2), &decimal(10, 2)), None);
        assert_eq!(instead(&BinaryOperator::Plus, &DataType::Int64, &DataType::Int64), None);
    }

    #[test]
    fn digits_behind_the_point_are_rounded_away_from_zero() {
        let one = |value: i128| column(value, 38, 18);
        let of = |operator: &BinaryOperator,
                  left: i128,
                  right: i128,
                  returns: fn(&[DataType]) -> Option<DataType>| {
            let columns = [one(left), one(right)];
            let types: Vec<DataType> = columns.iter().map(|it| it.data_type().clone()).collect();
            let result = computed(&columns, &returns(&types).unwrap(), operator)?;
            Ok::<_, DataFusionError>(result.as_primitive::<Decimal128Type>().value(0))
        };
        // 1.5 * 1.5 = 2.25, with six digits.
        let half = 1_500_000_000_000_000_000;
        assert_eq!(of(&BinaryOperator::Multiply, half, half, product).unwrap(), 2_250_000);
        // 5e-18 is half of the last digit that is kept.
        assert_eq!(of(&BinaryOperator::Plus, 5, 0, sum).unwrap(), 1);
        assert_eq!(of(&BinaryOperator::Minus, 0, 5, sum).unwrap(), -1);
        assert_eq!(of(&BinaryOperator::Plus, 4, 0, sum).unwrap(), 0);
        let most = 99_999_999_999_999_999_999_999_999_999_999_999_999;
        assert!(of(&BinaryOperator::Multiply, most, most, product).is_err());
    }
}
