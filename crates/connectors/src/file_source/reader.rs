//! Reads one file of any format into batches of the columns wanted.

use super::csv::{self, Dialect};
use super::formats::Reading;
use super::input::{Input, Tolerance};
use super::json;
use super::lines::{Line, for_each_line};
use super::note::ChosenFile;
use super::rows::{Emit, Mode, Rows, batch_of};
use arrow::array::{ArrayRef, Int64Array, StringBuilder, new_null_array};
use arrow::datatypes::{Field, SchemaRef};
use arrow::record_batch::RecordBatch;
use onefold_types::{Error, ErrorKind, Result};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::io::Read;
use std::sync::Arc;

/// The format of the files, with its options.
#[derive(Debug, Clone)]
pub(crate) enum FormatReader {
    Json { multi_line: bool, separator: Option<Vec<u8>>, mode: Mode, corrupt_column: String },
    Csv { dialect: Dialect, mode: Mode, corrupt_column: String },
    Text { whole: bool, separator: Option<Vec<u8>> },
    Parquet,
    BinaryFile,
}

/// What a scan wants of each file.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// The columns to read of the files.
    pub(crate) schema: SchemaRef,
    pub(crate) reading: Reading,
    pub(crate) batch_rows: usize,
    pub(crate) tolerance: Tolerance,
    /// Whether the batches end with a column of row numbers (Parquet).
    pub(crate) row_index: bool,
}

impl FormatReader {
    /// Gives all rows of a file to `emit`.
    pub(crate) fn read(
        &self,
        file: &ChosenFile,
        wanted: &Wanted,
        emit: &mut Emit<'_>,
    ) -> Result<()> {
        let Some(input) = Input::open(file, wanted.tolerance)? else { return Ok(()) };
        let outcome = self.rows(&input, file, wanted, emit);
        match outcome {
            Err(error)
                if wanted.tolerance.corrupt
                    && error.kind() == onefold_types::ErrorKind::Corrupt =>
            {
                tracing::warn!(path = %file.path, %error, "the rest of a corrupt file is left out");
            }
            Err(error) if error.kind() == onefold_types::ErrorKind::Corrupt => {
                return Err(Error::corrupt(format!(
                    "{} cannot be read to its end; repair the file, or set \
                     ignoreCorruptFiles=true to leave the rest of it out",
                    file.path
                ))
                .because(error));
            }
            other => other?,
        }
        input.verify_again(file, wanted.tolerance)
    }

    fn rows(
        &self,
        input: &Input,
        file: &ChosenFile,
        wanted: &Wanted,
        emit: &mut Emit<'_>,
    ) -> Result<()> {
        match self {
            FormatReader::Json { multi_line, separator, mode, corrupt_column } => {
                let mut rows = rows_of(wanted, corrupt_column, *mode, &file.path, emit)?;
                let read =
                    json::read(input.reader()?, *multi_line, separator.as_deref(), &mut rows);
                finish(&mut rows, read)
            }
            FormatReader::Csv { dialect, mode, corrupt_column } => {
                let mut dialect = dialect.clone();
                dialect.places = wanted
                    .schema
                    .fields()
                    .iter()
                    .filter_map(|f| dialect.names.iter().position(|name| name == f.name()))
                    .collect();
                let mut rows = rows_of(wanted, corrupt_column, *mode, &file.path, emit)?;
                let read = csv::read(input.reader()?, &dialect, &file.path, &mut rows);
                finish(&mut rows, read)
            }
            FormatReader::Text { whole, separator } => {
                text(input.reader()?, *whole, separator.as_deref(), wanted, emit)
            }
            FormatReader::Parquet => parquet(input, &file.path, wanted, emit),
            FormatReader::BinaryFile => binary(input, file, wanted, emit),
        }
    }
}

/// Gives out what was read before the end, or before damage that may be left out. A record that
/// stops the query is not whole, and nothing is given out with it.
fn finish(rows: &mut Rows<'_>, read: Result<()>) -> Result<()> {
    if read.as_ref().is_err_and(|error| error.kind() == ErrorKind::Invalid) {
        return read;
    }
    rows.flush()?;
    read
}

fn rows_of<'a>(
    wanted: &Wanted,
    corrupt_column: &str,
    mode: Mode,
    path: &'a str,
    emit: &'a mut Emit<'a>,
) -> Result<Rows<'a>> {
    Rows::new(
        &wanted.schema,
        corrupt_column,
        mode,
        wanted.reading.clone(),
        wanted.batch_rows,
        path,
        emit,
    )
}

fn unpacked(error: std::io::Error) -> Error {
    Error::corrupt("the bytes cannot be unpacked").because(error)
}

