//! `sequence(start, stop[, step])`: numbers, dates or times in equal steps, both ends included.

use super::typed::{Typed, argument};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Int64Type, IntervalMonthDayNanoType, IntervalUnit};
use chrono::{Months, NaiveDateTime};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![Typed { name: "sequence", least: 2, most: 3, returns, body: sequence }.udf()]
}

/// Most elements of one list.
const LENGTH_MAX: usize = 1 << 24;

fn returns(types: &[DataType]) -> Option<DataType> {
    let first = match (types.first()?, types.get(1)?) {
        (one, other) if one == other => one.clone(),
        (one, other) if one.is_signed_integer() && other.is_signed_integer() => {
            let wider = one.primitive_width() >= other.primitive_width();
            if wider { one.clone() } else { other.clone() }
        }
        (DataType::Timestamp(..), DataType::Date32) => types.first()?.clone(),
        (DataType::Date32, DataType::Timestamp(..)) => types.get(1)?.clone(),
        _ => return None,
    };
    let fits =
        first.is_signed_integer() || matches!(first, DataType::Date32 | DataType::Timestamp(..));
    fits.then(|| DataType::List(Arc::new(Field::new("element", first, true))))
}

/// A step: months and microseconds, or a plain number.
#[derive(Debug, Clone, Copy)]
struct Step {
    months: i64,
    rest: i64,
}

const DAY: i64 = 86_400_000_000;

fn sequence(columns: &[ArrayRef], to: &DataType) -> Result<ArrayRef> {
    let DataType::List(field) = to else {
        return Err(DataFusionError::Internal("sequence gives a list".to_owned()));
    };
    let element = field.data_type();
    let whole = element.is_signed_integer();
    // Dates and times are counted in microseconds.
    let wide = |place: usize| -> Result<Int64Array> {
        let column = argument(columns, place, element)?;
        let column = match element {
            DataType::Date32 => {
                let time = DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None);
                arrow::compute::cast(&column, &time)?
            }
            _ => column,
        };
        let wide = arrow::compute::cast(&column, &DataType::Int64)?;
        Ok(wide.as_primitive::<Int64Type>().clone())
    };
    let (starts, stops) = (wide(0)?, wide(1)?);
    let steps = steps(columns, whole)?;
    let (mut values, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..starts.len() {
        let step = match &steps {
            Some(steps) => steps.get(row).copied().flatten(),
            None => Some(default(starts.value(row), stops.value(row), whole)),
        };
        let step = step.filter(|_| starts.is_valid(row) && stops.is_valid(row));
        valid.push(step.is_some());
        let first = values.len();
        if let Some(step) = step {
            fill(&mut values, starts.value(row), stops.value(row), step)?;
        }
        lengths.push(values.len() - first);
    }
    let values: ArrayRef = Arc::new(Int64Array::from(values));
    let values = match element {
        DataType::Date32 => {
            let days: Int64Array =
                values.as_primitive::<Int64Type>().unary(|micros| micros.div_euclid(DAY));
            arrow::compute::cast(&arrow::compute::cast(&days, &DataType::Int32)?, element)?
        }
        _ => arrow::compute::cast(&values, element)?,
    };
    let offsets = OffsetBuffer::from_lengths(lengths);
    let nulls = Some(NullBuffer::from(valid));
    Ok(Arc::new(ListArray::try_new(Arc::clone(field), offsets, values, nulls)?))
}

fn default(start: i64, stop: i64, whole: bool) -> Step {
    let unit = if whole { 1 } else { DAY };
    Step { months: 0, rest: if stop < start { -unit } else { unit } }
}

fn steps(columns: &[ArrayRef], whole: bool) -> Result<Option<Vec<Option<Step>>>> {
    let Some(column) = columns.get(2) else { return Ok(None) };
    Ok(Some(match column.data_type() {
        DataType::Interval(IntervalUnit::MonthDayNano) => column
            .as_primitive::<IntervalMonthDayNanoType>()
            .iter()
            .map(|step| {
                let step = step?;
                let rest = i64::from(step.days) * DAY + step.nanoseconds / 1_000;
                Some(Step { months: i64::from(step.months), rest })
            })
            .collect(),
        DataType::Duration(_) => {
            let micros = arrow::compute::cast(
                column,
                &DataType::Duration(arrow::datatypes::TimeUnit::Microsecond),
            )?;
            let micros = arrow::compute::cast(&micros, &DataType::Int64)?;
            let micros = micros.as_primitive::<Int64Type>();
            micros.iter().map(|rest| rest.map(|rest| Step { months: 0, rest })).collect()
        }
        _ if whole => {
            let steps = argument(columns, 2, &DataType::Int64)?;
            let steps = steps.as_primitive::<Int64Type>();
            steps.iter().map(|rest| rest.map(|rest| Step { months: 0, rest })).collect()
        }
        other => {
            return Err(DataFusionError::Execution(format!(
                "a sequence of dates or times has an interval as its step, not {other}"
            )));
        }
    }))
}

fn fill(values: &mut Vec<i64>, start: i64, stop: i64, step: Step) -> Result<()> {
    let forward = step.months > 0 || (step.months == 0 && step.rest > 0);
    let wrong = (step.months == 0 && step.rest == 0)
        || (forward && start > stop)
        || (!forward && start < stop);
    if wrong && start != stop {
        return Err(DataFusionError::Execution(format!(
            "Illegal sequence boundaries: {start} to {stop} by {}",
            if step.months == 0 { step.rest } else { step.months }
        )));
    }
    let mut count = 0_i64;
    while let Some(value) = nth(start, step, count) {
        if (forward && value > stop) || (!forward && value < stop) {
            break;
        }
        values.push(value);
        count += 1;
        if start == stop {
            break;
        }
        if values.len() > LENGTH_MAX {
            return Err(DataFusionError::Execution(format!(
                "a sequence has at most {LENGTH_MAX} elements"
            )));
        }
    }
    Ok(())
}

/// The start, so many steps later. Months are counted from the start, so that the day of the month
/// does not get lost on the way.
fn nth(start: i64, step: Step, count: i64) -> Option<i64> {
    let months = step.months.checked_mul(count)?;
    let moved = if months == 0 {
        start
    } else {
        let time: NaiveDateTime = chrono::DateTime::from_timestamp_micros(start)?.naive_utc();
        let by = Months::new(u32::try_from(months.unsigned_abs()).ok()?);
        let time =
            if months > 0 { time.checked_add_months(by)? } else { time.checked_sub_months(by)? };
        time.and_utc().timestamp_micros()
    };
    moved.checked_add(step.rest.checked_mul(count)?)
}

#[cfg(test)]
mod tests {
    use super::{DAY, Step, fill};

    #[test]
    fn months_are_counted_from_the_start_and_a_step_away_from_the_end_is_an_error() {
        let day = |day: i64| day * DAY;
        let mut values = Vec::new();
        // 31 January to 31 March 1970 by a month.
        fill(&mut values, day(30), day(89), Step { months: 1, rest: 0 }).unwrap();
        assert_eq!(values, [day(30), day(58), day(89)]);
        assert!(fill(&mut values, 1, 5, Step { months: 0, rest: -1 }).is_err());
    }
}
