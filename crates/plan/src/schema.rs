//! Spark schemas: DDL text and JSON to Arrow, and back.
//!
//! The types follow Spark's own mapping to Arrow: `TIMESTAMP` is microseconds with zone `UTC`,
//! `TIMESTAMP_NTZ` microseconds without one, `STRING` is `Utf8`, day-time intervals are durations
//! in microseconds. Comments and other metadata are kept in the fields' metadata.
//!
//! Where to start: [`parse_schema`], [`schema_ddl`].

mod ddl;
mod json;
mod metadata;
mod text;

use arrow::datatypes::{DataType, Field, Fields, IntervalUnit, Schema, SchemaRef, TimeUnit};
use onefold_types::{Error, Result};
use std::collections::HashSet;
use std::sync::Arc;

pub use metadata::{METADATA, arrow_metadata, spark_metadata};
pub(crate) use text::short_name;
pub use text::{schema_ddl, schema_json, type_name};

/// Longest schema text, in bytes.
pub const SCHEMA_BYTES_MAX: usize = 1 << 20;
/// Deepest nesting of types.
pub const SCHEMA_DEPTH_MAX: usize = 64;
/// Most fields, nested ones included.
pub const SCHEMA_FIELDS_MAX: usize = 20_000;

/// Metadata key of a field's comment, as Spark names it.
pub const COMMENT: &str = "comment";
/// Metadata key under which Spark keeps `CHAR(n)` and `VARCHAR(n)` of a string field.
pub const CHAR_VARCHAR: &str = "__CHAR_VARCHAR_TYPE_STRING";

/// Reads a schema: Spark's DDL (`id BIGINT NOT NULL, s STRUCT<a: INT>`) or, when the text begins
/// with `{`, Spark's JSON form of a `StructType`.
///
/// # Errors
/// Invalid: the text is not a schema (with line and column), names a type that Spark or Onefold
/// does not have, has a column twice, or is past one of the limits.
pub fn parse_schema(text: &str) -> Result<SchemaRef> {
    check_size(text)?;
    let fields =
        if text.trim_start().starts_with('{') { json::fields(text)? } else { ddl::fields(text)? };
    Ok(Arc::new(Schema::new(fields)))
}

/// Reads one type in DDL form: `ARRAY<STRING>`, `DECIMAL(10,2)`, `INTERVAL DAY TO SECOND`.
///
/// # Errors
/// As [`parse_schema`].
pub fn parse_type(text: &str) -> Result<DataType> {
    check_size(text)?;
    ddl::data_type(text)
}

fn check_size(text: &str) -> Result<()> {
    if text.len() > SCHEMA_BYTES_MAX {
        return Err(Error::invalid(format!(
            "the schema text has {} bytes, more than the limit of {SCHEMA_BYTES_MAX}",
            text.len()
        )));
    }
    Ok(())
}

/// The zone that `TIMESTAMP` carries.
pub(crate) const UTC: &str = "UTC";

pub(crate) fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()))
}

fn list_of(element: DataType, nullable: bool) -> DataType {
    DataType::List(Arc::new(Field::new("element", element, nullable)))
}

fn map_of(key: DataType, value: DataType, value_nullable: bool) -> DataType {
    let entries = Fields::from(vec![
        Field::new("key", key, false),
        Field::new("value", value, value_nullable),
    ]);
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false)
}

/// A type that has no parameters, by any of Spark's names for it in DDL or JSON.
fn simple_type(name: &str) -> Option<DataType> {
    Some(match name.to_ascii_lowercase().as_str() {
        "boolean" => DataType::Boolean,
        "tinyint" | "byte" => DataType::Int8,
        "smallint" | "short" => DataType::Int16,
        "int" | "integer" => DataType::Int32,
        "bigint" | "long" => DataType::Int64,
        "float" | "real" => DataType::Float32,
        "double" => DataType::Float64,
        "string" => DataType::Utf8,
        "binary" => DataType::Binary,
        "date" => DataType::Date32,
        "timestamp" | "timestamp_ltz" => timestamp(),
        "timestamp_ntz" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "void" | "null" => DataType::Null,
        _ => return None,
    })
}

const INTERVAL_UNITS: [&str; 6] = ["year", "month", "day", "hour", "minute", "second"];

/// `INTERVAL`, `INTERVAL YEAR TO MONTH`, `INTERVAL DAY TO SECOND` … by its first and last unit.
fn interval_type(start: Option<&str>, end: Option<&str>) -> std::result::Result<DataType, String> {
    let Some(start) = start else { return Ok(DataType::Interval(IntervalUnit::MonthDayNano)) };
    let end = end.unwrap_or(start);
    let place = |unit: &str| INTERVAL_UNITS.iter().position(|known| *known == unit);
    match (place(start), place(end)) {
        (Some(first), Some(last)) if first <= last && (last < 2) == (first < 2) => {
            Ok(if last < 2 {
                DataType::Interval(IntervalUnit::YearMonth)
            } else {
                DataType::Duration(TimeUnit::Microsecond)
            })
        }
        _ => Err(format!("there is no type INTERVAL {start} TO {end}")),
    }
}

fn decimal_type(precision: u64, scale: u64) -> std::result::Result<DataType, String> {
    match (u8::try_from(precision), i8::try_from(scale)) {
        (Ok(precision @ 1..=38), Ok(scale)) if scale.unsigned_abs() <= precision => {
            Ok(DataType::Decimal128(precision, scale))
        }
        _ => Err(format!(
            "DECIMAL({precision},{scale}) is out of range: the precision is 1 to 38 and the \
             scale at most the precision"
        )),
    }
}

/// The first name that stands twice, compared without case as Spark does.
fn duplicate<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = HashSet::new();
    names.into_iter().find(|name| !seen.insert(name.to_lowercase()))
}

#[cfg(test)]
mod tests;
