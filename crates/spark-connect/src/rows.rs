//! Rows in the form in which Spark's clients take them: plain Arrow types, one IPC stream a batch.

use crate::arrow_stream;
use crate::failure::{Failure, Outcome};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use arrow::ipc::writer::StreamWriter;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use arrow::util::display::FormatOptions;
use onefold_types::Error;
use std::sync::Arc;

/// The schema with types that Spark's clients know: no views, no dictionaries, no unsigned numbers,
/// times in microseconds.
pub(crate) fn plain_schema(schema: &Schema) -> SchemaRef {
    let fields: Vec<Field> = schema.fields().iter().map(|field| plain_field(field)).collect();
    Arc::new(Schema::new(fields))
}

fn plain_field(field: &Field) -> Field {
    Field::new(field.name(), plain_type(field.data_type()), field.is_nullable())
}

fn plain_ref(field: &FieldRef) -> FieldRef {
    Arc::new(plain_field(field))
}

fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary | DataType::FixedSizeBinary(_) => {
            DataType::Binary
        }
        DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 | DataType::UInt64 => DataType::Int64,
        DataType::Float16 => DataType::Float32,
        DataType::Date64 => DataType::Date32,
        DataType::Timestamp(_, zone) => {
            let zone = zone.as_ref().map(|_| Arc::from("UTC"));
            DataType::Timestamp(TimeUnit::Microsecond, zone)
        }
        DataType::Duration(_) => DataType::Duration(TimeUnit::Microsecond),
        DataType::Dictionary(_, value) => plain_type(value),
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::FixedSizeList(element, _)
        | DataType::ListView(element) => DataType::List(plain_ref(element)),
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(plain_ref).collect::<Fields>())
        }
        DataType::Map(entries, sorted) => DataType::Map(plain_ref(entries), *sorted),
        other => other.clone(),
    }
}

/// A value that does not fit is an error, and never NULL.
const WHOLE: CastOptions<'static> =
    CastOptions { safe: false, format_options: FormatOptions::new() };

/// A batch in the plain types.
pub(crate) fn plain_batch(batch: &RecordBatch, schema: &SchemaRef) -> Outcome<RecordBatch> {
    let columns: Result<Vec<ArrayRef>, arrow::error::ArrowError> = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| {
            let column = if column.data_type() == field.data_type() {
                Arc::clone(column)
            } else {
                cast_with_options(column, field.data_type(), &WHOLE)?
            };
            null_below(column)
        })
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    columns
        .and_then(|columns| RecordBatch::try_new_with_options(nullable(schema), columns, &options))
        .map_err(|error| internal("rows do not take the types of Spark's clients", error))
}

/// Where a struct is NULL its fields are, too: Arrow leaves open what is in them, and the engine
/// reads them without a look at the struct.
fn null_below(column: ArrayRef) -> Result<ArrayRef, arrow::error::ArrowError> {
    let Some(rows) = column.as_struct_opt() else { return Ok(column) };
    let fields = rows.fields().clone();
    let children = rows.columns().iter().map(|child| {
        let child = match rows.nulls() {
            Some(nulls) if nulls.null_count() > 0 => {
                let hidden = arrow::array::BooleanArray::new(!nulls.inner(), None);
                arrow::compute::nullif(child, &hidden)?
            }
            _ => Arc::clone(child),
        };
        null_below(child)
    });
    let children = children.collect::<Result<Vec<_>, _>>()?;
    let fields: Fields = fields
        .iter()
        .zip(&children)
        .map(|(field, child)| {
            let nullable = field.is_nullable() || child.null_count() > 0;
            field.as_ref().clone().with_nullable(nullable)
        })
        .collect();
    if &fields == rows.fields() {
        let rows = arrow::array::StructArray::try_new(fields, children, rows.nulls().cloned())?;
        return Ok(Arc::new(rows));
    }
    Ok(column)
}

/// Columns may hold NULL whatever was planned: the client only looks at the values.
fn nullable(schema: &SchemaRef) -> SchemaRef {
    let fields: Vec<Field> =
        schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    Arc::new(Schema::new(fields))
}

fn internal(what: &str, error: arrow::error::ArrowError) -> Failure {
    Failure::execution(&Error::internal(what).because(error))
}

/// Bytes of an IPC stream beside its rows, about.
const IPC_FRAME: usize = 4 << 10;

/// A batch as one whole IPC stream.
pub(crate) fn ipc(batch: &RecordBatch) -> Outcome<Vec<u8>> {
    // Room for all, so that what is written is not moved while it grows.
    let columns = batch.columns().iter();
    let size = columns.map(|it| it.to_data().get_slice_memory_size().unwrap_or_default());
    let mut bytes = Vec::with_capacity(size.sum::<usize>().saturating_add(IPC_FRAME));
    let written = StreamWriter::try_new(&mut bytes, &batch.schema()).and_then(|mut writer| {
        writer.write(batch)?;
        writer.finish()
    });
    written.map_err(|error| internal("rows cannot be written as Arrow", error))?;
    Ok(bytes)
}

/// The batches of an IPC stream, with its schema.
pub(crate) fn from_ipc(bytes: &[u8]) -> Outcome<(SchemaRef, Vec<RecordBatch>)> {
    let wrong =
        |error: String| Failure::invalid(format!("the local rows are no Arrow stream: {error}"));
    arrow_stream::check(bytes).map_err(wrong)?;
    let read = arrow::ipc::reader::StreamReader::try_new(bytes, None).and_then(|reader| {
        let schema = reader.schema();
        Ok((schema, reader.collect::<Result<Vec<_>, _>>()?))
    });
    read.map_err(|error| wrong(error.to_string()))
}
