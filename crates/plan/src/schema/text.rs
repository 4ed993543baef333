//! Arrow types as Spark writes them.

use super::{CHAR_VARCHAR, COMMENT, spark_metadata};
use arrow::datatypes::{DataType, Field, Fields, IntervalUnit, Schema, TimeUnit};
use serde_json::{Value, json};

/// The schema as Spark's DDL: `id BIGINT NOT NULL, s STRUCT<a: INT>`. A type that Spark does not
/// have appears as the nearest that holds its values (unsigned integers one size up), or by its
/// Arrow name where there is none.
#[must_use]
pub fn schema_ddl(schema: &Schema) -> String {
    schema.fields().iter().map(|field| column(field, " ")).collect::<Vec<_>>().join(", ")
}

/// The schema as Spark's JSON form, the text in `schema.json()`.
#[must_use]
pub fn schema_json(schema: &Schema) -> String {
    json_fields(schema.fields()).to_string()
}

/// The name of a type as Spark's DDL writes it.
#[must_use]
pub fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => format!("ARRAY<{}>", type_name(item.data_type())),
        DataType::Map(entries, _) => match map_parts(entries) {
            Some((key, value)) => {
                format!("MAP<{}, {}>", type_name(key.data_type()), type_name(value.data_type()))
            }
            None => data_type.to_string(),
        },
        DataType::Struct(fields) => {
            let fields = fields.iter().map(|field| column(field, ": ")).collect::<Vec<_>>();
            format!("STRUCT<{}>", fields.join(", "))
        }
        DataType::Dictionary(_, value) => type_name(value),
        DataType::RunEndEncoded(_, value) => type_name(value.data_type()),
        other => match simple_name(other) {
            Some((ddl, _)) => ddl,
            None => other.to_string(),
        },
    }
}

/// The name of a type as Spark's `simpleString` and `typeof` write it: `struct<a:int>`.
pub(crate) fn short_name(data_type: &DataType) -> String {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => format!("array<{}>", short_name(item.data_type())),
        DataType::Map(entries, _) => match map_parts(entries) {
            Some((key, value)) => {
                format!("map<{},{}>", short_name(key.data_type()), short_name(value.data_type()))
            }
            None => data_type.to_string(),
        },
        DataType::Struct(fields) => {
            let field = |field: &std::sync::Arc<Field>| {
                format!("{}:{}", field.name(), short_name(field.data_type()))
            };
            format!("struct<{}>", fields.iter().map(field).collect::<Vec<_>>().join(","))
        }
        other => type_name(other).to_lowercase(),
    }
}

/// A type without parts: its name in DDL and in JSON.
fn simple_name(data_type: &DataType) -> Option<(String, String)> {
    let (ddl, json) = match data_type {
        DataType::Null => ("VOID", "void"),
        DataType::Boolean => ("BOOLEAN", "boolean"),
        DataType::Int8 => ("TINYINT", "byte"),
        DataType::Int16 | DataType::UInt8 => ("SMALLINT", "short"),
        DataType::Int32 | DataType::UInt16 => ("INT", "integer"),
        DataType::Int64 | DataType::UInt32 => ("BIGINT", "long"),
        DataType::UInt64 => ("DECIMAL(20,0)", "decimal(20,0)"),
        DataType::Float16 | DataType::Float32 => ("FLOAT", "float"),
        DataType::Float64 => ("DOUBLE", "double"),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ("STRING", "string"),
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => ("BINARY", "binary"),
        DataType::Date32 | DataType::Date64 => ("DATE", "date"),
        DataType::Timestamp(_, Some(_)) => ("TIMESTAMP", "timestamp"),
        DataType::Timestamp(_, None) => ("TIMESTAMP_NTZ", "timestamp_ntz"),
        DataType::Interval(IntervalUnit::YearMonth) => {
            ("INTERVAL YEAR TO MONTH", "interval year to month")
        }
        DataType::Interval(_) => ("INTERVAL", "interval"),
        DataType::Duration(TimeUnit::Microsecond | TimeUnit::Nanosecond)
        | DataType::Duration(TimeUnit::Second | TimeUnit::Millisecond) => {
            ("INTERVAL DAY TO SECOND", "interval day to second")
        }
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            return Some((
                format!("DECIMAL({precision},{scale})"),
                format!("decimal({precision},{scale})"),
            ));
        }
        _ => return None,
    };
    Some((ddl.to_owned(), json.to_owned()))
}

fn map_parts(entries: &Field) -> Option<(&Field, &Field)> {
    match entries.data_type() {
        DataType::Struct(fields) => match fields.as_ref() {
            [key, value] => Some((key, value)),
            _ => None,
        },
        _ => None,
    }
}

/// A name as DDL takes it: bare, or in backquotes.
pub(crate) fn quoted_name(name: &str) -> String {
    let bare = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    if bare { name.to_owned() } else { format!("`{}`", name.replace('`', "``")) }
}

fn column(field: &Field, between: &str) -> String {
    let declared = match (field.data_type(), field.metadata().get(CHAR_VARCHAR)) {
        (DataType::Utf8, Some(declared)) => declared.to_uppercase(),
        (data_type, _) => type_name(data_type),
    };
    let mut text = format!("{}{between}{declared}", quoted_name(field.name()));
    if !field.is_nullable() {
        text.push_str(" NOT NULL");
    }
    if let Some(comment) = field.metadata().get(COMMENT) {
        let comment = comment.replace('\\', "\\\\").replace('\'', "\\'");
        text.push_str(&format!(" COMMENT '{comment}'"));
    }
    text
}

fn json_fields(fields: &Fields) -> Value {
    let fields: Vec<Value> = fields
        .iter()
        .map(|field| {
            json!({
                "name": field.name(),
                "type": json_type(field.data_type()),
                "nullable": field.is_nullable(),
                "metadata": spark_metadata(field),
            })
        })
        .collect();
    json!({ "type": "struct", "fields": fields })
}

fn json_type(data_type: &DataType) -> Value {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => json!({
            "type": "array",
            "elementType": json_type(item.data_type()),
            "containsNull": item.is_nullable(),
        }),
        DataType::Map(entries, _) => match map_parts(entries) {
            Some((key, value)) => json!({
                "type": "map",
                "keyType": json_type(key.data_type()),
                "valueType": json_type(value.data_type()),
                "valueContainsNull": value.is_nullable(),
            }),
            None => Value::String(data_type.to_string()),
        },
        DataType::Struct(fields) => json_fields(fields),
        DataType::Dictionary(_, value) => json_type(value),
        DataType::RunEndEncoded(_, value) => json_type(value.data_type()),
        other => match simple_name(other) {
            Some((_, json)) => Value::String(json),
            None => Value::String(other.to_string()),
        },
    }
}
