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
use super::zone::Zone;

/// What computes a column from the argument columns.
pub(super) type Body = fn(&[ArrayRef]) -> Result<ArrayRef>;
/// What computes a column where the session's zone plays a part.
pub(super) type ZonedBody = fn(&[ArrayRef], &Zone) -> Result<ArrayRef>;

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
        let Simple { name, arguments, optional, returns, body } = self;
        function(name, arguments, optional, returns, AnyBody::Plain(body))
    }
}

/// As [`Simple`], with the session's zone.
pub(super) struct Zoned {
    pub(super) name: &'static str,
    pub(super) arguments: &'static [Option<DataType>],
    pub(super) optional: usize,
    pub(super) returns: DataType,
    pub(super) body: ZonedBody,
}

impl Zoned {
    pub(super) fn udf(self) -> ScalarUDF {
        let Zoned { name, arguments, optional, returns, body } = self;
        function(name, arguments, optional, returns, AnyBody::Zoned(body))
    }
}

fn function(
    name: &'static str,
    arguments: &'static [Option<DataType>],
    optional: usize,
    returns: DataType,
    body: AnyBody,
) -> ScalarUDF {
    let most = arguments.len();
    let counts = (most - optional..=most).map(|count| match count {
        0 => TypeSignature::Nullary,
        count => TypeSignature::Any(count),
    });
    let signature = Signature::one_of(counts.collect(), Volatility::Immutable);
    ScalarUDF::new_from_impl(SimpleFunction { name, arguments, returns, body, signature })
}

enum AnyBody {
    Plain(Body),
    Zoned(ZonedBody),
}

struct SimpleFunction {
    name: &'static str,
    arguments: &'static [Option<DataType>],
    returns: DataType,
    body: AnyBody,
    signature: Signature,
}

impl std::fmt::Debug for SimpleFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

// A name is given once, so it stands for the function.
impl PartialEq for SimpleFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for SimpleFunction {}

impl Hash for SimpleFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for SimpleFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { arguments.number_rows };
        let zone = Zone::of(&arguments.config_options)?;
        let columns = arguments
            .args
            .iter()
            .zip(self.arguments)
            .map(|(value, wanted)| {
                let column = value.to_array(rows)?;
                match wanted {
                    Some(wanted) if column.data_type() != wanted => {
                        cast_array(&column, wanted, false, &zone)
                    }
                    _ => Ok(column),
                }
            })
            .collect::<Result<Vec<_>>>()?;
        let result = match self.body {
            AnyBody::Plain(body) => body(&columns)?,
            AnyBody::Zoned(body) => body(&columns, &zone)?,
        };
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}
