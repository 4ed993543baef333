//! Windows of time: `window`, `session_window` and `window_time`.
//!
//! A window is a struct of `start` and `end`. In a query, `window` and `session_window` are
//! evaluated below the node that calls them ([`crate::stream`] moves them there), where a sliding
//! window makes several rows of one; called elsewhere, `window` can only tumble.

use super::cast::cast_array;
use super::zone::Zone;
use crate::interval::{Interval, parse_interval};
use crate::schema::timestamp;
use crate::stream::event_time::{
    SESSION_WINDOW, TIME_WINDOW, WATERMARK_DELAY, instant_type, window_fields,
};
use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, StructArray, TimestampMicrosecondArray, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    DataType, Field, FieldRef, IntervalMonthDayNanoType, TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use std::collections::HashMap;
use std::sync::Arc;

/// What a window function makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum WindowKind {
    /// `window(time, length[, slide[, start]])`.
    Time,
    /// All windows of a time as a list; stands for `window` where windows overlap.
    Each,
    /// `session_window(time, gap)`: the session of one row.
    Session,
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![
        ScalarUDF::new_from_impl(WindowFunction::new(WindowKind::Time)),
        ScalarUDF::new_from_impl(WindowFunction::new(WindowKind::Session)),
        ScalarUDF::new_from_impl(WindowTime {
            signature: Signature::any(1, Volatility::Immutable),
        }),
    ]
}

/// The function that gives all windows of a time.
pub(crate) fn each_window() -> ScalarUDF {
    ScalarUDF::new_from_impl(WindowFunction::new(WindowKind::Each))
}

/// Which window function this is, of those that a query calls.
pub(crate) fn window_kind(function: &ScalarUDF) -> Option<WindowKind> {
    let kind = function.inner().downcast_ref::<WindowFunction>()?.kind;
    (kind != WindowKind::Each).then_some(kind)
}

/// Most windows that a row may fall into: each is a row of its own, in memory.
const WINDOWS_MAX: i64 = 100_000;

/// How windows lie, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spacing {
    pub(crate) length: i64,
    pub(crate) slide: i64,
    pub(crate) start: i64,
}

impl Spacing {
    pub(crate) fn overlaps(self) -> bool {
        self.length > self.slide
    }

    /// From the arguments after the time.
    pub(crate) fn of(arguments: &[Option<&ScalarValue>]) -> Result<Self> {
        let micros = |place: usize, what: &str| -> Result<Option<i64>> {
            let Some(argument) = arguments.get(place) else { return Ok(None) };
            let value = argument.ok_or_else(|| {
                plan(format!("the {what} of a window must be a literal, such as '10 minutes'"))
            })?;
            duration(value, what).map(Some)
        };
        let length = micros(0, "duration")?;
        let length = length.ok_or_else(|| plan("window needs a time and a duration"))?;
        let slide = micros(1, "slide duration")?.unwrap_or(length);
        let start = micros(2, "start time")?.unwrap_or(0);
        let positive = |value: i64, what: &str| {
            if value > 0 {
                return Ok(());
            }
            Err(plan(format!("the {what} of a window must be greater than 0, not {value} µs")))
        };
        positive(length, "duration")?;
        positive(slide, "slide duration")?;
        if slide > length {
            return Err(plan(format!(
                "the slide duration of a window ({slide} µs) must be at most its duration \
                 ({length} µs)"
            )));
        }
        if length / slide > WINDOWS_MAX {
            return Err(plan(format!(
                "a window of {length} µs every {slide} µs puts each row into {} windows, more than \
                 the limit of {WINDOWS_MAX}; make the slide duration longer",
                length / slide
            )));
        }
        if start.checked_abs().is_none_or(|start| start >= slide) {
            return Err(plan(format!(
                "the start time of a window ({start} µs) must be less than its slide duration \
                 ({slide} µs)"
            )));
        }
        Ok(Spacing { length, slide, start })
    }

    /// The start of the last window that begins at or before a time.
    fn last_start(self, time: i64) -> i64 {
        time.saturating_sub(time.saturating_sub(self.start).rem_euclid(self.slide))
    }

    /// How many windows hold a time, and so how many begin `slide` apart before the last one.
    fn count(self, time: i64) -> i64 {
        let into = time.saturating_sub(self.last_start(time));
        (self.length - into - 1).div_euclid(self.slide) + 1
    }
}

