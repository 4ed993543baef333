//! Values as Spark writes them as text (`CAST(x AS STRING)`).

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Time64MicrosecondType,
    TimeUnit, TimestampMicrosecondType,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use base64::Engine as _;
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, TimeDelta, TimeZone, Timelike};
use onefold_types::{Error, Result};
use std::fmt::Write;

/// The texts of a column.
pub(crate) enum Texts {
    /// A text column as it is.
    Plain(StringArray),
    /// Texts made from other values.
    Made(Vec<Option<String>>),
}

impl Texts {
    /// The texts of a column, times in a time zone.
    ///
    /// # Errors
    /// Invalid: a type without text, or a time zone that is not known.
    pub(crate) fn of(name: &str, column: &ArrayRef, time_zone: &str) -> Result<Texts> {
        let unfit = |e: arrow::error::ArrowError| {
            Error::invalid(format!("column `{name}` of type {} has no text", column.data_type()))
                .because(e)
        };
        let to = |kind: DataType| cast(column, &kind).map_err(unfit);
        Ok(match column.data_type() {
            DataType::Utf8 => Texts::Plain(column.as_string::<i32>().clone()),
            DataType::Utf8View | DataType::LargeUtf8 | DataType::Dictionary(..) => {
                Texts::Plain(to(DataType::Utf8)?.as_string::<i32>().clone())
            }
            DataType::Float64 => made(column.as_primitive::<Float64Type>().iter(), java_double),
            DataType::Float32 => made(column.as_primitive::<Float32Type>().iter(), java_float),
            DataType::Timestamp(_, None) => {
                let column = to(DataType::Timestamp(TimeUnit::Microsecond, None))?;
                made(column.as_primitive::<TimestampMicrosecondType>().iter(), |v| {
                    timestamp(naive(v))
                })
            }
            DataType::Timestamp(_, Some(_)) => {
                let zone = zone(time_zone)?;
                let column = to(DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())))?;
                made(column.as_primitive::<TimestampMicrosecondType>().iter(), |v| {
                    timestamp(in_zone(v, zone).naive_local())
                })
            }
            DataType::Date64 | DataType::Date32 => {
                let column = to(DataType::Date32)?;
                made(column.as_primitive::<Date32Type>().iter(), |v| date(day(v)))
            }
            DataType::Time32(_) | DataType::Time64(_) => {
                let column = to(DataType::Time64(TimeUnit::Microsecond))?;
                made(column.as_primitive::<Time64MicrosecondType>().iter(), time)
            }
            DataType::Decimal128(_, scale) => {
                let scale = *scale;
                made(column.as_primitive::<Decimal128Type>().iter(), |v| decimal(v, scale))
            }
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                let column = to(DataType::Binary)?;
                made(column.as_binary::<i32>().iter(), |v| String::from_utf8_lossy(v).into_owned())
            }
            _ => {
                let options = FormatOptions::default();
                let formatter = ArrayFormatter::try_new(column, &options).map_err(unfit)?;
                Texts::Made(
                    (0..column.len())
                        .map(|row| column.is_valid(row).then(|| formatter.value(row).to_string()))
                        .collect(),
                )
            }
        })
    }

    /// The text of a row; `None` for null.
    pub(crate) fn get(&self, row: usize) -> Option<&str> {
        match self {
            Texts::Plain(texts) => {
                (row < texts.len() && texts.is_valid(row)).then(|| texts.value(row))
            }
            Texts::Made(texts) => texts.get(row)?.as_deref(),
        }
    }
}

fn made<V>(values: impl Iterator<Item = Option<V>>, text: impl Fn(V) -> String) -> Texts {
    Texts::Made(values.map(|value| value.map(&text)).collect())
}

/// A time zone by name or offset.
pub(crate) fn zone(name: &str) -> Result<Tz> {
    // Java's ids that the time zone database does not have.
    let offset = ["UTC", "GMT", "UT"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix).filter(|rest| rest.starts_with(['+', '-'])));
    let offset = offset.unwrap_or(name);
    let known = match name {
        "Z" | "GMT" | "UT" => "UTC".to_owned(),
        // One digit of the hour.
        _ => match offset.split_at_checked(1) {
            Some((sign @ ("+" | "-"), hour)) if hour.len() == 1 => format!("{sign}0{hour}:00"),
            _ => offset.to_owned(),
        },
    };
    known.parse().map_err(|e| {
        Error::invalid(format!(
            "time zone `{name}` is not known; use a region such as Europe/Berlin or an offset \
             such as +02:00"
        ))
        .because(e)
    })
}

/// A point in time (microseconds since 1970) as a local time of UTC.
pub(crate) fn naive(micros: i64) -> NaiveDateTime {
    DateTime::from_timestamp_micros(micros).map_or(NaiveDateTime::MAX, |time| time.naive_utc())
}

/// A point in time (microseconds since 1970) in a zone.
pub(crate) fn in_zone(micros: i64, zone: Tz) -> DateTime<Tz> {
    zone.from_utc_datetime(&naive(micros))
}

/// A day counted from 1970.
pub(crate) fn day(days: i32) -> NaiveDate {
    DateTime::UNIX_EPOCH
        .date_naive()
        .checked_add_signed(TimeDelta::days(days.into()))
        .unwrap_or(NaiveDate::MAX)
}

/// `2024-02-29`.
pub(crate) fn date(day: NaiveDate) -> String {
    let (year, month, dom) = (day.year(), day.month(), day.day());
    if (0..=9999).contains(&year) {
        format!("{year:04}-{month:02}-{dom:02}")
    } else {
        format!("{}{:04}-{month:02}-{dom:02}", if year < 0 { '-' } else { '+' }, year.abs())
    }
}

