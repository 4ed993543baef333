//! JSON lines as Spark writes them (with the Jackson library's forms of numbers and texts).

use super::line_file::Lines;
use super::options::FileOptions;
use super::pattern::Pattern;
use super::spark_text::{base64, decimal_number, java_double, java_float, zone};
use super::value_text::Times;
use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
};
use onefold_types::{Error, Result};
use std::fmt::Write;

/// Lines of JSON.
#[derive(Debug)]
pub(crate) struct JsonLines {
    times: Times,
    zone: Tz,
    ignore_null_fields: bool,
}

/// Writes the value of a row.
type WriteValue<'a> = Box<dyn Fn(usize, &mut String) + 'a>;

impl JsonLines {
    pub(crate) fn new(options: &FileOptions, time_zone: &str) -> Result<Self> {
        let text = &options.text;
        Ok(JsonLines {
            times: Times {
                date: Pattern::parse("dateFormat", &text.date_format, false)?,
                timestamp: Pattern::parse("timestampFormat", &text.timestamp_format, true)?,
                timestamp_ntz: Pattern::parse(
                    "timestampNTZFormat",
                    &text.timestamp_ntz_format,
                    false,
                )?,
                time_zone: time_zone.to_owned(),
            },
            zone: zone(time_zone)?,
            ignore_null_fields: text.ignore_null_fields,
        })
    }

    fn object<'a>(
        &'a self,
        fields: impl Iterator<Item = (&'a str, &'a ArrayRef)>,
    ) -> Result<WriteValue<'a>> {
        let mut members = Vec::new();
        for (name, column) in fields {
            let mut key = String::new();
            push_text(name, &mut key);
            key.push(':');
            members.push((key, column, self.value(name, column)?));
        }
        let keep_nulls = !self.ignore_null_fields;
        Ok(Box::new(move |row, into| {
            into.push('{');
            let mut first = true;
            for (key, column, write) in &members {
                let null = column.is_null(row);
                if null && !keep_nulls {
                    continue;
                }
                if !std::mem::take(&mut first) {
                    into.push(',');
                }
                into.push_str(key);
                if null { into.push_str("null") } else { write(row, into) }
            }
            into.push('}');
        }))
    }

    /// Writes values that are not null.
    fn value<'a>(&'a self, name: &str, column: &'a ArrayRef) -> Result<WriteValue<'a>> {
        Ok(match column.data_type() {
            DataType::Boolean => {
                let column = column.as_boolean();
                Box::new(|row, into| {
                    into.push_str(if column.value(row) { "true" } else { "false" })
                })
            }
            DataType::Int8 => whole::<Int8Type>(column),
            DataType::Int16 => whole::<Int16Type>(column),
            DataType::Int32 => whole::<Int32Type>(column),
            DataType::Int64 => whole::<Int64Type>(column),
            DataType::Float32 => {
                let column = column.as_primitive::<Float32Type>();
                Box::new(|row, into| {
                    let value = column.value(row);
                    push_number(value.is_finite(), &java_float(value), into);
                })
            }
            DataType::Float64 => {
                let column = column.as_primitive::<Float64Type>();
                Box::new(|row, into| {
                    let value = column.value(row);
                    push_number(value.is_finite(), &java_double(value), into);
                })
            }
            DataType::Decimal128(_, scale) => {
                let (column, scale) = (column.as_primitive::<Decimal128Type>(), *scale);
                Box::new(move |row, into| into.push_str(&decimal_number(column.value(row), scale)))
            }
            DataType::Utf8 => {
                let column = column.as_string::<i32>();
                Box::new(|row, into| push_text(column.value(row), into))
            }
            DataType::Binary => {
                let column = column.as_binary::<i32>();
                Box::new(|row, into| push_text(&base64(column.value(row)), into))
            }
            DataType::Date32 => {
                let column = column.as_primitive::<Date32Type>();
                Box::new(|row, into| enclose(into, |into| self.times.date(column.value(row), into)))
            }
            DataType::Timestamp(_, zoned) => self.timestamp(column, zoned.is_some()),
            _ => return self.nested(name, column),
        })
    }

    fn timestamp<'a>(&'a self, column: &'a ArrayRef, zoned: bool) -> WriteValue<'a> {
        let column = column.as_primitive::<TimestampMicrosecondType>();
        Box::new(move |row, into| {
            let micros = column.value(row);
            enclose(into, |into| {
                if zoned {
                    self.times.timestamp(micros, self.zone, into);
                } else {
                    self.times.timestamp_ntz(micros, into);
                }
            });
        })
    }

    fn nested<'a>(&'a self, name: &str, column: &'a ArrayRef) -> Result<WriteValue<'a>> {
        match column.data_type() {
            DataType::Struct(fields) => {
                let children = column.as_struct().columns();
                self.object(fields.iter().map(|field| field.name().as_str()).zip(children))
            }
            DataType::List(_) => {
                let list = column.as_list::<i32>();
                let items = list.values();
                let write = self.value(name, items)?;
                Ok(Box::new(move |row, into| {
                    let span = span(list.value_offsets(), row);
                    push_items('[', ']', span, into, |at, into| {
                        if items.is_null(at) { into.push_str("null") } else { write(at, into) }
                    });
                }))
            }
            DataType::Map(..) => {
                let map = column.as_map();
                let values = map.values();
                let (key, write) = (self.value(name, map.keys())?, self.value(name, values)?);
                Ok(Box::new(move |row, into| {
                    let span = span(map.value_offsets(), row);
                    push_items('{', '}', span, into, |at, into| {
                        push_key(&key, at, into);
                        if values.is_null(at) { into.push_str("null") } else { write(at, into) }
                    });
                }))
            }
            other => Err(Error::invalid(format!(
                "column `{name}` is of type {other}, which json files do not hold; cast it to a \
                 string"
            ))),
        }
    }
}