fn plan(text: impl Into<String>) -> DataFusionError {
    DataFusionError::Plan(text.into())
}

/// The length of a literal interval: a text, an interval or a number of microseconds.
fn duration(value: &ScalarValue, what: &str) -> Result<i64> {
    if let Some(Some(text)) = value.try_as_str() {
        let interval = parse_interval(text).map_err(|error| plan(error.to_string()))?;
        return fixed(interval, what);
    }
    match value {
        ScalarValue::IntervalMonthDayNano(Some(it)) => fixed(
            Interval {
                months: it.months.into(),
                days: it.days.into(),
                micros: it.nanoseconds / 1_000,
            },
            what,
        ),
        ScalarValue::DurationMicrosecond(Some(it)) | ScalarValue::Int64(Some(it)) => Ok(*it),
        ScalarValue::Int32(Some(it)) => Ok(i64::from(*it)),
        other => match other.cast_to(&DataType::Duration(TimeUnit::Microsecond)) {
            Ok(ScalarValue::DurationMicrosecond(Some(it))) => Ok(it),
            _ => Err(plan(format!("the {what} of a window must be an interval, not {other}"))),
        },
    }
}

fn fixed(interval: Interval, what: &str) -> Result<i64> {
    interval.fixed_micros().ok_or_else(|| {
        plan(format!(
            "intervals greater than a month are not supported as the {what} of a window: months \
             and years have no fixed length"
        ))
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct WindowFunction {
    kind: WindowKind,
    signature: Signature,
}

impl WindowFunction {
    fn new(kind: WindowKind) -> Self {
        WindowFunction { kind, signature: Signature::variadic_any(Volatility::Immutable) }
    }
}

/// The type of the times that windows of an argument are made of.
fn time_type(data_type: &DataType) -> Result<DataType> {
    match instant_type(data_type).unwrap_or(data_type) {
        DataType::Timestamp(_, zone) => {
            Ok(DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))
        }
        DataType::Date32
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Null => Ok(timestamp()),
        other => Err(plan(format!(
            "a window needs a TIMESTAMP or a window column, not {}",
            crate::schema::type_name(other)
        ))),
    }
}

/// What a window's column says of event time.
fn metadata(time: &Field, mark: &str) -> HashMap<String, String> {
    let mut metadata = HashMap::from([(mark.to_owned(), "true".to_owned())]);
    if let Some(delay) = time.metadata().get(WATERMARK_DELAY) {
        metadata.insert(WATERMARK_DELAY.to_owned(), delay.clone());
    }
    metadata
}

impl ScalarUDFImpl for WindowFunction {
    fn name(&self) -> &str {
        match self.kind {
            WindowKind::Time => "window",
            WindowKind::Each => "each_window",
            WindowKind::Session => "session_window",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Err(DataFusionError::Internal("the type of a window depends on its fields".to_owned()))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let (most, mark) = match self.kind {
            WindowKind::Session => (2, SESSION_WINDOW),
            _ => (4, TIME_WINDOW),
        };
        let count = arguments.arg_fields.len();
        let (Some(time), 2..) = (arguments.arg_fields.first(), count) else {
            return Err(plan(format!("{} needs a time and a duration", self.name())));
        };
        if count > most {
            return Err(plan(format!("{} takes at most {most} arguments", self.name())));
        }
        let after = arguments.scalar_arguments.get(1..).unwrap_or_default();
        if self.kind != WindowKind::Session {
            Spacing::of(after)?;
        } else if let Some(Some(gap)) = after.first()
            && !gap.is_null()
        {
            duration(gap, "gap")?;
        }
        let window = DataType::Struct(window_fields(&time_type(time.data_type())?));
        let data_type = match self.kind {
            WindowKind::Each => DataType::List(Arc::new(Field::new("element", window, false))),
            _ => window,
        };
        let field = Field::new(self.name(), data_type, true);
        Ok(Arc::new(field.with_metadata(metadata(time, mark))))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let literal = |value: &ColumnarValue| match value {
            ColumnarValue::Scalar(value) => Some(value.clone()),
            ColumnarValue::Array(_) => None,
        };
        let Some((time, after)) = arguments.args.split_first() else {
            return Err(plan(format!("{} needs a time", self.name())));
        };
        let times = times(&time.to_array(rows)?, &Zone::of(&arguments.config_options)?)?;
        if self.kind == WindowKind::Session {
            let gap = after.first().ok_or_else(|| plan("session_window needs a gap"))?;
            let gaps = Gaps::of(gap, rows)?;
            return Ok(ColumnarValue::Array(session(&times, &gaps)?));
        }
        let after: Vec<Option<ScalarValue>> = after.iter().map(literal).collect();
        let after: Vec<Option<&ScalarValue>> = after.iter().map(Option::as_ref).collect();
        let spacing = Spacing::of(&after)?;
        let windows = match self.kind {
            WindowKind::Each => each(&times, spacing)?,
            _ if spacing.overlaps() => {
                return Err(plan(
                    "a sliding window makes several rows of one, which this place cannot have: \
                     select it in a query of its own",
                ));
            }
            _ => tumbling(&times, spacing)?,
        };
        Ok(ColumnarValue::Array(windows))
    }
}

/// The times of a timestamp column, of a date or text, or of windows.
fn times(column: &ArrayRef, zone: &Zone) -> Result<TimestampMicrosecondArray> {
    let column = match column.data_type() {
        DataType::Struct(_) => window_times(column)?,
        _ => Arc::clone(column),
    };
    let wanted = time_type(column.data_type())?;
    let column = if column.data_type() == &wanted {
        column
    } else {
        cast_array(&column, &wanted, false, zone)?
    };
    Ok(column.as_primitive::<TimestampMicrosecondType>().clone())
}

fn windows(
    starts: Vec<i64>,
    ends: Vec<i64>,
    zone: Option<Arc<str>>,
    nulls: Option<NullBuffer>,
) -> Result<StructArray> {
    let column = |values: Vec<i64>| -> ArrayRef {
        let values = TimestampMicrosecondArray::new(ScalarBuffer::from(values), None);
        Arc::new(values.with_timezone_opt(zone.clone()))
    };
    let fields = window_fields(&DataType::Timestamp(TimeUnit::Microsecond, zone.clone()));
    Ok(StructArray::try_new(fields, vec![column(starts), column(ends)], nulls)?)
}

fn zone_of(times: &TimestampMicrosecondArray) -> Option<Arc<str>> {
    times.timezone().map(Into::into)
}

fn tumbling(times: &TimestampMicrosecondArray, spacing: Spacing) -> Result<ArrayRef> {
    let starts: Vec<i64> = times.values().iter().map(|it| spacing.last_start(*it)).collect();
    let ends = starts.iter().map(|start| start.saturating_add(spacing.length)).collect();
    Ok(Arc::new(windows(starts, ends, zone_of(times), times.nulls().cloned())?))
}

fn each(times: &TimestampMicrosecondArray, spacing: Spacing) -> Result<ArrayRef> {
    let (mut starts, mut lengths) = (Vec::new(), Vec::with_capacity(times.len()));
    for time in times {
        let before = starts.len();
        if let Some(time) = time {
            let last = spacing.last_start(time);
            let count = spacing.count(time);
            // The latest first, as Spark expands them.
            starts.extend((0..count).map(|back| last.saturating_sub(back * spacing.slide)));
        }
        lengths.push(starts.len() - before);
    }
    let ends = starts.iter().map(|start| start.saturating_add(spacing.length)).collect();
    let values = windows(starts, ends, zone_of(times), None)?;
    let field = Arc::new(Field::new("element", values.data_type().clone(), false));
    let offsets = OffsetBuffer::from_lengths(lengths);
    let nulls = times.nulls().cloned();
    Ok(Arc::new(ListArray::try_new(field, offsets, Arc::new(values), nulls)?))
}

/// The gaps of sessions, in microseconds.
enum Gaps {
    All(Option<i64>),
    Each(Vec<Option<i64>>),
}

impl Gaps {
    fn of(gap: &ColumnarValue, rows: usize) -> Result<Self> {
        let column = match gap {
            ColumnarValue::Scalar(value) if value.is_null() => return Ok(Gaps::All(None)),
            ColumnarValue::Scalar(value) => return Ok(Gaps::All(Some(duration(value, "gap")?))),
            ColumnarValue::Array(column) => column,
        };
        let mut gaps = Vec::with_capacity(rows);
        match column.data_type() {
            DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano) => {
                for gap in column.as_primitive::<IntervalMonthDayNanoType>() {
                    let gap = gap.map(|gap| ScalarValue::IntervalMonthDayNano(Some(gap)));
                    gaps.push(gap.map(|gap| duration(&gap, "gap")).transpose()?);
                }
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                let texts = cast_array(column, &DataType::Utf8, false, &Zone::utc())?;
                let mut known: HashMap<String, i64> = HashMap::new();
                for text in texts.as_string::<i32>() {
                    let Some(text) = text else {
                        gaps.push(None);
                        continue;
                    };
                    let gap = match known.get(text) {
                        Some(gap) => *gap,
                        None => {
                            let gap = duration(&ScalarValue::from(text), "gap")?;
                            if known.len() < 1_000 {
                                known.insert(text.to_owned(), gap);
                            }
                            gap
                        }
                    };
                    gaps.push(Some(gap));
                }
            }
            _ => {
                for row in 0..column.len() {
                    let gap = ScalarValue::try_from_array(column, row)?;
                    let gap = (!gap.is_null()).then(|| duration(&gap, "gap")).transpose()?;
                    gaps.push(gap);
                }
            }
        }
        Ok(Gaps::Each(gaps))
    }

    fn at(&self, row: usize) -> Option<i64> {
        match self {
            Gaps::All(gap) => *gap,
            Gaps::Each(gaps) => gaps.get(row).copied().flatten(),
        }
    }
}

/// The session of each row by itself; none for a row without a time or with a gap that is not
/// above 0.
fn session(times: &TimestampMicrosecondArray, gaps: &Gaps) -> Result<ArrayRef> {
    let (mut starts, mut ends) = (Vec::with_capacity(times.len()), Vec::with_capacity(times.len()));
    let mut valid = Vec::with_capacity(times.len());
    for (row, time) in times.iter().enumerate() {
        let session = match (time, gaps.at(row)) {
            (Some(time), Some(gap @ 1..)) => Some((time, time.saturating_add(gap))),
            _ => None,
        };
        let (start, end) = session.unwrap_or_default();
        starts.push(start);
        ends.push(end);
        valid.push(session.is_some());
    }
    let nulls = NullBuffer::from(valid);
    let nulls = (nulls.null_count() > 0).then_some(nulls);
    Ok(Arc::new(windows(starts, ends, zone_of(times), nulls)?))
}

/// `window_time(window)`: the last instant in a window, by which it goes into further windows.
#[derive(Debug, PartialEq, Eq, Hash)]
struct WindowTime {
    signature: Signature,
}

fn window_times(column: &ArrayRef) -> Result<ArrayRef> {
    let window = column.as_struct();
    let Some(end) = window.column_by_name("end") else {
        return Err(plan("window_time needs a window: a struct of start and end"));
    };
    let end = match end.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, _) => Arc::clone(end),
        DataType::Timestamp(_, zone) => {
            let micros = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
            arrow::compute::cast(end, &micros)?
        }
        _ => return Ok(new_null_array(&timestamp(), column.len())),
    };
    let end = end.as_primitive::<TimestampMicrosecondType>();
    let last: TimestampMicrosecondArray = end.unary(|end| end.saturating_sub(1));
    let last = last.with_timezone_opt(zone_of(end));
    let nulls = NullBuffer::union(window.nulls(), last.nulls());
    let data = last.into_data().into_builder().nulls(nulls).build()?;
    Ok(arrow::array::make_array(data))
}

