//! Event times: what a column says of them, and comparing them with a watermark.

use crate::failure;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit};
use arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use std::sync::{Mutex, PoisonError};

/// The event times that a batch saw under one `withWatermark`.
#[derive(Debug, Default)]
pub struct EventTimeStats {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    count: u64,
    sum_ms: i128,
    min_ms: i64,
    max_ms: i64,
}

impl EventTimeStats {
    /// Takes event times in milliseconds since 1970.
    pub fn add(&self, times_ms: impl IntoIterator<Item = i64>) {
        let mut batch = Seen { min_ms: i64::MAX, max_ms: i64::MIN, ..Seen::default() };
        for time in times_ms {
            batch.count += 1;
            batch.sum_ms += i128::from(time);
            batch.min_ms = batch.min_ms.min(time);
            batch.max_ms = batch.max_ms.max(time);
        }
        if batch.count == 0 {
            return;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.count == 0 {
            *seen = batch;
            return;
        }
        seen.count += batch.count;
        seen.sum_ms += batch.sum_ms;
        seen.min_ms = seen.min_ms.min(batch.min_ms);
        seen.max_ms = seen.max_ms.max(batch.max_ms);
    }

    /// How many rows had an event time.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.get().count
    }

    /// The earliest, in milliseconds since 1970.
    #[must_use]
    pub fn min_ms(&self) -> Option<i64> {
        let seen = self.get();
        (seen.count > 0).then_some(seen.min_ms)
    }

    /// The latest, in milliseconds since 1970.
    #[must_use]
    pub fn max_ms(&self) -> Option<i64> {
        let seen = self.get();
        (seen.count > 0).then_some(seen.max_ms)
    }

    /// The mean, in milliseconds since 1970, cut off.
    #[must_use]
    pub fn avg_ms(&self) -> Option<i64> {
        let seen = self.get();
        if seen.count == 0 {
            return None;
        }
        i64::try_from(seen.sum_ms / i128::from(seen.count)).ok()
    }

    fn get(&self) -> Seen {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The unit of an event-time column: a timestamp, or a struct whose `end` is one (a window).
pub(crate) fn unit_of(data_type: &DataType) -> Result<TimeUnit> {
    match data_type {
        DataType::Timestamp(unit, _) => Ok(*unit),
        DataType::Struct(fields) => match fields.find("end").map(|(_, field)| field.data_type()) {
            Some(DataType::Timestamp(unit, _)) => Ok(*unit),
            _ => Err(not_a_time(data_type)),
        },
        _ => Err(not_a_time(data_type)),
    }
}

/// The times of an event-time column as a timestamp array: a window's is its end.
pub(crate) fn instants(column: &ArrayRef) -> Result<ArrayRef> {
    match column.data_type() {
        DataType::Timestamp(..) => Ok(ArrayRef::clone(column)),
        DataType::Struct(_) => window_part(column, "end"),
        other => Err(not_a_time(other)),
    }
}

/// The `start` or `end` of a window, NULL where the window is NULL.
pub(crate) fn window_part(column: &ArrayRef, part: &str) -> Result<ArrayRef> {
    let window = column.as_struct_opt().ok_or_else(|| not_a_time(column.data_type()))?;
    let times = window.column_by_name(part).ok_or_else(|| not_a_time(column.data_type()))?;
    let Some(nulls) = window.nulls().filter(|nulls| nulls.null_count() > 0) else {
        return Ok(ArrayRef::clone(times));
    };
    let nulls = NullBuffer::union(Some(nulls), times.nulls());
    let data = times.to_data().into_builder().nulls(nulls).build()?;
    Ok(arrow::array::make_array(data))
}

/// The same instants as bare numbers of their unit.
pub(crate) fn ticks(instants: &ArrayRef) -> Result<Int64Array> {
    Ok(cast(instants, &DataType::Int64)?.as_primitive::<arrow::datatypes::Int64Type>().clone())
}

/// The latest tick that is at or before a watermark: late is what is not after it.
pub(crate) fn last_late_tick(watermark_ms: i64, unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => watermark_ms.div_euclid(1_000),
        TimeUnit::Millisecond => watermark_ms,
        TimeUnit::Microsecond => watermark_ms.saturating_mul(1_000),
        TimeUnit::Nanosecond => watermark_ms.saturating_mul(1_000_000),
    }
}

/// A tick in milliseconds, cut off towards the past as Spark does.
pub(crate) fn tick_to_ms(tick: i64, unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => tick.saturating_mul(1_000),
        TimeUnit::Millisecond => tick,
        TimeUnit::Microsecond => tick.div_euclid(1_000),
        TimeUnit::Nanosecond => tick.div_euclid(1_000_000),
    }
}

/// A tick in microseconds, cut off towards the past.
pub(crate) fn tick_to_us(tick: i64, unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => tick.saturating_mul(1_000_000),
        TimeUnit::Millisecond => tick.saturating_mul(1_000),
        TimeUnit::Microsecond => tick,
        TimeUnit::Nanosecond => tick.div_euclid(1_000),
    }
}

/// Which rows of a batch are late by this event time.
pub(crate) fn late_in(
    event_time: &PhysicalExprRef,
    batch: &RecordBatch,
    watermark_ms: i64,
) -> Result<BooleanArray> {
    late(&event_time.evaluate(batch)?.into_array(batch.num_rows())?, watermark_ms)
}

/// Which rows are late; a row without an event time never is.
fn late(column: &ArrayRef, watermark_ms: i64) -> Result<BooleanArray> {
    let last = last_late_tick(watermark_ms, unit_of(column.data_type())?);
    let times = ticks(&instants(column)?)?;
    Ok(match times.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => times.values().iter().map(|time| Some(*time <= last)).collect(),
        Some(_) => times.iter().map(|time| Some(time.is_some_and(|time| time <= last))).collect(),
    })
}

fn not_a_time(data_type: &DataType) -> datafusion::error::DataFusionError {
    failure::internal(format!("an event time of type {data_type} is no timestamp and no window"))
}
