//! Types: Spark Connect's messages to Arrow, and back.

use crate::failure::{Failure, Outcome};
use arrow::datatypes::{DataType, Field, Fields, IntervalUnit, Schema, TimeUnit};
use onefold_plan::schema::{arrow_metadata, parse_schema, parse_type, spark_metadata, type_name};
use spark_connect_proto as proto;
use spark_connect_proto::data_type as kind;
use spark_connect_proto::data_type::Kind;
use std::collections::HashMap;
use std::sync::Arc;

/// Deepest nesting of a type, as in texts of types.
const DEPTH_MAX: usize = 100;

/// A type as Spark's DDL writes it, which is how it enters an expression.
pub(crate) fn ddl_of(data_type: &proto::DataType) -> Outcome<String> {
    match &data_type.kind {
        Some(Kind::Unparsed(text)) => Ok(text.data_type_string.clone()),
        _ => Ok(type_name(&to_arrow(data_type)?)),
    }
}

/// The Arrow type of a message.
///
/// # Errors
/// Spark has the type and Onefold does not, or the message is empty.
pub(crate) fn to_arrow(data_type: &proto::DataType) -> Outcome<DataType> {
    arrow_at(data_type, 0)
}

fn arrow_at(data_type: &proto::DataType, depth: usize) -> Outcome<DataType> {
    if depth > DEPTH_MAX {
        return Err(Failure::analysis(format!("a type is nested deeper than {DEPTH_MAX}")));
    }
    let depth = depth + 1;
    let kind = data_type.kind.as_ref().ok_or_else(|| Failure::missing("data type"))?;
    Ok(match kind {
        Kind::Null(_) => DataType::Null,
        Kind::Binary(_) => DataType::Binary,
        Kind::Boolean(_) => DataType::Boolean,
        Kind::Byte(_) => DataType::Int8,
        Kind::Short(_) => DataType::Int16,
        Kind::Integer(_) => DataType::Int32,
        Kind::Long(_) => DataType::Int64,
        Kind::Float(_) => DataType::Float32,
        Kind::Double(_) => DataType::Float64,
        Kind::Decimal(decimal) => {
            let (precision, scale) = (decimal.precision.unwrap_or(10), decimal.scale.unwrap_or(0));
            parse_type(&format!("DECIMAL({precision},{scale})"))?
        }
        Kind::String(_) | Kind::Char(_) | Kind::VarChar(_) => DataType::Utf8,
        Kind::Date(_) => DataType::Date32,
        Kind::Timestamp(_) => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        Kind::TimestampNtz(_) => DataType::Timestamp(TimeUnit::Microsecond, None),
        Kind::YearMonthInterval(_) => DataType::Interval(IntervalUnit::YearMonth),
        Kind::DayTimeInterval(_) => DataType::Duration(TimeUnit::Microsecond),
        Kind::CalendarInterval(_) => DataType::Interval(IntervalUnit::MonthDayNano),
        Kind::Array(array) => {
            let element =
                array.element_type.as_deref().ok_or_else(|| Failure::missing("element_type"))?;
            DataType::List(Arc::new(Field::new(
                "element",
                arrow_at(element, depth)?,
                array.contains_null,
            )))
        }
        Kind::Struct(fields) => DataType::Struct(to_fields(fields, depth)?),
        Kind::Map(map) => {
            let key = map.key_type.as_deref().ok_or_else(|| Failure::missing("key_type"))?;
            let value = map.value_type.as_deref().ok_or_else(|| Failure::missing("value_type"))?;
            let entries = Fields::from(vec![
                Field::new("key", arrow_at(key, depth)?, false),
                Field::new("value", arrow_at(value, depth)?, map.value_contains_null),
            ]);
            let entries = Field::new("entries", DataType::Struct(entries), false);
            DataType::Map(Arc::new(entries), false)
        }
        Kind::Udt(udt) => {
            let stored = udt.sql_type.as_deref().ok_or_else(|| Failure::missing("sql_type"))?;
            arrow_at(stored, depth)?
        }
        Kind::Unparsed(text) => {
            let text = &text.data_type_string;
            match parse_type(text) {
                Ok(data_type) => data_type,
                // A list of columns means a struct.
                Err(error) => match parse_schema(text) {
                    Ok(schema) => DataType::Struct(schema.fields().clone()),
                    Err(_) => return Err(error.into()),
                },
            }
        }
        Kind::Variant(_) => return Err(Failure::unsupported("the type VARIANT")),
        Kind::Geometry(_) => return Err(Failure::unsupported("the type GEOMETRY")),
        Kind::Geography(_) => return Err(Failure::unsupported("the type GEOGRAPHY")),
        Kind::Time(_) => return Err(Failure::unsupported("the type TIME")),
        Kind::TimestampNtzNanos(_) | Kind::TimestampLtzNanos(_) => {
            return Err(Failure::unsupported("a timestamp with nanoseconds"));
        }
    })
}

fn to_fields(fields: &kind::Struct, depth: usize) -> Outcome<Fields> {
    let fields: Outcome<Vec<Field>> = fields
        .fields
        .iter()
        .map(|field| {
            let data_type =
                field.data_type.as_ref().ok_or_else(|| Failure::missing("data_type"))?;
            let known = Field::new(&field.name, arrow_at(data_type, depth)?, field.nullable);
            Ok(match field.metadata.as_deref() {
                None | Some("" | "{}") => known,
                Some(text) => known.with_metadata(metadata(text)?),
            })
        })
        .collect();
    Ok(Fields::from(fields?))
}

