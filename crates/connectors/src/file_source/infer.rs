//! Finds the schema of files that are there, where the user asks for that
//! (`spark.sql.streaming.schemaInference`): each format as Spark's reader does.

mod shape;

use super::columnar;
use super::csv::Dialect;
use super::input::{Content, Input, Tolerance};
use super::json_scan::{Leniency, Scanner};
use super::lines::{Line, for_each_line};
use super::listing::{Found, Places};
use super::note::ChosenFile;
use super::reader::FormatReader;
use super::rows::Mode;
use super::seen::SeenFiles;
use super::source::order;
use super::times::Zone;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use onefold_types::{Error, Result};
use shape::Shape;
use std::io::Read;
use std::sync::Arc;

/// What the options say of inference.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inference {
    /// `primitivesAsString`: every JSON value that is neither object nor array is a string.
    pub(crate) strings: bool,
    /// `inferSchema` of CSV: types as well as names.
    pub(crate) csv_types: bool,
    pub(crate) leniency: Leniency,
    pub(crate) zone: Zone,
}

/// The columns of the files that are there.
///
/// # Errors
/// Invalid, when there is no file, or one cannot tell; Corrupt, when one cannot be read.
pub(crate) fn schema(
    places: &Places,
    reader: &FormatReader,
    tolerance: Tolerance,
    inference: Inference,
) -> Result<SchemaRef> {
    let mut files = places.list(&SeenFiles::new(i64::MAX, false))?;
    order(&mut files, false);
    let Some(first) = files.iter().find(|file| file.size > 0) else {
        return Err(Error::invalid(
            "there is no file yet whose schema could be taken; give the stream a schema",
        ));
    };
    let fields = match reader {
        FormatReader::Json { multi_line, separator, mode, corrupt_column } => {
            let mut found = Shape::Null;
            let mut corrupt = false;
            for file in &files {
                let Some(input) = open(file, places, tolerance)? else { continue };
                let mut take = |text: &str| {
                    corrupt |= !add(text, &mut found, inference);
                };
                json(&input, *multi_line, separator.as_deref(), &mut take)?;
            }
            let mut fields = found.columns();
            if corrupt && *mode == Mode::FailFast {
                return Err(Error::invalid(
                    "a record is malformed, so that mode FAILFAST cannot infer a schema; correct \
                     it, or give the stream a schema",
                ));
            }
            if corrupt && *mode == Mode::Permissive {
                fields.push(Field::new(corrupt_column, DataType::Utf8, true));
            }
            fields
        }
        FormatReader::Csv { dialect, .. } => csv(&files, places, tolerance, dialect, inference)?,
        FormatReader::Parquet | FormatReader::Orc | FormatReader::Avro => {
            let Some(input) = open(first, places, tolerance)? else { return Ok(empty()) };
            let there = match reader {
                FormatReader::Orc => match input.content()? {
                    Content::Local(file) => columnar::orc_schema(file),
                    Content::Stored(file) => columnar::orc_schema(file),
                },
                FormatReader::Avro => columnar::avro_schema(input.bytes()?),
                _ => match input.content()? {
                    Content::Local(file) => columnar::parquet_schema(file),
                    Content::Stored(file) => columnar::parquet_schema(file),
                },
            };
            let there = there.map_err(|error| {
                Error::corrupt(format!(
                    "the schema of {} cannot be read; repair the file, or give the stream a schema",
                    first.path
                ))
                .because(error)
            })?;
            there.fields().iter().map(|field| plain(field)).collect()
        }
        FormatReader::Text { .. } | FormatReader::BinaryFile => return Ok(empty()),
    };
    if fields.is_empty() {
        return Err(Error::invalid(
            "the files hold no column to take a schema from; give the stream a schema",
        ));
    }
    Ok(Arc::new(Schema::new(fields)))
}

fn empty() -> SchemaRef {
    Arc::new(Schema::empty())
}

