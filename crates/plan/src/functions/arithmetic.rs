//! Arithmetic on whole numbers that notices an overflow, and division into doubles.

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::compute::kernels::numeric;
use arrow::datatypes::{DataType, Float64Type};
use arrow::error::ArrowError;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

pub(super) fn functions() -> Vec<ScalarUDF> {
    [
        Operation::Add,
        Operation::Subtract,
        Operation::Multiply,
        Operation::Divide,
        Operation::TryAdd,
        Operation::TrySubtract,
        Operation::TryMultiply,
        Operation::TryDivide,
    ]
    .into_iter()
    .map(|operation| ScalarUDF::new_from_impl(Arithmetic::new(operation)))
    .collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    TryAdd,
    TrySubtract,
    TryMultiply,
    TryDivide,
}

/// `left op right` for two columns of one type: whole numbers, or doubles for the divisions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Arithmetic {
    operation: Operation,
    signature: Signature,
}

impl Arithmetic {
    pub(super) fn new(operation: Operation) -> Self {
        let signature = match operation {
            Operation::Divide | Operation::TryDivide => {
                Signature::uniform(2, vec![DataType::Float64], Volatility::Immutable)
            }
            _ => Signature::uniform(
                2,
                vec![
                    DataType::Int8,
                    DataType::Int16,
                    DataType::Int32,
                    DataType::Int64,
                    DataType::Float64,
                ],
                Volatility::Immutable,
            ),
        };
        Arithmetic { operation, signature }
    }
}

impl ScalarUDFImpl for Arithmetic {
    fn name(&self) -> &str {
        match self.operation {
            Operation::Add => "spark_add",
            Operation::Subtract => "spark_subtract",
            Operation::Multiply => "spark_multiply",
            Operation::Divide => "spark_divide",
            Operation::TryAdd => "try_add",
            Operation::TrySubtract => "try_subtract",
            Operation::TryMultiply => "try_multiply",
            Operation::TryDivide => "try_divide",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments.first().cloned().unwrap_or(DataType::Null))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = arguments.args.as_slice() else {
            return Err(DataFusionError::Internal(format!("{} takes two values", self.name())));
        };
        let both_single =
            matches!((left, right), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if both_single { 1 } else { arguments.number_rows };
        let (left, right) = (left.to_array(rows)?, right.to_array(rows)?);
        let result = self.operation.apply(&left, &right)?;
        if both_single {
            let value = datafusion::common::ScalarValue::try_from_array(&result, 0)?;
            return Ok(ColumnarValue::Scalar(value));
        }
        Ok(ColumnarValue::Array(result))
    }
}

impl Operation {
    fn apply(self, left: &ArrayRef, right: &ArrayRef) -> Result<ArrayRef> {
        match self {
            Operation::Add => strict(numeric::add(left, right), "try_add"),
            Operation::Subtract => strict(numeric::sub(left, right), "try_subtract"),
            Operation::Multiply => strict(numeric::mul(left, right), "try_multiply"),
            Operation::Divide => divide(left, right, false),
            Operation::TryDivide => divide(left, right, true),
            Operation::TryAdd => lenient(left, right, numeric::add),
            Operation::TrySubtract => lenient(left, right, numeric::sub),
            Operation::TryMultiply => lenient(left, right, numeric::mul),
        }
    }
}

fn strict(result: Result<ArrayRef, ArrowError>, instead: &str) -> Result<ArrayRef> {
    result.map_err(|error| match error {
        ArrowError::ArithmeticOverflow(what) => DataFusionError::Execution(format!(
            "[ARITHMETIC_OVERFLOW] {what}; use {instead} to get NULL instead, or cast to a wider \
             type"
        )),
        other => other.into(),
    })
}

/// Row by row, only where the whole column does not pass.
fn lenient(
    left: &ArrayRef,
    right: &ArrayRef,
    apply: fn(&dyn arrow::array::Datum, &dyn arrow::array::Datum) -> Result<ArrayRef, ArrowError>,
) -> Result<ArrayRef> {
    if let Ok(all) = apply(left, right) {
        return Ok(all);
    }
    let null = arrow::array::new_null_array(left.data_type(), 1);
    let rows: Vec<ArrayRef> = (0..left.len())
        .map(|row| {
            let one = apply(&left.slice(row, 1), &right.slice(row, 1));
            one.unwrap_or_else(|_| Arc::clone(&null))
        })
        .collect();
    let rows: Vec<&dyn Array> = rows.iter().map(AsRef::as_ref).collect();
    Ok(arrow::compute::concat(&rows)?)
}

fn divide(left: &ArrayRef, right: &ArrayRef, lenient: bool) -> Result<ArrayRef> {
    let (left, right) = (left.as_primitive::<Float64Type>(), right.as_primitive::<Float64Type>());
    let mut by_zero = false;
    let quotients: Float64Array = left
        .iter()
        .zip(right)
        .map(|pair| match pair {
            (Some(_), Some(0.0)) => {
                by_zero = true;
                None
            }
            (Some(left), Some(right)) => Some(left / right),
            _ => None,
        })
        .collect();
    if by_zero && !lenient {
        return Err(DataFusionError::Execution(
            "[DIVIDE_BY_ZERO] division by zero; use try_divide to get NULL instead".to_owned(),
        ));
    }
    Ok(Arc::new(quotients))
}
