//! A field of a struct by its place, for rows whose fields get other names.

use arrow::array::{Array, ArrayRef, AsArray, make_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use std::sync::Arc;

/// What the planner calls it.
pub(crate) const NAME: &str = "spark_nth_field";

pub(super) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(NthField { signature: Signature::any(2, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NthField {
    signature: Signature,
}

fn no_field() -> DataFusionError {
    DataFusionError::Plan(
        "[NUM_COLUMNS_MISMATCH] the generator makes fewer columns than names are given".to_owned(),
    )
}

fn place(place: Option<&ScalarValue>) -> Option<usize> {
    match place? {
        ScalarValue::Int64(place) => usize::try_from((*place)?).ok(),
        ScalarValue::Int32(place) => usize::try_from((*place)?).ok(),
        _ => None,
    }
}

fn field(row: &DataType, place: Option<&ScalarValue>) -> Result<(usize, FieldRef)> {
    let DataType::Struct(fields) = row else { return Err(no_field()) };
    let at = self::place(place).ok_or_else(no_field)?;
    Ok((at, Arc::clone(fields.get(at).ok_or_else(no_field)?)))
}

impl ScalarUDFImpl for NthField {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Err(DataFusionError::Internal("the type depends on the place of the field".to_owned()))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let row = arguments.arg_fields.first().ok_or_else(no_field)?;
        let place = arguments.scalar_arguments.get(1).copied().flatten();
        let (_, field) = field(row.data_type(), place)?;
        let nullable = field.is_nullable() || row.is_nullable();
        Ok(Arc::new(Field::new(field.name(), field.data_type().clone(), nullable)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [row, ColumnarValue::Scalar(place)] = arguments.args.as_slice() else {
            return Err(no_field());
        };
        let row = row.to_array(arguments.number_rows)?;
        let (at, _) = field(row.data_type(), Some(place))?;
        let rows = row.as_struct_opt().ok_or_else(no_field)?;
        let values: &ArrayRef = rows.columns().get(at).ok_or_else(no_field)?;
        // NULL where the row is.
        let nulls = NullBuffer::union(values.nulls(), rows.nulls());
        let data = values.to_data().into_builder().nulls(nulls).build()?;
        Ok(ColumnarValue::Array(make_array(data)))
    }
}
