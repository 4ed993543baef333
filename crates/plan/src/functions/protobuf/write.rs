//! Rows to messages.

use super::descriptor::{TIMESTAMP, fields};
use crate::functions::encoded::{CONFLUENT, plan_error};
use arrow::array::{Array, ArrayRef, AsArray, BinaryBuilder, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Fields, Float32Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType,
};
use datafusion::error::{DataFusionError, Result};
use prost_reflect::prost::Message;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// The struct's columns with the types of the message's fields, in the struct's order.
fn wanted(given: &Fields, message: &MessageDescriptor) -> Result<Fields> {
    let known = fields(message, false)?;
    let find = |name: &str| known.iter().find(|field| field.name().eq_ignore_ascii_case(name));
    if let Some(missing) = message
        .fields()
        .find(|it| it.is_required() && !given.iter().any(|own| own.name() == it.name()))
    {
        return Err(plan_error(format!(
            "[PROTOBUF_FIELD_MISSING] the message {} needs the field {}",
            message.full_name(),
            missing.name()
        )));
    }
    given
        .iter()
        .map(|own| match find(own.name()) {
            Some(field) => Ok(field.as_ref().clone().with_nullable(true)),
            None => Err(plan_error(format!(
                "[PROTOBUF_FIELD_MISSING_IN_SQL_SCHEMA] the message {} has no field {}",
                message.full_name(),
                own.name()
            ))),
        })
        .collect()
}

/// # Errors
/// Plan, when a column does not fit the message.
pub(super) fn check(data_type: &DataType, message: &MessageDescriptor) -> Result<()> {
    let DataType::Struct(given) = data_type else {
        return Err(plan_error("to_protobuf takes a struct: struct(a, b)"));
    };
    wanted(given, message).map(|_| ())
}

/// The bytes of each row as a message, behind the id of its schema if there is one; NULL for NULL.
///
/// # Errors
/// Execution, when a value does not fit its field.
pub(super) fn write(
    values: &ArrayRef,
    message: &MessageDescriptor,
    id: Option<u32>,
) -> Result<ArrayRef> {
    let head = id.map(|id| head(id, message)).unwrap_or_default();
    let rows = values.as_struct_opt().ok_or_else(|| plan_error("to_protobuf takes a struct"))?;
    let fields = wanted(rows.fields(), message)?;
    let columns = rows.columns().iter().zip(&fields);
    let columns = columns.map(|(column, field)| Ok(cast(column, field.data_type())?));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let fitted =
        StructArray::try_new_with_length(fields, columns, rows.nulls().cloned(), rows.len())?;
    let mut bytes = BinaryBuilder::new();
    for row in 0..fitted.len() {
        match fitted.is_valid(row) {
            true => {
                let mut framed = head.clone();
                framed.extend(one(&fitted, row, message)?.encode_to_vec());
                bytes.append_value(framed);
            }
            false => bytes.append_null(),
        }
    }
    Ok(Arc::new(bytes.finish()))
}

