//! Java's date-time patterns, as Spark uses them: `yyyy-MM-dd HH:mm:ss`.

use super::timestamp_text::{civil, days};
use super::zone::Zone;
use chrono::{Datelike, NaiveDateTime, Timelike};
use datafusion::error::{DataFusionError, Result};

/// A pattern, read once for a whole column.
#[derive(Debug, PartialEq)]
pub(super) struct Pattern {
    parts: Vec<Part>,
}

#[derive(Debug, PartialEq)]
enum Part {
    Text(String),
    /// A pattern letter and how often it stands.
    Letter(char, usize),
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// Plan, for a letter that is not supported.
    pub(super) fn new(pattern: &str) -> Result<Self> {
        let mut parts = Vec::new();
        let mut chars = pattern.chars().peekable();
        while let Some(c) = chars.next() {
            if c == '\'' {
                let mut text = String::new();
                loop {
                    match chars.next() {
                        Some('\'') if chars.peek() == Some(&'\'') => {
                            chars.next();
                            text.push('\'');
                        }
                        Some('\'') | None => break,
                        Some(other) => text.push(other),
                    }
                }
                parts.push(Part::Text(if text.is_empty() { "'".to_owned() } else { text }));
            } else if c.is_ascii_alphabetic() {
                let mut count = 1;
                while chars.next_if_eq(&c).is_some() {
                    count += 1;
                }
                if !"yuMLdDHhKkmsSaEzZXxVOqQ".contains(c) || count > 9 {
                    return Err(DataFusionError::Plan(format!(
                        "[INVALID_DATETIME_PATTERN] the letter `{c}` in the pattern `{pattern}` is \
                         not supported"
                    )));
                }
                parts.push(Part::Letter(c, count));
            } else if c != '[' && c != ']' {
                parts.push(Part::Text(c.to_string()));
            }
        }
        Ok(Pattern { parts })
    }

    /// Whether it writes the short name of a zone's time.
    pub(super) fn names_time(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Letter('z', _)))
    }

    /// Writes a time as clocks in a zone show it.
    pub(super) fn format(&self, micros: i64, zone: &Zone) -> Option<String> {
        let time = civil(zone.local(micros))?;
        let offset = zone.offset_seconds(micros);
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(literal) => text.push_str(literal),
                Part::Letter('V' | 'z', _) => text.push_str(zone.name()),
                Part::Letter(letter @ ('X' | 'x' | 'Z' | 'O'), count) => {
                    text.push_str(&written_offset(offset, *letter, *count));
                }
                Part::Letter(letter, count) => text.push_str(&written(&time, *letter, *count)),
            }
        }
        Some(text)
    }

    /// Reads a time, in this zone if the text names none; `None` where the text does not follow the
    /// pattern.
    pub(super) fn parse(&self, text: &str, zone: &Zone) -> Option<i64> {
        let mut rest = text;
        let mut read = Read { month: 1, day: 1, ..Read::default() };
        for (place, part) in self.parts.iter().enumerate() {
            match part {
                Part::Text(literal) => rest = rest.strip_prefix(literal.as_str())?,
                Part::Letter(letter, count) => {
                    let next = self.parts.get(place + 1);
                    let adjacent = matches!(next, Some(Part::Letter(..)));
                    rest = read.letter(rest, *letter, *count, adjacent)?;
                }
            }
        }
        rest.is_empty().then(|| read.micros(zone)).flatten()
    }
}

fn written(time: &NaiveDateTime, letter: char, count: usize) -> String {
    let number = |value: u32| format!("{value:0count$}");
    match letter {
        'y' | 'u' if count == 2 => format!("{:02}", time.year().rem_euclid(100)),
        'y' | 'u' => format!("{:0count$}", time.year()),
        'M' | 'L' if count >= 3 => name(&MONTHS, time.month0(), count),
        'M' | 'L' => number(time.month()),
        'd' => number(time.day()),
        'D' => number(time.ordinal()),
        'H' => number(time.hour()),
        'k' => number(if time.hour() == 0 { 24 } else { time.hour() }),
        'h' => number(time.hour12().1),
        'K' => number(time.hour() % 12),
        'm' => number(time.minute()),
        's' => number(time.second()),
        'S' => {
            let digits = format!("{:09}", time.nanosecond());
            digits.chars().take(count).collect()
        }
        'a' => if time.hour() < 12 { "AM" } else { "PM" }.to_owned(),
        'E' => name(&DAYS, time.weekday().num_days_from_monday(), count),
        'q' | 'Q' => number(time.month0() / 3 + 1),
        _ => String::new(),
    }
}

/// An offset as the letters `X`, `x`, `Z` and `O` write it.
fn written_offset(seconds: i32, letter: char, count: usize) -> String {
    let (sign, size) = (if seconds < 0 { '-' } else { '+' }, seconds.unsigned_abs());
    let (hours, minutes) = (size / 3_600, size / 60 % 60);
    let colon = format!("{sign}{hours:02}:{minutes:02}");
    let plain = format!("{sign}{hours:02}{minutes:02}");
    match (letter, count) {
        ('X', _) | ('Z', 5) if seconds == 0 => "Z".to_owned(),
        ('O', _) | ('Z', 4) if seconds == 0 => "GMT".to_owned(),
        ('X' | 'x', 1) if minutes == 0 => format!("{sign}{hours:02}"),
        ('X' | 'x', 1 | 2 | 4) | ('Z', 1..=3) => plain,
        ('O', 1) if minutes == 0 => format!("GMT{sign}{hours}"),
        ('O', 1) => format!("GMT{sign}{hours}:{minutes:02}"),
        ('O', _) | ('Z', 4) => format!("GMT{colon}"),
        _ => colon,
    }
}

