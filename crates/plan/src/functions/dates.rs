//! Functions of dates that take timestamps too, as Spark's implicit casts have it.

use crate::failure;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use std::sync::Arc;

/// Functions of `datafusion-spark` that take a date and refuse a timestamp.
const OF_DATES: [&str; 6] = ["date_add", "date_sub", "add_months", "last_day", "next_day", "trunc"];

/// Puts these functions in the place of those that are registered.
pub(super) fn register(registry: &mut dyn FunctionRegistry) -> onefold_types::Result<()> {
    for name in OF_DATES {
        if let Ok(inner) = registry.udf(name) {
            let signature = Signature::user_defined(Volatility::Immutable);
            let function = ScalarUDF::new_from_impl(OfDates { inner, signature });
            registry.register_udf(Arc::new(function)).map_err(failure::planning)?;
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfDates {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for OfDates {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// A timestamp becomes its date by a cast that the planner puts there.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let fields: Vec<FieldRef> = types
            .iter()
            .map(|data_type| {
                let date = matches!(data_type, DataType::Timestamp(..));
                let data_type = if date { DataType::Date32 } else { data_type.clone() };
                Arc::new(Field::new("argument", data_type, true))
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
