//! Spark's interval texts: `10 minutes`, `interval '5' second`, `1 hour 30 minutes`.

use onefold_types::{Error, Result};

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;
/// What Spark counts for a month where an interval must become a duration.
const DAYS_PER_MONTH: i64 = 31;

/// A calendar interval as Spark keeps it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Interval {
    /// Months and years.
    pub(crate) months: i64,
    /// Days and weeks.
    pub(crate) days: i64,
    /// All smaller units, in microseconds.
    pub(crate) micros: i64,
}

impl Interval {
    /// Its length in microseconds, a month being 31 days as in Spark's watermark delays.
    pub(crate) fn micros_with_months(self) -> Option<i64> {
        let days = self.months.checked_mul(DAYS_PER_MONTH)?.checked_add(self.days)?;
        days.checked_mul(MICROS_PER_DAY)?.checked_add(self.micros)
    }

    /// Its length in microseconds; `None` if it has months or is too long.
    pub(crate) fn fixed_micros(self) -> Option<i64> {
        if self.months != 0 {
            return None;
        }
        self.days.checked_mul(MICROS_PER_DAY)?.checked_add(self.micros)
    }

    fn add(&mut self, number: Number, unit: &str) -> Option<()> {
        let singular = unit.strip_suffix('s').unwrap_or(unit);
        let whole = number.whole();
        let add = |sum: &mut i64, factor: i64| -> Option<()> {
            *sum = sum.checked_add(whole?.checked_mul(factor)?)?;
            Some(())
        };
        match singular {
            "year" => add(&mut self.months, 12),
            "month" => add(&mut self.months, 1),
            "week" => add(&mut self.days, 7),
            "day" => add(&mut self.days, 1),
            "hour" => add(&mut self.micros, 3_600 * MICROS_PER_SECOND),
            "minute" => add(&mut self.micros, 60 * MICROS_PER_SECOND),
            // A fraction is for seconds only.
            "second" => {
                self.micros = self.micros.checked_add(number.micros()?)?;
                Some(())
            }
            "millisecond" => add(&mut self.micros, 1_000),
            "microsecond" => add(&mut self.micros, 1),
            _ => None,
        }
    }
}

/// A decimal number: its sign, digits before and after the point.
#[derive(Debug, Clone, Copy)]
struct Number<'a> {
    negative: bool,
    whole: &'a str,
    fraction: Option<&'a str>,
}

impl<'a> Number<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = match digits.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (digits, None),
        };
        let all = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let empty = whole.is_empty() && fraction.is_none_or(str::is_empty);
        let known = !empty && all(whole) && fraction.is_none_or(|it| all(it) && it.len() <= 9);
        known.then_some(Number { negative, whole, fraction })
    }

    fn whole(self) -> Option<i64> {
        if self.fraction.is_some() {
            return None;
        }
        let value: i64 = self.whole.parse().ok()?;
        Some(if self.negative { -value } else { value })
    }

    /// As seconds, in microseconds; digits after the sixth are cut off.
    fn micros(self) -> Option<i64> {
        let whole: i64 = if self.whole.is_empty() { 0 } else { self.whole.parse().ok()? };
        let digits: String = self.fraction.unwrap_or_default().chars().take(6).collect();
        let fraction: i64 = format!("{digits:0<6}").parse().ok()?;
        let value = whole.checked_mul(MICROS_PER_SECOND)?.checked_add(fraction)?;
        Some(if self.negative { -value } else { value })
    }
}

/// Reads an interval as Spark does: numbers with units, with or without the word `interval` and
/// quotes around a number.
///
/// # Errors
/// Invalid: the text is no interval, or is too long for one.
pub(crate) fn parse_interval(text: &str) -> Result<Interval> {
    let wrong = || {
        Error::invalid(format!(
            "`{}` is not an interval; write a number and a unit, such as '10 minutes'",
            text.escape_debug()
        ))
    };
    let lower = text.trim().to_lowercase().replace(['\'', '"'], " ");
    let lower = spaced(&lower);
    let mut words = lower.split_whitespace().peekable();
    if words.peek() == Some(&"interval") {
        words.next();
    }
    let mut interval = Interval::default();
    let mut any = false;
    while let Some(word) = words.next() {
        // The sign may stand apart.
        let joined = match word {
            "-" | "+" => format!("{word}{}", words.next().ok_or_else(wrong)?),
            word => word.to_owned(),
        };
        let number = Number::of(&joined).ok_or_else(wrong)?;
        let unit = words.next().ok_or_else(wrong)?;
        interval.add(number, unit).ok_or_else(wrong)?;
        any = true;
    }
    if any { Ok(interval) } else { Err(wrong()) }
}

/// With a blank between a number and a unit that stand together (`10s` is no unit, but `10seconds`
/// is read).
fn spaced(text: &str) -> String {
    let mut spaced = String::with_capacity(text.len() + 8);
    let mut last = ' ';
    for c in text.chars() {
        if last.is_ascii_digit() && c.is_alphabetic() {
            spaced.push(' ');
        }
        spaced.push(c);
        last = c;
    }
    spaced
}

#[cfg(test)]
mod tests {
    use super::{Interval, parse_interval};

    #[test]
    fn units_add_up_in_any_writing() {
        let minutes = Interval { micros: 90 * 60_000_000, ..Interval::default() };
        for text in [
            "90 minutes",
            "1 hour 30 minutes",
            " interval  1 HOUR  30 Minute ",
            "INTERVAL '90' MINUTE",
            "interval '90 minutes'",
            "2 hours - 30 minutes",
        ] {
            assert_eq!(parse_interval(text).unwrap(), minutes, "{text}");
        }
        let seconds = parse_interval("1.5 seconds 2 milliseconds -3 microseconds").unwrap();
        assert_eq!(seconds.micros, 1_501_997);
        assert_eq!(parse_interval("-0.5 second").unwrap().micros, -500_000);
        let long = parse_interval("1 year 2 months 1 week 1 day").unwrap();
        assert_eq!(long, Interval { months: 14, days: 8, micros: 0 });
        assert_eq!(long.fixed_micros(), None);
        assert_eq!(long.micros_with_months(), Some((14 * 31 + 8) * 86_400_000_000));
    }

    #[test]
    fn what_is_no_interval_is_refused() {
        for text in [
            "",
            "interval",
            "10",
            "minutes",
            "ten minutes",
            "1.5 minutes",
            "5 parsecs",
            "1 second second",
            "9223372036854775807 years",
            "1.0000000001 seconds",
        ] {
            assert!(parse_interval(text).is_err(), "{text}");
        }
    }
}
