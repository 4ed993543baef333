//! Dates and times: what `datafusion-spark` lacks or DataFusion means otherwise.

use super::pattern::Pattern;
use super::simple::{Simple, Zoned};
use super::timestamp_text::{calendar, parse_timestamp};
use super::zone::Zone;
use crate::schema::timestamp;
use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, Int32Array, Int64Array, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Date32Type, Int64Type, TimestampMicrosecondType};
use chrono::Datelike;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ScalarUDF;
use std::sync::{Arc, LazyLock};

static ANY_AND_TEXT: [Option<DataType>; 2] = [None, Some(DataType::Utf8)];
static DATE: [Option<DataType>; 1] = [Some(DataType::Date32)];
static LONG: [Option<DataType>; 1] = [Some(DataType::Int64)];
static LONG_AND_TEXT: [Option<DataType>; 2] = [Some(DataType::Int64), Some(DataType::Utf8)];
static TIME_AND_TEXT: LazyLock<[Option<DataType>; 2]> =
    LazyLock::new(|| [Some(timestamp()), Some(DataType::Utf8)]);

pub(super) fn functions() -> Vec<ScalarUDF> {
    let with_pattern = |name, body, returns| {
        Zoned { name, arguments: &ANY_AND_TEXT, optional: 1, returns, body }.udf()
    };
    let part = |name, body| {
        Simple { name, arguments: &DATE, optional: 0, returns: DataType::Int32, body }.udf()
    };
    let from_long = |name, body| {
        Simple { name, arguments: &LONG, optional: 0, returns: timestamp(), body }.udf()
    };
    let seconds = with_pattern("unix_timestamp", unix_timestamp, DataType::Int64);
    vec![
        with_pattern("to_timestamp", |columns, zone| times(columns, false, zone), timestamp()),
        with_pattern("try_to_timestamp", |columns, zone| times(columns, true, zone), timestamp()),
        with_pattern("to_date", to_date, DataType::Date32),
        seconds.with_aliases(["to_unix_timestamp"]),
        Zoned {
            name: "date_format",
            arguments: &*TIME_AND_TEXT,
            optional: 0,
            returns: DataType::Utf8,
            body: date_format,
        }
        .udf(),
        Zoned {
            name: "from_unixtime",
            arguments: &LONG_AND_TEXT,
            optional: 1,
            returns: DataType::Utf8,
            body: from_unixtime,
        }
        .udf(),
        from_long("timestamp_seconds", |columns| scaled(columns, 1_000_000)),
        from_long("timestamp_millis", |columns| scaled(columns, 1_000)),
        from_long("timestamp_micros", |columns| scaled(columns, 1)),
        part("year", |columns| parts(columns, |date| date.year())),
        part("quarter", |columns| parts(columns, |date| whole(date.month0() / 3 + 1))),
        part("month", |columns| parts(columns, |date| whole(date.month()))),
        part("day", |columns| parts(columns, |date| whole(date.day())))
            .with_aliases(["dayofmonth"]),
        part("dayofyear", |columns| parts(columns, |date| whole(date.ordinal()))),
        part("dayofweek", |columns| {
            parts(columns, |date| whole(date.weekday().num_days_from_sunday() + 1))
        }),
        part("weekday", |columns| {
            parts(columns, |date| whole(date.weekday().num_days_from_monday()))
        }),
        part("weekofyear", |columns| parts(columns, |date| whole(date.iso_week().week()))),
    ]
}