/// `2024-02-29 10:00:00.5`: as many digits of the fraction as needed.
pub(crate) fn timestamp(time: NaiveDateTime) -> String {
    let mut text = date(time.date());
    // Writing to a string cannot fail.
    let _ = write!(text, " {:02}:{:02}:{:02}", time.hour(), time.minute(), time.second());
    push_fraction(&mut text, time.nanosecond() / 1_000);
    text
}

fn time(micros: i64) -> String {
    let seconds = micros.div_euclid(1_000_000);
    let mut text = format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60);
    push_fraction(&mut text, u32::try_from(micros.rem_euclid(1_000_000)).unwrap_or(0));
    text
}

fn push_fraction(text: &mut String, micros: u32) {
    if micros > 0 {
        let digits = format!(".{micros:06}");
        text.push_str(digits.trim_end_matches('0'));
    }
}

/// A decimal without exponent: `-12.340`.
pub(crate) fn decimal(value: i128, scale: i8) -> String {
    let scale = usize::try_from(scale).unwrap_or(0);
    let digits = format!("{:0width$}", value.unsigned_abs(), width = scale + 1);
    let sign = if value < 0 { "-" } else { "" };
    match digits.split_at_checked(digits.len() - scale) {
        Some((whole, fraction)) if scale > 0 => format!("{sign}{whole}.{fraction}"),
        _ => format!("{sign}{digits}"),
    }
}

/// A decimal as Java's `BigDecimal.toString` writes it: with an exponent where it is very small.
pub(crate) fn decimal_number(value: i128, scale: i8) -> String {
    let digits = value.unsigned_abs().to_string();
    let exponent = i64::try_from(digits.len()).unwrap_or(0) - 1 - i64::from(scale);
    if scale >= 0 && exponent >= -6 {
        return decimal(value, scale);
    }
    let sign = if value < 0 { "-" } else { "" };
    match digits.split_at_checked(1) {
        Some((first, rest)) if !rest.is_empty() => format!("{sign}{first}.{rest}E{exponent:+}"),
        _ => format!("{sign}{digits}E{exponent:+}"),
    }
}

/// A double as Java's `Double.toString` writes it: `1.0`, `1.0E10`, `1.234E-5`.
pub(crate) fn java_double(value: f64) -> String {
    java_float_text(value.is_nan(), value.is_infinite(), value < 0.0, &format!("{value:e}"))
}

/// As [`java_double`] for single precision.
pub(crate) fn java_float(value: f32) -> String {
    java_float_text(value.is_nan(), value.is_infinite(), value < 0.0, &format!("{value:e}"))
}

/// From the shortest scientific form (`-1.25e-7`), whose digits are Java's.
fn java_float_text(nan: bool, infinite: bool, negative: bool, scientific: &str) -> String {
    if nan {
        return "NaN".to_owned();
    }
    if infinite {
        return if negative { "-Infinity" } else { "Infinity" }.to_owned();
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    if digits == "0" {
        return format!("{sign}0.0");
    }
    if !(-3..7).contains(&exponent) {
        let (first, rest) = digits.split_at_checked(1).unwrap_or((&digits, ""));
        return format!("{sign}{first}.{}E{exponent}", if rest.is_empty() { "0" } else { rest });
    }
    let Ok(whole) = usize::try_from(exponent) else {
        let zeros = usize::try_from(-exponent - 1).unwrap_or(0);
        return format!("{sign}0.{}{digits}", "0".repeat(zeros));
    };
    match digits.split_at_checked(whole + 1) {
        Some((whole, "")) => format!("{sign}{whole}.0"),
        Some((whole, fraction)) => format!("{sign}{whole}.{fraction}"),
        None => format!("{sign}{digits}{}.0", "0".repeat(whole + 1 - digits.len())),
    }
}

/// Bytes in base 64, as JSON files hold them.
pub(crate) fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::TimestampMicrosecondArray;
    use std::sync::Arc;

    #[test]
    fn doubles_are_written_as_java_writes_them() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (100.0, "100.0"),
            (1234567.0, "1234567.0"),
            (12345678.0, "1.2345678E7"),
            (0.001, "0.001"),
            (0.00012, "1.2E-4"),
            (-1.5, "-1.5"),
            (1e21, "1.0E21"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(java_double(value), text);
        }
        assert_eq!(java_float(0.1), "0.1");
    }

    #[test]
    fn decimals_and_times_are_written_as_spark_casts_them() {
        assert_eq!(decimal(-12_340, 3), "-12.340");
        assert_eq!(decimal(5, 2), "0.05");
        assert_eq!(decimal(7, 0), "7");
        assert_eq!(decimal_number(0, 18), "0E-18");
        assert_eq!(decimal_number(123, 2), "1.23");
        assert_eq!(decimal_number(-12, 9), "-1.2E-8");
        assert_eq!(timestamp(naive(-500_000)), "1969-12-31 23:59:59.5");
        assert_eq!(date(day(11_016)), "2000-02-29");
        let column: ArrayRef =
            Arc::new(TimestampMicrosecondArray::from(vec![0]).with_timezone("UTC"));
        let texts = Texts::of("ts", &column, "America/Los_Angeles").unwrap();
        assert_eq!(texts.get(0), Some("1969-12-31 16:00:00"));
        assert!(Texts::of("ts", &column, "Mars/Base").is_err());
    }
}
