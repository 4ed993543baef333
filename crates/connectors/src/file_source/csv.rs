//! CSV: one record a line, or a record over several lines (`multiLine`).

use super::cells::{Cells, Mismatch};
use super::lines::{Line, for_each_line};
use super::rows::Rows;
use onefold_types::{Error, Result};
use std::io::Read;

/// How CSV is written.
#[derive(Debug, Clone)]
pub(crate) struct Dialect {
    pub(crate) separator: String,
    pub(crate) quote: Option<char>,
    pub(crate) escape: Option<char>,
    pub(crate) comment: Option<char>,
    pub(crate) header: bool,
    pub(crate) enforce_schema: bool,
    pub(crate) null_value: String,
    pub(crate) empty_value: String,
    pub(crate) trim_leading: bool,
    pub(crate) trim_trailing: bool,
    pub(crate) multi_line: bool,
    pub(crate) line_separator: Option<Vec<u8>>,
    /// For each column wanted, its place in the file.
    pub(crate) places: Vec<usize>,
    /// The names of the columns in the file, in order.
    pub(crate) names: Vec<String>,
}

/// One field: its text and whether it stood in quotes.
type Token = (String, bool);

impl Dialect {
    /// The fields of the record at the start of `text`, and how many bytes it takes. Without
    /// `multi_line` the record is the whole text.
    fn record(&self, text: &str) -> (Vec<Token>, usize) {
        let mut tokens = Vec::new();
        let mut position = 0;
        loop {
            let (token, end, more) = self.token(text, position);
            tokens.push(token);
            position = end;
            if !more {
                return (tokens, position);
            }
        }
    }

    fn line_end(&self, rest: &str) -> Option<usize> {
        if !self.multi_line {
            return None;
        }
        ["\r\n", "\n", "\r"].iter().find(|end| rest.starts_with(**end)).map(|end| end.len())
    }

    /// One field from `start`: the field, where the next begins, and whether there is a next.
    fn token(&self, text: &str, start: usize) -> (Token, usize, bool) {
        let rest = text.get(start..).unwrap_or_default();
        let trimmed = if self.trim_leading { rest.trim_start_matches([' ', '\t']) } else { rest };
        if let Some(quote) = self.quote
            && let Some(inner) = trimmed.strip_prefix(quote)
            && let Some((value, used, more)) = self.quoted(inner, quote)
        {
            let skipped = rest.len() - inner.len();
            return ((value, true), start + skipped + used, more);
        }
        let mut end = rest.len();
        let mut next = rest.len();
        let mut more = false;
        for (at, _) in rest.char_indices() {
            let tail = rest.get(at..).unwrap_or_default();
            if tail.starts_with(&self.separator) {
                (end, next, more) = (at, at + self.separator.len(), true);
                break;
            }
            if let Some(length) = self.line_end(tail) {
                (end, next) = (at, at + length);
                break;
            }
        }
        let mut value = rest.get(..end).unwrap_or_default();
        if self.trim_leading {
            value = value.trim_start_matches([' ', '\t']);
        }
        if self.trim_trailing {
            value = value.trim_end_matches([' ', '\t']);
        }
        ((value.to_owned(), false), start + next, more)
    }

    /// The rest of a field after its opening quote; `None` if the quote does not open a field that
    /// ends properly, in which case the field is taken as it stands.
    fn quoted(&self, inner: &str, quote: char) -> Option<(String, usize, bool)> {
        let mut value = String::new();
        let mut letters = inner.char_indices();
        while let Some((at, letter)) = letters.next() {
            let after = inner.get(at + letter.len_utf8()..).unwrap_or_default();
            if Some(letter) == self.escape && letter != quote {
                match after.chars().next() {
                    Some(next) if next == quote || next == letter => {
                        value.push(next);
                        letters.next();
                    }
                    _ => value.push(letter),
                }
            } else if letter == quote {
                if self.escape == Some(quote) && after.starts_with(quote) {
                    value.push(quote);
                    letters.next();
                    continue;
                }
                let blank = after.trim_start_matches([' ', '\t']);
                let used = inner.len() - blank.len();
                if blank.is_empty() {
                    return Some((value, used, false));
                }
                if let Some(tail) = blank.strip_prefix(self.separator.as_str()) {
                    return Some((value, inner.len() - tail.len(), true));
                }
                return self.line_end(blank).map(|length| (value, used + length, false));
            } else {
                value.push(letter);
            }
        }
        None
    }

