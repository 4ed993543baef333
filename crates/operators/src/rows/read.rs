//! Arrow as values.

use super::value::{Value, ValueError};
use arrow::array::{Array, AsArray, BooleanArray};
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use onefold_types::{Error, Result};
use std::borrow::Cow;

/// A row as a struct of its columns.
pub(crate) fn row(batch: &RecordBatch, row: usize) -> Result<Value<'_>> {
    let schema = batch.schema_ref();
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        Ok((Cow::Borrowed(field.name().as_str()), value_at(column.as_ref(), row)?))
    });
    Ok(Value::Fields(columns.collect::<Result<_>>()?))
}

/// One value of an array.
pub(crate) fn value_at(array: &dyn Array, row: usize) -> Result<Value<'_>> {
    if row >= array.len() {
        return Err(Error::internal("a row beyond the end of its batch was asked for"));
    }
    if array.is_null(row) {
        return Ok(Value::Null);
    }
    macro_rules! whole {
        ($kind:ty) => {
            Value::Int(i128::from(array.as_primitive::<$kind>().value(row)))
        };
    }
    macro_rules! time {
        ($kind:ty, $unit:expr) => {
            Value::Time(array.as_primitive::<$kind>().value(row), $unit)
        };
    }
    Ok(match array.data_type() {
        DataType::Null => Value::Null,
        DataType::Boolean => Value::Bool(boolean(array.as_boolean(), row)),
        DataType::Int8 => whole!(Int8Type),
        DataType::Int16 => whole!(Int16Type),
        DataType::Int32 => whole!(Int32Type),
        DataType::Int64 => whole!(Int64Type),
        DataType::UInt8 => whole!(UInt8Type),
        DataType::UInt16 => whole!(UInt16Type),
        DataType::UInt32 => whole!(UInt32Type),
        DataType::UInt64 => whole!(UInt64Type),
        DataType::Float16 => Value::Float(array.as_primitive::<Float16Type>().value(row).to_f64()),
        DataType::Float32 => {
            Value::Float(f64::from(array.as_primitive::<Float32Type>().value(row)))
        }
        DataType::Float64 => Value::Float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => text(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => text(array.as_string::<i64>().value(row)),
        DataType::Utf8View => text(array.as_string_view().value(row)),
        DataType::Binary => bytes(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => bytes(array.as_binary::<i64>().value(row)),
        DataType::BinaryView => bytes(array.as_binary_view().value(row)),
        DataType::FixedSizeBinary(_) => bytes(array.as_fixed_size_binary().value(row)),
        DataType::Timestamp(TimeUnit::Second, _) => time!(TimestampSecondType, TimeUnit::Second),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            time!(TimestampMillisecondType, TimeUnit::Millisecond)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            time!(TimestampMicrosecondType, TimeUnit::Microsecond)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            time!(TimestampNanosecondType, TimeUnit::Nanosecond)
        }
        DataType::Date32 => whole!(Date32Type),
        DataType::Date64 => whole!(Date64Type),
        DataType::Time32(TimeUnit::Second) => whole!(Time32SecondType),
        DataType::Time32(_) => whole!(Time32MillisecondType),
        DataType::Time64(TimeUnit::Microsecond) => whole!(Time64MicrosecondType),
        DataType::Time64(_) => whole!(Time64NanosecondType),
        DataType::Duration(TimeUnit::Second) => whole!(DurationSecondType),
        DataType::Duration(TimeUnit::Millisecond) => whole!(DurationMillisecondType),
        DataType::Duration(TimeUnit::Microsecond) => whole!(DurationMicrosecondType),
        DataType::Duration(TimeUnit::Nanosecond) => whole!(DurationNanosecondType),
        _ => return nested(array, row),
    })
}

fn nested(array: &dyn Array, row: usize) -> Result<Value<'_>> {
    match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let range = list.value_offsets().get(row).zip(list.value_offsets().get(row + 1));
            elements(list.values().as_ref(), bounds(range)?)
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let range = list.value_offsets().get(row).zip(list.value_offsets().get(row + 1));
            elements(list.values().as_ref(), bounds(range)?)
        }
        DataType::FixedSizeList(_, size) => {
            let size = usize::try_from(*size).unwrap_or(0);
            let list = array.as_fixed_size_list();
            let from = usize::try_from(list.value_offset(row)).unwrap_or(0);
            elements(list.values().as_ref(), (from, from + size))
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns()).map(|(field, column)| {
                Ok((Cow::Borrowed(field.name().as_str()), value_at(column.as_ref(), row)?))
            });
            Ok(Value::Fields(columns.collect::<Result<_>>()?))
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let range = map.value_offsets().get(row).zip(map.value_offsets().get(row + 1));
            let (from, to) = bounds(range)?;
            let pairs = (from..to).map(|row| {
                Ok((value_at(map.keys().as_ref(), row)?, value_at(map.values().as_ref(), row)?))
            });
            Ok(Value::Map(pairs.collect::<Result<_>>()?))
        }
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => {
            let formatter = ArrayFormatter::try_new(array, &FormatOptions::default());
            let formatter = formatter
                .map_err(|error| Error::internal("cannot show a decimal as text").because(error))?;
            Ok(Value::Text(Cow::Owned(formatter.value(row).to_string())))
        }
        other => Err(Error::invalid(format!(
            "a user function cannot read a column of type {other}: cast it before"
        ))),
    }
}

fn boolean(array: &BooleanArray, row: usize) -> bool {
    array.value(row)
}

fn text(text: &str) -> Value<'_> {
    Value::Text(Cow::Borrowed(text))
}

fn bytes(bytes: &[u8]) -> Value<'_> {
    Value::Bytes(Cow::Borrowed(bytes))
}

fn bounds<T: Copy + TryInto<usize>>(range: Option<(&T, &T)>) -> Result<(usize, usize)> {
    let range =
        range.and_then(|(from, to)| Some(((*from).try_into().ok()?, (*to).try_into().ok()?)));
    range.ok_or_else(|| Error::internal("a list lies outside of its array"))
}

fn elements(values: &dyn Array, (from, to): (usize, usize)) -> Result<Value<'_>> {
    Ok(Value::List((from..to).map(|row| value_at(values, row)).collect::<Result<_>>()?))
}

/// A timestamp as text.
pub(super) fn instant(ticks: i64, unit: TimeUnit) -> Result<String, ValueError> {
    let (per_second, nanos_each) = match unit {
        TimeUnit::Second => (1, 1_000_000_000),
        TimeUnit::Millisecond => (1_000, 1_000_000),
        TimeUnit::Microsecond => (1_000_000, 1_000),
        TimeUnit::Nanosecond => (1_000_000_000, 1),
    };
    let nanos = u32::try_from(ticks.rem_euclid(per_second) * nanos_each).unwrap_or(0);
    let time = chrono::DateTime::from_timestamp(ticks.div_euclid(per_second), nanos);
    let time = time.ok_or_else(|| ValueError("a timestamp lies beyond the calendar".to_owned()))?;
    Ok(time.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true))
}
