//! Values of a database as Arrow columns.

use super::cell::Cell;
use super::decimal::Decimal;
use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanArray, Date32Array, Decimal128Array, Float32Array,
    Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, ListArray, StringArray,
    TimestampMicrosecondArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, FieldRef, TimeUnit};
use chrono::{NaiveDate, NaiveDateTime};
use std::sync::Arc;

/// A value that does not fit its column.
#[derive(Debug)]
pub(crate) struct Unfit {
    /// Its place, counted from 0.
    pub(crate) row: usize,
    /// Why.
    pub(crate) why: String,
}

fn each<T>(
    cells: &[Cell],
    take: impl Fn(&Cell) -> Result<T, String>,
) -> Result<Vec<Option<T>>, Unfit> {
    let mut values = Vec::with_capacity(cells.len());
    for (row, cell) in cells.iter().enumerate() {
        values.push(match cell {
            Cell::Null => None,
            cell => Some(take(cell).map_err(|why| Unfit { row, why })?),
        });
    }
    Ok(values)
}

fn no(cell: &Cell, wanted: &str) -> String {
    format!("{cell:?} is no {wanted}; cast it in option `query`")
}

fn int<T: TryFrom<i64>>(cell: &Cell) -> Result<T, String> {
    let value = match cell {
        Cell::Bool(value) => Some(i64::from(*value)),
        Cell::Double(value) if value.fract() == 0.0 => {
            Decimal::parse(&value.to_string()).and_then(|value| i64::try_from(value.digits).ok())
        }
        cell => cell.as_int(),
    };
    value
        .and_then(|value| T::try_from(value).ok())
        .ok_or_else(|| no(cell, "whole number that fits"))
}

fn double(cell: &Cell) -> Result<f64, String> {
    match cell {
        Cell::Double(value) => Ok(*value),
        Cell::Float(value) => Ok(f64::from(*value)),
        Cell::Int(value) => value.to_string().parse().map_err(|_| no(cell, "number")),
        Cell::UInt(value) => value.to_string().parse().map_err(|_| no(cell, "number")),
        Cell::Decimal(value) => value.to_string().parse().map_err(|_| no(cell, "number")),
        Cell::Text(text) => text.trim().parse().map_err(|_| no(cell, "number")),
        cell => Err(no(cell, "number")),
    }
}

fn decimal(cell: &Cell, precision: u8, scale: i8) -> Result<i128, String> {
    let value = match cell {
        Cell::Decimal(value) => Some(*value),
        Cell::Int(value) => Some(Decimal::new((*value).into(), 0)),
        Cell::UInt(value) => Some(Decimal::new((*value).into(), 0)),
        Cell::Double(value) => Decimal::parse(&value.to_string()),
        Cell::Float(value) => Decimal::parse(&value.to_string()),
        Cell::Text(text) => Decimal::parse(text),
        _ => None,
    };
    value
        .and_then(|value| value.rescaled(scale, precision))
        .ok_or_else(|| no(cell, &format!("decimal({precision},{scale})")))
}

/// Text of any value, as the database shows it.
fn text(cell: &Cell) -> Result<String, String> {
    Ok(match cell {
        Cell::Text(text) => text.clone(),
        Cell::Bytes(bytes) => {
            String::from_utf8(bytes.clone()).map_err(|_| "the text is no UTF-8".to_owned())?
        }
        Cell::Int(value) => value.to_string(),
        Cell::UInt(value) => value.to_string(),
        Cell::Double(value) => value.to_string(),
        Cell::Float(value) => value.to_string(),
        Cell::Decimal(value) => value.to_string(),
        Cell::Bool(value) => value.to_string(),
        cell => return Err(no(cell, "text")),
    })
}

fn date(cell: &Cell) -> Result<i32, String> {
    match cell {
        Cell::Date(days) => Ok(*days),
        Cell::Timestamp(micros) => {
            i32::try_from(micros.div_euclid(86_400_000_000)).map_err(|_| no(cell, "date"))
        }
        Cell::Text(text) => NaiveDate::parse_from_str(text.trim(), "%Y-%m-%d")
            .ok()
            .and_then(|date| {
                let epoch = NaiveDate::from_ymd_opt(1970, 1, 1)?;
                i32::try_from(date.signed_duration_since(epoch).num_days()).ok()
            })
            .ok_or_else(|| no(cell, "date")),
        cell => Err(no(cell, "date")),
    }
}

fn timestamp(cell: &Cell) -> Result<i64, String> {
    match cell {
        Cell::Timestamp(micros) => Ok(*micros),
        Cell::Date(days) => Ok(i64::from(*days) * 86_400_000_000),
        Cell::Text(text) => {
            let text = text.trim().trim_end_matches('Z');
            let read = |form| NaiveDateTime::parse_from_str(text, form).ok();
            read("%Y-%m-%d %H:%M:%S%.f")
                .or_else(|| read("%Y-%m-%dT%H:%M:%S%.f"))
                .map(|time| time.and_utc().timestamp_micros())
                .or_else(|| date(cell).ok().map(|days| i64::from(days) * 86_400_000_000))
                .ok_or_else(|| no(cell, "time"))
        }
        cell => Err(no(cell, "time")),
    }
}

fn boolean(cell: &Cell) -> Result<bool, String> {
    match cell {
        Cell::Bool(value) => Ok(*value),
        Cell::Int(value) => Ok(*value != 0),
        Cell::UInt(value) => Ok(*value != 0),
        Cell::Bytes(bytes) => Ok(bytes.iter().any(|byte| *byte != 0)),
        cell => Err(no(cell, "boolean")),
    }
}

