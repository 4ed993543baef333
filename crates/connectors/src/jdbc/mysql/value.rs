//! Values of MySQL.

use crate::jdbc::cell::Cell;
use crate::jdbc::database::Column;
use crate::jdbc::decimal::Decimal;
use crate::jdbc::times;
use arrow::datatypes::{DataType, TimeUnit};
use mysql_async::Value;
use mysql_async::consts::{ColumnFlags, ColumnType};

/// The character set of bytes.
const BYTES: u16 = 63;

/// A value that is sent.
///
/// # Errors
/// Text: the database has no such value.
pub(super) fn value(cell: Cell) -> Result<Value, String> {
    let odd = |value: f64| {
        format!("{value} is no number that MySQL stores; write NULL or another number")
    };
    Ok(match cell {
        Cell::Null => Value::NULL,
        Cell::Bool(value) => Value::Int(value.into()),
        Cell::Int(value) => Value::Int(value),
        Cell::UInt(value) => Value::UInt(value),
        Cell::Float(value) if !value.is_finite() => return Err(odd(value.into())),
        Cell::Double(value) if !value.is_finite() => return Err(odd(value)),
        Cell::Float(value) => Value::Float(value),
        Cell::Double(value) => Value::Double(value),
        Cell::Decimal(value) => Value::Bytes(value.to_string().into_bytes()),
        Cell::Text(text) => Value::Bytes(text.into_bytes()),
        Cell::Bytes(bytes) => Value::Bytes(bytes),
        Cell::Date(days) => {
            let (year, month, day) = times::ymd(days)
                .ok_or_else(|| format!("{} is no date of MySQL", times::date(days)))?;
            Value::Date(year, month, day, 0, 0, 0, 0)
        }
        Cell::Timestamp(micros) => {
            let ((year, month, day), (hour, minute, second), part) = times::parts(micros)
                .ok_or_else(|| format!("{} is no time of MySQL", times::timestamp(micros)))?;
            Value::Date(year, month, day, hour, minute, second, part)
        }
        Cell::Interval(..) => return Err("MySQL stores no intervals; make text of it".to_owned()),
        Cell::List(_) => {
            return Err("MySQL stores no arrays; make text of it with to_json".to_owned());
        }
    })
}

/// A value that comes.
///
/// # Errors
/// Text: there is no such value here.
pub(super) fn cell(value: Value, column: &mysql_async::Column) -> Result<Cell, String> {
    use ColumnType as T;
    Ok(match value {
        Value::NULL => Cell::Null,
        Value::Int(value) => Cell::Int(value),
        Value::UInt(value) => i64::try_from(value).map_or(Cell::UInt(value), Cell::Int),
        Value::Float(value) => Cell::Float(value),
        Value::Double(value) => Cell::Double(value),
        Value::Bytes(bytes) => {
            let ty = column.column_type();
            let text = |bytes: Vec<u8>| {
                String::from_utf8(bytes).map_err(|_| "the text is no UTF-8".to_owned())
            };
            match ty {
                T::MYSQL_TYPE_DECIMAL | T::MYSQL_TYPE_NEWDECIMAL => {
                    let text = text(bytes)?;
                    Decimal::parse(&text).map_or(Cell::Text(text), Cell::Decimal)
                }
                T::MYSQL_TYPE_BIT => Cell::Bytes(bytes),
                T::MYSQL_TYPE_JSON => Cell::Text(text(bytes)?),
                _ if column.character_set() == BYTES && is_string(ty) => Cell::Bytes(bytes),
                _ => Cell::Text(text(bytes)?),
            }
        }
        Value::Date(year, month, day, hour, minute, second, part) => {
            let days = times::days_of(year, month, day).ok_or_else(|| {
                format!("{year:04}-{month:02}-{day:02} is no day; replace it in option `query`")
            })?;
            if matches!(column.column_type(), T::MYSQL_TYPE_DATE | T::MYSQL_TYPE_NEWDATE) {
                return Ok(Cell::Date(days));
            }
            let seconds = i64::from(days) * 86_400
                + i64::from(hour) * 3_600
                + i64::from(minute) * 60
                + i64::from(second);
            Cell::Timestamp(seconds * 1_000_000 + i64::from(part))
        }
        Value::Time(negative, days, hours, minutes, seconds, part) => {
            let hours = u64::from(days) * 24 + u64::from(hours);
            let sign = if negative { "-" } else { "" };
            let part = if part == 0 { String::new() } else { format!(".{part:06}") };
            Cell::Text(format!("{sign}{hours:02}:{minutes:02}:{seconds:02}{part}"))
        }
    })
}

