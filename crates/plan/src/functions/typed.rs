//! A scalar function whose type depends on the types of its arguments, from plain Rust functions.

use super::zone::Zone;
use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The type of the result.
pub(super) type Returns = fn(&[DataType]) -> Option<DataType>;
/// What computes a column of that type from the argument columns.
pub(super) type Body = fn(&[ArrayRef], &DataType) -> Result<ArrayRef>;

/// A function of `least` to `most` values.
pub(super) struct Typed {
    pub(super) name: &'static str,
    pub(super) least: usize,
    pub(super) most: usize,
    pub(super) returns: Returns,
    pub(super) body: Body,
}

impl Typed {
    pub(super) fn udf(self) -> ScalarUDF {
        self.with(Volatility::Immutable)
    }

    /// For a function that raises an error on purpose: it is not called when planning.
    pub(super) fn with(self, volatility: Volatility) -> ScalarUDF {
        let signature = match self.most {
            0 => Signature::nullary(volatility),
            _ => Signature::variadic_any(volatility),
        };
        ScalarUDF::new_from_impl(TypedFunction { typed: self, signature })
    }
}

struct TypedFunction {
    typed: Typed,
    signature: Signature,
}

impl std::fmt::Debug for TypedFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.typed.name)
    }
}

// A name is given once, so it stands for the function.
impl PartialEq for TypedFunction {
    fn eq(&self, other: &Self) -> bool {
        self.typed.name == other.typed.name
    }
}

impl Eq for TypedFunction {}

impl Hash for TypedFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.typed.name.hash(state);
    }
}

impl ScalarUDFImpl for TypedFunction {
    fn name(&self) -> &str {
        self.typed.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let (name, count) = (self.typed.name, types.len());
        if count < self.typed.least || count > self.typed.most {
            return Err(DataFusionError::Plan(format!(
                "[WRONG_NUM_ARGS.WITHOUT_SUGGESTION] {name} does not take {count} arguments"
            )));
        }
        (self.typed.returns)(types).ok_or_else(|| {
            let types: Vec<String> = types.iter().map(crate::schema::type_name).collect();
            DataFusionError::Plan(format!(
                "[DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE] there is no {name}({})",
                types.join(", ")
            ))
        })
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> =
            arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { arguments.number_rows };
        let columns =
            arguments.args.iter().map(|value| value.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let result = (self.typed.body)(&columns, arguments.return_field.data_type())?;
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}

/// A column as another type, cast as Spark's implicit casts do; texts of times are read as in UTC.
pub(super) fn as_type(column: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    super::cast::cast_array(column, to, false, &Zone::utc())
}

/// An argument as a column of a type, cast as Spark's implicit casts do.
pub(super) fn argument(columns: &[ArrayRef], place: usize, to: &DataType) -> Result<ArrayRef> {
    let column = columns
        .get(place)
        .ok_or_else(|| DataFusionError::Internal("an argument is missing".to_owned()))?;
    match column.data_type() == to {
        true => Ok(Arc::clone(column)),
        false => crate::functions::typed::as_type(column, to),
    }
}
