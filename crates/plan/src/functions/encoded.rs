//! What functions on data in a binary form (Avro, Protocol Buffers) have in common.

use arrow::array::ArrayRef;
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};
use std::collections::BTreeMap;

/// Data that Confluent's serializers write begins with this, and the id of its schema in a registry in
/// four bytes, the most significant first.
pub(super) const CONFLUENT: u8 = 0;
const CONFLUENT_BYTES: usize = 5;

pub(super) fn plan_error(text: impl Into<String>) -> DataFusionError {
    DataFusionError::Plan(text.into())
}

/// What stands behind the id of a schema.
pub(super) fn unframed(data: &[u8]) -> Option<&[u8]> {
    match data.split_at_checked(CONFLUENT_BYTES) {
        Some(([CONFLUENT, ..], body)) => Some(body),
        _ => None,
    }
}

/// The id of the schema that data stands behind.
pub(super) fn schema_id(data: &[u8]) -> Option<u32> {
    match data.split_first_chunk::<CONFLUENT_BYTES>() {
        Some(([CONFLUENT, id @ ..], _)) => Some(u32::from_be_bytes(*id)),
        _ => None,
    }
}

/// The options of a function by their names, from the JSON that the planner makes of a literal map.
pub(super) fn options_of(
    function: &str,
    map: Option<&ScalarValue>,
) -> Result<BTreeMap<String, String>> {
    let Some(map) = map.filter(|map| !map.is_null()) else { return Ok(BTreeMap::new()) };
    serde_json::from_str(map.try_as_str().flatten().unwrap_or_default())
        .map_err(|_| plan_error(format!("the options of {function} are a map of literal texts")))
}

/// The first argument as a column, and whether it is one value.
pub(super) fn first(arguments: &ScalarFunctionArgs) -> Result<(ArrayRef, bool)> {
    let value = arguments.args.first().ok_or_else(|| plan_error("an argument is missing"))?;
    let one = matches!(value, ColumnarValue::Scalar(_));
    Ok((value.to_array(if one { 1 } else { arguments.number_rows })?, one))
}

/// The result in the form of the first argument.
pub(super) fn as_given(result: ArrayRef, one: bool) -> Result<ColumnarValue> {
    Ok(match one {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
        false => ColumnarValue::Array(result),
    })
}

/// An argument that is one value.
pub(super) fn scalar(arguments: &ScalarFunctionArgs, place: usize) -> Option<&ScalarValue> {
    match arguments.args.get(place) {
        Some(ColumnarValue::Scalar(value)) => Some(value),
        _ => None,
    }
}