fn text(
    mut input: Box<dyn Read + Send>,
    whole: bool,
    separator: Option<&[u8]>,
    wanted: &Wanted,
    emit: &mut Emit<'_>,
) -> Result<()> {
    let mut builder = StringBuilder::new();
    let mut count = 0_usize;
    let mut flush = |builder: &mut StringBuilder, count: &mut usize| -> Result<bool> {
        let rows = std::mem::take(count);
        let column: ArrayRef = Arc::new(builder.finish());
        if rows == 0 {
            return Ok(true);
        }
        let columns = wanted.schema.fields().iter().map(|_| Arc::clone(&column)).collect();
        emit(batch_of(&wanted.schema, columns, rows)?)
    };
    if whole {
        let mut bytes = Vec::new();
        input.read_to_end(&mut bytes).map_err(unpacked)?;
        builder.append_value(String::from_utf8_lossy(&bytes));
        count = 1;
    } else {
        for_each_line(input, separator, |line| {
            match line {
                Line::Text(text) => builder.append_value(text),
                Line::Bytes(bytes) => builder.append_value(String::from_utf8_lossy(bytes)),
            }
            count += 1;
            if count >= wanted.batch_rows { flush(&mut builder, &mut count) } else { Ok(true) }
        })?;
    }
    flush(&mut builder, &mut count)?;
    Ok(())
}

fn parquet(input: &Input, path: &str, wanted: &Wanted, emit: &mut Emit<'_>) -> Result<()> {
    let damaged = |error| Error::corrupt("it is not a whole Parquet file").because(error);
    let file = input.file().try_clone().map_err(unpacked)?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(damaged)?;
    let there = Arc::clone(builder.schema());
    // Names compare without case, as Spark's reader does by default.
    let find = |name: &str| {
        there.index_of(name).ok().or_else(|| {
            there.fields().iter().position(|field| field.name().eq_ignore_ascii_case(name))
        })
    };
    let places: Vec<Option<usize>> =
        wanted.schema.fields().iter().map(|field| find(field.name())).collect();
    let mask = ProjectionMask::roots(builder.parquet_schema(), places.iter().flatten().copied());
    let mut sorted: Vec<usize> = places.iter().flatten().copied().collect();
    sorted.sort_unstable();
    sorted.dedup();
    let reader = builder
        .with_projection(mask)
        .with_batch_size(wanted.batch_rows)
        .build()
        .map_err(damaged)?;
    let mut row = 0_i64;
    for batch in reader {
        let batch =
            batch.map_err(|error| Error::corrupt("its pages cannot be decoded").because(error))?;
        let count = batch.num_rows();
        let mut columns = Vec::with_capacity(places.len());
        for (place, field) in places.iter().zip(wanted.schema.fields()) {
            let at = place.and_then(|place| sorted.binary_search(&place).ok());
            columns.push(match at.and_then(|at| batch.columns().get(at)) {
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

/// Widens a column to the type wanted. What could lose or change values is refused, as in Spark.
fn fitted(column: &ArrayRef, path: &str, field: &Field) -> Result<ArrayRef> {
    use arrow::datatypes::DataType as D;
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
        || matches!(there, D::Dictionary(..));
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
    use arrow::datatypes::{DataType, Schema};
    let mut fields: Vec<_> = wanted.schema.fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new("row_index", DataType::Int64, true)));
    batch_of(&Arc::new(Schema::new(fields)), columns, rows)
}

fn binary(input: &Input, file: &ChosenFile, wanted: &Wanted, emit: &mut Emit<'_>) -> Result<()> {
    use arrow::array::{BinaryArray, StringArray, TimestampMicrosecondArray};
    let mut columns: Vec<ArrayRef> = Vec::new();
    let metadata = input.file().metadata().map_err(unpacked)?;
    for field in wanted.schema.fields() {
        columns.push(match field.name().as_str() {
            "path" => {
                Arc::new(StringArray::from(vec![file.path.replacen("file:///", "file:/", 1)]))
            }
            "modificationTime" => {
                let micros = super::input::modified_ms(&metadata).saturating_mul(1_000);
                Arc::new(TimestampMicrosecondArray::from(vec![micros]).with_timezone("UTC"))
            }
            "length" => {
                Arc::new(Int64Array::from(vec![i64::try_from(metadata.len()).unwrap_or(i64::MAX)]))
            }
            "content" => {
                let mut bytes = Vec::new();
                let mut file = input.file().try_clone().map_err(unpacked)?;
                file.read_to_end(&mut bytes).map_err(unpacked)?;
                Arc::new(BinaryArray::from(vec![bytes.as_slice()]))
            }
            _ => new_null_array(field.data_type(), 1),
        });
    }
    emit(batch_of(&wanted.schema, columns, 1)?)?;
    Ok(())
}