impl ScalarUDFImpl for WindowTime {
    fn name(&self) -> &str {
        "window_time"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Err(DataFusionError::Internal("the type depends on the window's field".to_owned()))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let field = arguments.arg_fields.first();
        let window = field.filter(|it| matches!(it.data_type(), DataType::Struct(_)));
        let (Some(field), Some(DataType::Timestamp(_, zone))) =
            (field, window.and_then(|it| instant_type(it.data_type())))
        else {
            return Err(plan("window_time needs a window: a column made by window(…)"));
        };
        let data_type = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
        let time = Field::new(self.name(), data_type, field.is_nullable());
        let mut metadata = HashMap::new();
        if let Some(delay) = field.metadata().get(WATERMARK_DELAY) {
            metadata.insert(WATERMARK_DELAY.to_owned(), delay.clone());
        }
        Ok(Arc::new(time.with_metadata(metadata)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [window] = arguments.args.as_slice() else {
            return Err(plan("window_time takes one window"));
        };
        let column = window.to_array(arguments.number_rows)?;
        Ok(ColumnarValue::Array(window_times(&column)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    fn spacing(length: i64, slide: i64, start: i64) -> Spacing {
        Spacing { length: length * SECOND, slide: slide * SECOND, start: start * SECOND }
    }

    fn starts(spacing: Spacing, time: i64) -> Vec<i64> {
        let times = TimestampMicrosecondArray::from(vec![time]);
        let lists = each(&times, spacing).unwrap();
        let windows = lists.as_list::<i32>().value(0);
        let starts = windows.as_struct().column(0);
        starts.as_primitive::<TimestampMicrosecondType>().values().to_vec()
    }

    #[test]
    fn windows_before_1970_begin_where_the_grid_says() {
        let with_start = spacing(10, 10, 5);
        assert_eq!(with_start.last_start(-8 * SECOND), -15 * SECOND);
        assert_eq!(with_start.last_start(-3 * SECOND), -5 * SECOND);
        let plain = spacing(10, 10, 0);
        assert_eq!(plain.last_start(-8 * SECOND), -10 * SECOND);
        assert_eq!(plain.last_start(-3 * SECOND), -10 * SECOND);
        assert_eq!(plain.last_start(-10 * SECOND), -10 * SECOND);
        assert_eq!(plain.last_start(-10 * SECOND - 1), -20 * SECOND);
    }

    #[test]
    fn windows_that_would_make_a_row_into_too_many_are_refused() {
        let text = |text: &str| ScalarValue::Utf8(Some(text.to_owned()));
        let of = |length: &str, slide: &str| {
            let (length, slide) = (text(length), text(slide));
            Spacing::of(&[Some(&length), Some(&slide)])
        };
        assert!(of("1 day", "1 second").is_ok());
        let error = of("1 day", "1 microsecond").unwrap_err();
        assert!(error.to_string().contains("86400000000 windows"), "{error}");
    }

    #[test]
    fn a_time_falls_into_every_window_that_holds_it() {
        let sliding = spacing(10, 4, 0);
        assert_eq!(starts(sliding, 9 * SECOND), [8 * SECOND, 4 * SECOND, 0]);
        assert_eq!(starts(sliding, 10 * SECOND), [8 * SECOND, 4 * SECOND]);
        assert_eq!(starts(sliding, -SECOND), [-4 * SECOND, -8 * SECOND]);
        for time in -50..50 {
            for start in starts(spacing(7, 3, -2), time * SECOND / 2) {
                assert!(start <= time * SECOND / 2 && time * SECOND / 2 < start + 7 * SECOND);
            }
        }
    }

    #[test]
    fn windows_that_make_no_sense_are_refused() {
        let literal = |text: &str| ScalarValue::from(text);
        for (arguments, wanted) in [
            (vec!["0 seconds"], "greater than 0"),
            (vec!["-1 second"], "greater than 0"),
            (vec!["1 month"], "no fixed length"),
            (vec!["10 seconds", "20 seconds"], "at most its duration"),
            (vec!["10 seconds", "0 seconds"], "greater than 0"),
            (vec!["10 seconds", "5 seconds", "-5 seconds"], "less than its slide"),
            (vec!["soon"], "not an interval"),
        ] {
            let values: Vec<ScalarValue> = arguments.iter().map(|text| literal(text)).collect();
            let values: Vec<Option<&ScalarValue>> = values.iter().map(Some).collect();
            let error = Spacing::of(&values).unwrap_err().to_string();
            assert!(error.contains(wanted), "{arguments:?}: {error}");
        }
    }

    #[test]
    fn a_row_without_a_gap_has_no_session() {
        let times = TimestampMicrosecondArray::from(vec![Some(5), Some(6), None, Some(7)]);
        let gaps = Gaps::Each(vec![Some(10), Some(0), Some(10), None]);
        let sessions = session(&times, &gaps).unwrap();
        assert_eq!(sessions.null_count(), 3);
        let ends = sessions.as_struct().column(1);
        assert_eq!(ends.as_primitive::<TimestampMicrosecondType>().value(0), 15);
    }
}
