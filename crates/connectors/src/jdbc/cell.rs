//! A value on its way between Arrow and a database.

use super::decimal::Decimal;
use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit,
    IntervalYearMonthType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// No value.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number that may be larger than [`Cell::Int`] holds.
    UInt(u64),
    /// A number of 32 bits.
    Float(f32),
    /// A number of 64 bits.
    Double(f64),
    /// An exact number.
    Decimal(Decimal),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since 1970-01-01 00:00, of UTC or of no zone.
    Timestamp(i64),
    /// A span of calendar months, days, and microseconds.
    Interval(i32, i32, i64),
    /// Values of one type.
    List(Vec<Cell>),
}

impl Cell {
    /// Text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    /// A whole number, from text as well.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Cell::Int(value) => Some(*value),
            Cell::UInt(value) => i64::try_from(*value).ok(),
            Cell::Text(text) => text.trim().parse().ok(),
            Cell::Decimal(value) => value.to_string().parse().ok(),
            _ => None,
        }
    }

    /// Text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Cell::Text(text) => Some(text),
            Cell::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }
}

/// Whether values of a type can be sent to a database.
#[must_use]
pub(crate) fn is_flat(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(field) | DataType::LargeList(field) => is_flat(field.data_type()),
        DataType::Dictionary(_, value) => is_flat(value),
        DataType::Struct(_) | DataType::Map(_, _) | DataType::Union(_, _) => false,
        _ => true,
    }
}

/// The value in a row.
///
/// # Errors
/// Text: what is wrong with the value or its type.
pub(crate) fn cell_at(array: &dyn Array, row: usize) -> Result<Cell, String> {
    if array.is_null(row) {
        return Ok(Cell::Null);
    }
    Ok(match array.data_type() {
        DataType::Null => Cell::Null,
        DataType::Boolean => Cell::Bool(array.as_boolean().value(row)),
        DataType::Int8 => Cell::Int(array.as_primitive::<Int8Type>().value(row).into()),
        DataType::Int16 => Cell::Int(array.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => Cell::Int(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => Cell::Int(array.as_primitive::<Int64Type>().value(row)),
        DataType::UInt8 => Cell::Int(array.as_primitive::<UInt8Type>().value(row).into()),
        DataType::UInt16 => Cell::Int(array.as_primitive::<UInt16Type>().value(row).into()),
        DataType::UInt32 => Cell::Int(array.as_primitive::<UInt32Type>().value(row).into()),
        DataType::UInt64 => Cell::UInt(array.as_primitive::<UInt64Type>().value(row)),
        DataType::Float32 => Cell::Float(array.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => Cell::Double(array.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal128(_, scale) => {
            let digits = array.as_primitive::<Decimal128Type>().value(row);
            Cell::Decimal(Decimal::new(digits, *scale))
        }
        DataType::Utf8 => Cell::text(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Cell::text(array.as_string::<i64>().value(row)),
        DataType::Utf8View => Cell::text(array.as_string_view().value(row)),
        DataType::Binary => Cell::Bytes(array.as_binary::<i32>().value(row).to_vec()),
        DataType::LargeBinary => Cell::Bytes(array.as_binary::<i64>().value(row).to_vec()),
        DataType::BinaryView => Cell::Bytes(array.as_binary_view().value(row).to_vec()),
        DataType::FixedSizeBinary(_) => {
            Cell::Bytes(array.as_fixed_size_binary().value(row).to_vec())
        }
        DataType::Date32 => Cell::Date(array.as_primitive::<Date32Type>().value(row)),
        DataType::Timestamp(unit, _) => Cell::Timestamp(micros_at(array, *unit, row)?),
        DataType::Interval(IntervalUnit::YearMonth) => {
            Cell::Interval(array.as_primitive::<IntervalYearMonthType>().value(row), 0, 0)
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let value = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            Cell::Interval(value.months, value.days, value.nanoseconds / 1_000)
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            Cell::Interval(0, 0, array.as_primitive::<DurationMicrosecondType>().value(row))
        }
        DataType::List(_) => list(array.as_list::<i32>().value(row).as_ref())?,
        DataType::LargeList(_) => list(array.as_list::<i64>().value(row).as_ref())?,
        other => return Err(format!("values of type {other} cannot be stored")),
    })
}

fn list(values: &dyn Array) -> Result<Cell, String> {
    (0..values.len()).map(|at| cell_at(values, at)).collect::<Result<_, _>>().map(Cell::List)
}

fn micros_at(array: &dyn Array, unit: TimeUnit, row: usize) -> Result<i64, String> {
    let micros = match unit {
        TimeUnit::Second => {
            array.as_primitive::<TimestampSecondType>().value(row).checked_mul(1_000_000)
        }
        TimeUnit::Millisecond => {
            array.as_primitive::<TimestampMillisecondType>().value(row).checked_mul(1_000)
        }
        TimeUnit::Microsecond => Some(array.as_primitive::<TimestampMicrosecondType>().value(row)),
        TimeUnit::Nanosecond => {
            Some(array.as_primitive::<TimestampNanosecondType>().value(row).div_euclid(1_000))
        }
    };
    micros.ok_or_else(|| "the time is out of range".to_owned())
}
