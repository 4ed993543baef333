//! `typeof`, `raise_error` and `assert_true`.

use super::typed::{Typed, argument};
use arrow::array::{Array, ArrayRef, AsArray, StringArray, new_null_array};
use arrow::datatypes::DataType;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{ScalarUDF, Volatility};
use std::sync::Arc;

pub(super) fn functions() -> Vec<ScalarUDF> {
    let null: fn(&[DataType]) -> Option<DataType> = |_| Some(DataType::Null);
    vec![
        Typed {
            name: "typeof",
            least: 1,
            most: 1,
            returns: |_| Some(DataType::Utf8),
            body: type_of,
        }
        .udf(),
        Typed { name: "raise_error", least: 1, most: 2, returns: null, body: raise }
            .with(Volatility::Volatile),
        Typed { name: "assert_true", least: 1, most: 2, returns: null, body: assert }
            .with(Volatility::Volatile),
    ]
}

fn type_of(columns: &[ArrayRef], _: &DataType) -> Result<ArrayRef> {
    let (name, rows) = columns.first().map_or((String::new(), 0), |column| {
        (crate::schema::short_name(column.data_type()), column.len())
    });
    Ok(Arc::new(StringArray::from_iter_values(std::iter::repeat_n(name, rows))))
}

fn raised(text: &str) -> DataFusionError {
    DataFusionError::Execution(format!("[USER_RAISED_EXCEPTION] {text}"))
}

fn raise(columns: &[ArrayRef], _: &DataType) -> Result<ArrayRef> {
    let texts = argument(columns, 0, &DataType::Utf8)?;
    match texts.len() {
        0 => Ok(new_null_array(&DataType::Null, 0)),
        _ if texts.is_null(0) => Err(raised("null")),
        _ => Err(raised(texts.as_string::<i32>().value(0))),
    }
}

fn assert(columns: &[ArrayRef], _: &DataType) -> Result<ArrayRef> {
    let holds = argument(columns, 0, &DataType::Boolean)?;
    let holds = holds.as_boolean();
    let Some(row) = (0..holds.len()).find(|&row| holds.is_null(row) || !holds.value(row)) else {
        return Ok(new_null_array(&DataType::Null, holds.len()));
    };
    if columns.len() < 2 {
        return Err(raised("the condition of assert_true does not hold"));
    }
    let texts = argument(columns, 1, &DataType::Utf8)?;
    Err(raised(if texts.is_null(row) { "null" } else { texts.as_string::<i32>().value(row) }))
}
