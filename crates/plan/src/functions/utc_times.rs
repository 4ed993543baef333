//! `from_utc_timestamp` and `to_utc_timestamp`: times moved by the offset of a zone, as Spark has them.
//!
//! Both give a TIMESTAMP whatever they are given; the instant that it holds is another one.

use super::simple::Simple;
use super::zone::Zone;
use crate::schema::timestamp;
use arrow::array::{ArrayRef, AsArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, TimestampMicrosecondType};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ScalarUDF;
use std::sync::{Arc, LazyLock};

static ARGUMENTS: LazyLock<[Option<DataType>; 2]> =
    LazyLock::new(|| [Some(timestamp()), Some(DataType::Utf8)]);

pub(super) fn functions() -> Vec<ScalarUDF> {
    let function = |name, body| {
        Simple { name, arguments: &*ARGUMENTS, optional: 0, returns: timestamp(), body }.udf()
    };
    vec![
        function("from_utc_timestamp", |columns| moved(columns, Zone::local)),
        function("to_utc_timestamp", |columns| moved(columns, Zone::instant)),
    ]
}

fn moved(columns: &[ArrayRef], by: fn(&Zone, i64) -> i64) -> Result<ArrayRef> {
    let [times, zones] = columns else {
        return Err(DataFusionError::Internal("an argument is missing".to_owned()));
    };
    let times = times.as_primitive::<TimestampMicrosecondType>();
    let mut known: Option<(&str, Zone)> = None;
    let mut moved = TimestampMicrosecondArray::builder(times.len());
    for (time, name) in times.iter().zip(zones.as_string::<i32>()) {
        let (Some(time), Some(name)) = (time, name) else {
            moved.append_null();
            continue;
        };
        let zone = match known.take() {
            Some((last, zone)) if last == name => zone,
            _ => Zone::parse(name).ok_or_else(|| {
                DataFusionError::Execution(format!(
                    "[INVALID_TIMEZONE] The timezone: {name} is invalid. The timezone must be \
                     either a region-based zone ID or a zone offset."
                ))
            })?,
        };
        moved.append_value(by(&zone, time));
        known = Some((name, zone));
    }
    Ok(Arc::new(moved.finish().with_timezone(crate::schema::UTC)))
}
