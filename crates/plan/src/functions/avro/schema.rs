//! Avro's schemas and Spark's types, as `SchemaConverters` of Spark pairs them.

use crate::functions::encoded::plan_error;
use arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::error::Result;
use serde_json::{Value, json};
use std::sync::Arc;

/// A value is encoded as the only field of a record: a record's bytes are those of its fields.
pub(super) const VALUE: &str = "value";

/// Deepest nesting of a schema.
const DEPTH_MAX: usize = 64;

/// A record with one field of this schema.
pub(super) fn wrapped(schema: &Value) -> String {
    json!({
        "type": "record",
        "name": "onefold_wrapper",
        "fields": [{"name": VALUE, "type": schema}],
    })
    .to_string()
}

/// A schema that a user gave.
///
/// # Errors
/// Plan, when it is no JSON.
pub(super) fn checked(text: &str) -> Result<Value> {
    let text = text.trim();
    // A name alone, as in `to_avro(x, 'long')`.
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.') {
        return Ok(json!(text));
    }
    serde_json::from_str(text)
        .map_err(|error| plan_error(format!("the Avro schema is no JSON: {error}")))
}

/// The schema in which Spark writes a column where none is given.
///
/// # Errors
/// Plan, when Avro has no such type.
pub(super) fn of(field: &Field) -> Result<Value> {
    nullable(field.data_type(), field.is_nullable(), "topLevelRecord", "", 0)
}

fn nullable(
    data_type: &DataType,
    null: bool,
    record: &str,
    space: &str,
    depth: usize,
) -> Result<Value> {
    let schema = plain(data_type, record, space, depth)?;
    Ok(match null && schema != json!("null") {
        true => json!([schema, "null"]),
        false => schema,
    })
}

fn plain(data_type: &DataType, record: &str, space: &str, depth: usize) -> Result<Value> {
    if depth > DEPTH_MAX {
        return Err(plan_error(format!("a type is nested deeper than {DEPTH_MAX}")));
    }
    let own = if space.is_empty() { record.to_owned() } else { format!("{space}.{record}") };
    Ok(match data_type {
        DataType::Null => json!("null"),
        DataType::Boolean => json!("boolean"),
        DataType::Int8 | DataType::Int16 | DataType::Int32 => json!("int"),
        DataType::Int64 => json!("long"),
        DataType::Float32 => json!("float"),
        DataType::Float64 => json!("double"),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => json!("string"),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => json!("bytes"),
        DataType::Date32 => json!({"type": "int", "logicalType": "date"}),
        DataType::Timestamp(_, Some(_)) => {
            json!({"type": "long", "logicalType": "timestamp-micros"})
        }
        DataType::Timestamp(_, None) => {
            json!({"type": "long", "logicalType": "local-timestamp-micros"})
        }
        DataType::Decimal128(precision, scale) => json!({
            "type": "fixed",
            "name": "fixed",
            "namespace": own,
            "size": bytes_of(*precision),
            "logicalType": "decimal",
            "precision": precision,
            "scale": scale,
        }),
        DataType::List(element) | DataType::LargeList(element) => {
            let items =
                nullable(element.data_type(), element.is_nullable(), record, space, depth + 1)?;
            json!({"type": "array", "items": items})
        }
        DataType::Map(entries, _) => {
            let DataType::Struct(pair) = entries.data_type() else {
                return Err(plan_error("a map without entries"));
            };
            let [key, value] = pair.as_ref() else {
                return Err(plan_error("a map without key and value"));
            };
            if !matches!(key.data_type(), DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8)
            {
                return Err(plan_error("keys of a map are texts in Avro: cast them to STRING"));
            }
            let values =
                nullable(value.data_type(), value.is_nullable(), record, space, depth + 1)?;
            json!({"type": "map", "values": values})
        }
        DataType::Struct(fields) => {
            let mut columns = Vec::with_capacity(fields.len());
            for field in fields {
                let name = field.name();
                let inner =
                    nullable(field.data_type(), field.is_nullable(), name, &own, depth + 1)?;
                columns.push(json!({"name": name, "type": inner}));
            }
            match space.is_empty() {
                true => json!({"type": "record", "name": record, "fields": columns}),
                false => json!({
                    "type": "record",
                    "name": record,
                    "namespace": space,
                    "fields": columns,
                }),
            }
        }
        other => {
            let name = crate::schema::type_name(other);
            return Err(plan_error(format!("Avro has no {name}; cast it to another type first")));
        }
    })
}

/// The least bytes that hold every decimal of so many digits.
fn bytes_of(precision: u8) -> usize {
    let most = 10_i128.checked_pow(u32::from(precision)).map_or(i128::MAX, |most| most - 1);
    let bits = 128 - most.leading_zeros() + 1;
    usize::try_from(bits.div_ceil(8)).unwrap_or(16)
}

/// The type that rows have, for one that was read.
///
/// # Errors
/// Plan, where Spark's type is not one that is here.
pub(super) fn shown(data_type: &DataType) -> Result<DataType> {
    let inner = |field: &Field| -> Result<Field> {
        Ok(field
            .clone()
            .with_data_type(shown(field.data_type())?)
            .with_metadata(Default::default()))
    };
    Ok(match data_type {
        DataType::Dictionary(_, value) => shown(value)?,
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::FixedSizeBinary(_) | DataType::BinaryView | DataType::LargeBinary => {
            DataType::Binary
        }
        DataType::Timestamp(_, Some(_)) => crate::schema::timestamp(),
        DataType::Timestamp(_, None) => DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Time32(_) => DataType::Int32,
        DataType::Time64(_) => DataType::Int64,
        DataType::List(element) => DataType::List(Arc::new(inner(element)?.with_name("element"))),
        DataType::Map(entries, sorted) => DataType::Map(Arc::new(inner(entries)?), *sorted),
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|field| inner(field)).collect::<Result<_>>()?)
        }
        DataType::Union(..) => {
            return Err(plan_error(
                "a union of several types in an Avro schema is not supported, only one with null",
            ));
        }
        DataType::Interval(_) | DataType::Duration(_) => {
            return Err(plan_error("durations in an Avro schema are not supported"));
        }
        other => other.clone(),
    })
}
