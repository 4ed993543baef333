//! Distances and steps between dates and times: `months_between`, `timestampadd`, `timestampdiff`,
//! `make_timestamp` and the name of a day.

use super::timestamp_text::{calendar, civil, days};
use super::typed::{Typed, argument};
use super::zone::Zone;
use crate::schema::timestamp;
use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{
    DataType, Date32Type, Float64Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType,
};
use chrono::{Datelike, Months, Timelike};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

pub(super) fn functions() -> Vec<ScalarUDF> {
    let double: fn(&[DataType]) -> Option<DataType> = |_| Some(DataType::Float64);
    let long: fn(&[DataType]) -> Option<DataType> = |_| Some(DataType::Int64);
    let text: fn(&[DataType]) -> Option<DataType> = |_| Some(DataType::Utf8);
    let made = |name, most, returns, body| Typed { name, least: 6, most, returns, body }.udf();
    let ltz: fn(&[DataType]) -> Option<DataType> = |_| Some(timestamp());
    let ntz: fn(&[DataType]) -> Option<DataType> = |_| Some(plain());
    vec![
        Typed { name: "months_between", least: 2, most: 3, returns: double, body: months_between }
            .udf(),
        Typed {
            name: "timestampadd",
            least: 3,
            most: 3,
            returns: |types| match types.get(2)? {
                time @ DataType::Timestamp(..) => Some(time.clone()),
                _ => Some(timestamp()),
            },
            body: timestamp_add,
        }
        .udf(),
        Typed { name: "timestampdiff", least: 3, most: 3, returns: long, body: timestamp_diff }
            .udf(),
        Typed { name: "dayname", least: 1, most: 1, returns: text, body: day_name }.udf(),
        made("make_timestamp", 7, ltz, |columns, to| make(columns, to, false)),
        made("make_timestamp_ltz", 7, ltz, |columns, to| make(columns, to, false)),
        made("make_timestamp_ntz", 6, ntz, |columns, to| make(columns, to, false)),
        made("try_make_timestamp", 7, ltz, |columns, to| make(columns, to, true)),
        made("try_make_timestamp_ltz", 7, ltz, |columns, to| make(columns, to, true)),
        made("try_make_timestamp_ntz", 6, ntz, |columns, to| make(columns, to, true)),
    ]
}

fn plain() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

/// Microseconds since 1970, of a date, a time or a text.
fn micros(columns: &[ArrayRef], place: usize) -> Result<TimestampMicrosecondArray> {
    let kept = matches!(columns.get(place).map(|it| it.data_type()), Some(DataType::Timestamp(..)));
    let to = match (kept, columns.get(place)) {
        (true, Some(column)) => column.data_type().clone(),
        _ => timestamp(),
    };
    Ok(argument(columns, place, &to)?.as_primitive::<TimestampMicrosecondType>().clone())
}

/// Whole months between equal days of the month or last days; else the rest in parts of 31 days.
fn months_between(columns: &[ArrayRef], _: &DataType) -> Result<ArrayRef> {
    let (left, right) = (micros(columns, 0)?, micros(columns, 1)?);
    let rounded = match columns.len() {
        3 => Some(argument(columns, 2, &DataType::Boolean)?),
        _ => None,
    };
    let months: Float64Array = left
        .iter()
        .zip(&right)
        .enumerate()
        .map(|(row, pair)| {
            let (one, other) = (civil(pair.0?)?, civil(pair.1?)?);
            let whole = (one.year() - other.year()) * 12
                + (i32::try_from(one.month()).ok()? - i32::try_from(other.month()).ok()?);
            let last =
                |time: &chrono::NaiveDateTime| time.day() == u32::from(time.num_days_in_month());
            if one.day() == other.day() || (last(&one) && last(&other)) {
                return Some(f64::from(whole));
            }
            let seconds = |time: &chrono::NaiveDateTime| {
                i64::from(time.day()) * 86_400 + i64::from(time.num_seconds_from_midnight())
            };
            let part = (seconds(&one) - seconds(&other)) as f64 / (31.0 * 86_400.0);
            let exact = f64::from(whole) + part;
            let round = rounded.as_ref().is_none_or(|it| it.as_boolean().value(row));
            Some(if round { (exact * 1e8).round() / 1e8 } else { exact })
        })
        .collect();
    Ok(Arc::new(months))
}

