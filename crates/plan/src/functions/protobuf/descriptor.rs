//! Messages of a descriptor set, and the types that Spark gives their fields.

use crate::functions::encoded::plan_error;
use crate::schema::timestamp;
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};
use std::sync::Arc;

/// Largest descriptor set that is read, in bytes.
const BYTES_MAX: u64 = 16 << 20;

/// The message that becomes a timestamp.
pub(super) const TIMESTAMP: &str = "google.protobuf.Timestamp";

/// The message of this name: its full name, or its last part where no other has it.
///
/// # Errors
/// Plan: there is no such message, or the set cannot be read.
pub(super) fn message(name: &str, descriptors: &ScalarValue) -> Result<MessageDescriptor> {
    let bytes = match descriptors {
        ScalarValue::Binary(Some(bytes))
        | ScalarValue::LargeBinary(Some(bytes))
        | ScalarValue::BinaryView(Some(bytes)) => bytes.clone(),
        other => match other.try_as_str().flatten() {
            Some(path) => file(path)?,
            None => {
                return Err(plan_error("the descriptor set must be a literal: a path, or bytes"));
            }
        },
    };
    let pool = decoded(&bytes).map_err(|error| {
        plan_error(format!(
            "[PROTOBUF_DESCRIPTOR_FILE_NOT_FOUND] the descriptor set cannot be read ({error}); make \
             it with protoc --include_imports --descriptor_set_out"
        ))
    })?;
    if let Some(message) = pool.get_message_by_name(name) {
        return Ok(message);
    }
    let mut named = pool.all_messages().filter(|message| message.name() == name);
    match (named.next(), named.next()) {
        (Some(message), None) => Ok(message),
        (Some(_), Some(_)) => Err(plan_error(format!(
            "several messages of the descriptor set are called {name}: give the full name"
        ))),
        (None, _) => {
            let names: Vec<String> = pool
                .all_messages()
                .map(|message| message.full_name().to_owned())
                .take(20)
                .collect();
            Err(plan_error(format!(
                "[PROTOBUF_MESSAGE_NOT_FOUND] the descriptor set has no message {name}; there are {}",
                names.join(", ")
            )))
        }
    }
}

/// A set that leaves out what Google defines is taken as well: registries know those files by themselves.
fn decoded(bytes: &[u8]) -> std::result::Result<DescriptorPool, prost_reflect::DescriptorError> {
    DescriptorPool::decode(bytes).or_else(|error| {
        let mut pool = DescriptorPool::global();
        pool.decode_file_descriptor_set(bytes).map(|()| pool).map_err(|_| error)
    })
}

/// The arguments with the bytes of the descriptor file in place of its path, so that it is read when
/// the query is planned, and no other one meets the plan later. `None` where that is done.
pub(super) fn with_bytes(arguments: &[Expr]) -> Result<Option<Vec<Expr>>> {
    let path = match arguments.get(2) {
        Some(Expr::Literal(path, _)) => path.try_as_str().flatten(),
        _ => None,
    };
    let Some(path) = path else { return Ok(None) };
    let bytes = Expr::Literal(ScalarValue::Binary(Some(file(path)?)), None);
    let mut arguments = arguments.to_vec();
    if let Some(place) = arguments.get_mut(2) {
        *place = bytes;
    }
    Ok(Some(arguments))
}

fn file(path: &str) -> Result<Vec<u8>> {
    let wrong = |error: std::io::Error| {
        plan_error(format!(
            "[PROTOBUF_DESCRIPTOR_FILE_NOT_FOUND] the descriptor file {path} cannot be read: {error}"
        ))
    };
    let size = std::fs::metadata(path).map_err(wrong)?.len();
    if size > BYTES_MAX {
        return Err(plan_error(format!(
            "the descriptor file {path} is larger than {BYTES_MAX} bytes"
        )));
    }
    std::fs::read(path).map_err(wrong)
}

/// The columns of a message.
///
/// # Errors
/// Plan, when a message holds itself.
pub(super) fn fields(message: &MessageDescriptor, enums_as_ints: bool) -> Result<Fields> {
    columns(message, enums_as_ints, &mut Vec::new())
}

fn columns(
    message: &MessageDescriptor,
    enums_as_ints: bool,
    around: &mut Vec<String>,
) -> Result<Fields> {
    if around.iter().any(|name| name == message.full_name()) {
        return Err(plan_error(format!(
            "[RECURSIVE_PROTOBUF_SCHEMA] the message {} holds itself, by way of {}; a type of rows has an \
             end",
            message.full_name(),
            around.join(" > ")
        )));
    }
    around.push(message.full_name().to_owned());
    let fields = message.fields().map(|field| {
        let data_type = column(&field, enums_as_ints, around)?;
        Ok(Field::new(field.name(), data_type, !field.is_required()))
    });
    let fields = fields.collect::<Result<Fields>>();
    around.pop();
    fields
}

fn column(
    field: &FieldDescriptor,
    enums_as_ints: bool,
    around: &mut Vec<String>,
) -> Result<DataType> {
    if let (true, Kind::Message(entry)) = (field.is_map(), field.kind()) {
        let key = single(&entry.map_entry_key_field(), enums_as_ints, around)?;
        let value = single(&entry.map_entry_value_field(), enums_as_ints, around)?;
        let pair = vec![Field::new("key", key, false), Field::new("value", value, false)];
        let entries = Field::new("entries", DataType::Struct(pair.into()), false);
        return Ok(DataType::Map(Arc::new(entries), false));
    }
    let one = single(field, enums_as_ints, around)?;
    Ok(match field.is_list() {
        true => DataType::List(Arc::new(Field::new("element", one, false))),
        false => one,
    })
}

fn single(
    field: &FieldDescriptor,
    enums_as_ints: bool,
    around: &mut Vec<String>,
) -> Result<DataType> {
    Ok(match field.kind() {
        Kind::Bool => DataType::Boolean,
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 | Kind::Uint32 | Kind::Fixed32 => {
            DataType::Int32
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 | Kind::Uint64 | Kind::Fixed64 => {
            DataType::Int64
        }
        Kind::Float => DataType::Float32,
        Kind::Double => DataType::Float64,
        Kind::String => DataType::Utf8,
        Kind::Bytes => DataType::Binary,
        Kind::Enum(_) if enums_as_ints => DataType::Int32,
        Kind::Enum(_) => DataType::Utf8,
        Kind::Message(message) if message.full_name() == TIMESTAMP => timestamp(),
        Kind::Message(message) => DataType::Struct(columns(&message, enums_as_ints, around)?),
    })
}
