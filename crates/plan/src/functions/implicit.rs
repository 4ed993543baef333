//! Functions whose arguments Spark casts where their types ask for it: `date_add` of a timestamp or
//! a text, `upper` of a number.

use crate::failure;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use std::sync::Arc;

/// Functions that take a date first, and refuse a timestamp and a text.
const OF_DATES: [&str; 6] = ["date_add", "date_sub", "add_months", "last_day", "next_day", "trunc"];

/// Functions that take texts and refuse numbers and times, with the places of the texts.
const OF_TEXTS: [(&str, &[usize]); 20] = [
    ("upper", &[0]),
    ("lower", &[0]),
    ("btrim", &[0, 1]),
    ("ltrim", &[0, 1]),
    ("rtrim", &[0, 1]),
    ("substring", &[0]),
    ("substr", &[0]),
    ("left", &[0]),
    ("right", &[0]),
    ("lpad", &[0, 2]),
    ("rpad", &[0, 2]),
    ("repeat", &[0]),
    ("replace", &[0, 1, 2]),
    ("translate", &[0, 1, 2]),
    ("initcap", &[0]),
    ("ascii", &[0]),
    ("starts_with", &[0, 1]),
    ("ends_with", &[0, 1]),
    ("contains", &[0, 1]),
    ("regexp_replace", &[0]),
];

/// Puts these functions in the place of those that are registered.
pub(super) fn register(registry: &mut dyn FunctionRegistry) -> onefold_types::Result<()> {
    let dates = OF_DATES.map(|name| (name, Casts::ToDate));
    let texts = OF_TEXTS.map(|(name, places)| (name, Casts::ToText(places)));
    for (name, casts) in dates.into_iter().chain(texts) {
        if let Ok(inner) = registry.udf(name) {
            let function = Arc::new(with(inner, casts));
            registry.register_udf(function).map_err(failure::planning)?;
        }
    }
    Ok(())
}

fn with(inner: Arc<ScalarUDF>, casts: Casts) -> ScalarUDF {
    let signature = Signature::user_defined(inner.signature().volatility);
    ScalarUDF::new_from_impl(Implicit { inner, casts, signature })
}

/// `substring`, which has a syntax of its own and so is planned without being looked up.
pub(super) fn substring(arguments: Vec<Expr>) -> Expr {
    let inner = datafusion_spark::function::string::substring();
    with(inner, Casts::ToText(&[0])).call(arguments)
}

/// What is cast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Casts {
    /// A timestamp or a text in the first place.
    ToDate,
    /// Numbers and times in these places.
    ToText(&'static [usize]),
}

impl Casts {
    fn cast(self, place: usize, data_type: &DataType) -> DataType {
        let text = matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        match self {
            Casts::ToDate
                if place == 0 && (text || matches!(data_type, DataType::Timestamp(..))) =>
            {
                DataType::Date32
            }
            Casts::ToText(places)
                if places.contains(&place)
                    && (data_type.is_numeric()
                        || data_type.is_temporal()
                        || data_type == &DataType::Boolean) =>
            {
                DataType::Utf8
            }
            _ => data_type.clone(),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Implicit {
    inner: Arc<ScalarUDF>,
    casts: Casts,
    signature: Signature,
}

impl ScalarUDFImpl for Implicit {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The planner puts the casts there.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let fields: Vec<FieldRef> = types
            .iter()
            .enumerate()
            .map(|(place, data_type)| {
                Arc::new(Field::new("argument", self.casts.cast(place, data_type), true))
            })
            .collect();
        let fields = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(fields.iter().map(|field| field.data_type().clone()).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.inner.invoke_with_args(args)
    }
}