/// A unit of time: months, or microseconds.
#[derive(Debug, Clone, Copy)]
enum Unit {
    Months(i64),
    Micros(i64),
}

fn unit(columns: &[ArrayRef]) -> Result<Unit> {
    let name = argument(columns, 0, &DataType::Utf8)?;
    let name = name.as_string::<i32>();
    let name = if name.is_empty() { "DAY" } else { name.value(0) };
    Ok(match name.to_ascii_uppercase().as_str() {
        "YEAR" => Unit::Months(12),
        "QUARTER" => Unit::Months(3),
        "MONTH" => Unit::Months(1),
        "WEEK" => Unit::Micros(7 * DAY),
        "DAY" | "DAYOFYEAR" => Unit::Micros(DAY),
        "HOUR" => Unit::Micros(3_600 * SECOND),
        "MINUTE" => Unit::Micros(60 * SECOND),
        "SECOND" => Unit::Micros(SECOND),
        "MILLISECOND" => Unit::Micros(1_000),
        "MICROSECOND" => Unit::Micros(1),
        other => {
            return Err(DataFusionError::Plan(format!("`{other}` is no unit of time")));
        }
    })
}

fn out_of_range() -> DataFusionError {
    DataFusionError::Execution(
        "[DATETIME_OVERFLOW] a time is out of the range of timestamps".to_owned(),
    )
}

fn moved(micros: i64, months: i64) -> Option<i64> {
    let time = civil(micros)?;
    let by = Months::new(u32::try_from(months.unsigned_abs()).ok()?);
    let time = if months < 0 { time.checked_sub_months(by)? } else { time.checked_add_months(by)? };
    Some(time.and_utc().timestamp_micros())
}

fn timestamp_add(columns: &[ArrayRef], to: &DataType) -> Result<ArrayRef> {
    let unit = unit(columns)?;
    let counts = argument(columns, 1, &DataType::Int64)?;
    let times = micros(columns, 2)?;
    let mut made = TimestampMicrosecondArray::builder(times.len());
    for (count, time) in counts.as_primitive::<Int64Type>().iter().zip(&times) {
        let (Some(count), Some(time)) = (count, time) else {
            made.append_null();
            continue;
        };
        let value = match unit {
            Unit::Months(months) => count.checked_mul(months).and_then(|by| moved(time, by)),
            Unit::Micros(micros) => count.checked_mul(micros).and_then(|by| time.checked_add(by)),
        };
        made.append_value(value.ok_or_else(out_of_range)?);
    }
    let zone = match to {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    };
    Ok(Arc::new(made.finish().with_timezone_opt(zone)))
}

/// Whole units from the first time to the second.
fn timestamp_diff(columns: &[ArrayRef], _: &DataType) -> Result<ArrayRef> {
    let unit = unit(columns)?;
    let (from, to) = (micros(columns, 1)?, micros(columns, 2)?);
    let units: Int64Array = from
        .iter()
        .zip(&to)
        .map(|pair| {
            let (from, to) = (pair.0?, pair.1?);
            match unit {
                Unit::Micros(micros) => Some((to - from) / micros),
                Unit::Months(months) => Some(whole_months(from, to)? / months),
            }
        })
        .collect();
    Ok(Arc::new(units))
}

fn whole_months(from: i64, to: i64) -> Option<i64> {
    let (one, other) = (civil(from)?, civil(to)?);
    let months = i64::from(other.year() - one.year()) * 12 + i64::from(other.month())
        - i64::from(one.month());
    // A month that is not over does not count.
    let rest = |time: &chrono::NaiveDateTime| (time.day(), time.time());
    Some(match months {
        1.. if rest(&other) < rest(&one) => months - 1,
        ..=-1 if rest(&other) > rest(&one) => months + 1,
        months => months,
    })
}

