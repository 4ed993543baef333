//! Reads one file of any format into batches of the columns wanted.

use super::bucket::Bucket;
use super::columnar;
use super::csv::{self, Dialect};
use super::formats::Reading;
use super::input::{Content, Input, Tolerance};
use super::json;
use super::lines::{Line, for_each_line};
use super::note::ChosenFile;
use super::rows::{Emit, Mode, Rows, batch_of};
use arrow::array::{
    ArrayRef, BinaryArray, Int64Array, StringArray, StringBuilder, TimestampMicrosecondArray,
    new_null_array,
};
use arrow::datatypes::SchemaRef;
use onefold_types::{Error, ErrorKind, Result};
use std::io::Read;
use std::sync::Arc;

/// The format of the files, with its options.
#[derive(Debug, Clone)]
pub(crate) enum FormatReader {
    Json { multi_line: bool, separator: Option<Vec<u8>>, mode: Mode, corrupt_column: String },
    Csv { dialect: Dialect, mode: Mode, corrupt_column: String },
    Text { whole: bool, separator: Option<Vec<u8>> },
    Parquet,
    Orc,
    Avro,
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
    /// Where the files are, unless on a local disk.
    pub(crate) bucket: Option<Bucket>,
}

impl FormatReader {
    /// Gives all rows of a file to `emit`.
    pub(crate) fn read(
        &self,
        file: &ChosenFile,
        wanted: &Wanted,
        emit: &mut Emit<'_>,
    ) -> Result<()> {
        let tolerance = wanted.tolerance;
        let Some(input) = Input::open(file, tolerance, wanted.bucket.as_ref())? else {
            return Ok(());
        };
        let outcome = self.rows(&input, file, wanted, emit);
        if let (Err(_), Some(failure)) = (&outcome, input.failure()) {
            // The store failed, not the file.
            return Err(failure);
        }
        match outcome {
            Err(error) if tolerance.corrupt && error.kind() == ErrorKind::Corrupt => {
                tracing::warn!(path = %file.path, %error, "the rest of a corrupt file is left out");
            }
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                // A file that was replaced while it was read is not damaged.
                input.verify_again(file, tolerance)?;
                return Err(Error::corrupt(format!(
                    "{} cannot be read to its end; repair the file, or set \
                     ignoreCorruptFiles=true to leave the rest of it out",
                    file.path
                ))
                .because(error));
            }
            other => other?,
        }
        input.verify_again(file, tolerance)
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
            FormatReader::Parquet => match input.content()? {
                Content::Local(local) => columnar::parquet(local, &file.path, wanted, emit),
                Content::Stored(stored) => columnar::parquet(stored, &file.path, wanted, emit),
            },
            FormatReader::Orc => match input.content()? {
                Content::Local(local) => columnar::orc(local, &file.path, wanted, emit),
                Content::Stored(stored) => columnar::orc(stored, &file.path, wanted, emit),
            },
            FormatReader::Avro => columnar::avro(input.bytes()?, &file.path, wanted, emit),
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
    let reading = wanted.reading.clone();
    Rows::new(&wanted.schema, corrupt_column, mode, reading, wanted.batch_rows, path, emit)
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

fn binary(input: &Input, file: &ChosenFile, wanted: &Wanted, emit: &mut Emit<'_>) -> Result<()> {
    let mut columns: Vec<ArrayRef> = Vec::new();
    let facts = input.facts();
    for field in wanted.schema.fields() {
        columns.push(match field.name().as_str() {
            "path" => {
                Arc::new(StringArray::from(vec![file.path.replacen("file:///", "file:/", 1)]))
            }
            "modificationTime" => {
                let micros = facts.modified_ms.saturating_mul(1_000);
                Arc::new(TimestampMicrosecondArray::from(vec![micros]).with_timezone("UTC"))
            }
            "length" => {
                Arc::new(Int64Array::from(vec![i64::try_from(facts.size).unwrap_or(i64::MAX)]))
            }
            "content" => {
                let mut bytes = Vec::new();
                input.bytes()?.read_to_end(&mut bytes).map_err(unpacked)?;
                Arc::new(BinaryArray::from(vec![bytes.as_slice()]))
            }
            _ => new_null_array(field.data_type(), 1),
        });
    }
    emit(batch_of(&wanted.schema, columns, 1)?)?;
    Ok(())
}