fn is_string(ty: ColumnType) -> bool {
    use ColumnType as T;
    matches!(
        ty,
        T::MYSQL_TYPE_STRING
            | T::MYSQL_TYPE_VAR_STRING
            | T::MYSQL_TYPE_VARCHAR
            | T::MYSQL_TYPE_BLOB
            | T::MYSQL_TYPE_TINY_BLOB
            | T::MYSQL_TYPE_MEDIUM_BLOB
            | T::MYSQL_TYPE_LONG_BLOB
    )
}

/// A column as it comes.
pub(super) fn described(column: &mysql_async::Column) -> Column {
    use ColumnType as T;
    let unsigned = column.flags().contains(ColumnFlags::UNSIGNED_FLAG);
    let data_type = match column.column_type() {
        T::MYSQL_TYPE_TINY if column.column_length() == 1 => DataType::Boolean,
        T::MYSQL_TYPE_TINY if !unsigned => DataType::Int8,
        T::MYSQL_TYPE_TINY => DataType::Int16,
        T::MYSQL_TYPE_SHORT if !unsigned => DataType::Int16,
        T::MYSQL_TYPE_SHORT | T::MYSQL_TYPE_INT24 | T::MYSQL_TYPE_YEAR => DataType::Int32,
        T::MYSQL_TYPE_LONG if !unsigned => DataType::Int32,
        T::MYSQL_TYPE_LONG => DataType::Int64,
        T::MYSQL_TYPE_LONGLONG if !unsigned => DataType::Int64,
        T::MYSQL_TYPE_LONGLONG => DataType::Decimal128(20, 0),
        T::MYSQL_TYPE_FLOAT => DataType::Float32,
        T::MYSQL_TYPE_DOUBLE => DataType::Float64,
        T::MYSQL_TYPE_DECIMAL | T::MYSQL_TYPE_NEWDECIMAL => decimal(column, unsigned),
        T::MYSQL_TYPE_DATE | T::MYSQL_TYPE_NEWDATE => DataType::Date32,
        T::MYSQL_TYPE_DATETIME | T::MYSQL_TYPE_DATETIME2 => {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        }
        T::MYSQL_TYPE_TIMESTAMP | T::MYSQL_TYPE_TIMESTAMP2 => {
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
        }
        T::MYSQL_TYPE_BIT if column.column_length() == 1 => DataType::Boolean,
        T::MYSQL_TYPE_BIT => DataType::Binary,
        ty if is_string(ty) && column.character_set() == BYTES => DataType::Binary,
        _ => DataType::Utf8,
    };
    Column {
        name: column.name_str().into_owned(),
        data_type,
        declared: String::new(),
        by_text: false,
    }
}

/// The length that the server tells is that of the text, with sign and point.
fn decimal(column: &mysql_async::Column, unsigned: bool) -> DataType {
    let scale = column.decimals().min(38);
    let text = u32::from(!unsigned) + u32::from(scale > 0);
    let precision = column.column_length().saturating_sub(text).clamp(1, 38);
    let precision = u8::try_from(precision).unwrap_or(38).max(scale);
    DataType::Decimal128(precision, i8::try_from(scale).unwrap_or(0))
}
