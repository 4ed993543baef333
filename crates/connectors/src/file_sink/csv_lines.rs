//! CSV as Spark writes it (with the Univocity library's rules of quoting).

use super::line_file::Lines;
use super::options::{CsvOptions, FileOptions};
use super::pattern::Pattern;
use super::value_text::{Times, ValueTexts};
use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use onefold_types::Result;
use std::io::{self, BufRead};

/// Lines of CSV.
#[derive(Debug)]
pub(crate) struct CsvLines {
    options: CsvOptions,
    times: Times,
    names: Vec<String>,
}

impl CsvLines {
    pub(crate) fn new(options: &FileOptions, schema: &Schema, time_zone: &str) -> Result<Self> {
        let text = &options.text;
        Ok(CsvLines {
            options: text.csv.clone(),
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
            names: schema.fields().iter().map(|field| field.name().clone()).collect(),
        })
    }

    fn push(&self, value: Option<&str>, line: &mut String) {
        let options = &self.options;
        let stand_in = match value {
            None => Some(options.null_value.as_str()),
            Some("") => Some(options.empty_value.as_str()),
            Some(_) => None,
        };
        let mut text = stand_in.or(value).unwrap_or_default();
        if options.trim_start {
            text = text.trim_start_matches(|c| c <= ' ');
        }
        if options.trim_end {
            text = text.trim_end_matches(|c| c <= ' ');
        }
        let enclosed = |text: &str| {
            text.len() >= 2 && text.starts_with(options.quote) && text.ends_with(options.quote)
        };
        // A stand-in that is quoted already, such as the default of empty texts, stays as it is.
        if stand_in.is_some() && enclosed(text) || !self.needs_quotes(text) {
            line.push_str(text);
            return;
        }
        line.push(options.quote);
        for letter in text.chars() {
            let twin = letter == options.escape && options.escape != options.quote;
            if letter == options.quote || twin {
                line.push(options.escape);
            }
            line.push(letter);
        }
        line.push(options.quote);
    }

    fn needs_quotes(&self, text: &str) -> bool {
        let options = &self.options;
        if options.quote == '\0' {
            return false;
        }
        options.quote_all
            || text.contains(options.sep.as_str())
            || text.contains(['\n', '\r'])
            || text.starts_with(options.quote)
            || (options.escape_quotes && text.contains(options.quote))
    }

    fn line<'a>(&self, values: impl Iterator<Item = Option<&'a str>>, line: &mut String) {
        line.clear();
        for (at, value) in values.enumerate() {
            if at > 0 {
                line.push_str(&self.options.sep);
            }
            self.push(value, line);
        }
    }
}

impl Lines for CsvLines {
    fn header(&self) -> Option<Vec<u8>> {
        self.options.header.then(|| {
            let mut line = String::new();
            self.line(self.names.iter().map(|name| Some(name.as_str())), &mut line);
            line.into_bytes()
        })
    }

    fn each(&self, rows: &RecordBatch, act: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let columns = ValueTexts::of_rows(rows, &self.times)?;
        let mut line = String::new();
        for row in 0..rows.num_rows() {
            self.line(columns.iter().map(|column| column.get(row)), &mut line);
            act(line.as_bytes())?;
        }
        Ok(())
    }
}

/// Calls `act` with each record: lines, but a line end within quotes does not end one.
pub(crate) fn each_record(
    reader: &mut dyn BufRead,
    options: &CsvOptions,
    line_sep: &[u8],
    act: &mut dyn FnMut(&[u8]),
) -> io::Result<()> {
    let Some(last) = line_sep.last() else { return Ok(()) };
    let mut record = Vec::new();
    loop {
        let count = reader.read_until(*last, &mut record)?;
        let ended = record.strip_suffix(line_sep);
        if let Some(text) = ended
            && !open_quote(text, options)
        {
            act(text);
            record.clear();
        } else if count == 0 {
            if !record.is_empty() {
                act(&record);
            }
            return Ok(());
        }
    }
}

