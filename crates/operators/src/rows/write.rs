//! Values as Arrow, by a declared type.

use super::value::Value;
use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, ListArray, MapArray, NullArray,
    StringArray, StructArray, new_empty_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, FieldRef, Fields, SchemaRef, TimeUnit};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use onefold_types::{Error, Result};
use std::sync::Arc;

/// Rows as a batch of `schema`; `what` names them in errors.
pub(crate) fn batch_of_values(
    schema: &SchemaRef,
    rows: Vec<Value<'_>>,
    what: &str,
) -> Result<RecordBatch> {
    let count = rows.len();
    let columns = columns(schema.fields(), rows, what)?;
    let options = RecordBatchOptions::new().with_row_count(Some(count));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| Error::invalid(format!("{what} does not fit its schema")).because(error))
}

/// Values as a column of a type; `what` names them in errors.
pub(crate) fn column_of_values(
    data_type: &DataType,
    values: Vec<Value<'_>>,
    what: &str,
) -> Result<ArrayRef> {
    column(data_type, values, what)
}

/// A bare value, where a row has one column, stands for that column.
fn as_row<'a>(row: Value<'a>, fields: &'a Fields) -> Value<'a> {
    let [only] = fields.as_ref() else { return row };
    let name = only.name();
    let holds_fields = matches!(only.data_type(), DataType::Struct(_) | DataType::Map(..));
    match &row {
        Value::Fields(own) if !holds_fields || own.iter().any(|(own, _)| own == name) => row,
        Value::Map(pairs)
            if pairs.iter().any(|(key, _)| matches!(key, Value::Text(key) if key == name)) =>
        {
            row
        }
        // A tuple of one.
        Value::List(list) if list.len() == 1 && !is_list(only.data_type()) => row,
        _ => Value::Fields(vec![(name.as_str().into(), row)]),
    }
}

fn is_list(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::List(_)
            | DataType::LargeList(_)
            | DataType::FixedSizeList(..)
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
    )
}

/// The columns of a struct, from structs, maps by name or tuples, or from bare values where there is
/// one column; a struct that is NULL has NULL in each.
fn columns(fields: &Fields, rows: Vec<Value<'_>>, what: &str) -> Result<Vec<ArrayRef>> {
    let mut cells: Vec<Vec<Value<'_>>> =
        fields.iter().map(|_| Vec::with_capacity(rows.len())).collect();
    for row in rows {
        let mut slots: Vec<Value<'_>> = fields.iter().map(|_| Value::Null).collect();
        match as_row(row, fields) {
            Value::Null => {}
            Value::Fields(own) => {
                for (place, (name, value)) in own.into_iter().enumerate() {
                    *slot(&mut slots, fields, place, &name, what)? = value;
                }
            }
            Value::Map(pairs) => {
                for (place, (key, value)) in pairs.into_iter().enumerate() {
                    let Value::Text(name) = key else {
                        return Err(Error::invalid(format!("{what} has a column without a name")));
                    };
                    *slot(&mut slots, fields, place, &name, what)? = value;
                }
            }
            Value::List(list) if list.len() == fields.len() => slots = list,
            Value::List(list) => {
                return Err(Error::invalid(format!(
                    "{what} has {} values where its schema has {} columns",
                    list.len(),
                    fields.len()
                )));
            }
            other => return Err(unfit(what, "a struct", &other)),
        }
        for (cells, value) in cells.iter_mut().zip(slots) {
            cells.push(value);
        }
    }
    let cells = cells.into_iter().zip(fields);
    cells.map(|(cells, field)| column(field.data_type(), cells, what)).collect()
}

fn slot<'s, 'v>(
    slots: &'s mut [Value<'v>],
    fields: &Fields,
    guess: usize,
    name: &str,
    what: &str,
) -> Result<&'s mut Value<'v>> {
    // Structs mostly have their fields in the order of the schema.
    let place = match fields.get(guess) {
        Some(field) if field.name() == name => Some(guess),
        _ => fields.iter().position(|field| field.name() == name),
    };
    place.and_then(|place| slots.get_mut(place)).ok_or_else(|| {
        Error::invalid(format!("{what} has a field {name} for which its schema has no column"))
    })
}

