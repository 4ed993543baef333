//! Days and times as text that every database reads.

use chrono::{DateTime, Datelike, NaiveDate, TimeDelta, Timelike};

/// `2024-02-29`.
pub(crate) fn date(days: i32) -> String {
    match day(days) {
        Some(date) => date.format("%Y-%m-%d").to_string(),
        None => format!("day {days} since 1970-01-01"),
    }
}

fn day(days: i32) -> Option<NaiveDate> {
    NaiveDate::from_ymd_opt(1970, 1, 1)?.checked_add_signed(TimeDelta::try_days(i64::from(days))?)
}

/// `2024-02-29 23:59:59.000001`, with as many digits as are needed.
pub(crate) fn timestamp(micros: i64) -> String {
    match DateTime::from_timestamp_micros(micros) {
        Some(time) => {
            let text = time.format("%Y-%m-%d %H:%M:%S").to_string();
            match time.timestamp_subsec_micros() {
                0 => text,
                part => format!("{text}.{part:06}"),
            }
        }
        None => format!("{micros} microseconds since 1970-01-01"),
    }
}

/// A span as PostgreSQL reads it.
pub(crate) fn interval(months: i32, days: i32, micros: i64) -> String {
    format!("{months} mons {days} days {micros} microseconds")
}

/// Year, month and day, if the year has four digits.
pub(crate) fn ymd(days: i32) -> Option<(u16, u8, u8)> {
    let date = day(days)?;
    let year = u16::try_from(date.year()).ok().filter(|year| *year <= 9_999)?;
    Some((year, u8::try_from(date.month()).ok()?, u8::try_from(date.day()).ok()?))
}

/// Year to day, hour to second, and microseconds.
pub(crate) type Parts = ((u16, u8, u8), (u8, u8, u8), u32);

/// The parts of a time, if its year has four digits.
pub(crate) fn parts(micros: i64) -> Option<Parts> {
    let time = DateTime::from_timestamp_micros(micros)?.naive_utc();
    let year = u16::try_from(time.year()).ok().filter(|year| *year <= 9_999)?;
    let small = |value: u32| u8::try_from(value).ok();
    let day = (year, small(time.month())?, small(time.day())?);
    let clock = (small(time.hour())?, small(time.minute())?, small(time.second())?);
    Some((day, clock, time.and_utc().timestamp_subsec_micros()))
}

/// Days since 1970-01-01.
pub(crate) fn days_of(year: u16, month: u8, day: u8) -> Option<i32> {
    let date = NaiveDate::from_ymd_opt(i32::from(year), u32::from(month), u32::from(day))?;
    let epoch = NaiveDate::from_ymd_opt(1970, 1, 1)?;
    i32::try_from(date.signed_duration_since(epoch).num_days()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_times_are_written_and_read() {
        assert_eq!(date(-1), "1969-12-31");
        assert_eq!(timestamp(-1), "1969-12-31 23:59:59.999999");
        assert_eq!(timestamp(0), "1970-01-01 00:00:00");
        assert_eq!(ymd(19_782), Some((2024, 2, 29)));
        assert_eq!(days_of(2024, 2, 29), Some(19_782));
        assert_eq!(days_of(2023, 2, 29), None);
        assert_eq!(parts(-1), Some(((1969, 12, 31), (23, 59, 59), 999_999)));
        assert_eq!(ymd(i32::MAX), None);
    }
}
