//! Messages to rows.

use super::Options;
use super::descriptor::TIMESTAMP;
use crate::functions::encoded::{plan_error, unframed};
use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Float32Array, Float64Array, Int32Array, Int64Array,
    ListArray, MapArray, StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Fields};
use datafusion::error::{DataFusionError, Result};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value};
use std::sync::Arc;

/// A row for each message; NULL where there is no data.
///
/// # Errors
/// Execution, with the first row that cannot be read, where that is an error.
pub(super) fn read(
    data: &BinaryArray,
    message: &MessageDescriptor,
    fields: &Fields,
    options: Options,
) -> Result<ArrayRef> {
    let mut messages = Vec::with_capacity(data.len());
    for (row, bytes) in data.iter().enumerate() {
        let Some(bytes) = bytes else {
            messages.push(None);
            continue;
        };
        match decoded(bytes, message, options.confluent) {
            Ok(read) => messages.push(Some(read)),
            Err(_) if options.permissive => messages.push(None),
            Err(why) => {
                return Err(DataFusionError::Execution(format!(
                    "[MALFORMED_PROTOBUF_MESSAGE] {} bytes in row {row} of a batch are no message {} \
                     ({why}); the option mode => PERMISSIVE gives NULL instead",
                    bytes.len(),
                    message.full_name()
                )));
            }
        }
    }
    let messages: Vec<Option<&DynamicMessage>> = messages.iter().map(Option::as_ref).collect();
    structs(&messages, message, fields, options)
}

fn decoded(
    bytes: &[u8],
    message: &MessageDescriptor,
    confluent: bool,
) -> std::result::Result<DynamicMessage, String> {
    let body = match confluent {
        false => bytes,
        true => unframed(bytes)
            .and_then(behind_indexes)
            .ok_or("it does not begin with the id of a schema and the place of a message")?,
    };
    DynamicMessage::decode(message.clone(), body).map_err(|error| error.to_string())
}

/// What stands behind the place of the message in its file: a count and so many numbers, in the
/// variable form; a count of 0 stands for the first message.
fn behind_indexes(bytes: &[u8]) -> Option<&[u8]> {
    let (count, mut rest) = number(bytes)?;
    // Written in zigzag form, and never negative.
    for _ in 0..count / 2 {
        rest = number(rest)?.1;
    }
    Some(rest)
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    for (place, byte) in bytes.iter().enumerate().take(9) {
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(place + 1..)?));
        }
    }
    None
}

fn structs(
    messages: &[Option<&DynamicMessage>],
    message: &MessageDescriptor,
    fields: &Fields,
    options: Options,
) -> Result<ArrayRef> {
    let mut columns = Vec::with_capacity(fields.len());
    for (descriptor, field) in message.fields().zip(fields) {
        let values: Vec<Option<Value>> =
            messages.iter().map(|message| value(*message, &descriptor, options)).collect();
        let values: Vec<Option<&Value>> = values.iter().map(Option::as_ref).collect();
        columns.push(column(&values, &descriptor, field.data_type(), options)?);
    }
    let nulls = NullBuffer::from_iter(messages.iter().map(Option::is_some));
    let fields: Fields =
        fields.iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    let rows = StructArray::try_new_with_length(fields, columns, Some(nulls), messages.len())?;
    Ok(Arc::new(rows))
}

/// The value of a field, as Spark has it: nothing where a field that is not set has no default of its
/// own.
fn value(
    message: Option<&DynamicMessage>,
    field: &FieldDescriptor,
    options: Options,
) -> Option<Value> {
    let message = message?;
    let given = field.is_list() || field.is_map() || message.has_field(field);
    let default = options.emit_default && !field.supports_presence();
    (given || default).then(|| message.get_field(field).into_owned())
}

