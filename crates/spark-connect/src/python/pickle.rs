//! Rows as Python's pickle: lists of PySpark's `Row` for `foreach`, single ones for state.
//!
//! Protocol 3 of `pickletools`; only the few opcodes that plain values need.

use crate::failure::{Failure, Outcome};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Fields, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalYearMonthType,
    TimestampMicrosecondType,
};
use chrono::{Datelike, Timelike};

const MARK: u8 = b'(';
const STOP: u8 = b'.';
const REDUCE: u8 = b'R';
const TUPLE: u8 = b't';
const NONE: u8 = b'N';

/// In what form a row of state goes to Python.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form<'a> {
    /// As rows of rows.
    Rows,
    /// As the values that Spark keeps, of which Python makes a row by the columns' JSON.
    Internal { json: &'a str },
}

/// A row of some columns of declared types: maps may be lists of their entries.
pub(super) fn row(
    fields: &Fields,
    columns: &[ArrayRef],
    row: usize,
    form: Form<'_>,
) -> Outcome<Vec<u8>> {
    let mut out = vec![0x80, 3];
    match form {
        Form::Rows => state_struct(&mut out, fields, columns, row, true)?,
        Form::Internal { json } => {
            global(&mut out, "pyspark.sql.types", "_create_row_inbound_converter");
            out.push(MARK);
            global(&mut out, "pyspark.sql.types", "_parse_datatype_json_string");
            out.push(MARK);
            text(&mut out, json)?;
            out.extend([TUPLE, REDUCE, TUPLE, REDUCE]);
            state_struct(&mut out, fields, columns, row, false)?;
            out.push(REDUCE);
        }
    }
    out.push(STOP);
    Ok(out)
}

/// The values of a struct: a row with its names, or a bare tuple.
fn state_struct(
    out: &mut Vec<u8>,
    fields: &Fields,
    columns: &[ArrayRef],
    row: usize,
    as_row: bool,
) -> Outcome<()> {
    if as_row {
        global(out, "pyspark.sql.types", "_create_row");
        out.extend([MARK, b']', MARK]);
        for field in fields {
            text(out, field.name())?;
        }
        out.push(b'e');
    }
    out.push(MARK);
    for (field, column) in fields.iter().zip(columns) {
        state_value(out, field.data_type(), column.as_ref(), row, as_row)?;
    }
    out.push(TUPLE);
    if as_row {
        out.extend([TUPLE, REDUCE]);
    }
    Ok(())
}

fn state_value(
    out: &mut Vec<u8>,
    declared: &DataType,
    array: &dyn Array,
    row: usize,
    as_row: bool,
) -> Outcome<()> {
    if array.is_null(row) {
        out.push(NONE);
        return Ok(());
    }
    match (declared, array.data_type()) {
        (DataType::Struct(fields), DataType::Struct(_)) => {
            state_struct(out, fields, array.as_struct().columns(), row, as_row)?;
        }
        (DataType::List(element), DataType::List(_)) => {
            let values = array.as_list::<i32>().value(row);
            out.extend([b']', MARK]);
            for place in 0..values.len() {
                state_value(out, element.data_type(), values.as_ref(), place, as_row)?;
            }
            out.push(b'e');
        }
        (DataType::Map(entries, _), DataType::List(_)) => {
            let pairs = array.as_list::<i32>().value(row);
            out.extend([b'}', MARK]);
            if let (DataType::Struct(fields), Some(pairs)) =
                (entries.data_type(), pairs.as_struct_opt())
                && let ([key_field, value_field], [keys, values]) =
                    (fields.as_ref(), pairs.columns())
            {
                for place in 0..pairs.len() {
                    state_value(out, key_field.data_type(), keys.as_ref(), place, as_row)?;
                    state_value(out, value_field.data_type(), values.as_ref(), place, as_row)?;
                }
            }
            out.push(b'u');
        }
        (_, DataType::Binary) => {
            let bytes = array.as_binary::<i32>().value(row);
            out.push(b'B');
            size(out, bytes.len())?;
            out.extend(bytes);
        }
        (_, DataType::Timestamp(..)) => {
            whole(out, array.as_primitive::<TimestampMicrosecondType>().value(row));
        }
        (_, DataType::Date32) => whole(out, array.as_primitive::<Date32Type>().value(row).into()),
        (_, DataType::Duration(_)) => {
            whole(out, array.as_primitive::<DurationMicrosecondType>().value(row));
        }
        (_, DataType::Interval(_)) => {
            whole(out, array.as_primitive::<IntervalYearMonthType>().value(row).into());
        }
        _ => value(out, array, row)?,
    }
    Ok(())
}

/// A list of rows of a batch, which has the plain types.
pub(super) fn rows(batch: &RecordBatch) -> Outcome<Vec<u8>> {
    let mut out = vec![0x80, 3, b']', MARK];
    let schema = batch.schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    for row in 0..batch.num_rows() {
        struct_value(&mut out, &names, batch.columns(), row)?;
    }
    out.extend([b'e', STOP]);
    Ok(out)
}

fn global(out: &mut Vec<u8>, module: &str, name: &str) {
    out.push(b'c');
    out.extend(format!("{module}\n{name}\n").bytes());
}

