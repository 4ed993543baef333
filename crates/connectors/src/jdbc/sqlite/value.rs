//! Values of SQLite, and the types that its columns declare.

use super::failed;
use crate::jdbc::cell::Cell;
use crate::jdbc::failure::Failure;
use crate::jdbc::times;
use arrow::datatypes::{DataType, TimeUnit};
use rusqlite::Row;
use rusqlite::types::{Value, ValueRef};

pub(super) fn value(cell: Cell) -> Result<Value, String> {
    Ok(match cell {
        Cell::Null => Value::Null,
        Cell::Bool(value) => Value::Integer(value.into()),
        Cell::Int(value) => Value::Integer(value),
        Cell::UInt(value) => Value::Text(value.to_string()),
        Cell::Float(value) => real(value.into())?,
        Cell::Double(value) => real(value)?,
        Cell::Decimal(value) => Value::Text(value.to_string()),
        Cell::Text(text) => Value::Text(text),
        Cell::Bytes(bytes) => Value::Blob(bytes),
        Cell::Date(days) => Value::Text(times::date(days)),
        Cell::Timestamp(micros) => Value::Text(times::timestamp(micros)),
        Cell::Interval(months, days, micros) => Value::Text(times::interval(months, days, micros)),
        Cell::List(_) => return Err("SQLite stores no arrays".to_owned()),
    })
}

fn real(value: f64) -> Result<Value, String> {
    if value.is_nan() {
        return Err("SQLite makes NULL of NaN; write NULL or another number".to_owned());
    }
    Ok(Value::Real(value))
}

fn cell(value: ValueRef<'_>) -> Result<Cell, Failure> {
    Ok(match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(value) => Cell::Int(value),
        ValueRef::Real(value) => Cell::Double(value),
        ValueRef::Text(text) => Cell::Text(
            String::from_utf8(text.to_vec()).map_err(|_| Failure::refused("text is no UTF-8"))?,
        ),
        ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_vec()),
    })
}

pub(super) fn cells(row: &Row<'_>, count: usize) -> Result<Vec<Cell>, Failure> {
    (0..count).map(|at| cell(row.get_ref(at).map_err(failed)?)).collect()
}

pub(super) fn values(cells: &[Cell]) -> Result<Vec<Value>, Failure> {
    cells.iter().map(|cell| value(cell.clone()).map_err(Failure::refused)).collect()
}

/// The type of a declared column.
pub(super) fn type_of(declared: &str) -> DataType {
    let upper = declared.to_uppercase();
    let numbers: Vec<u8> = upper
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect();
    let has = |words: &[&str]| words.iter().any(|word| upper.contains(word));
    if has(&["DECIMAL", "NUMERIC"]) {
        let precision = numbers.first().copied().unwrap_or(38).clamp(1, 38);
        let scale = match numbers.len() {
            0 => 18,
            1 => 0,
            _ => numbers.get(1).copied().unwrap_or(0).min(precision),
        };
        return DataType::Decimal128(precision, i8::try_from(scale).unwrap_or(0));
    }
    if has(&["BOOL"]) {
        DataType::Boolean
    } else if has(&["INT"]) {
        DataType::Int64
    } else if has(&["TIMESTAMP"]) {
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
    } else if has(&["DATETIME"]) {
        DataType::Timestamp(TimeUnit::Microsecond, None)
    } else if has(&["CHAR", "CLOB", "TEXT", "JSON"]) {
        DataType::Utf8
    } else if has(&["DATE"]) {
        DataType::Date32
    } else if has(&["BLOB", "BINARY"]) {
        DataType::Binary
    } else if has(&["REAL", "FLOA", "DOUB"]) {
        DataType::Float64
    } else {
        DataType::Utf8
    }
}

#[cfg(test)]
mod tests {
    use super::type_of;
    use arrow::datatypes::DataType;

    #[test]
    fn declared_types_are_read() {
        assert_eq!(type_of("DECIMAL_TEXT(10,2)"), DataType::Decimal128(10, 2));
        assert_eq!(type_of("numeric(5)"), DataType::Decimal128(5, 0));
        assert_eq!(type_of("bigint"), DataType::Int64);
        assert_eq!(type_of("VARCHAR(20)"), DataType::Utf8);
        assert_eq!(type_of("DATE"), DataType::Date32);
        assert_eq!(type_of("blob"), DataType::Binary);
        assert_eq!(type_of("double precision"), DataType::Float64);
    }
}