fn column(
    values: &[Option<&Value>],
    field: &FieldDescriptor,
    to: &DataType,
    options: Options,
) -> Result<ArrayRef> {
    match (to, field.kind()) {
        (DataType::Map(entries, _), Kind::Message(entry)) if field.is_map() => {
            let (mut keys, mut items, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
            for value in values {
                let Some(Value::Map(map)) = value else {
                    lengths.push(0);
                    continue;
                };
                let mut sorted: Vec<(&MapKey, &Value)> = map.iter().collect();
                sorted.sort_by_key(|(key, _)| *key);
                lengths.push(sorted.len());
                keys.extend(sorted.iter().map(|(key, _)| Value::from((*key).clone())));
                items.extend(sorted.into_iter().map(|(_, item)| Some(item)));
            }
            let DataType::Struct(pair) = entries.data_type() else { return Err(misfit(field)) };
            let [key, item] = pair.as_ref() else { return Err(misfit(field)) };
            let keys: Vec<Option<&Value>> = keys.iter().map(Some).collect();
            let keys = single(&keys, &entry.map_entry_key_field(), key.data_type(), options)?;
            let items = single(&items, &entry.map_entry_value_field(), item.data_type(), options)?;
            let pairs = StructArray::try_new(pair.clone(), vec![keys, items], None)?;
            let offsets = OffsetBuffer::from_lengths(lengths);
            let nulls = nulls_of(values);
            Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, pairs, nulls, false)?))
        }
        (DataType::List(element), _) => {
            let lists = values.iter().map(|value| match value {
                Some(Value::List(list)) => list.as_slice(),
                _ => &[],
            });
            let offsets = OffsetBuffer::from_lengths(lists.clone().map(<[Value]>::len));
            let items: Vec<Option<&Value>> = lists.flatten().map(Some).collect();
            let items = single(&items, field, element.data_type(), options)?;
            let nulls = nulls_of(values);
            Ok(Arc::new(ListArray::try_new(Arc::clone(element), offsets, items, nulls)?))
        }
        _ => single(values, field, to, options),
    }
}

fn nulls_of(values: &[Option<&Value>]) -> Option<NullBuffer> {
    Some(NullBuffer::from_iter(values.iter().map(Option::is_some)))
}

fn misfit(field: &FieldDescriptor) -> DataFusionError {
    plan_error(format!("the field {} has another type than planned", field.full_name()))
}

/// Values that are neither lists nor maps.
fn single(
    values: &[Option<&Value>],
    field: &FieldDescriptor,
    to: &DataType,
    options: Options,
) -> Result<ArrayRef> {
    let values = values.iter().copied();
    Ok(match (to, field.kind()) {
        (DataType::Boolean, _) => {
            Arc::new(values.map(|it| it?.as_bool()).collect::<BooleanArray>())
        }
        // Java has no unsigned numbers: large ones wrap, as in Spark.
        (DataType::Int32, _) => Arc::new(
            values
                .map(|it| match it? {
                    Value::I32(number) | Value::EnumNumber(number) => Some(*number),
                    Value::U32(number) => Some(number.cast_signed()),
                    _ => None,
                })
                .collect::<Int32Array>(),
        ),
        (DataType::Int64, _) => Arc::new(
            values
                .map(|it| match it? {
                    Value::I64(number) => Some(*number),
                    Value::U64(number) => Some(number.cast_signed()),
                    _ => None,
                })
                .collect::<Int64Array>(),
        ),
        (DataType::Float32, _) => Arc::new(values.map(|it| it?.as_f32()).collect::<Float32Array>()),
        (DataType::Float64, _) => Arc::new(values.map(|it| it?.as_f64()).collect::<Float64Array>()),
        (DataType::Utf8, Kind::Enum(kind)) => Arc::new(
            values
                .map(|it| {
                    let number = it?.as_enum_number()?;
                    let known = kind.get_value(number).map(|value| value.name().to_owned());
                    Some(known.unwrap_or_else(|| number.to_string()))
                })
                .collect::<StringArray>(),
        ),
        (DataType::Utf8, _) => Arc::new(values.map(|it| it?.as_str()).collect::<StringArray>()),
        (DataType::Binary, _) => {
            Arc::new(values.map(|it| Some(it?.as_bytes()?.as_ref())).collect::<BinaryArray>())
        }
        (DataType::Timestamp(..), Kind::Message(message)) if message.full_name() == TIMESTAMP => {
            let times = values.map(|it| micros(it?.as_message()?));
            let times = times.collect::<TimestampMicrosecondArray>();
            Arc::new(times.with_timezone(crate::schema::UTC))
        }
        (DataType::Struct(fields), Kind::Message(message)) => {
            let inner: Vec<Option<&DynamicMessage>> =
                values.map(|it| it.and_then(Value::as_message)).collect();
            let rows = structs(&inner, &message, fields, options)?;
            return Ok(arrow::compute::cast(&rows, to)?);
        }
        _ => return Err(misfit(field)),
    })
}

/// A `google.protobuf.Timestamp`; NULL where no timestamp can hold it.
fn micros(message: &DynamicMessage) -> Option<i64> {
    let seconds = message.get_field_by_name("seconds")?.as_i64()?;
    let nanos = message.get_field_by_name("nanos")?.as_i32()?;
    seconds.checked_mul(1_000_000)?.checked_add(i64::from(nanos) / 1_000)
}
