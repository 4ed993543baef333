//! What the options say of the files' content.

use super::super::cells::{Cells, nullable};
use super::super::csv::Dialect;
use super::super::json_scan::Leniency;
use super::super::reader::FormatReader;
use super::super::rows::Mode;
use super::invalid;
use crate::formats::Format;
use arrow::datatypes::{DataType, Field, Fields, SchemaRef, TimeUnit};
use onefold_connector::Options;
use onefold_types::{Error, Result};

fn one_char(options: &Options, name: &str) -> Result<Option<char>> {
    let text = options.text(name).unwrap_or_default();
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (None, _) | (Some('\0'), None) => Ok(None),
        (Some(letter), None) => Ok(Some(letter)),
        _ => invalid(format!("option `{name}` is `{text}`, but takes one character")),
    }
}

fn mode(options: &Options) -> Mode {
    match options.choice("mode").as_deref() {
        Some("dropmalformed") => Mode::DropMalformed,
        Some("failfast") => Mode::FailFast,
        _ => Mode::Permissive,
    }
}

/// What JSON may hold beyond the standard.
pub(super) fn leniency(options: &Options) -> Leniency {
    Leniency {
        comments: options.flag("allowComments"),
        unquoted_names: options.flag("allowUnquotedFieldNames"),
        single_quotes: options.flag("allowSingleQuotes"),
        leading_zeros: options.flag("allowNumericLeadingZeros"),
        escape_any: options.flag("allowBackslashEscapingAnyCharacter"),
        control_chars: options.flag("allowUnquotedControlChars"),
        non_numbers: options.flag("allowNonNumericNumbers"),
    }
}

fn separator(options: &Options) -> Option<Vec<u8>> {
    options.text("lineSep").filter(|text| !text.is_empty()).map(|text| text.as_bytes().to_vec())
}

/// The reader of a format, by the options.
pub(super) fn reader(format: Format, options: &Options, data: &Fields) -> Result<FormatReader> {
    let corrupt_column =
        || options.text("columnNameOfCorruptRecord").unwrap_or_default().to_owned();
    Ok(match format {
        Format::Json => FormatReader::Json {
            multi_line: options.flag("multiLine"),
            separator: separator(options),
            mode: mode(options),
            corrupt_column: corrupt_column(),
        },
        Format::Csv => {
            let corrupt_column = corrupt_column();
            let given = options.text("sep").or_else(|| options.text("delimiter")).unwrap_or(",");
            let names = data
                .iter()
                .map(|field| field.name().clone())
                .filter(|name| *name != corrupt_column)
                .collect();
            let dialect = Dialect {
                separator: if given == "\\t" { "\t".to_owned() } else { given.to_owned() },
                quote: one_char(options, "quote")?,
                escape: one_char(options, "escape")?,
                comment: one_char(options, "comment")?,
                header: options.flag("header"),
                enforce_schema: options.flag("enforceSchema"),
                null_value: options.text("nullValue").unwrap_or_default().to_owned(),
                empty_value: options.text("emptyValue").unwrap_or_default().to_owned(),
                trim_leading: options.flag("ignoreLeadingWhiteSpace"),
                trim_trailing: options.flag("ignoreTrailingWhiteSpace"),
                multi_line: options.flag("multiLine"),
                line_separator: separator(options),
                places: Vec::new(),
                names,
            };
            if dialect.separator.is_empty() {
                return invalid("option `sep` is empty; give the text that separates fields");
            }
            FormatReader::Csv { dialect, mode: mode(options), corrupt_column }
        }
        Format::Text => {
            FormatReader::Text { whole: options.flag("wholetext"), separator: separator(options) }
        }
        Format::Parquet => FormatReader::Parquet,
        Format::Orc => FormatReader::Orc,
        Format::Avro => FormatReader::Avro,
        Format::BinaryFile => FormatReader::BinaryFile,
    })
}

/// The columns that a format has by itself, or that the user gave.
pub(super) fn given_columns(format: Format, given: Option<&SchemaRef>) -> Result<Fields> {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    Ok(match (format, given) {
        (Format::BinaryFile, _) => vec![
            Field::new("path", DataType::Utf8, true),
            Field::new("modificationTime", time, true),
            Field::new("length", DataType::Int64, true),
            Field::new("content", DataType::Binary, true),
        ]
        .into(),
        (_, Some(schema)) => nullable(schema.fields()),
        (Format::Text, None) => vec![Field::new("value", DataType::Utf8, true)].into(),
        (_, None) => {
            return invalid(format!(
                "a stream of {} files needs a schema; give one with schema(\"id BIGINT\"), in SQL \
                 with schema => 'id BIGINT', or set spark.sql.streaming.schemaInference=true to \
                 take it from the files that are there at the start",
                format.name()
            ));
        }
    })
}

/// Refuses columns that a format cannot hold.
pub(super) fn check_columns(format: Format, data: &Fields) -> Result<()> {
    match format {
        Format::Text
            if data.len() != 1 || data.iter().any(|f| f.data_type() != &DataType::Utf8) =>
        {
            invalid("text files have one column, of type string; correct the schema")
        }
        Format::Json | Format::Csv => {
            for field in data {
                let nested = field.data_type().is_nested() && format == Format::Csv;
                Cells::new(field.data_type())
                    .and_then(|_| {
                        if nested {
                            return invalid("csv holds no nested values; use another type");
                        }
                        Ok(())
                    })
                    .map_err(|error| {
                        Error::invalid(format!("column `{}` does not fit", field.name()))
                            .because(error)
                    })?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