fn open(file: &Found, places: &Places, tolerance: Tolerance) -> Result<Option<Input>> {
    let chosen = ChosenFile {
        path: file.path.clone(),
        size: None,
        mtime: None,
        etag: None,
        timestamp: None,
        batch_id: 0,
    };
    Input::open(&chosen, tolerance, places.bucket.as_ref())
}

/// The form in which we hold values of a file's column.
fn plain(field: &Field) -> Field {
    Field::new(field.name(), plain_type(field.data_type()), true)
}

fn plain_type(kind: &DataType) -> DataType {
    match kind {
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            DataType::Binary
        }
        DataType::Dictionary(_, values) => plain_type(values),
        DataType::Timestamp(_, Some(_)) => {
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
        }
        DataType::Timestamp(_, None) => DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|field| plain(field)).collect::<Fields>())
        }
        DataType::List(element) | DataType::LargeList(element) => {
            DataType::List(Arc::new(plain(element)))
        }
        other => other.clone(),
    }
}

/// Gives each JSON text of a file.
fn json(
    input: &Input,
    multi_line: bool,
    separator: Option<&[u8]>,
    take: &mut dyn FnMut(&str),
) -> Result<()> {
    if multi_line {
        let text = whole(input)?;
        take(&text);
        return Ok(());
    }
    for_each_line(input.reader()?, separator, |line| {
        match line {
            Line::Text(text) => take(text),
            Line::Bytes(bytes) => take(&String::from_utf8_lossy(bytes)),
        }
        Ok(true)
    })
}

fn whole(input: &Input) -> Result<String> {
    let mut bytes = Vec::new();
    input
        .reader()?
        .read_to_end(&mut bytes)
        .map_err(|error| Error::corrupt("the bytes cannot be unpacked").because(error))?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// Adds what one text tells; false if it is malformed.
fn add(text: &str, found: &mut Shape, inference: Inference) -> bool {
    let mut scanner = Scanner::new(text, 0, inference.leniency);
    if scanner.skip_space().is_err() {
        return false;
    }
    match scanner.peek() {
        None => true,
        Some(b'{' | b'[') => {
            let Ok(slot) = scanner.value(0) else { return false };
            match Shape::of(text, slot, inference) {
                object @ Shape::Object(_) => found.join(object),
                Shape::List(element) if matches!(*element, Shape::Object(_)) => {
                    found.join(*element);
                }
                _ => return false,
            }
            true
        }
        Some(_) => false,
    }
}

/// Names from the header or by place, and types if asked for.
fn csv(
    files: &[Found],
    places: &Places,
    tolerance: Tolerance,
    dialect: &Dialect,
    inference: Inference,
) -> Result<Vec<Field>> {
    let mut names: Vec<String> = Vec::new();
    let mut kinds: Vec<Option<DataType>> = Vec::new();
    for file in files {
        let Some(input) = open(file, places, tolerance)? else { continue };
        let mut header = dialect.header;
        dialect.records(input.reader()?, |cells| {
            if names.is_empty() {
                names = cells
                    .iter()
                    .enumerate()
                    .map(|(at, cell)| match cell {
                        Some(name) if dialect.header && !name.is_empty() => name.clone(),
                        _ => format!("_c{at}"),
                    })
                    .collect();
                kinds = vec![None; names.len()];
            }
            if std::mem::take(&mut header) {
                return Ok(true);
            }
            for (kind, cell) in kinds.iter_mut().zip(&cells) {
                if let Some(text) = cell {
                    let one = super::partitions::infer_one(text, inference.zone);
                    *kind = Some(match kind.take() {
                        None => one,
                        Some(before) => super::partitions::widen(before, one),
                    });
                }
            }
            // Names need one record only.
            Ok(inference.csv_types)
        })?;
        if !inference.csv_types && !names.is_empty() {
            break;
        }
    }
    let kinds = kinds
        .into_iter()
        .map(|kind| kind.filter(|_| inference.csv_types).unwrap_or(DataType::Utf8));
    Ok(names.iter().zip(kinds).map(|(name, kind)| Field::new(name, kind, true)).collect())
}