fn column(data_type: &DataType, values: Vec<Value<'_>>, what: &str) -> Result<ArrayRef> {
    match data_type {
        DataType::Null => Ok(Arc::new(NullArray::new(values.len()))),
        DataType::Struct(fields) => {
            let valid: Vec<bool> = values.iter().map(|value| *value != Value::Null).collect();
            let (count, nulls) = (values.len(), Some(NullBuffer::from(valid)));
            let columns = columns(fields, values, what)?;
            made(StructArray::try_new_with_length(fields.clone(), columns, nulls, count), what)
        }
        DataType::List(field) => {
            let (lengths, nulls, elements) = lists(values, what)?;
            let elements = column(field.data_type(), elements, what)?;
            let offsets = OffsetBuffer::from_lengths(lengths);
            made(ListArray::try_new(Arc::clone(field), offsets, elements, nulls), what)
        }
        DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            cast_to(column(&DataType::List(Arc::clone(field)), values, what)?, data_type, what)
        }
        DataType::Map(entries, sorted) => map(entries, *sorted, values, what),
        _ => cast_to(leaves(data_type, values, what)?, data_type, what),
    }
}

fn map(entries: &FieldRef, sorted: bool, values: Vec<Value<'_>>, what: &str) -> Result<ArrayRef> {
    let DataType::Struct(fields) = entries.data_type() else {
        return Err(Error::internal("a map's entries are not structs"));
    };
    let (mut lengths, mut valid, mut keys, mut held) = (vec![], vec![], vec![], vec![]);
    for value in values {
        valid.push(value != Value::Null);
        let before = keys.len();
        match value {
            Value::Null => {}
            Value::Map(pairs) => {
                for (key, value) in pairs {
                    keys.push(key);
                    held.push(value);
                }
            }
            Value::Fields(own) => {
                for (name, value) in own {
                    keys.push(Value::Text(name));
                    held.push(value);
                }
            }
            other => return Err(unfit(what, "a map", &other)),
        }
        lengths.push(keys.len() - before);
    }
    let [key_field, value_field] = fields.as_ref() else {
        return Err(Error::internal("a map's entries are not pairs"));
    };
    let columns = vec![
        column(key_field.data_type(), keys, what)?,
        column(value_field.data_type(), held, what)?,
    ];
    let pairs = StructArray::try_new(fields.clone(), columns, None).map_err(|error| {
        Error::invalid(format!("{what} does not fit its schema")).because(error)
    })?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    let nulls = Some(NullBuffer::from(valid));
    made(MapArray::try_new(Arc::clone(entries), offsets, pairs, nulls, sorted), what)
}

type Lists<'a> = (Vec<usize>, Option<NullBuffer>, Vec<Value<'a>>);

fn lists<'a>(values: Vec<Value<'a>>, what: &str) -> Result<Lists<'a>> {
    let (mut lengths, mut valid, mut elements) = (vec![], vec![], vec![]);
    for value in values {
        valid.push(value != Value::Null);
        match value {
            Value::Null => lengths.push(0),
            Value::List(list) => {
                lengths.push(list.len());
                elements.extend(list);
            }
            Value::Bytes(bytes) => {
                lengths.push(bytes.len());
                elements.extend(bytes.iter().map(|byte| Value::Int(i128::from(*byte))));
            }
            other => return Err(unfit(what, "a list", &other)),
        }
    }
    Ok((lengths, Some(NullBuffer::from(valid)), elements))
}

/// Values without parts, in a type from which one can cast to `data_type` without loss.
fn leaves(data_type: &DataType, values: Vec<Value<'_>>, what: &str) -> Result<ArrayRef> {
    if values.is_empty() {
        return Ok(new_empty_array(data_type));
    }
    match data_type {
        DataType::Boolean => {
            let values = values.into_iter().map(|value| match value {
                Value::Null => Ok(None),
                Value::Bool(value) => Ok(Some(value)),
                other => Err(unfit(what, "a boolean", &other)),
            });
            Ok(Arc::new(values.collect::<Result<BooleanArray>>()?))
        }
        DataType::Float16 | DataType::Float32 | DataType::Float64 => {
            let values = values.into_iter().map(|value| match value {
                Value::Null => Ok(None),
                Value::Float(value) => Ok(Some(value)),
                // As in Rust's own conversions: a whole number becomes the nearest float.
                #[expect(clippy::cast_precision_loss, reason = "meant")]
                Value::Int(value) => Ok(Some(value as f64)),
                other => Err(unfit(what, "a number", &other)),
            });
            Ok(Arc::new(values.collect::<Result<Float64Array>>()?))
        }
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => {
            let values = values.into_iter().map(|value| binary(value, what));
            Ok(Arc::new(values.collect::<Result<BinaryArray>>()?))
        }
        DataType::UInt64
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => {
            let values = values.into_iter().map(|value| text(value, what));
            Ok(Arc::new(values.collect::<Result<StringArray>>()?))
        }
        DataType::Timestamp(unit, _) => timestamps(data_type, *unit, values, what),
        _ if data_type.is_numeric() || data_type.is_temporal() => {
            let values = values.into_iter().map(|value| whole(value, what));
            let ticks: ArrayRef = Arc::new(values.collect::<Result<Int64Array>>()?);
            match data_type {
                // These are 32 bits wide and are not cast from 64 directly.
                DataType::Date32 | DataType::Time32(_) => cast_to(ticks, &DataType::Int32, what),
                _ => Ok(ticks),
            }
        }
        other => Err(Error::invalid(format!(
            "{what} cannot be written as {other}: declare another type"
        ))),
    }
}

