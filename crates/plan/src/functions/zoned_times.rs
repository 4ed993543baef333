//! What a plan in another zone than UTC calls in the place of arithmetic on instants
//! ([`crate::meaning`] puts it there).

use super::simple::Zoned;
use super::timestamp_text::civil;
use super::zone::Zone;
use crate::schema::timestamp;
use arrow::array::{ArrayRef, AsArray, TimestampMicrosecondArray};
use arrow::datatypes::{
    DataType, IntervalMonthDayNanoType, IntervalUnit, TimestampMicrosecondType,
};
use chrono::{Datelike, Months, NaiveDateTime, NaiveTime, Weekday};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ScalarUDF;
use std::sync::{Arc, LazyLock};

/// The sum of an instant and an interval.
pub(crate) const PLUS: &str = "onefold_plus_interval";
/// `date_trunc`.
pub(crate) const CUT: &str = "onefold_cut";

static PLUS_ARGUMENTS: LazyLock<[Option<DataType>; 2]> =
    LazyLock::new(|| [Some(timestamp()), Some(DataType::Interval(IntervalUnit::MonthDayNano))]);
static CUT_ARGUMENTS: LazyLock<[Option<DataType>; 2]> =
    LazyLock::new(|| [Some(DataType::Utf8), Some(timestamp())]);

pub(super) fn functions() -> Vec<ScalarUDF> {
    let function = |name, arguments, body| {
        Zoned { name, arguments, optional: 0, returns: timestamp(), body }.udf()
    };
    vec![function(PLUS, &*PLUS_ARGUMENTS, plus), function(CUT, &*CUT_ARGUMENTS, cut)]
}

fn two(columns: &[ArrayRef]) -> Result<(&ArrayRef, &ArrayRef)> {
    match columns {
        [first, second] => Ok((first, second)),
        _ => Err(DataFusionError::Internal("an argument is missing".to_owned())),
    }
}

const DAY: i64 = 86_400_000_000;

/// Months and whole days go by the calendar of the zone, the rest by the clock, as in Spark.
fn plus(columns: &[ArrayRef], zone: &Zone) -> Result<ArrayRef> {
    let (times, intervals) = two(columns)?;
    let times = times.as_primitive::<TimestampMicrosecondType>();
    let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
    let mut sums = TimestampMicrosecondArray::builder(times.len());
    for (time, interval) in times.iter().zip(intervals) {
        let (Some(time), Some(interval)) = (time, interval) else {
            sums.append_null();
            continue;
        };
        let micros = interval.nanoseconds / 1_000;
        let sum = if interval.months == 0 {
            let all =
                i64::from(interval.days).checked_mul(DAY).and_then(|it| it.checked_add(micros));
            all.and_then(|all| moved(time, 0, all / DAY, all % DAY, zone))
        } else {
            moved(time, interval.months, i64::from(interval.days), micros, zone)
        };
        let sum = sum.ok_or_else(|| {
            DataFusionError::Execution("[DATETIME_OVERFLOW] a time is out of range".to_owned())
        })?;
        sums.append_value(sum);
    }
    Ok(Arc::new(sums.finish().with_timezone(crate::schema::UTC)))
}

fn moved(time: i64, months: i32, days: i64, micros: i64, zone: &Zone) -> Option<i64> {
    let mut moved = time;
    if months != 0 {
        let local = civil(zone.local(moved))?;
        let count = Months::new(months.unsigned_abs());
        let local: NaiveDateTime = if months > 0 {
            local.checked_add_months(count)?
        } else {
            local.checked_sub_months(count)?
        };
        moved = zone.instant(local.and_utc().timestamp_micros());
    }
    if days != 0 {
        moved = zone.instant(zone.local(moved).checked_add(days.checked_mul(DAY)?)?);
    }
    moved.checked_add(micros)
}

/// A time cut off to the begin of its year, hour and so on; NULL for a unit that there is not.
fn cut(columns: &[ArrayRef], zone: &Zone) -> Result<ArrayRef> {
    let (units, times) = two(columns)?;
    let units = units.as_string::<i32>();
    let times = times.as_primitive::<TimestampMicrosecondType>();
    let cut = units.iter().zip(times).map(|(unit, time)| cut_one(unit?, time?, zone));
    let cut: TimestampMicrosecondArray = cut.collect();
    Ok(Arc::new(cut.with_timezone(crate::schema::UTC)))
}

fn cut_one(unit: &str, time: i64, zone: &Zone) -> Option<i64> {
    let local = zone.local(time);
    let of_clock = match unit.to_ascii_uppercase().as_str() {
        "MICROSECOND" => Some(1),
        "MILLISECOND" => Some(1_000),
        "SECOND" => Some(1_000_000),
        "MINUTE" => Some(60_000_000),
        "HOUR" => Some(3_600_000_000),
        _ => None,
    };
    if let Some(length) = of_clock {
        // On the clock itself, which may show a time twice.
        return Some(time - local.rem_euclid(length));
    }
    let date = civil(local)?.date();
    let begin = match unit.to_ascii_uppercase().as_str() {
        "DAY" | "DD" => date,
        "WEEK" => date.week(Weekday::Mon).checked_first_day()?,
        "MONTH" | "MON" | "MM" => date.with_day(1)?,
        "QUARTER" => date.with_day(1)?.with_month0(date.month0() / 3 * 3)?,
        "YEAR" | "YYYY" | "YY" => date.with_day(1)?.with_month(1)?,
        _ => return None,
    };
    Some(zone.instant(begin.and_time(NaiveTime::MIN).and_utc().timestamp_micros()))
}