/// What stands before a message that names its schema: the id, and the place of the message in the
/// schema's file, each number in zigzag form. The first message's place is a single 0.
fn head(id: u32, message: &MessageDescriptor) -> Vec<u8> {
    let mut head = vec![CONFLUENT];
    head.extend_from_slice(&id.to_be_bytes());
    // A path is pairs of the number of a field and a place in it.
    let places: Vec<i32> = message.path().iter().skip(1).step_by(2).copied().collect();
    if places == [0] {
        head.push(0);
        return head;
    }
    let count = i32::try_from(places.len()).unwrap_or(i32::MAX);
    for number in std::iter::once(count).chain(places) {
        let mut rest = number.cast_unsigned() << 1;
        while rest >= 0x80 {
            head.push((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        head.push(rest as u8);
    }
    head
}

fn one(rows: &StructArray, row: usize, message: &MessageDescriptor) -> Result<DynamicMessage> {
    let mut made = DynamicMessage::new(message.clone());
    for (field, column) in rows.fields().iter().zip(rows.columns()) {
        let Some(descriptor) = message.get_field_by_name(field.name()) else { continue };
        if column.is_null(row) {
            if descriptor.is_required() {
                return Err(misfit(&descriptor, row, "it is required, and NULL"));
            }
            continue;
        }
        let value = value(column, row, &descriptor)?;
        made.try_set_field(&descriptor, value)
            .map_err(|error| misfit(&descriptor, row, &error.to_string()))?;
    }
    Ok(made)
}

fn misfit(field: &FieldDescriptor, row: usize, why: &str) -> DataFusionError {
    DataFusionError::Execution(format!(
        "the value in row {row} of a batch does not fit the field {}: {why}",
        field.full_name()
    ))
}

fn value(column: &ArrayRef, row: usize, field: &FieldDescriptor) -> Result<Value> {
    if let (Some(map), Kind::Message(entry)) = (column.as_map_opt(), field.kind()) {
        let (key, item) = (entry.map_entry_key_field(), entry.map_entry_value_field());
        let entries = map.value(row);
        let (keys, items) = (entries.column(0), entries.column(1));
        let mut made = HashMap::with_capacity(entries.len());
        for place in 0..entries.len() {
            let key = map_key(single(keys, place, &key)?)
                .ok_or_else(|| misfit(field, row, "a key of a map cannot have this type"))?;
            if items.is_null(place) {
                return Err(misfit(field, row, "a value of a map is NULL"));
            }
            made.insert(key, single(items, place, &item)?);
        }
        return Ok(Value::Map(made));
    }
    if let Some(list) = column.as_list_opt::<i32>() {
        let items = list.value(row);
        if items.null_count() > 0 {
            return Err(misfit(field, row, "an element of a list is NULL"));
        }
        let items = (0..items.len()).map(|place| single(&items, place, field));
        return Ok(Value::List(items.collect::<Result<_>>()?));
    }
    single(column, row, field)
}

fn map_key(value: Value) -> Option<MapKey> {
    Some(match value {
        Value::Bool(key) => MapKey::Bool(key),
        Value::I32(key) => MapKey::I32(key),
        Value::I64(key) => MapKey::I64(key),
        Value::U32(key) => MapKey::U32(key),
        Value::U64(key) => MapKey::U64(key),
        Value::String(key) => MapKey::String(key),
        _ => return None,
    })
}

/// A value that is neither a list nor a map.
fn single(column: &ArrayRef, row: usize, field: &FieldDescriptor) -> Result<Value> {
    let other = || misfit(field, row, "it has another type");
    let int = || column.as_primitive_opt::<Int32Type>().map(|it| it.value(row)).ok_or_else(other);
    let long = || column.as_primitive_opt::<Int64Type>().map(|it| it.value(row)).ok_or_else(other);
    let text = || column.as_string_opt::<i32>().map(|it| it.value(row)).ok_or_else(other);
    Ok(match field.kind() {
        Kind::Bool => Value::Bool(column.as_boolean_opt().ok_or_else(other)?.value(row)),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(int()?),
        Kind::Uint32 | Kind::Fixed32 => Value::U32(int()?.cast_unsigned()),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(long()?),
        Kind::Uint64 | Kind::Fixed64 => Value::U64(long()?.cast_unsigned()),
        Kind::Float => {
            Value::F32(column.as_primitive_opt::<Float32Type>().ok_or_else(other)?.value(row))
        }
        Kind::Double => {
            Value::F64(column.as_primitive_opt::<Float64Type>().ok_or_else(other)?.value(row))
        }
        Kind::String => Value::String(text()?.to_owned()),
        Kind::Bytes => {
            let bytes = column.as_binary_opt::<i32>().ok_or_else(other)?.value(row);
            Value::Bytes(bytes.to_vec().into())
        }
        Kind::Enum(kind) => {
            let name = text()?;
            let known = kind.get_value_by_name(name).map(|value| value.number());
            let number = known.or_else(|| name.parse().ok());
            Value::EnumNumber(number.ok_or_else(|| {
                misfit(field, row, &format!("{} has no value {name}", kind.full_name()))
            })?)
        }
        Kind::Message(message) if message.full_name() == TIMESTAMP => {
            let times = column.as_primitive_opt::<TimestampMicrosecondType>().ok_or_else(other)?;
            let micros = times.value(row);
            let nanos = i32::try_from(micros.rem_euclid(1_000_000) * 1_000).unwrap_or(0);
            let mut time = DynamicMessage::new(message);
            time.set_field_by_name("seconds", Value::I64(micros.div_euclid(1_000_000)));
            time.set_field_by_name("nanos", Value::I32(nanos));
            Value::Message(time)
        }
        Kind::Message(message) => {
            Value::Message(one(column.as_struct_opt().ok_or_else(other)?, row, &message)?)
        }
    })
}