fn timestamps(
    data_type: &DataType,
    unit: TimeUnit,
    values: Vec<Value<'_>>,
    what: &str,
) -> Result<ArrayRef> {
    let mut ticks = Vec::with_capacity(values.len());
    for value in values {
        ticks.push(match value {
            Value::Text(time) => {
                let time: ArrayRef = Arc::new(StringArray::from(vec![time.as_ref()]));
                let zoned = DataType::Timestamp(unit, Some("+00:00".into()));
                let time = cast_to(cast_to(time, &zoned, what)?, &DataType::Int64, what)?;
                whole(super::value_at(time.as_ref(), 0)?, what)?
            }
            Value::Time(time, own) if own == unit => Some(time),
            other => whole(other, what)?,
        });
    }
    cast_to(Arc::new(Int64Array::from(ticks)), data_type, what)
}

fn binary(value: Value<'_>, what: &str) -> Result<Option<Vec<u8>>> {
    match value {
        Value::Null => Ok(None),
        Value::Bytes(bytes) => Ok(Some(bytes.into_owned())),
        Value::Text(text) => Ok(Some(text.into_owned().into_bytes())),
        Value::List(list) => {
            let bytes = list.into_iter().map(|value| match value {
                Value::Int(byte) => {
                    u8::try_from(byte).map_err(|_| unfit(what, "bytes", &Value::Int(byte)))
                }
                other => Err(unfit(what, "bytes", &other)),
            });
            Ok(Some(bytes.collect::<Result<_>>()?))
        }
        other => Err(unfit(what, "bytes", &other)),
    }
}

fn text(value: Value<'_>, what: &str) -> Result<Option<String>> {
    match value {
        Value::Null => Ok(None),
        Value::Text(text) => Ok(Some(text.into_owned())),
        Value::Int(value) => Ok(Some(value.to_string())),
        Value::Float(value) => Ok(Some(value.to_string())),
        other => Err(unfit(what, "text", &other)),
    }
}

fn whole(value: Value<'_>, what: &str) -> Result<Option<i64>> {
    match value {
        Value::Null => Ok(None),
        Value::Int(value) => match i64::try_from(value) {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(Error::invalid(format!("{what} has a number over 64 bits"))),
        },
        Value::Time(ticks, _) => Ok(Some(ticks)),
        other => Err(unfit(what, "a whole number", &other)),
    }
}

/// A cast that fails rather than give NULL.
fn cast_to(array: ArrayRef, data_type: &DataType, what: &str) -> Result<ArrayRef> {
    if array.data_type() == data_type {
        return Ok(array);
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(&array, data_type, &options).map_err(|error| {
        Error::invalid(format!("{what} does not fit the declared type {data_type}")).because(error)
    })
}

fn made<A: arrow::array::Array + 'static>(
    array: std::result::Result<A, arrow::error::ArrowError>,
    what: &str,
) -> Result<ArrayRef> {
    match array {
        Ok(array) => Ok(Arc::new(array)),
        Err(error) => Err(Error::invalid(format!("{what} does not fit its schema")).because(error)),
    }
}

/// The error does not show the value: it may be a secret.
fn unfit(what: &str, wanted: &str, given: &Value<'_>) -> Error {
    let given = match given {
        Value::Null => "NULL",
        Value::Bool(_) => "a boolean",
        Value::Int(_) => "a whole number",
        Value::Float(_) => "a float",
        Value::Text(_) => "text",
        Value::Bytes(_) => "bytes",
        Value::Time(..) => "a timestamp",
        Value::List(_) => "a list or tuple",
        Value::Fields(_) => "a struct",
        Value::Map(_) => "a map",
    };
    Error::invalid(format!("{what} has {given} where its schema has {wanted}"))
}
