//! Java's patterns of dates and times (`java.time.format.DateTimeFormatter`), as far as reading
//! needs them: options `dateFormat`, `timestampFormat`, `timestampNTZFormat`.

mod field;

use super::times::{Zone, days};
use crate::java_pattern::quoted;
use chrono::NaiveDateTime;
use field::{Input, Parts};
use onefold_types::{Error, Result};

/// The letters that can be read.
const KNOWN: &str = "yMLdDEHhKkmsSaXxZzVO";

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// A letter, how often it stands, and the digits that fields right after it take.
    Field(char, usize, usize),
    Optional(Vec<Piece>),
}

/// A pattern, checked.
#[derive(Debug, Clone)]
pub(crate) struct TimePattern {
    pieces: Vec<Piece>,
}

impl TimePattern {
    /// Reads a pattern, the value of an option.
    ///
    /// # Errors
    /// Invalid: a letter that is not known, a quote or a bracket without its end.
    pub(crate) fn parse(option: &str, text: &str) -> Result<TimePattern> {
        let wrong = |why: String| {
            Error::invalid(format!(
                "option `{option}` is `{text}`: {why}; write it as in yyyy-MM-dd HH:mm:ss"
            ))
        };
        let mut open: Vec<Vec<Piece>> = vec![Vec::new()];
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            let piece = match letter {
                '[' => {
                    open.push(Vec::new());
                    continue;
                }
                ']' => match open.pop() {
                    Some(inner) if !open.is_empty() => Piece::Optional(inner),
                    _ => return Err(wrong("a bracket closes that was not opened".to_owned())),
                },
                '\'' => Piece::Text(
                    quoted(&mut letters)
                        .ok_or_else(|| wrong("a quote is not closed".to_owned()))?,
                ),
                letter if letter.is_ascii_alphabetic() => {
                    let mut count = 1;
                    while letters.next_if_eq(&letter).is_some() {
                        count += 1;
                    }
                    if !KNOWN.contains(letter) || count > longest(letter) {
                        let run = letter.to_string().repeat(count);
                        return Err(wrong(format!("`{run}` is not known")));
                    }
                    Piece::Field(letter, count, 0)
                }
                '{' | '}' | '#' => return Err(wrong(format!("`{letter}` is reserved"))),
                other => Piece::Text(other.to_string()),
            };
            if let Some(inner) = open.last_mut() {
                inner.push(piece);
            }
        }
        let (Some(mut pieces), true) = (open.pop(), open.is_empty()) else {
            return Err(wrong("a bracket is not closed".to_owned()));
        };
        reserve(&mut pieces);
        Ok(TimePattern { pieces })
    }

    fn parts(&self, text: &str) -> Option<Parts> {
        let mut input = Input::new(text);
        let mut parts = Parts::default();
        take_all(&self.pieces, &mut input, &mut parts)?;
        input.is_empty().then_some(parts)
    }

    /// Days since 1970.
    pub(crate) fn date(&self, text: &str) -> Option<i32> {
        days(self.parts(text)?.date()?)
    }

    /// Microseconds since 1970 UTC; a text without a zone is in `session`.
    pub(crate) fn timestamp(&self, text: &str, session: Zone) -> Option<i64> {
        let parts = self.parts(text)?;
        parts.zone.unwrap_or(session).micros(parts.local()?)
    }

    /// Microseconds since 1970 without a zone; a text with one does not fit.
    pub(crate) fn timestamp_ntz(&self, text: &str) -> Option<i64> {
        let parts = self.parts(text)?;
        let local: NaiveDateTime = parts.local()?;
        parts.zone.is_none().then(|| local.and_utc().timestamp_micros())
    }
}

/// How often a letter may stand in a row.
fn longest(letter: char) -> usize {
    match letter {
        'y' => 19,
        'S' => 9,
        'X' | 'x' | 'Z' => 5,
        'M' | 'L' | 'E' | 'z' | 'O' => 4,
        'D' => 3,
        'a' => 1,
        _ => 2,
    }
}

/// A number without a fixed width leaves the digits of the numbers right after it: `yyyyMMdd`.
fn reserve(pieces: &mut [Piece]) {
    let mut after = 0;
    for piece in pieces.iter_mut().rev() {
        match piece {
            Piece::Field(letter, count, reserved) => {
                let fixed = match letter {
                    'M' | 'L' | 'd' | 'H' | 'h' | 'K' | 'k' | 'm' | 's' => *count == 2,
                    'D' => *count == 3,
                    letter => *letter == 'S',
                };
                *reserved = if fixed { 0 } else { after };
                after = if fixed { after + *count } else { 0 };
            }
            Piece::Text(_) => after = 0,
            Piece::Optional(inner) => {
                reserve(inner);
                after = 0;
            }
        }
    }
}