/// The schema that a message of a struct type means.
pub(crate) fn to_schema(data_type: &proto::DataType) -> Outcome<Schema> {
    match to_arrow(data_type)? {
        DataType::Struct(fields) => Ok(Schema::new(fields)),
        other => Err(Failure::invalid(format!("a schema is a struct, not {}", type_name(&other)))),
    }
}

/// The message of a schema.
pub(crate) fn from_schema(schema: &Schema) -> proto::DataType {
    wrap(Kind::Struct(from_fields(schema.fields())))
}

fn wrap(kind: Kind) -> proto::DataType {
    proto::DataType { kind: Some(kind) }
}

fn from_fields(fields: &Fields) -> kind::Struct {
    let fields = fields
        .iter()
        .map(|field| kind::StructField {
            name: field.name().clone(),
            data_type: Some(from_arrow(field.data_type())),
            nullable: field.is_nullable(),
            metadata: metadata_of(field),
        })
        .collect();
    kind::Struct { fields, type_variation_reference: 0 }
}

fn metadata_of(field: &Field) -> Option<String> {
    let said = spark_metadata(field);
    (!said.is_empty()).then(|| serde_json::Value::Object(said).to_string())
}

/// What a client says of a column, as Arrow keeps it.
///
/// # Errors
/// The text is no object of JSON.
pub(crate) fn metadata(text: &str) -> Outcome<HashMap<String, String>> {
    match serde_json::from_str(text) {
        Ok(serde_json::Value::Object(said)) => Ok(arrow_metadata(&said)),
        _ => Err(Failure::invalid(format!("the metadata of a column is no object: {text}"))),
    }
}

/// The message of a type. Types that Spark does not have are those that Spark would read them as.
pub(crate) fn from_arrow(data_type: &DataType) -> proto::DataType {
    wrap(match data_type {
        DataType::Null => Kind::Null(kind::Null::default()),
        DataType::Boolean => Kind::Boolean(kind::Boolean::default()),
        DataType::Int8 => Kind::Byte(kind::Byte::default()),
        DataType::Int16 | DataType::UInt8 => Kind::Short(kind::Short::default()),
        DataType::Int32 | DataType::UInt16 => Kind::Integer(kind::Integer::default()),
        DataType::Int64 | DataType::UInt32 | DataType::UInt64 => Kind::Long(kind::Long::default()),
        DataType::Float16 | DataType::Float32 => Kind::Float(kind::Float::default()),
        DataType::Float64 => Kind::Double(kind::Double::default()),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => Kind::Decimal(kind::Decimal {
            precision: Some(i32::from(*precision)),
            scale: Some(i32::from(*scale)),
            type_variation_reference: 0,
        }),
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => Kind::Binary(kind::Binary::default()),
        DataType::Date32 | DataType::Date64 => Kind::Date(kind::Date::default()),
        DataType::Timestamp(_, Some(_)) => Kind::Timestamp(kind::Timestamp::default()),
        DataType::Timestamp(_, None) => Kind::TimestampNtz(kind::TimestampNtz::default()),
        DataType::Interval(IntervalUnit::YearMonth) => {
            Kind::YearMonthInterval(kind::YearMonthInterval {
                start_field: Some(0),
                end_field: Some(1),
                type_variation_reference: 0,
            })
        }
        DataType::Duration(_) | DataType::Interval(IntervalUnit::DayTime) => {
            Kind::DayTimeInterval(kind::DayTimeInterval {
                start_field: Some(0),
                end_field: Some(3),
                type_variation_reference: 0,
            })
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            Kind::CalendarInterval(kind::CalendarInterval::default())
        }
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::ListView(element)
        | DataType::LargeListView(element)
        | DataType::FixedSizeList(element, _) => Kind::Array(Box::new(kind::Array {
            element_type: Some(Box::new(from_arrow(element.data_type()))),
            contains_null: element.is_nullable(),
            type_variation_reference: 0,
        })),
        DataType::Struct(fields) => Kind::Struct(from_fields(fields)),
        DataType::Map(entries, _) => map_kind(entries),
        DataType::Dictionary(_, value) => return from_arrow(value),
        _ => Kind::String(kind::String { type_variation_reference: 0, collation: String::new() }),
    })
}

fn map_kind(entries: &Field) -> Kind {
    let (mut key, mut value, mut nullable) = (DataType::Null, DataType::Null, true);
    if let DataType::Struct(fields) = entries.data_type()
        && let [first, second] = fields.as_ref()
    {
        key = first.data_type().clone();
        value = second.data_type().clone();
        nullable = second.is_nullable();
    }
    Kind::Map(Box::new(kind::Map {
        key_type: Some(Box::new(from_arrow(&key))),
        value_type: Some(Box::new(from_arrow(&value))),
        value_contains_null: nullable,
        type_variation_reference: 0,
    }))
}

#[cfg(test)]
mod tests {
    use super::{from_schema, to_schema};
    use onefold_plan::schema::{parse_schema, schema_ddl};

    #[test]
    fn every_type_comes_back_from_its_message() {
        let ddl = "a BIGINT, b STRING NOT NULL, c ARRAY<INT>, d MAP<STRING, DOUBLE>, \
                   e STRUCT<x: DATE, y: TIMESTAMP>, f DECIMAL(10,2), g TIMESTAMP_NTZ, h BINARY, \
                   i INTERVAL DAY TO SECOND, j INTERVAL YEAR TO MONTH, k BOOLEAN, l VOID";
        let schema = parse_schema(ddl).unwrap();
        let back = to_schema(&from_schema(&schema)).unwrap();
        assert_eq!(schema_ddl(&back), schema_ddl(&schema));
    }
}