/// Whether a record so far ends within quotes.
fn open_quote(record: &[u8], options: &CsvOptions) -> bool {
    if options.quote == '\0' {
        return false;
    }
    let text = String::from_utf8_lossy(record);
    let mut quoted = false;
    let mut rest = text.as_ref();
    let mut field_start = true;
    while let Some(letter) = rest.chars().next() {
        let after = rest.get(letter.len_utf8()..).unwrap_or_default();
        let next = after.chars().next();
        let escapes = letter == options.escape
            && next.is_some_and(|n| n == options.quote || n == options.escape);
        if quoted && escapes {
            rest = after.get(next.map_or(0, char::len_utf8)..).unwrap_or_default();
            continue;
        }
        if letter == options.quote && (quoted || field_start) {
            quoted = !quoted;
        }
        field_start = false;
        if !quoted && let Some(after_sep) = rest.strip_prefix(options.sep.as_str()) {
            field_start = true;
            rest = after_sep;
            continue;
        }
        rest = after;
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::super::options::{COMMON, CSV, Format};
    use super::*;
    use arrow::array::{ArrayRef, Float64Array, StringArray};
    use onefold_connector::{OptionSpec, Options};
    use onefold_types::OptionMap;
    use std::sync::Arc;

    static TABLE: &[&[OptionSpec]] = &[COMMON, CSV];

    fn options(given: &[(&str, &str)]) -> FileOptions {
        let given: OptionMap = given.iter().copied().collect();
        let options = Options::check("csv", TABLE, given).unwrap();
        FileOptions::read(Format::Csv, &options).unwrap()
    }

    fn written(given: &[(&str, &str)], texts: Vec<Option<&str>>) -> Vec<String> {
        let numbers: ArrayRef = Arc::new(Float64Array::from(vec![1.0; texts.len()]));
        let texts: ArrayRef = Arc::new(StringArray::from(texts));
        let rows = RecordBatch::try_from_iter([("t", texts), ("n", numbers)]).unwrap();
        let lines = CsvLines::new(&options(given), rows.schema_ref(), "UTC").unwrap();
        let mut found: Vec<String> =
            lines.header().into_iter().map(|line| String::from_utf8(line).unwrap()).collect();
        lines
            .each(&rows, &mut |line| {
                found.push(String::from_utf8(line.to_vec()).unwrap());
                Ok(())
            })
            .unwrap();
        found
    }

    #[test]
    fn fields_are_quoted_and_escaped_as_spark_does() {
        let texts =
            vec![Some("a"), None, Some(""), Some("x,y"), Some("q\"q"), Some(" b "), Some("back\\")];
        assert_eq!(
            written(&[], texts),
            vec![
                "a,1.0",
                ",1.0",
                "\"\",1.0",
                "\"x,y\",1.0",
                "\"q\\\"q\",1.0",
                "b,1.0",
                "back\\,1.0"
            ]
        );
        let given = [("header", "true"), ("sep", "|"), ("nullValue", "NULL"), ("quoteAll", "true")];
        assert_eq!(
            written(&given, vec![None, Some("a|b\\")]),
            vec!["\"t\"|\"n\"", "\"NULL\"|\"1.0\"", "\"a|b\\\\\"|\"1.0\""]
        );
    }

    #[test]
    fn a_line_end_within_quotes_does_not_end_a_record() {
        let text = "a,\"x\ny\",b\n\"q\\\"\n\",2\n\n3";
        let mut records = Vec::new();
        each_record(&mut text.as_bytes(), &options(&[]).text.csv, b"\n", &mut |record| {
            records.push(String::from_utf8(record.to_vec()).unwrap());
        })
        .unwrap();
        assert_eq!(records, vec!["a,\"x\ny\",b", "\"q\\\"\n\",2", "", "3"]);
    }
}