fn size(out: &mut Vec<u8>, length: usize) -> Outcome<()> {
    let length = u32::try_from(length).map_err(|_| Failure::invalid("a value is too large"))?;
    out.extend(length.to_le_bytes());
    Ok(())
}

fn text(out: &mut Vec<u8>, text: &str) -> Outcome<()> {
    out.push(b'X');
    size(out, text.len())?;
    out.extend(text.bytes());
    Ok(())
}

fn whole(out: &mut Vec<u8>, value: i64) {
    match i32::try_from(value) {
        Ok(small) => {
            out.push(b'J');
            out.extend(small.to_le_bytes());
        }
        Err(_) => {
            out.extend([0x8a, 8]);
            out.extend(value.to_le_bytes());
        }
    }
}

/// `Row(*values)` with its names.
fn struct_value(
    out: &mut Vec<u8>,
    names: &[&str],
    columns: &[ArrayRef],
    row: usize,
) -> Outcome<()> {
    global(out, "pyspark.sql.types", "_create_row");
    out.extend([MARK, b']', MARK]);
    for name in names {
        text(out, name)?;
    }
    out.extend([b'e', MARK]);
    for column in columns {
        value(out, column.as_ref(), row)?;
    }
    out.extend([TUPLE, TUPLE, REDUCE]);
    Ok(())
}

fn list(out: &mut Vec<u8>, values: &dyn Array) -> Outcome<()> {
    out.extend([b']', MARK]);
    for place in 0..values.len() {
        value(out, values, place)?;
    }
    out.push(b'e');
    Ok(())
}

fn value(out: &mut Vec<u8>, array: &dyn Array, row: usize) -> Outcome<()> {
    if array.is_null(row) {
        out.push(NONE);
        return Ok(());
    }
    match array.data_type() {
        DataType::Null => out.push(NONE),
        DataType::Boolean => out.push(if array.as_boolean().value(row) { 0x88 } else { 0x89 }),
        DataType::Int8 => whole(out, array.as_primitive::<Int8Type>().value(row).into()),
        DataType::Int16 => whole(out, array.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => whole(out, array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => whole(out, array.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => float(out, array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => float(out, array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => text(out, array.as_string::<i32>().value(row))?,
        DataType::Binary => {
            global(out, "builtins", "bytearray");
            let bytes = array.as_binary::<i32>().value(row);
            out.extend([MARK, b'B']);
            size(out, bytes.len())?;
            out.extend(bytes);
            out.extend([TUPLE, REDUCE]);
        }
        DataType::Decimal128(..) => {
            global(out, "decimal", "Decimal");
            out.push(MARK);
            text(out, &array.as_primitive::<Decimal128Type>().value_as_string(row))?;
            out.extend([TUPLE, REDUCE]);
        }
        DataType::Date32 => {
            let date = array.as_primitive::<Date32Type>().value_as_date(row);
            let date = date.ok_or_else(|| Failure::invalid("a date is out of Python's range"))?;
            global(out, "datetime", "date");
            out.push(MARK);
            whole(out, date.year().into());
            whole(out, date.month().into());
            whole(out, date.day().into());
            out.extend([TUPLE, REDUCE]);
        }
        DataType::Timestamp(..) => {
            let time = array.as_primitive::<TimestampMicrosecondType>().value_as_datetime(row);
            let time = time.ok_or_else(|| Failure::invalid("a time is out of Python's range"))?;
            global(out, "datetime", "datetime");
            out.push(MARK);
            whole(out, time.year().into());
            for part in [time.month(), time.day(), time.hour(), time.minute(), time.second()] {
                whole(out, part.into());
            }
            whole(out, (time.nanosecond() / 1_000).into());
            out.extend([TUPLE, REDUCE]);
        }
        DataType::List(_) => list(out, array.as_list::<i32>().value(row).as_ref())?,
        DataType::Struct(fields) => {
            let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
            struct_value(out, &names, array.as_struct().columns(), row)?;
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            out.extend([b'}', MARK]);
            if let [keys, values] = entries.columns() {
                for place in 0..entries.len() {
                    value(out, keys.as_ref(), place)?;
                    value(out, values.as_ref(), place)?;
                }
            }
            out.push(b'u');
        }
        other => {
            return Err(Failure::unsupported(format!(
                "a column of type {} in foreach",
                onefold_plan::schema::type_name(other)
            )));
        }
    }
    Ok(())
}

fn float(out: &mut Vec<u8>, value: f64) {
    out.push(b'G');
    out.extend(value.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::rows;
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use std::sync::Arc;

    #[test]
    fn rows_are_a_list_of_calls_that_make_rows() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
        let bytes = rows(&batch).unwrap();
        let one = b"cpyspark.sql.types\n_create_row\n(](X\x01\0\0\0ae(J\x01\0\0\0ttR";
        let two = b"cpyspark.sql.types\n_create_row\n(](X\x01\0\0\0ae(NttR";
        let wanted = [b"\x80\x03](".as_slice(), one, two, b"e."].concat();
        assert_eq!(bytes, wanted);
    }
}