fn take_all(pieces: &[Piece], input: &mut Input<'_>, parts: &mut Parts) -> Option<()> {
    for piece in pieces {
        match piece {
            Piece::Text(text) => input.text(text)?,
            Piece::Field(letter, count, reserved) => {
                parts.take(*letter, *count, *reserved, input)?;
            }
            Piece::Optional(inner) => {
                let (mut input_there, mut parts_there) = (*input, *parts);
                if take_all(inner, &mut input_there, &mut parts_there).is_some() {
                    (*input, *parts) = (input_there, parts_there);
                }
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> TimePattern {
        TimePattern::parse("timestampFormat", text).unwrap()
    }

    #[test]
    fn dates_are_read_as_java_reads_them() {
        for (format, text, wanted) in [
            ("yyyy-MM-dd", "1970-01-03", Some(2)),
            ("yyyy-MM-dd", "1970-1-3", None),
            ("yyyy-M-d", "1970-1-03", Some(2)),
            ("yyyyMMdd", "19700103", Some(2)),
            ("dd/MM/yy", "03/01/70", Some(36_527)),
            ("d MMM yyyy", "3 jan 1970", Some(2)),
            ("d MMMM yyyy", "3 January 1970", Some(2)),
            ("EEE, d MMM yyyy", "Sat, 3 Jan 1970", Some(2)),
            ("EEE, d MMM yyyy", "Sun, 3 Jan 1970", None),
            ("yyyy-DDD", "1970-003", Some(2)),
            ("yyyy-MM[-dd]", "1970-02", Some(31)),
            ("yyyy-MM-dd", "1970-02-30", None),
            ("yyyy-MM-dd", "1970-01-03x", None),
            ("yyyy", "1971", Some(365)),
            ("yyyy''MM", "1970'02", Some(31)),
        ] {
            assert_eq!(pattern(format).date(text), wanted, "{format} {text}");
        }
    }

    #[test]
    fn timestamps_are_read_with_zones_halves_of_days_and_fractions() {
        let second = 1_000_000;
        for (format, text, wanted) in [
            ("yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]", "1970-01-01T00:00:01.5Z", Some(1_500_000)),
            ("yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]", "1970-01-01T01:00:01+01:00", Some(second)),
            ("yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]", "1970-01-01T00:00:01", Some(second)),
            ("dd.MM.yyyy hh:mm a", "01.01.1970 12:05 am", Some(300 * second)),
            ("dd.MM.yyyy h:mm a", "01.01.1970 1:00 PM", Some(46_800 * second)),
            ("yyyyMMddHHmmssSSS", "19700101000001250", Some(1_250_000)),
            ("yyyy-MM-dd HH:mm:ss VV", "1970-01-01 01:00:00 Europe/Paris", Some(0)),
            ("yyyy-MM-dd HH:mm:ss Z", "1970-01-01 01:00:00 +0100", Some(0)),
            ("yyyy-MM-dd HH:mm:ss O", "1970-01-01 01:00:00 GMT+1", Some(0)),
            ("yyyy-MM-dd HH:mm:ss z", "1970-01-01 00:00:00 UTC", Some(0)),
            ("yyyy-MM-dd kk:mm", "1970-01-01 24:00", Some(0)),
            ("yyyy-MM-dd HH:mm", "1970-01-01 25:00", None),
            ("HH:mm", "00:01", Some(60 * second)),
        ] {
            assert_eq!(pattern(format).timestamp(text, Zone::UTC), wanted, "{format} {text}");
        }
        let paris = Zone::parse("Europe/Paris").unwrap();
        assert_eq!(pattern("yyyy-MM-dd HH").timestamp("1970-01-01 01", paris), Some(0));
        assert_eq!(pattern("yyyy-MM-dd[X]").timestamp_ntz("1970-01-02"), Some(86_400 * second));
        assert_eq!(pattern("yyyy-MM-dd[X]").timestamp_ntz("1970-01-02Z"), None);
    }

    #[test]
    fn a_pattern_that_cannot_be_read_is_refused_by_name() {
        for text in ["yyyy-bb", "'open", "[yyyy", "yyyy]", "YYYY", "MMMMM", "{yyyy"] {
            let error = TimePattern::parse("dateFormat", text).unwrap_err();
            assert!(error.to_string().contains("option `dateFormat`"), "{error}");
        }
    }
}
