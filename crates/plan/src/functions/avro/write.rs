//! Values to Avro's binary form.

use super::schema::{VALUE, wrapped};
use crate::functions::encoded::{CONFLUENT, plan_error};
use crate::functions::json::known_types;
use arrow::array::{Array, ArrayRef, BinaryBuilder, RecordBatch, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use arrow_avro::schema::SCHEMA_METADATA_KEY;
use arrow_avro::writer::WriterBuilder;
use arrow_avro::writer::format::AvroBinaryFormat;
use datafusion::error::{DataFusionError, Result};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// The bytes of each value in a schema, behind the id of the schema if there is one; NULL for NULL.
///
/// # Errors
/// Execution, when a value does not fit the schema.
pub(super) fn write(values: &ArrayRef, schema: &Value, id: Option<u32>) -> Result<ArrayRef> {
    let there: Vec<u32> = (0_u32..)
        .zip(0..values.len())
        .filter(|(_, row)| values.is_valid(*row))
        .map(|(place, _)| place)
        .collect();
    let mut bytes = BinaryBuilder::new();
    let mut encoded = encoded(values, &there, schema)?.into_iter();
    let mut framed = Vec::new();
    for row in 0..values.len() {
        if values.is_null(row) {
            bytes.append_null();
            continue;
        }
        let body = encoded.next().ok_or_else(|| plan_error("a value was not encoded"))?;
        framed.clear();
        if let Some(id) = id {
            framed.push(CONFLUENT);
            framed.extend_from_slice(&id.to_be_bytes());
        }
        framed.extend_from_slice(&body);
        bytes.append_value(&framed);
    }
    Ok(Arc::new(bytes.finish()))
}

fn encoded(values: &ArrayRef, rows: &[u32], schema: &Value) -> Result<Vec<bytes::Bytes>> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let values = take(values, &UInt32Array::from(rows.to_vec()), None)?;
    let values = whole_numbers(&known_types(&values)?)?;
    let field = Field::new(VALUE, values.data_type().clone(), true);
    let metadata = HashMap::from([(SCHEMA_METADATA_KEY.to_owned(), wrapped(schema))]);
    let columns = Arc::new(Schema::new_with_metadata(vec![field], metadata));
    let batch = RecordBatch::try_new(Arc::clone(&columns), vec![values])?;
    let wrong = |error: &dyn std::fmt::Display| {
        DataFusionError::Execution(format!(
            "[AVRO_INCOMPATIBLE_WRITE_TYPE] values do not fit the Avro schema {schema}: {error}"
        ))
    };
    let mut encoder = WriterBuilder::new(columns.as_ref().clone())
        .build_encoder::<AvroBinaryFormat>()
        .map_err(|error| wrong(&error))?;
    encoder.encode(&batch).map_err(|error| wrong(&error))?;
    let encoded = encoder.flush();
    Ok(encoded.iter().collect())
}

/// Avro has whole numbers of 32 and of 64 bits.
fn whole_numbers(values: &ArrayRef) -> Result<ArrayRef> {
    let wanted = widened(values.data_type());
    Ok(if &wanted == values.data_type() { Arc::clone(values) } else { cast(values, &wanted)? })
}

fn widened(data_type: &DataType) -> DataType {
    let field = |field: &FieldRef| -> FieldRef {
        Arc::new(field.as_ref().clone().with_data_type(widened(field.data_type())))
    };
    match data_type {
        DataType::Int8 | DataType::Int16 => DataType::Int32,
        DataType::List(element) => DataType::List(field(element)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect()),
        DataType::Map(entries, sorted) => DataType::Map(field(entries), *sorted),
        other => other.clone(),
    }
}
