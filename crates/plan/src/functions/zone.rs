//! The session's time zone: civil times of instants and back, as Java computes them.
//!
//! `TIMESTAMP` columns hold instants and are always typed with UTC; the zone plays a part only where
//! instants meet texts, dates and the fields of a clock.

use arrow::array::timezone::Tz;
use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, FieldRef, Fields, TimeUnit, TimestampMicrosecondType};
use chrono::{DateTime, NaiveDateTime, Offset, TimeDelta, TimeZone};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use std::sync::Arc;

const MICROS_PER_SECOND: i64 = 1_000_000;

/// A time zone by the name that Spark has for it.
#[derive(Debug, Clone)]
pub(crate) struct Zone {
    name: String,
    /// Nothing for UTC.
    rules: Option<Tz>,
}

impl Zone {
    /// UTC.
    pub(crate) fn utc() -> Self {
        Zone { name: crate::schema::UTC.to_owned(), rules: None }
    }

    /// The zone of a session.
    ///
    /// # Errors
    /// Plan, when the setting names no zone.
    pub(crate) fn of(options: &ConfigOptions) -> Result<Self> {
        match options.execution.time_zone.as_deref() {
            None => Ok(Self::utc()),
            Some(name) => Self::parse(name).ok_or_else(|| {
                DataFusionError::Plan(format!("[INVALID_TIMEZONE] `{name}` is no time zone"))
            }),
        }
    }

    /// A region (`Europe/Berlin`), `UTC`, `Z` or an offset (`+05:30`, `UTC+5`, `GMT-03:00`).
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let trimmed = name.trim();
        let utc = ["UTC", "Etc/UTC", "UT", "GMT", "Etc/GMT", "Z", "+00:00"];
        if utc.iter().any(|utc| utc.eq_ignore_ascii_case(trimmed)) {
            return Some(Zone { name: trimmed.to_owned(), rules: None });
        }
        let offset = ["UTC", "GMT", "UT", ""].iter().find_map(|prefix| {
            trimmed.strip_prefix(prefix).filter(|rest| rest.starts_with(['+', '-']))
        });
        let rules = match offset {
            Some(offset) => {
                let (sign, digits) = offset.split_at_checked(1)?;
                let (hours, minutes) = match digits.split_once(':') {
                    Some(parts) => parts,
                    None if digits.len() == 4 => digits.split_at_checked(2)?,
                    None => (digits, "0"),
                };
                let (hours, minutes): (u8, u8) = (hours.parse().ok()?, minutes.parse().ok()?);
                if hours > 18 || minutes > 59 {
                    return None;
                }
                format!("{sign}{hours:02}:{minutes:02}").parse().ok()?
            }
            None => region(trimmed).parse().ok()?,
        };
        Some(Zone { name: trimmed.to_owned(), rules: Some(rules) })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is_utc(&self) -> bool {
        self.rules.is_none()
    }

    /// How far the zone's clocks are ahead of UTC at an instant, in seconds.
    pub(super) fn offset_seconds(&self, micros: i64) -> i32 {
        let Some(rules) = &self.rules else { return 0 };
        let Some(time) = DateTime::from_timestamp_micros(micros) else { return 0 };
        rules.offset_from_utc_datetime(&time.naive_utc()).fix().local_minus_utc()
    }

    /// What the zone's clocks and calendars show at an instant, as microseconds since midnight of
    /// their 1 January 1970.
    pub(crate) fn local(&self, micros: i64) -> i64 {
        micros.saturating_add(i64::from(self.offset_seconds(micros)) * MICROS_PER_SECOND)
    }

    /// The instant at which the zone's clocks show a time: the first of two; where the clocks leave
    /// it out, as much later as they leave out.
    pub(crate) fn instant(&self, local: i64) -> i64 {
        let (Some(rules), Some(time)) = (&self.rules, DateTime::from_timestamp_micros(local))
        else {
            return local;
        };
        let time = time.naive_utc();
        let seconds = match rules.offset_from_local_datetime(&time).earliest() {
            Some(offset) => offset.fix().local_minus_utc(),
            None => before(rules, time),
        };
        local.saturating_sub(i64::from(seconds) * MICROS_PER_SECOND)
    }
}

