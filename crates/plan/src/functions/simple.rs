//! A scalar function from a plain Rust function over columns.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use std::hash::{Hash, Hasher};

use super::cast::cast_array;

/// What computes a column from the argument columns.
pub(super) type Body = fn(&[ArrayRef]) -> Result<ArrayRef>;

/// A function that takes `arguments.len()` values, the last `optional` of which may be left out;
/// each is cast to its type as Spark's implicit casts do (`None`: taken as it is).
pub(super) struct Simple {
    pub(super) name: &'static str,
    pub(super) arguments: &'static [Option<DataType>],
    pub(super) optional: usize,
    pub(super) returns: DataType,
    pub(super) body: Body,
}

impl Simple {
    pub(super) fn udf(self) -> ScalarUDF {
        let most = self.arguments.len();
        let counts = (most - self.optional..=most).map(|count| match count {
            0 => TypeSignature::Nullary,
            count => TypeSignature::Any(count),
        });
        let signature = Signature::one_of(counts.collect(), Volatility::Immutable);
        ScalarUDF::new_from_impl(SimpleFunction { simple: self, signature })
    }
}

struct SimpleFunction {
    simple: Simple,
    signature: Signature,
}

impl std::fmt::Debug for SimpleFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.simple.name)
    }
}

// A name is given once, so it stands for the function.
impl PartialEq for SimpleFunction {
    fn eq(&self, other: &Self) -> bool {
        self.simple.name == other.simple.name
    }
}

impl Eq for SimpleFunction {}

impl Hash for SimpleFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.simple.name.hash(state);
    }
}

impl ScalarUDFImpl for SimpleFunction {
    fn name(&self) -> &str {
        self.simple.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.simple.returns.clone())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { arguments.number_rows };
        let columns = arguments
            .args
            .iter()
            .zip(self.simple.arguments)
            .map(|(value, wanted)| {
                let column = value.to_array(rows)?;
                match wanted {
                    Some(wanted) if column.data_type() != wanted => {
                        cast_array(&column, wanted, false)
                    }
                    _ => Ok(column),
                }
            })
            .collect::<Result<Vec<_>>>()?;
        let result = (self.simple.body)(&columns)?;
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}
