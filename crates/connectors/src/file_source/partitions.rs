//! Columns whose values stand in folder names: `k=v`.

use super::cells::Cells;
use super::formats::Reading;
use super::times::{Zone, parse_date, parse_timestamp};
use arrow::array::Array as _;
use arrow::datatypes::{DataType, Field, SchemaRef, TimeUnit};
use datafusion::common::ScalarValue;
use onefold_storage::location;
use onefold_types::{Error, Result};

/// The folder name that stands for null.
const NULL_NAME: &str = "__HIVE_DEFAULT_PARTITION__";

/// The `k=v` parts of a file's path below `base`, in order; the value is `None` for null.
pub(crate) fn values_of(path: &str, base: &str) -> Vec<(String, Option<String>)> {
    let below = path.strip_prefix(base.trim_end_matches('/'));
    let Some(below) = below.filter(|below| below.starts_with('/')) else { return Vec::new() };
    let mut parts: Vec<&str> = below.split('/').filter(|part| !part.is_empty()).collect();
    parts.pop();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    parts
        .into_iter()
        .filter_map(|part| {
            // Once for the URI, once for the name that the writer escaped.
            let name = text(location::decode_bytes(part));
            let (key, value) = name.split_once('=').filter(|(key, _)| !key.is_empty())?;
            let plain = |part: &str| text(location::decode_bytes(part));
            Some((plain(key), (value != NULL_NAME).then(|| plain(value))))
        })
        .collect()
}

/// The type of a column from its values, as Spark infers it.
pub(crate) fn infer<'a>(values: impl Iterator<Item = Option<&'a str>>, zone: Zone) -> DataType {
    let mut known: Option<DataType> = None;
    for value in values.flatten() {
        let one = infer_one(value, zone);
        known = Some(match known {
            None => one,
            Some(before) => widen(before, one),
        });
    }
    known.unwrap_or(DataType::Utf8)
}

fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// The type of one value.
pub(crate) fn infer_one(value: &str, zone: Zone) -> DataType {
    let digits = value.bytes().any(|byte| byte.is_ascii_digit());
    if value.parse::<i32>().is_ok() {
        DataType::Int32
    } else if value.parse::<i64>().is_ok() {
        DataType::Int64
    } else if digits && value.parse::<f64>().is_ok() {
        DataType::Float64
    } else if parse_date(value).is_some() && !value.contains([' ', 'T', ':']) {
        DataType::Date32
    } else if parse_timestamp(value, zone).is_some() {
        timestamp()
    } else {
        DataType::Utf8
    }
}

/// The type that holds values of both.
pub(crate) fn widen(one: DataType, other: DataType) -> DataType {
    let rank = |kind: &DataType| match kind {
        DataType::Int32 => Some((0, 0)),
        DataType::Int64 => Some((0, 1)),
        DataType::Float64 => Some((0, 2)),
        DataType::Date32 => Some((1, 0)),
        DataType::Timestamp(..) => Some((1, 1)),
        _ => None,
    };
    match (rank(&one), rank(&other)) {
        (Some((a, low)), Some((b, high))) if a == b => {
            if low >= high {
                one
            } else {
                other
            }
        }
        _ => DataType::Utf8,
    }
}

/// The values of the partition columns for one file.
///
/// # Errors
/// Invalid, when a value is not of its column's type.
pub(crate) fn scalars(
    path: &str,
    base: Option<&str>,
    columns: &[Field],
    reading: &Reading,
) -> Result<Vec<ScalarValue>> {
    let values = base.map(|base| values_of(path, base)).unwrap_or_default();
    columns
        .iter()
        .map(|column| {
            let value = values.iter().find(|(key, _)| key.eq_ignore_ascii_case(column.name()));
            let mut cells = Cells::new(column.data_type())?;
            match value {
                Some((_, Some(text))) => cells.push_text(text, reading).map_err(|_| {
                    Error::invalid(format!(
                        "{path} has `{text}` for partition column `{}`, which is {}; give the \
                         column another type in the schema, or move the folder away",
                        column.name(),
                        column.data_type()
                    ))
                })?,
                _ => cells.push_null(),
            }
            let array = cells.finish()?;
            let scalar = ScalarValue::try_from_array(&array, 0).map_err(internal)?;
            if array.data_type() == column.data_type() {
                Ok(scalar)
            } else {
                scalar.cast_to(column.data_type()).map_err(internal)
            }
        })
        .collect()
}

fn internal(error: datafusion::error::DataFusionError) -> Error {
    Error::internal("a partition value could not be made").because(error)
}

/// The partition columns below the base, in the order of the folders, with the user's type where
/// the schema has the column and an inferred one elsewhere.
pub(crate) fn columns(
    paths: &[String],
    base: &str,
    given: Option<&SchemaRef>,
    infer_types: bool,
    zone: Zone,
) -> Vec<Field> {
    let all: Vec<_> = paths.iter().map(|path| values_of(path, base)).collect();
    let mut names: Vec<&str> = Vec::new();
    for (key, _) in all.iter().flatten() {
        if !names.contains(&key.as_str()) {
            names.push(key);
        }
    }
    names
        .into_iter()
        .map(|name| {
            let user = given.and_then(|schema| {
                schema.fields().iter().find(|field| field.name().eq_ignore_ascii_case(name))
            });
            match user {
                Some(field) => field.as_ref().clone().with_nullable(true),
                None => {
                    let values = all
                        .iter()
                        .flatten()
                        .filter(|(key, _)| key == name)
                        .map(|(_, value)| value.as_deref());
                    let kind = if infer_types { infer(values, zone) } else { DataType::Utf8 };
                    Field::new(name, kind, true)
                }
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_give_columns_with_spark_types() {
        let values = values_of("file:///in/k=a%2520b/d=2026-01-01/f", "file:///in");
        assert_eq!(values[0], ("k".to_owned(), Some("a b".to_owned())));
        let kind = |values: &[&str]| infer(values.iter().map(|v| Some(*v)), Zone::UTC);
        assert_eq!(kind(&["1", "2"]), DataType::Int32);
        assert_eq!(kind(&["1", "3000000000"]), DataType::Int64);
        assert_eq!(kind(&["1", "2.5"]), DataType::Float64);
        assert_eq!(kind(&["2026-01-01"]), DataType::Date32);
        assert_eq!(kind(&["2026-01-01", "2026-01-01 10:00:00"]), timestamp());
        assert_eq!(kind(&["1", "x"]), DataType::Utf8);
        assert_eq!(values_of("file:///in/k=__HIVE_DEFAULT_PARTITION__/f", "file:///in")[0].1, None);
    }
}
