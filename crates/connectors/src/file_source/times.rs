//! Dates and timestamps as Spark reads them from text.

use arrow::array::timezone::Tz;
use chrono::{LocalResult, NaiveDate, NaiveDateTime, NaiveTime, Offset as _, TimeZone};

/// The session's time zone, with a short way for UTC.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Zone {
    tz: Option<Tz>,
}

impl Zone {
    /// UTC.
    pub(crate) const UTC: Zone = Zone { tz: None };

    /// A zone by name: `UTC`, `+02:00`, `Europe/Paris`.
    pub(crate) fn parse(text: &str) -> Option<Zone> {
        let text = text.trim();
        if matches!(text, "Z" | "z" | "UTC" | "GMT" | "Etc/UTC" | "UT") {
            return Some(Zone::UTC);
        }
        let text = ["UTC", "GMT", "UT"]
            .iter()
            .find_map(|prefix| {
                text.strip_prefix(prefix).filter(|rest| rest.starts_with(['+', '-']))
            })
            .unwrap_or(text);
        let text = match text.strip_prefix(['+', '-']) {
            Some(rest) => {
                let sign = text.get(..1)?;
                let (hours, minutes) = match rest.split_once(':') {
                    Some((hours, minutes)) => (hours, minutes.get(..2).unwrap_or(minutes)),
                    None if rest.len() == 4 => rest.split_at_checked(2)?,
                    None => (rest, "00"),
                };
                let (hours, minutes) = (hours.parse::<u32>().ok()?, minutes.parse::<u32>().ok()?);
                if hours > 18 || minutes > 59 {
                    return None;
                }
                format!("{sign}{hours:02}:{minutes:02}")
            }
            None => text.to_owned(),
        };
        text.parse::<Tz>().ok().map(|tz| Zone { tz: Some(tz) })
    }

    /// Microseconds since 1970 of a local time. A time in a gap moves forward by the gap, the
    /// earlier of two times is taken, as Java does.
    pub(crate) fn micros(self, local: NaiveDateTime) -> Option<i64> {
        let utc = local.and_utc().timestamp_micros();
        let Some(tz) = self.tz else { return Some(utc) };
        let offset = match tz.offset_from_local_datetime(&local) {
            LocalResult::Single(offset) | LocalResult::Ambiguous(offset, _) => offset,
            LocalResult::None => {
                let before = local.checked_sub_signed(chrono::TimeDelta::days(1))?;
                tz.offset_from_local_datetime(&before).earliest()?
            }
        };
        utc.checked_sub(i64::from(offset.fix().local_minus_utc()).checked_mul(1_000_000)?)
    }
}

struct Cursor<'a> {
    text: &'a str,
}

impl<'a> Cursor<'a> {
    fn number(&mut self, digits_max: usize) -> Option<u32> {
        let length = self.text.bytes().take_while(u8::is_ascii_digit).count();
        if length == 0 || length > digits_max {
            return None;
        }
        let (digits, rest) = self.text.split_at_checked(length)?;
        self.text = rest;
        digits.parse().ok()
    }

    fn take(&mut self, wanted: char) -> bool {
        match self.text.strip_prefix(wanted) {
            Some(rest) => {
                self.text = rest;
                true
            }
            None => false,
        }
    }
}

fn date_of(cursor: &mut Cursor<'_>) -> Option<NaiveDate> {
    let negative = cursor.take('-');
    if !negative {
        cursor.take('+');
    }
    let digits = cursor.text.bytes().take_while(u8::is_ascii_digit).count();
    if digits < 4 {
        return None;
    }
    let year = i32::try_from(cursor.number(6)?).ok()?;
    let year = if negative { -year } else { year };
    let mut month = 1;
    let mut day = 1;
    if cursor.take('-') {
        month = cursor.number(2)?;
        if cursor.take('-') {
            day = cursor.number(2)?;
        }
    }
    NaiveDate::from_ymd_opt(year, month, day)
}