fn day_name(columns: &[ArrayRef], _: &DataType) -> Result<ArrayRef> {
    let dates = argument(columns, 0, &DataType::Date32)?;
    let names = dates
        .as_primitive::<Date32Type>()
        .iter()
        .map(|days| days.and_then(calendar).map(|date| date.format("%a").to_string()));
    Ok(Arc::new(names.collect::<StringArray>()))
}

/// A time from year, month, day, hour, minute, seconds with their fraction, and a zone.
fn make(columns: &[ArrayRef], to: &DataType, lenient: bool) -> Result<ArrayRef> {
    let parts = (0..5)
        .map(|place| {
            Ok(argument(columns, place, &DataType::Int32)?.as_primitive::<Int32Type>().clone())
        })
        .collect::<Result<Vec<_>>>()?;
    let seconds = argument(columns, 5, &DataType::Float64)?;
    let seconds = seconds.as_primitive::<Float64Type>();
    let zones = match columns.get(6) {
        Some(_) => Some(argument(columns, 6, &DataType::Utf8)?),
        None => None,
    };
    let mut made = TimestampMicrosecondArray::builder(seconds.len());
    for row in 0..seconds.len() {
        let there = parts.iter().all(|part| part.is_valid(row)) && seconds.is_valid(row);
        let zone = zones.as_ref().map(|zones| zones.as_string::<i32>());
        if !there || zone.is_some_and(|zones| zones.is_null(row)) {
            made.append_null();
            continue;
        }
        let part = |place: usize| parts.get(place).map_or(0, |part| part.value(row));
        let fields = [part(0), part(1), part(2), part(3), part(4)];
        let value = time(fields, seconds.value(row), zone.map(|zones| zones.value(row)));
        if value.is_none() && !lenient {
            return Err(DataFusionError::Execution(format!(
                "[DATETIME_FIELD_OUT_OF_BOUNDS.WITH_SUGGESTION] {fields:?} and {} seconds are no \
                 time; use try_make_timestamp to get NULL instead",
                seconds.value(row)
            )));
        }
        made.append_option(value);
    }
    let zone = match to {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    };
    Ok(Arc::new(made.finish().with_timezone_opt(zone)))
}

fn time(fields: [i32; 5], seconds: f64, zone: Option<&str>) -> Option<i64> {
    let [year, month, day, hour, minute] = fields;
    let date = days(year, u32::try_from(month).ok()?, u32::try_from(day).ok()?)?;
    // A minute's 60th second is the next minute, but only without a fraction.
    let inside = (0.0..60.0).contains(&seconds) || seconds == 60.0;
    if !(0..24).contains(&hour) || !(0..60).contains(&minute) || !inside {
        return None;
    }
    let micros = (seconds * 1e6).round() as i64;
    let clock = (i64::from(hour) * 3_600 + i64::from(minute) * 60) * SECOND + micros;
    let local = i64::from(date).checked_mul(DAY)?.checked_add(clock)?;
    match zone {
        Some(zone) => Zone::parse(zone).map(|zone| zone.instant(local)),
        None => Some(local),
    }
}

#[cfg(test)]
mod tests {
    use super::{SECOND, time, whole_months};

    #[test]
    fn a_month_counts_when_it_is_over() {
        let at = |day: i64| day * 86_400 * SECOND;
        // 31 January to 28 February 1970, and to 1 March.
        assert_eq!(whole_months(at(30), at(58)), Some(0));
        assert_eq!(whole_months(at(30), at(59)), Some(1));
        assert_eq!(whole_months(at(59), at(30)), Some(-1));
    }

    #[test]
    fn a_time_has_all_its_parts_in_range() {
        assert_eq!(time([1970, 1, 2, 0, 0], 1.5, None), Some(86_401_500_000));
        assert_eq!(time([1970, 1, 1, 1, 0], 0.0, Some("+01:00")), Some(0));
        assert_eq!(time([1970, 2, 30, 0, 0], 0.0, None), None);
        assert_eq!(time([1970, 1, 1, 24, 0], 0.0, None), None);
    }
}
