//! The order of floats: Spark knows one NaN, above all numbers, and one zero. Arrow's order tells the
//! bits apart, and the processor makes NaNs with a sign (`inf - inf`), which come first there.

use crate::failure;
use arrow::array::{Array, ArrayRef, AsArray, Float32Array, Float64Array, ListArray};
use arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use onefold_operators::normalise;
use std::sync::{Arc, LazyLock};

/// The function that stands around values that are sorted or compared.
const ORDER: &str = "float_order";

/// Functions that compare their arguments, or the elements of these.
const COMPARING: [&str; 4] = ["greatest", "least", "array_max", "array_min"];

/// Puts these functions in the place of those that are registered.
pub(super) fn register(registry: &mut dyn FunctionRegistry) -> onefold_types::Result<()> {
    for name in COMPARING {
        if let Ok(inner) = registry.udf(name) {
            let function = ScalarUDF::new_from_impl(Comparing { inner });
            registry.register_udf(Arc::new(function)).map_err(failure::planning)?;
        }
    }
    Ok(())
}

/// Whether values of a type have floats in them.
pub(crate) fn has_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            has_floats(item.data_type())
        }
        other => other.is_floating(),
    }
}

/// What to sort by, or compare, in the place of an expression with floats.
pub(crate) fn in_order(expr: Expr) -> Expr {
    match &expr {
        Expr::Literal(value, metadata) => {
            let normal = value.to_array().and_then(|array| normalise(&array));
            if let Ok(normal) = normal.and_then(|array| ScalarValue::try_from_array(&array, 0)) {
                return Expr::Literal(normal, metadata.clone());
            }
        }
        Expr::ScalarFunction(call) if call.func.name() == ORDER => return expr,
        _ => {}
    }
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::new_from_impl(Order::default())));
    FUNCTION.call(vec![expr])
}

/// Whether [`in_order`] stands around it, or it is a value in order already.
pub(crate) fn is_in_order(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => {
            let same = value
                .to_array()
                .and_then(|array| Ok(normalise(&array)?.to_data() == array.to_data()));
            same.unwrap_or(false)
        }
        Expr::ScalarFunction(call) => call.func.name() == ORDER,
        _ => false,
    }
}

/// Whether a value is written in one way only: neither zero nor NaN.
pub(crate) fn is_plain(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float32(Some(value)) => !value.is_nan() && *value != 0.0,
        ScalarValue::Float64(Some(value)) => !value.is_nan() && *value != 0.0,
        _ => false,
    }
}

fn each(
    value: &ColumnarValue,
    change: impl Fn(&ArrayRef) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    Ok(match value {
        ColumnarValue::Array(array) => ColumnarValue::Array(change(array)?),
        ColumnarValue::Scalar(scalar) => {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&change(&scalar.to_array()?)?, 0)?)
        }
    })
}

/// Every NaN as the one that comes last. Zeros keep their sign, since the value itself may be the
/// result: which of two equal ones that is does not matter.
fn one_nan(column: &ArrayRef) -> Result<ArrayRef> {
    Ok(match column.data_type() {
        DataType::Float32 => {
            let floats: Float32Array = column
                .as_primitive::<Float32Type>()
                .unary(|value| if value.is_nan() { f32::NAN } else { value });
            Arc::new(floats)
        }
        DataType::Float64 => {
            let floats: Float64Array = column
                .as_primitive::<Float64Type>()
                .unary(|value| if value.is_nan() { f64::NAN } else { value });
            Arc::new(floats)
        }
        DataType::List(field) if has_floats(field.data_type()) => {
            let list = column.as_list::<i32>();
            Arc::new(ListArray::try_new(
                Arc::clone(field),
                list.offsets().clone(),
                one_nan(list.values())?,
                list.nulls().cloned(),
            )?)
        }
        _ => Arc::clone(column),
    })
}

/// A function that compares, over floats whose NaNs are one.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Comparing {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Comparing {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        for value in &mut args.args {
            if has_floats(&value.data_type()) {
                *value = each(value, one_nan)?;
            }
        }
        self.inner.invoke_with_args(args)
    }
}

/// The value as it is sorted.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Order {
    signature: Signature,
}

impl Default for Order {
    fn default() -> Self {
        Order { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Order {
    fn name(&self) -> &str {
        ORDER
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let wrong = || DataFusionError::Internal("float_order takes one argument".to_owned());
        types.first().cloned().ok_or_else(wrong)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let wrong = || DataFusionError::Internal("float_order takes one argument".to_owned());
        each(args.args.first().ok_or_else(wrong)?, normalise)
    }
}