    fn skipped(&self, line: &str) -> bool {
        line.trim().is_empty() || self.comment.is_some_and(|mark| line.starts_with(mark))
    }

    fn check_header(&self, tokens: &[Token], path: &str) -> Result<()> {
        if self.enforce_schema {
            return Ok(());
        }
        let same = tokens.len() == self.names.len()
            && tokens.iter().zip(&self.names).all(|((a, _), b)| a.eq_ignore_ascii_case(b));
        if same {
            return Ok(());
        }
        let found: Vec<&str> = tokens.iter().map(|(text, _)| text.as_str()).collect();
        Err(Error::invalid(format!(
            "the header of {path} is `{}`, but the schema has `{}`; correct one of them, or set \
             enforceSchema=true to go by position",
            found.join(","),
            self.names.join(",")
        )))
    }

    fn add(&self, tokens: &[Token], raw: &str, rows: &mut Rows<'_>) -> Result<bool> {
        let mut outcome = if tokens.len() == self.names.len() { Ok(()) } else { Err(Mismatch) };
        for (cells, place) in rows.record.columns.iter_mut().zip(&self.places) {
            let Some((text, quoted)) = tokens.get(*place) else {
                cells.push_null();
                continue;
            };
            let nothing = !quoted && text.is_empty();
            let text = if *quoted && text.is_empty() { &self.empty_value } else { text };
            if (nothing || *text == self.null_value) && !matches!(cells, Cells::Null(_)) {
                cells.push_null();
            } else if cells.push_text(text, &rows.reading).is_err() {
                cells.push_null();
                outcome = Err(Mismatch);
            }
        }
        rows.added(outcome, raw)
    }
}

/// Reads one file.
pub(crate) fn read(
    input: Box<dyn Read + Send>,
    dialect: &Dialect,
    path: &str,
    rows: &mut Rows<'_>,
) -> Result<()> {
    let mut header = dialect.header;
    dialect.for_each(input, |record| {
        rows.next_line();
        let Some((tokens, raw)) = record else { return Ok(true) };
        if std::mem::take(&mut header) {
            dialect.check_header(&tokens, path)?;
            return Ok(true);
        }
        dialect.add(&tokens, raw, rows)
    })
}

impl Dialect {
    /// Gives the fields of each record, a header included; `None` for null.
    pub(crate) fn records(
        &self,
        input: Box<dyn Read + Send>,
        mut each: impl FnMut(Vec<Option<String>>) -> Result<bool>,
    ) -> Result<()> {
        self.for_each(input, |record| {
            let Some((tokens, _)) = record else { return Ok(true) };
            let cell = |(text, quoted): Token| {
                if !quoted && text.is_empty() {
                    return None;
                }
                let text = if quoted && text.is_empty() { self.empty_value.clone() } else { text };
                (text != self.null_value).then_some(text)
            };
            each(tokens.into_iter().map(cell).collect())
        })
    }

    /// Gives each record and its text; `None` for a line that is left out.
    fn for_each(
        &self,
        mut input: Box<dyn Read + Send>,
        mut each: impl FnMut(Option<(Vec<Token>, &str)>) -> Result<bool>,
    ) -> Result<()> {
        let mut line = |text: &str| -> Result<(bool, usize)> {
            let end = text.find(['\n', '\r']).unwrap_or(text.len());
            let first = if self.multi_line { text.get(..end).unwrap_or(text) } else { text };
            if self.skipped(first) {
                return Ok((each(None)?, (end + 1).min(text.len())));
            }
            let (tokens, used) = self.record(text);
            let raw = text.get(..used).unwrap_or(text).trim_end_matches(['\n', '\r']);
            Ok((each(Some((tokens, raw)))?, used))
        };
        if !self.multi_line {
            let separator = self.line_separator.as_deref();
            return for_each_line(input, separator, |bytes| match bytes {
                Line::Text(text) => Ok(line(text)?.0),
                Line::Bytes(bytes) => Ok(line(&String::from_utf8_lossy(bytes))?.0),
            });
        }
        let mut bytes = Vec::new();
        input
            .read_to_end(&mut bytes)
            .map_err(|error| Error::corrupt("the bytes cannot be unpacked").because(error))?;
        let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes));
        let mut rest: &str = &text;
        while !rest.is_empty() {
            let (more, used) = line(rest)?;
            if !more {
                return Ok(());
            }
            rest = rest.get(used.max(1)..).unwrap_or_default();
        }
        Ok(())
    }
}