/// A column of values.
///
/// # Errors
/// The first value that does not fit.
pub(crate) fn column(cells: &[Cell], data_type: &DataType) -> Result<ArrayRef, Unfit> {
    Ok(match data_type {
        DataType::Boolean => Arc::new(BooleanArray::from(each(cells, boolean)?)),
        DataType::Int8 => Arc::new(Int8Array::from(each(cells, int::<i8>)?)),
        DataType::Int16 => Arc::new(Int16Array::from(each(cells, int::<i16>)?)),
        DataType::Int32 => Arc::new(Int32Array::from(each(cells, int::<i32>)?)),
        DataType::Int64 => Arc::new(Int64Array::from(each(cells, int::<i64>)?)),
        DataType::Float32 => {
            #[expect(clippy::cast_possible_truncation, reason = "the column has 32 bits")]
            let values = each(cells, |cell| double(cell).map(|value| value as f32))?;
            Arc::new(Float32Array::from(values))
        }
        DataType::Float64 => Arc::new(Float64Array::from(each(cells, double)?)),
        DataType::Decimal128(precision, scale) => {
            let values = each(cells, |cell| decimal(cell, *precision, *scale))?;
            let values = Decimal128Array::from(values)
                .with_precision_and_scale(*precision, *scale)
                .map_err(|error| Unfit { row: 0, why: error.to_string() })?;
            Arc::new(values)
        }
        DataType::Utf8 => Arc::new(StringArray::from(each(cells, text)?)),
        DataType::Binary => {
            let mut builder = BinaryBuilder::new();
            for (row, cell) in cells.iter().enumerate() {
                match cell {
                    Cell::Null => builder.append_null(),
                    Cell::Bytes(bytes) => builder.append_value(bytes),
                    Cell::Text(text) => builder.append_value(text.as_bytes()),
                    other => return Err(Unfit { row, why: no(other, "bytes") }),
                }
            }
            Arc::new(builder.finish())
        }
        DataType::Date32 => Arc::new(Date32Array::from(each(cells, date)?)),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let values = TimestampMicrosecondArray::from(each(cells, timestamp)?);
            Arc::new(values.with_timezone_opt(zone.clone()))
        }
        DataType::List(field) => lists(cells, field)?,
        other => return Err(Unfit { row: 0, why: format!("type {other} cannot be read") }),
    })
}

fn lists(cells: &[Cell], field: &FieldRef) -> Result<ArrayRef, Unfit> {
    let mut values = Vec::new();
    let mut lengths = Vec::with_capacity(cells.len());
    let mut valid = Vec::with_capacity(cells.len());
    for (row, cell) in cells.iter().enumerate() {
        let items: &[Cell] = match cell {
            Cell::Null => &[],
            Cell::List(items) => items,
            other => return Err(Unfit { row, why: no(other, "array of that depth") }),
        };
        valid.push(*cell != Cell::Null);
        lengths.push(items.len());
        // One value that does not fit is told with the row that it stands in.
        column(items, field.data_type()).map_err(|unfit| Unfit { row, why: unfit.why })?;
        values.extend_from_slice(items);
    }
    let values = column(&values, field.data_type())?;
    let offsets = OffsetBuffer::<i32>::from_lengths(lengths);
    let lists =
        ListArray::try_new(Arc::clone(field), offsets, values, Some(NullBuffer::from(valid)));
    lists
        .map(|lists| Arc::new(lists) as ArrayRef)
        .map_err(|error| Unfit { row: 0, why: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Array;
    use arrow::datatypes::Field;

    #[test]
    fn what_a_column_holds_comes_back_as_the_same_cells() {
        let item = Arc::new(Field::new("item", DataType::Int32, true));
        let cases: Vec<(DataType, Cell)> = vec![
            (DataType::Boolean, Cell::Bool(true)),
            (DataType::Int16, Cell::Int(-7)),
            (DataType::Int64, Cell::Int(i64::MIN)),
            (DataType::Float64, Cell::Double(f64::INFINITY)),
            (DataType::Decimal128(10, 2), Cell::Decimal(Decimal::new(-1250, 2))),
            (DataType::Utf8, Cell::text("é")),
            (DataType::Binary, Cell::Bytes(vec![0, 255])),
            (DataType::Date32, Cell::Date(-1)),
            (DataType::Timestamp(TimeUnit::Microsecond, None), Cell::Timestamp(-1)),
            (DataType::List(item), Cell::List(vec![Cell::Int(1), Cell::Null])),
        ];
        for (data_type, cell) in cases {
            let column = column(&[cell.clone(), Cell::Null], &data_type).unwrap();
            assert_eq!(column.data_type(), &data_type);
            assert_eq!(super::super::cell::cell_at(&column, 0).unwrap(), cell);
            assert!(column.is_null(1));
        }
    }

    #[test]
    fn a_value_that_does_not_fit_is_named_by_its_row() {
        let cells = [Cell::Int(1), Cell::Double(f64::NAN)];
        let unfit = column(&cells, &DataType::Decimal128(10, 2)).unwrap_err();
        assert_eq!(unfit.row, 1);
        assert!(unfit.why.contains("decimal(10,2)"), "{}", unfit.why);
        assert_eq!(column(&[Cell::Int(300)], &DataType::Int8).unwrap_err().row, 0);
    }
}