/// Days since 1970 of `[+-]yyyy[-M[-d]]`, with anything after a space or `T` left aside.
pub(crate) fn parse_date(text: &str) -> Option<i32> {
    let mut cursor = Cursor { text: text.trim() };
    let date = date_of(&mut cursor)?;
    if !(cursor.text.is_empty() || cursor.text.starts_with([' ', 'T'])) {
        return None;
    }
    days(date)
}

pub(crate) fn days(date: NaiveDate) -> Option<i32> {
    i32::try_from(date.signed_duration_since(NaiveDate::default()).num_days()).ok()
}

fn time_of(cursor: &mut Cursor<'_>) -> Option<NaiveTime> {
    let hour = cursor.number(2)?;
    if !cursor.take(':') {
        return None;
    }
    let minute = cursor.number(2)?;
    let mut second = 0;
    let mut micros = 0;
    if cursor.take(':') {
        second = cursor.number(2)?;
        if cursor.take('.') {
            let digits = cursor.text.bytes().take_while(u8::is_ascii_digit).count();
            let (fraction, rest) = cursor.text.split_at_checked(digits)?;
            cursor.text = rest;
            let mut kept = fraction.get(..6).unwrap_or(fraction).to_owned();
            while kept.len() < 6 {
                kept.push('0');
            }
            micros = kept.parse().ok()?;
        }
    }
    NaiveTime::from_hms_micro_opt(hour, minute, second, micros)
}

/// A local time and the zone written after it, of Spark's
/// `[+-]yyyy[-M[-d[( |T)[h]h:[m]m[:[s]s[.ffffff]][zone]]]]`.
fn parse_local(text: &str) -> Option<(NaiveDateTime, Option<Zone>)> {
    let mut cursor = Cursor { text: text.trim() };
    let date = date_of(&mut cursor)?;
    if cursor.text.is_empty() {
        return Some((date.and_time(NaiveTime::MIN), None));
    }
    if !(cursor.take('T') || cursor.take(' ')) {
        return None;
    }
    let time = time_of(&mut cursor)?;
    let zone = match cursor.text.trim() {
        "" => None,
        text => Some(Zone::parse(text)?),
    };
    Some((date.and_time(time), zone))
}

/// Microseconds since 1970 UTC; a text without a zone is in the session's.
pub(crate) fn parse_timestamp(text: &str, session: Zone) -> Option<i64> {
    let (local, zone) = parse_local(text)?;
    zone.unwrap_or(session).micros(local)
}

/// Microseconds since 1970 without a zone; a text with a zone does not fit.
pub(crate) fn parse_timestamp_ntz(text: &str) -> Option<i64> {
    match parse_local(text)? {
        (local, None) => Some(local.and_utc().timestamp_micros()),
        (_, Some(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_read_with_and_without_zone() {
        let utc = |text| parse_timestamp(text, Zone::UTC);
        assert_eq!(utc("1970-01-01T00:00:01.5Z"), Some(1_500_000));
        assert_eq!(utc("1970-01-01 00:00:01"), Some(1_000_000));
        assert_eq!(utc("1970-01-01T01:00:00+01:00"), Some(0));
        assert_eq!(utc("1969-12-31T23:59:59Z"), Some(-1_000_000));
        assert_eq!(utc("1970-1-2"), Some(86_400_000_000));
        assert_eq!(utc("1970-01-01 25:00:00"), None);
        assert_eq!(utc("nonsense"), None);
        let paris = Zone::parse("Europe/Paris").unwrap();
        assert_eq!(parse_timestamp("1970-01-01 01:00:00", paris), Some(0));
        assert_eq!(parse_timestamp_ntz("1970-01-01T00:00:00Z"), None);
        assert_eq!(parse_date("1970-01-03"), Some(2));
        assert_eq!(parse_date("1970-02-30"), None);
    }
}