impl Lines for JsonLines {
    fn each(&self, rows: &RecordBatch, act: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let names = rows.schema_ref().fields().iter().map(|field| field.name().as_str());
        let write = self.object(names.zip(rows.columns()))?;
        let mut line = String::new();
        for row in 0..rows.num_rows() {
            line.clear();
            write(row, &mut line);
            act(line.as_bytes())?;
        }
        Ok(())
    }
}

fn whole<T: ArrowPrimitiveType>(column: &ArrayRef) -> WriteValue<'_>
where
    T::Native: std::fmt::Display,
{
    let column = column.as_primitive::<T>();
    Box::new(|row, into| {
        // Writing to a string cannot fail.
        let _ = write!(into, "{}", column.value(row));
    })
}

/// JSON has no number that is not finite: those are texts.
fn push_number(finite: bool, text: &str, into: &mut String) {
    if finite { into.push_str(text) } else { push_text(text, into) }
}

fn enclose(into: &mut String, write: impl FnOnce(&mut String)) {
    let mut text = String::new();
    write(&mut text);
    push_text(&text, into);
}

/// Keys of an object are texts whatever their type.
fn push_key(key: &WriteValue<'_>, at: usize, into: &mut String) {
    let mut text = String::new();
    key(at, &mut text);
    if text.starts_with('"') {
        into.push_str(&text);
    } else {
        push_text(&text, into);
    }
    into.push(':');
}

fn span(offsets: &[i32], row: usize) -> std::ops::Range<usize> {
    let at = |row: usize| offsets.get(row).map_or(0, |offset| offset.cast_unsigned() as usize);
    at(row)..at(row + 1)
}

fn push_items(
    open: char,
    close: char,
    span: std::ops::Range<usize>,
    into: &mut String,
    mut write: impl FnMut(usize, &mut String),
) {
    into.push(open);
    for at in span.clone() {
        if at > span.start {
            into.push(',');
        }
        write(at, into);
    }
    into.push(close);
}

/// A text in quotes, escaped as Jackson does.
fn push_text(text: &str, into: &mut String) {
    into.push('"');
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c < ' ' || c == '"' || c == '\\') {
        let (plain, tail) = rest.split_at_checked(at).unwrap_or((rest, ""));
        into.push_str(plain);
        let mut letters = tail.chars();
        match letters.next() {
            Some('"') => into.push_str("\\\""),
            Some('\\') => into.push_str("\\\\"),
            Some('\n') => into.push_str("\\n"),
            Some('\r') => into.push_str("\\r"),
            Some('\t') => into.push_str("\\t"),
            Some('\u{8}') => into.push_str("\\b"),
            Some('\u{c}') => into.push_str("\\f"),
            Some(other) => {
                let _ = write!(into, "\\u{:04X}", u32::from(other));
            }
            None => {}
        }
        rest = letters.as_str();
    }
    into.push_str(rest);
    into.push('"');
}

#[cfg(test)]
mod tests {
    use super::super::options::{COMMON, Format, JSON};
    use super::*;
    use arrow::array::{
        Float64Array, Int64Array, ListArray, StringArray, TimestampMicrosecondArray,
    };
    use onefold_connector::{OptionSpec, Options};
    use onefold_types::OptionMap;
    use std::sync::Arc;

    static TABLE: &[&[OptionSpec]] = &[COMMON, JSON];

    fn written(given: OptionMap, columns: Vec<(&str, ArrayRef)>) -> Vec<String> {
        let options = Options::check("json", TABLE, given).unwrap();
        let options = FileOptions::read(Format::Json, &options).unwrap();
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let mut found = Vec::new();
        JsonLines::new(&options, "UTC")
            .unwrap()
            .each(&rows, &mut |line| {
                found.push(String::from_utf8(line.to_vec()).unwrap());
                Ok(())
            })
            .unwrap();
        found
    }

    #[test]
    fn rows_are_written_as_spark_writes_them() {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("id", Arc::new(Int64Array::from(vec![Some(1), None]))),
            ("t", Arc::new(StringArray::from(vec!["a\"\\\n\u{1}é", ""]))),
            ("d", Arc::new(Float64Array::from(vec![1e10, f64::NAN]))),
            ("ts", Arc::new(TimestampMicrosecondArray::from(vec![0, 1]).with_timezone("UTC"))),
            (
                "l",
                Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(vec![
                    Some(vec![Some(1), None]),
                    None,
                ])),
            ),
        ];
        assert_eq!(
            written(OptionMap::new(), columns.clone()),
            vec![
                r#"{"id":1,"t":"a\"\\\n\u0001é","d":1.0E10,"ts":"1970-01-01T00:00:00.000Z","l":[1,null]}"#,
                r#"{"t":"","d":"NaN","ts":"1970-01-01T00:00:00.000Z"}"#,
            ]
        );
        let kept = written(OptionMap::new().with("ignoreNullFields", "false"), columns);
        assert!(kept[1].starts_with(r#"{"id":null,"#), "{kept:?}");
    }
}