fn name(names: &[&str], place: u32, count: usize) -> String {
    let name = usize::try_from(place).ok().and_then(|place| names.get(place)).unwrap_or(&"");
    if count >= 4 { (*name).to_owned() } else { name.chars().take(3).collect() }
}

#[derive(Debug, Default)]
struct Read {
    year: i32,
    month: u32,
    day: u32,
    ordinal: Option<u32>,
    hour: u32,
    minute: u32,
    second: u32,
    micros: i64,
    afternoon: Option<bool>,
    zone: Option<Zone>,
}

impl Read {
    fn letter<'t>(
        &mut self,
        text: &'t str,
        letter: char,
        count: usize,
        adjacent: bool,
    ) -> Option<&'t str> {
        let most = match letter {
            'y' | 'u' if count != 2 && !adjacent => 9,
            _ if adjacent || count > 1 => count,
            _ => 19,
        };
        let length = text.bytes().take_while(u8::is_ascii_digit).count().min(most);
        let fraction = letter == 'S';
        let named = matches!(letter, 'M' | 'L' | 'E') && count >= 3;
        if named || matches!(letter, 'a' | 'X' | 'x' | 'Z' | 'O' | 'z' | 'V') {
            return self.word(text, letter);
        }
        if length == 0 || (length < count && !fraction) {
            return None;
        }
        let (digits, rest) = text.split_at_checked(length)?;
        if fraction {
            let six: String = digits.chars().chain("000000".chars()).take(6).collect();
            self.micros = six.parse().ok()?;
            return Some(rest);
        }
        let number: u32 = digits.parse().ok()?;
        match letter {
            'y' | 'u' => {
                let year = i32::try_from(number).ok()?;
                self.year = if count == 2 { 2000 + year } else { year };
            }
            'M' | 'L' => self.month = number,
            'd' => self.day = number,
            'D' => self.ordinal = Some(number),
            'H' => self.hour = number,
            'k' => self.hour = number % 24,
            'h' | 'K' => self.hour = number % 12,
            'm' => self.minute = number,
            's' => self.second = number,
            _ => return None,
        }
        Some(rest)
    }

    fn word<'t>(&mut self, text: &'t str, letter: char) -> Option<&'t str> {
        let find = |names: &[&str]| {
            names.iter().enumerate().find_map(|(place, name)| {
                let short = name.get(..3)?;
                let rest = strip(text, name).or_else(|| strip(text, short))?;
                Some((u32::try_from(place).ok()?, rest))
            })
        };
        match letter {
            'M' | 'L' => {
                let (place, rest) = find(&MONTHS)?;
                self.month = place + 1;
                Some(rest)
            }
            'E' => find(&DAYS).map(|(_, rest)| rest),
            'a' => {
                let afternoon = strip(text, "PM");
                self.afternoon = Some(afternoon.is_some());
                afternoon.or_else(|| strip(text, "AM"))
            }
            _ => {
                let zone =
                    |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | ':' | '/' | '_');
                let length = text.find(|c| !zone(c)).unwrap_or(text.len());
                let (zone, rest) = text.split_at_checked(length)?;
                self.zone = Some(Zone::parse(zone)?);
                Some(rest)
            }
        }
    }

    fn micros(&self, session: &Zone) -> Option<i64> {
        let days = match self.ordinal {
            Some(ordinal) => {
                days(self.year, 1, 1)?.checked_add(i32::try_from(ordinal).ok()? - 1)?
            }
            None => days(self.year, self.month, self.day)?,
        };
        let hour = self.hour + if self.afternoon == Some(true) { 12 } else { 0 };
        if hour > 23 || self.minute > 59 || self.second > 59 {
            return None;
        }
        let seconds = i64::from((hour * 60 + self.minute) * 60 + self.second);
        let local = i64::from(days)
            .checked_mul(86_400)?
            .checked_add(seconds)?
            .checked_mul(1_000_000)?
            .checked_add(self.micros)?;
        Some(self.zone.as_ref().unwrap_or(session).instant(local))
    }
}

fn strip<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_write_and_read() {
        let time = 1_767_225_600_000_000 + 3_723_456_000;
        let write =
            |pattern: &str| Pattern::new(pattern).unwrap().format(time, &Zone::utc()).unwrap();
        assert_eq!(write("yyyy-MM-dd HH:mm:ss.SSS"), "2026-01-01 01:02:03.456");
        assert_eq!(write("d MMM yy, h:mm a 'o''clock'"), "1 Jan 26, 1:02 AM o'clock");
        assert_eq!(write("EEEE D"), "Thursday 1");
        let read =
            |pattern: &str, text: &str| Pattern::new(pattern).unwrap().parse(text, &Zone::utc());
        assert_eq!(read("yyyy-MM-dd HH:mm:ss.SSS", "2026-01-01 01:02:03.456"), Some(time));
        assert_eq!(read("yyyyMMdd", "20260101"), Some(1_767_225_600_000_000));
        assert_eq!(
            read("dd/MMM/yyyy:HH:mm:ss Z", "01/Jan/2026:02:00:00 +0200"),
            Some(1_767_225_600_000_000)
        );
        assert_eq!(read("yyyy-MM-dd", "2026-13-01"), None);
        assert_eq!(read("yyyy-MM-dd", "2026-01-01x"), None);
        assert!(Pattern::new("yyyy-ww").is_err());
    }
}
