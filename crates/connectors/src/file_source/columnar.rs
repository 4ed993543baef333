//! Parquet, ORC and Avro: files that bring a schema of their own.

use super::reader::Wanted;
use super::rows::{Emit, batch_of};
use arrow::array::{ArrayRef, Int64Array, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use arrow_avro::reader::ReaderBuilder;
use onefold_types::{Error, Result};
use orc_rust::projection::ProjectionMask as OrcMask;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::reader::ChunkReader;
use std::io::{BufReader, Read};
use std::sync::Arc;

/// Where a column lies. Names compare without case, as Spark's readers do by default.
fn find(there: &Schema, name: &str) -> Option<usize> {
    there
        .index_of(name)
        .ok()
        .or_else(|| there.fields().iter().position(|field| field.name().eq_ignore_ascii_case(name)))
}

fn places(there: &Schema, wanted: &Wanted) -> Vec<usize> {
    wanted.schema.fields().iter().filter_map(|field| find(there, field.name())).collect()
}

fn damaged<E: std::error::Error + Send + Sync + 'static>(format: &str) -> impl Fn(E) -> Error {
    let text = format!("it is not a whole {format} file");
    move |error| Error::corrupt(text.clone()).because(error)
}

/// Gives the batches of a file in the wanted form.
fn give<E: std::error::Error + Send + Sync + 'static>(
    batches: impl Iterator<Item = std::result::Result<RecordBatch, E>>,
    format: &str,
    path: &str,
    wanted: &Wanted,
    emit: &mut Emit<'_>,
) -> Result<()> {
    let mut row = 0_i64;
    for batch in batches {
        let batch = batch.map_err(damaged(format))?;
        let count = batch.num_rows();
        let mut columns = Vec::with_capacity(wanted.schema.fields().len() + 1);
        for field in wanted.schema.fields() {
            let there = find(batch.schema_ref(), field.name());
            columns.push(match there.and_then(|at| batch.columns().get(at)) {
                Some(column) => fitted(column, path, field)?,
                None => new_null_array(field.data_type(), count),
            });
        }
        let out = if wanted.row_index {
            let end = row.saturating_add(i64::try_from(count).unwrap_or(i64::MAX));
            columns.push(Arc::new(Int64Array::from_iter_values(row..end)));
            row = end;
            with_row_index(wanted, columns, count)?
        } else {
            batch_of(&wanted.schema, columns, count)?
        };
        if !emit(out)? {
            return Ok(());
        }
    }
    Ok(())
}

/// Reads a Parquet file.
pub(crate) fn parquet<R: ChunkReader + 'static>(
    file: R,
    path: &str,
    wanted: &Wanted,
    emit: &mut Emit<'_>,
) -> Result<()> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(damaged("Parquet"))?;
    let there = Arc::clone(builder.schema());
    let mask = ProjectionMask::roots(builder.parquet_schema(), places(&there, wanted));
    let batches = builder
        .with_projection(mask)
        .with_batch_size(wanted.batch_rows)
        .build()
        .map_err(damaged("Parquet"))?;
    give(batches, "Parquet", path, wanted, emit)
}

/// The columns of a Parquet file.
pub(crate) fn parquet_schema<R: ChunkReader + 'static>(file: R) -> Result<SchemaRef> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(damaged("Parquet"))?;
    Ok(Arc::clone(builder.schema()))
}

/// The columns of an ORC file.
pub(crate) fn orc_schema<R: orc_rust::reader::ChunkReader>(file: R) -> Result<SchemaRef> {
    Ok(orc_rust::ArrowReaderBuilder::try_new(file).map_err(damaged("ORC"))?.schema())
}

/// The columns of an Avro file.
pub(crate) fn avro_schema(input: Box<dyn Read + Send>) -> Result<SchemaRef> {
    let reader = ReaderBuilder::new().build(BufReader::new(input)).map_err(damaged("Avro"))?;
    Ok(reader.schema())
}

/// Reads an ORC file.
pub(crate) fn orc<R: orc_rust::reader::ChunkReader>(
    file: R,
    path: &str,
    wanted: &Wanted,
    emit: &mut Emit<'_>,
) -> Result<()> {
    let builder = orc_rust::ArrowReaderBuilder::try_new(file)
        .map_err(damaged("ORC"))?
        .with_timestamp_precision(orc_rust::schema::TimestampPrecision::Microsecond)
        .with_batch_size(wanted.batch_rows);
    let there = builder.schema();
    let mut names: Vec<&str> = places(&there, wanted)
        .into_iter()
        .filter_map(|at| there.fields().get(at).map(|field| field.name().as_str()))
        .collect();
    if names.is_empty() {
        // Rows are counted by a column.
        names.extend(there.fields().first().map(|field| field.name().as_str()));
    }
    let mask = OrcMask::named_roots(builder.file_metadata().root_data_type(), &names);
    give(builder.with_projection(mask).build(), "ORC", path, wanted, emit)
}

/// Reads an Avro object container file.
pub(crate) fn avro(
    input: Box<dyn Read + Send>,
    path: &str,
    wanted: &Wanted,
    emit: &mut Emit<'_>,
) -> Result<()> {
    let batches = ReaderBuilder::new()
        .with_batch_size(wanted.batch_rows)
        .build(BufReader::with_capacity(256 * 1024, input))
        .map_err(damaged("Avro"))?;
    give(batches, "Avro", path, wanted, emit)
}

/// Widens a column to the type wanted. What could lose or change values is refused, as in Spark.
fn fitted(column: &ArrayRef, path: &str, field: &Field) -> Result<ArrayRef> {
    use DataType as D;
    let (name, there, wanted) = (field.name(), column.data_type(), field.data_type());
    let width = |kind: &D| match kind {
        D::Int8 => Some(1),
        D::Int16 => Some(2),
        D::Int32 => Some(3),
        D::Int64 => Some(4),
        _ => None,
    };
    let texts = |kind: &D| {
        matches!(
            kind,
            D::Utf8 | D::LargeUtf8 | D::Utf8View | D::Binary | D::LargeBinary | D::BinaryView
        )
    };
    let fits = there == wanted
        || matches!((width(there), width(wanted)), (Some(from), Some(to)) if from <= to)
        || matches!((there, wanted), (D::Float32, D::Float64) | (D::Int32, D::Float64))
        || matches!((there, wanted), (D::Timestamp(..), D::Timestamp(..)))
        || (texts(there) && texts(wanted))
        || matches!((there, wanted), (D::Decimal128(..), D::Decimal128(..)))
        || (there.is_nested() && wanted.is_nested())
        || matches!(there, D::Dictionary(..) | D::Null);
    if !fits {
        return Err(Error::invalid(format!(
            "column `{name}` is {there} in {path}, but {wanted} in the schema; give the column \
             a type that holds both, or read the files apart"
        )));
    }
    let options = arrow::compute::CastOptions { safe: false, ..Default::default() };
    arrow::compute::cast_with_options(column, wanted, &options).map_err(|error| {
        Error::invalid(format!(
            "column `{name}` of {path} does not fit {wanted}; give the column another type"
        ))
        .because(error)
    })
}

fn with_row_index(wanted: &Wanted, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let mut fields: Vec<_> = wanted.schema.fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new("row_index", DataType::Int64, true)));
    batch_of(&Arc::new(Schema::new(fields)), columns, rows)
}
