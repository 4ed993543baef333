//! Spark's patterns of dates and times, as far as writing needs them.

use crate::java_pattern::{MONTHS, quoted};
use chrono::{Datelike, NaiveDateTime, Timelike};
use onefold_types::{Error, Result};
use std::fmt::Write;

/// A point in time to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment<'a> {
    /// Local date and time.
    pub(crate) local: NaiveDateTime,
    /// Seconds east of UTC; `None` for a time without a zone.
    pub(crate) offset_seconds: Option<i32>,
    /// The zone's name.
    pub(crate) zone: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Field(char, usize),
}

/// A pattern, checked.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    pieces: Vec<Piece>,
}

impl Pattern {
    /// Reads a pattern. `zoned`: whether values have a zone.
    ///
    /// # Errors
    /// Invalid: a letter that is not known, a quote without its end, or a zone of values that have
    /// none.
    pub(crate) fn parse(option: &str, text: &str, zoned: bool) -> Result<Pattern> {
        let wrong = |why: String| Error::invalid(format!("option `{option}` is `{text}`: {why}"));
        let mut pieces = Vec::new();
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                // A part in brackets may be absent when read; written it never is.
                '[' | ']' => {}
                '\'' => pieces.push(Piece::Text(
                    quoted(&mut letters)
                        .ok_or_else(|| wrong("a quote is not closed".to_owned()))?,
                )),
                letter if letter.is_ascii_alphabetic() => {
                    let mut count = 1;
                    while letters.next_if_eq(&letter).is_some() {
                        count += 1;
                    }
                    if !"yuMLdDHhmsSaEXxZVzO".contains(letter) {
                        return Err(wrong(format!("letter `{letter}` is not known")));
                    }
                    if "XxZVzO".contains(letter) && !zoned {
                        return Err(wrong(format!("letter `{letter}` needs a time zone")));
                    }
                    pieces.push(Piece::Field(letter, count));
                }
                other => pieces.push(Piece::Text(other.to_string())),
            }
        }
        Ok(Pattern { pieces })
    }

    /// Writes a moment.
    pub(crate) fn write(&self, moment: Moment<'_>, into: &mut String) {
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => into.push_str(text),
                Piece::Field(letter, count) => field(*letter, *count, moment, into),
            }
        }
    }
}

// Writing to a string cannot fail, so results of `write!` are dropped.
fn field(letter: char, count: usize, moment: Moment<'_>, into: &mut String) {
    let time = moment.local;
    let _ = match letter {
        'y' | 'u' if count == 2 => write!(into, "{:02}", time.year().rem_euclid(100)),
        'y' | 'u' => write!(into, "{:0count$}", time.year()),
        'M' | 'L' => month(count, time.month0(), into),
        'd' => write!(into, "{:0count$}", time.day()),
        'D' => write!(into, "{:0count$}", time.ordinal()),
        'H' => write!(into, "{:0count$}", time.hour()),
        'h' => write!(into, "{:0count$}", time.hour12().1),
        'm' => write!(into, "{:0count$}", time.minute()),
        's' => write!(into, "{:0count$}", time.second()),
        'S' => {
            let digits = format!("{:09}", time.nanosecond());
            write!(into, "{:0<count$}", digits.get(..count.min(9)).unwrap_or(&digits))
        }
        'a' => write!(into, "{}", if time.hour12().0 { "PM" } else { "AM" }),
        'E' if count > 3 => write!(into, "{}", time.format("%A")),
        'E' => write!(into, "{}", time.weekday()),
        'V' | 'z' => write!(into, "{}", moment.zone),
        _ => offset(letter, count, moment.offset_seconds.unwrap_or(0), into),
    };
}

fn month(count: usize, month0: u32, into: &mut String) -> std::fmt::Result {
    let name = usize::try_from(month0).ok().and_then(|at| MONTHS.get(at)).copied();
    match (count, name) {
        (3, Some(name)) => write!(into, "{}", name.get(..3).unwrap_or(name)),
        (4, Some(name)) => write!(into, "{name}"),
        _ => write!(into, "{:0count$}", month0 + 1),
    }
}

fn offset(letter: char, count: usize, seconds: i32, into: &mut String) -> std::fmt::Result {
    let sign = if seconds < 0 { '-' } else { '+' };
    let minutes = seconds.unsigned_abs() / 60;
    let (hours, minutes) = (minutes / 60, minutes % 60);
    match (letter, count) {
        ('X', _) | ('Z', 5) if seconds == 0 => write!(into, "Z"),
        ('O', _) | ('Z', 4) if seconds == 0 => write!(into, "GMT"),
        ('O', 1) if minutes == 0 => write!(into, "GMT{sign}{hours}"),
        ('O', _) | ('Z', 4) => write!(into, "GMT{sign}{hours:02}:{minutes:02}"),
        ('X' | 'x', 1) if minutes == 0 => write!(into, "{sign}{hours:02}"),
        ('X' | 'x', 1 | 2 | 4) | ('Z', 1..=3) => write!(into, "{sign}{hours:02}{minutes:02}"),
        _ => write!(into, "{sign}{hours:02}:{minutes:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(pattern: &str, micros: i64, offset_seconds: i32) -> String {
        let local = super::super::spark_text::naive(micros)
            + chrono::TimeDelta::seconds(offset_seconds.into());
        let moment = Moment { local, offset_seconds: Some(offset_seconds), zone: "Europe/Berlin" };
        let mut text = String::new();
        Pattern::parse("timestampFormat", pattern, true).unwrap().write(moment, &mut text);
        text
    }

    #[test]
    fn moments_are_written_as_spark_writes_them() {
        let default = "yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]";
        assert_eq!(written(default, 1_500, 0), "1970-01-01T00:00:00.001Z");
        assert_eq!(written(default, 0, 3_600), "1970-01-01T01:00:00.000+01:00");
        assert_eq!(written("d/M/yy h:mm a", 46_800_000_000, 0), "1/1/70 1:00 PM");
        assert_eq!(written("EEE MMM MMMM ''", 0, 0), "Thu Jan January '");
        assert_eq!(written("SSSSSS xx VV", 42, -1_800), "000042 -0030 Europe/Berlin");
    }

    #[test]
    fn patterns_that_cannot_be_written_are_refused() {
        for (pattern, zoned) in [("yyyy-bb", true), ("'open", true), ("HH XXX", false)] {
            let error = Pattern::parse("dateFormat", pattern, zoned).unwrap_err();
            assert!(error.to_string().contains("`dateFormat`"), "{error}");
        }
    }
}
