//! `hour`, `minute` and `second` as clocks of the session's zone show them.

use super::cast::cast_array;
use super::simple::Zoned;
use super::zone::Zone;
use crate::schema::timestamp;
use arrow::array::{ArrayRef, AsArray, Int32Array};
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;

static ANY: [Option<DataType>; 1] = [None];

const SECOND: i64 = 1_000_000;

pub(super) fn functions() -> Vec<ScalarUDF> {
    let field = |name, body| {
        Zoned { name, arguments: &ANY, optional: 0, returns: DataType::Int32, body }.udf()
    };
    vec![
        field("hour", |columns, zone| of(columns, zone, 3_600 * SECOND, 24)),
        field("minute", |columns, zone| of(columns, zone, 60 * SECOND, 60)),
        field("second", |columns, zone| of(columns, zone, SECOND, 60)),
    ]
}

/// How many times `unit` fits in what the clock shows, from 0 up to `count`.
fn of(columns: &[ArrayRef], zone: &Zone, unit: i64, count: i64) -> Result<ArrayRef> {
    let [times] = columns else {
        return Err(DataFusionError::Internal("an argument is missing".to_owned()));
    };
    // What names no zone is what a clock shows already.
    let (wanted, shown) = match times.data_type() {
        DataType::Timestamp(_, None) => (DataType::Timestamp(TimeUnit::Microsecond, None), true),
        _ => (timestamp(), false),
    };
    let times = cast_array(times, &wanted, false, zone)?;
    let times = times.as_primitive::<TimestampMicrosecondType>();
    let fields: Int32Array = times.unary(|micros| {
        let local = if shown { micros } else { zone.local(micros) };
        i32::try_from(local.div_euclid(unit).rem_euclid(count)).unwrap_or(0)
    });
    Ok(Arc::new(fields))
}