fn whole(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

fn column(columns: &[ArrayRef], place: usize) -> Result<&ArrayRef> {
    columns.get(place).ok_or_else(|| DataFusionError::Internal("an argument is missing".to_owned()))
}

fn parts(columns: &[ArrayRef], part: fn(chrono::NaiveDate) -> i32) -> Result<ArrayRef> {
    let dates = column(columns, 0)?.as_primitive::<Date32Type>();
    let values = dates.iter().map(|days| days.and_then(calendar).map(part));
    Ok(Arc::new(values.collect::<Int32Array>()))
}

fn scaled(columns: &[ArrayRef], factor: i64) -> Result<ArrayRef> {
    let values = column(columns, 0)?.as_primitive::<Int64Type>();
    let micros = values.try_unary::<_, TimestampMicrosecondType, DataFusionError>(|value| {
        value.checked_mul(factor).ok_or_else(|| {
            DataFusionError::Execution(format!(
                "[ARITHMETIC_OVERFLOW] {value} is out of the range of timestamps"
            ))
        })
    })?;
    Ok(Arc::new(micros.with_timezone(crate::schema::UTC)))
}

/// Texts as microseconds, by their pattern or by Spark's default form; other types are cast.
fn micros(columns: &[ArrayRef], lenient: bool, zone: &Zone) -> Result<TimestampMicrosecondArray> {
    let values = column(columns, 0)?;
    if !matches!(values.data_type(), DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8) {
        let cast = super::cast::cast_array(values, &timestamp(), lenient, zone)?;
        return Ok(cast.as_primitive::<TimestampMicrosecondType>().clone());
    }
    let values = super::cast::cast_array(values, &DataType::Utf8, false, zone)?;
    let texts = values.as_string::<i32>();
    let patterns = columns.get(1).map(|patterns| patterns.as_string::<i32>());
    let mut pattern = Cached::default();
    let mut parsed = TimestampMicrosecondArray::builder(texts.len());
    for row in 0..texts.len() {
        if texts.is_null(row) || patterns.is_some_and(|patterns| patterns.is_null(row)) {
            parsed.append_null();
            continue;
        }
        let text = texts.value(row);
        let micros = match patterns {
            None => parse_timestamp(text.trim(), zone),
            Some(patterns) => pattern.of(patterns.value(row))?.parse(text, zone),
        };
        if micros.is_none() && !lenient {
            let text: String = text.chars().take(200).collect();
            return Err(DataFusionError::Execution(format!(
                "[CANNOT_PARSE_TIMESTAMP] the text '{text}' does not follow the pattern; use \
                 try_to_timestamp to get NULL instead"
            )));
        }
        parsed.append_option(micros);
    }
    Ok(parsed.finish().with_timezone(crate::schema::UTC))
}

fn times(columns: &[ArrayRef], lenient: bool, zone: &Zone) -> Result<ArrayRef> {
    Ok(Arc::new(micros(columns, lenient, zone)?))
}

fn to_date(columns: &[ArrayRef], zone: &Zone) -> Result<ArrayRef> {
    let values = column(columns, 0)?;
    if columns.len() == 1 {
        return super::cast::cast_array(values, &DataType::Date32, false, zone);
    }
    let days = micros(columns, false, zone)?;
    let day = |micros| i32::try_from(zone.local(micros).div_euclid(86_400_000_000)).ok();
    let days = days.iter().map(|micros| micros.and_then(day));
    Ok(Arc::new(days.collect::<Date32Array>()))
}

fn unix_timestamp(columns: &[ArrayRef], zone: &Zone) -> Result<ArrayRef> {
    let seconds = micros(columns, false, zone)?;
    let seconds = seconds.iter().map(|micros| micros.map(|micros| micros.div_euclid(1_000_000)));
    Ok(Arc::new(seconds.collect::<Int64Array>()))
}

fn formatted(
    times: impl Iterator<Item = Option<i64>>,
    patterns: &StringArray,
    zone: &Zone,
) -> Result<ArrayRef> {
    let mut pattern = Cached::default();
    let mut texts = Vec::new();
    let region = zone.name().contains('/') && !zone.is_utc();
    for (time, wanted) in times.zip(patterns) {
        texts.push(match (time, wanted) {
            (Some(time), Some(wanted)) => {
                let pattern = pattern.of(wanted)?;
                if region && pattern.names_time() {
                    return Err(DataFusionError::Execution(format!(
                        "[INVALID_DATETIME_PATTERN] the letter `z` in the pattern `{wanted}` is not \
                         supported in the zone {}: use `VV` or `XXX`",
                        zone.name()
                    )));
                }
                pattern.format(time, zone)
            }
            _ => None,
        });
    }
    Ok(Arc::new(StringArray::from(texts)))
}

fn date_format(columns: &[ArrayRef], zone: &Zone) -> Result<ArrayRef> {
    let times = column(columns, 0)?.as_primitive::<TimestampMicrosecondType>();
    formatted(times.iter(), column(columns, 1)?.as_string::<i32>(), zone)
}

fn from_unixtime(columns: &[ArrayRef], zone: &Zone) -> Result<ArrayRef> {
    let seconds = column(columns, 0)?.as_primitive::<Int64Type>();
    let times = seconds.iter().map(|value| value.and_then(|value| value.checked_mul(1_000_000)));
    match columns.get(1) {
        Some(patterns) => formatted(times, patterns.as_string::<i32>(), zone),
        None => {
            let text = StringArray::from_iter_values(std::iter::repeat_n(
                "yyyy-MM-dd HH:mm:ss",
                seconds.len(),
            ));
            formatted(times, &text, zone)
        }
    }
}

/// The pattern of the row before, since it is the same for all rows as a rule.
#[derive(Default)]
struct Cached {
    known: Option<(String, Pattern)>,
}

impl Cached {
    fn of(&mut self, text: &str) -> Result<&Pattern> {
        if self.known.as_ref().is_none_or(|(known, _)| known != text) {
            self.known = None;
        }
        match &mut self.known {
            Some((_, pattern)) => Ok(pattern),
            empty => Ok(&empty.insert((text.to_owned(), Pattern::new(text)?)).1),
        }
    }
}