/// The region that one of Java's short names stands for.
fn region(name: &str) -> &str {
    match name {
        "ACT" => "Australia/Darwin",
        "AET" => "Australia/Sydney",
        "AGT" => "America/Argentina/Buenos_Aires",
        "ART" => "Africa/Cairo",
        "AST" => "America/Anchorage",
        "BET" => "America/Sao_Paulo",
        "BST" => "Asia/Dhaka",
        "CAT" => "Africa/Harare",
        "CNT" => "America/St_Johns",
        "CST" => "America/Chicago",
        "CTT" => "Asia/Shanghai",
        "EAT" => "Africa/Addis_Ababa",
        "ECT" => "Europe/Paris",
        "IET" => "America/Indiana/Indianapolis",
        "IST" => "Asia/Kolkata",
        "JST" => "Asia/Tokyo",
        "MIT" => "Pacific/Apia",
        "NET" => "Asia/Yerevan",
        "NST" => "Pacific/Auckland",
        "PLT" => "Asia/Karachi",
        "PNT" => "America/Phoenix",
        "PRT" => "America/Puerto_Rico",
        "PST" => "America/Los_Angeles",
        "SST" => "Pacific/Guadalcanal",
        "VST" => "Asia/Ho_Chi_Minh",
        other => other,
    }
}

/// The column with each instant in it as what the zone's clocks show.
pub(super) fn civil(column: &ArrayRef, zone: &Zone) -> Result<ArrayRef> {
    let field = |field: &FieldRef, values: &ArrayRef| {
        Arc::new(field.as_ref().clone().with_data_type(values.data_type().clone()))
    };
    Ok(match column.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => {
            let times = column.as_primitive::<TimestampMicrosecondType>();
            let civil: TimestampMicrosecondArray = times.unary(|time| zone.local(time));
            Arc::new(civil.with_timezone_opt(None::<Arc<str>>))
        }
        DataType::Struct(fields) => {
            let rows = column.as_struct();
            let columns: Vec<ArrayRef> =
                rows.columns().iter().map(|column| civil(column, zone)).collect::<Result<_>>()?;
            let fields = fields.iter().zip(&columns).map(|(own, values)| field(own, values));
            let fields: Fields = fields.collect();
            if rows.is_empty() || columns.is_empty() {
                return Ok(arrow::array::new_null_array(&DataType::Struct(fields), rows.len()));
            }
            Arc::new(StructArray::try_new(fields, columns, rows.nulls().cloned())?)
        }
        DataType::List(item) => {
            let list = column.as_list::<i32>();
            let values = civil(list.values(), zone)?;
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            Arc::new(ListArray::try_new(field(item, &values), offsets, values, nulls)?)
        }
        DataType::Map(item, sorted) => {
            let map = column.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            let entries = civil(&entries, zone)?;
            let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
            let item = field(item, &entries);
            let entries = entries.as_struct().clone();
            Arc::new(MapArray::try_new(item, offsets, entries, nulls, *sorted)?)
        }
        _ => Arc::clone(column),
    })
}

/// The offset before the clocks were put forward over a time. They never leave out more than a day.
fn before(rules: &Tz, time: NaiveDateTime) -> i32 {
    let earlier = time.checked_sub_signed(TimeDelta::hours(26)).unwrap_or(time);
    let offset = rules.offset_from_local_datetime(&earlier).earliest();
    offset.map_or(0, |offset| offset.fix().local_minus_utc())
}

#[cfg(test)]
mod tests {
    use super::Zone;

    const HOUR: i64 = 3_600_000_000;

    #[test]
    fn times_that_clocks_leave_out_or_show_twice_are_javas() {
        let berlin = Zone::parse("Europe/Berlin").unwrap();
        // 31 March 2024, 01:00 UTC: two o'clock becomes three.
        let spring = 1_711_846_800_000_000;
        assert_eq!(berlin.local(spring - 1), spring - 1 + HOUR);
        assert_eq!(berlin.local(spring), spring + 2 * HOUR);
        // Half past two is half past three.
        assert_eq!(berlin.instant(spring + HOUR + HOUR / 2), spring + HOUR / 2);
        // 27 October 2024, 01:00 UTC: three o'clock becomes two; half past two is the first one.
        let autumn = 1_729_990_800_000_000;
        assert_eq!(berlin.instant(autumn + HOUR + HOUR / 2), autumn - HOUR / 2);
        // A day that Samoa did not have.
        let apia = Zone::parse("Pacific/Apia").unwrap();
        let day = 1_325_203_200_000_000;
        assert_eq!(apia.instant(day + 12 * HOUR), day + 22 * HOUR);
    }

    #[test]
    fn offsets_are_zones_in_each_form_of_sparks() {
        for (name, seconds) in [
            ("+05:30", 19_800),
            ("UTC+5", 18_000),
            ("GMT-03:00", -10_800),
            ("-0700", -25_200),
            ("Z", 0),
            ("Asia/Kolkata", 19_800),
        ] {
            assert_eq!(Zone::parse(name).unwrap().offset_seconds(0), seconds, "{name}");
        }
        for none in ["Berlin", "+19:00", "", "+05:70", "5"] {
            assert!(Zone::parse(none).is_none(), "{none}");
        }
    }
}
