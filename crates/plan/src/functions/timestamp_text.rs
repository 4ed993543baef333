//! Dates and timestamps as Spark reads and writes them in texts.

use super::zone::Zone;
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime};

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// The number of days since 1970 of a calendar day.
pub(super) fn days(year: i32, month: u32, day: u32) -> Option<i32> {
    let date = NaiveDate::from_ymd_opt(year, month, day)?;
    date.num_days_from_ce().checked_sub(719_163)
}

/// The calendar day of a number of days since 1970.
pub(super) fn calendar(days: i32) -> Option<NaiveDate> {
    NaiveDate::from_num_days_from_ce_opt(days.checked_add(719_163)?)
}

/// The civil time of microseconds since 1970.
pub(super) fn civil(micros: i64) -> Option<NaiveDateTime> {
    DateTime::from_timestamp_micros(micros).map(|time| time.naive_utc())
}

/// `2026-01-31`.
pub(super) fn date_text(days: i32) -> String {
    match calendar(days) {
        Some(date) => date.format("%Y-%m-%d").to_string(),
        None => days.to_string(),
    }
}

/// `2026-01-31 12:00:00` with as many digits of the second as are needed.
pub(super) fn timestamp_text(micros: i64, zone: &Zone) -> String {
    let Some(time) = civil(zone.local(micros)) else { return micros.to_string() };
    let text = time.format("%Y-%m-%d %H:%M:%S").to_string();
    let fraction = micros.rem_euclid(1_000_000);
    if fraction == 0 {
        return text;
    }
    let digits = format!("{fraction:06}");
    format!("{text}.{}", digits.trim_end_matches('0'))
}

/// `yyyy`, `yyyy-M` or `yyyy-M-d`; what follows a blank or `T` is left out.
pub(super) fn parse_date(text: &str) -> Option<i32> {
    let mut reader = Reader { rest: text };
    let days = reader.date()?;
    (reader.rest.is_empty() || reader.rest.starts_with([' ', 'T'])).then_some(days)
}

/// `yyyy[-M[-d]]`, optionally followed by a blank or `T` and `H[:m[:s[.ffffff]]]`, optionally with
/// an offset or a zone, in `zone` else. More than six digits of the second are cut off.
pub(super) fn parse_timestamp(text: &str, zone: &Zone) -> Option<i64> {
    let mut reader = Reader { rest: text };
    let days = reader.date()?;
    let mut micros = i64::from(days).checked_mul(MICROS_PER_DAY)?;
    if reader.take(' ') || reader.take('T') {
        micros = micros.checked_add(reader.time()?)?;
        return match reader.rest.trim() {
            "" => Some(zone.instant(micros)),
            named => Some(Zone::parse(named)?.instant(micros)),
        };
    }
    reader.rest.is_empty().then(|| zone.instant(micros))
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn take(&mut self, c: char) -> bool {
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn number(&mut self, digits: std::ops::RangeInclusive<usize>) -> Option<u32> {
        let length = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        if !digits.contains(&length) {
            return None;
        }
        let (number, rest) = self.rest.split_at(length);
        self.rest = rest;
        number.parse().ok()
    }

    fn date(&mut self) -> Option<i32> {
        let negative = self.take('-');
        let year = i32::try_from(self.number(4..=6)?).ok()?;
        let year = if negative { -year } else { year };
        let mut month = 1;
        let mut day = 1;
        if self.take('-') {
            month = self.number(1..=2)?;
            if self.take('-') {
                day = self.number(1..=2)?;
            }
        }
        days(year, month, day)
    }

    fn time(&mut self) -> Option<i64> {
        let hour = i64::from(self.number(1..=2)?);
        let mut minute = 0;
        let mut second = 0;
        let mut fraction = 0;
        if self.take(':') {
            minute = i64::from(self.number(1..=2)?);
            if self.take(':') {
                second = i64::from(self.number(1..=2)?);
                if self.take('.') {
                    fraction = self.fraction()?;
                }
            }
        }
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        Some(((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction)
    }

    fn fraction(&mut self) -> Option<i64> {
        let length = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        if !(1..=9).contains(&length) {
            return None;
        }
        let (digits, rest) = self.rest.split_at(length);
        self.rest = rest;
        let six: String = digits.chars().chain("000000".chars()).take(6).collect();
        six.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_read_as_spark_reads_them() {
        assert_eq!(parse_date("2026-01-01"), Some(20_454));
        assert_eq!(parse_date("2026-1-1 12:00"), Some(20_454));
        assert_eq!(parse_date("2026"), Some(20_454));
        assert_eq!(parse_date("2026-02-30"), None);
        assert_eq!(parse_date("x"), None);
        let utc = Zone::utc();
        let midnight = 20_454 * MICROS_PER_DAY;
        assert_eq!(parse_timestamp("2026-01-01", &utc), Some(midnight));
        assert_eq!(parse_timestamp("2026-01-01T01:02:03.5Z", &utc), Some(midnight + 3_723_500_000));
        assert_eq!(parse_timestamp("2026-01-01 02:00+02:00", &utc), Some(midnight));
        assert_eq!(parse_timestamp("2026-01-01 24:00", &utc), None);
        assert_eq!(parse_timestamp("1969-12-31 23:59:59.999999", &utc), Some(-1));
    }

    #[test]
    fn times_are_written_with_the_digits_that_they_need() {
        assert_eq!(timestamp_text(0, &Zone::utc()), "1970-01-01 00:00:00");
        assert_eq!(timestamp_text(-1, &Zone::utc()), "1969-12-31 23:59:59.999999");
        assert_eq!(timestamp_text(1_500_000, &Zone::utc()), "1970-01-01 00:00:01.5");
    }
}
