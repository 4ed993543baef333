//! `concat` of texts and of arrays.

use arrow::array::{Array, BooleanArray};
use arrow::buffer::NullBuffer;
use arrow::compute::nullif;
use arrow::datatypes::DataType;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

pub(super) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(Concat {
        texts: datafusion_spark::function::string::concat(),
        arrays: datafusion::functions_nested::concat::array_concat_udf(),
        signature: Signature::user_defined(Volatility::Immutable),
    })
}

/// Arrays go to DataFusion's `array_concat`, all else to Spark's `concat` as texts.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Concat {
    texts: Arc<ScalarUDF>,
    arrays: Arc<ScalarUDF>,
    signature: Signature,
}

fn list(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(_) | DataType::LargeList(_))
}

/// Where one of the values is NULL.
fn nulls_of(values: &[ColumnarValue], rows: usize) -> Result<Option<NullBuffer>> {
    let mut nulls = None;
    for value in values {
        nulls = NullBuffer::union(nulls.as_ref(), value.to_array(rows)?.logical_nulls().as_ref());
    }
    Ok(nulls.filter(|nulls| nulls.null_count() > 0))
}

impl ScalarUDFImpl for Concat {
    fn name(&self) -> &str {
        "concat"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        if !arguments.iter().any(list) {
            return Ok(vec![DataType::Utf8; arguments.len()]);
        }
        if arguments.iter().all(|data_type| list(data_type) || data_type.is_null()) {
            return Ok(arguments.to_vec());
        }
        Err(DataFusionError::Plan("concat takes texts or arrays, not both".to_owned()))
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments.iter().find(|data_type| list(data_type)) {
            Some(list) => Ok(list.clone()),
            None => Ok(DataType::Utf8),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let wanted = arguments.return_field.data_type().clone();
        if list(&wanted) {
            // `array_concat` names the elements in its own way, whatever it promised.
            let rows = arguments.number_rows;
            let nulls = nulls_of(&arguments.args, rows)?;
            let joined = self.arrays.inner().invoke_with_args(arguments)?.cast_to(&wanted, None)?;
            let Some(nulls) = nulls else { return Ok(joined) };
            let hidden = BooleanArray::new(!nulls.inner(), None);
            return Ok(ColumnarValue::Array(nullif(&joined.to_array(rows)?, &hidden)?));
        }
        self.texts.invoke_with_args(arguments)
    }
}
