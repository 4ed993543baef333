//! What fields say of event time, as Spark says it in their metadata.

use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::DFSchema;
use std::collections::HashMap;

/// Metadata key of a column that has a watermark: the delay in milliseconds.
pub const WATERMARK_DELAY: &str = "spark.watermarkDelayMs";
/// Metadata key of a column of time windows.
pub(crate) const TIME_WINDOW: &str = "spark.timeWindow";
/// Metadata key of a column of session windows that are not merged yet.
pub(crate) const SESSION_WINDOW: &str = "spark.sessionWindow";

/// The delay of a field's watermark in milliseconds.
pub(crate) fn delay_of(field: &Field) -> Option<i64> {
    field.metadata().get(WATERMARK_DELAY)?.parse().ok()
}

pub(crate) fn is_session(field: &Field) -> bool {
    field.metadata().contains_key(SESSION_WINDOW)
}

/// The place of the first column with a watermark.
pub(crate) fn event_time_of(schema: &DFSchema) -> Option<usize> {
    schema.fields().iter().position(|field| delay_of(field).is_some())
}

/// The metadata of a field without what is said of event time: what a sink gets.
pub(crate) fn without_event_time(metadata: &mut HashMap<String, String>) {
    for key in [WATERMARK_DELAY, TIME_WINDOW, SESSION_WINDOW] {
        metadata.remove(key);
    }
}

/// The type of the instants in an event-time column: its own, or that of a window's end.
pub(crate) fn instant_type(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::Timestamp(..) => Some(data_type),
        DataType::Struct(fields) => window_end(fields.as_ref()),
        _ => None,
    }
}

/// The type of the end of a window's fields `start` and `end`.
fn window_end(fields: &[FieldRef]) -> Option<&DataType> {
    match fields {
        [start, end]
            if start.name() == "start"
                && end.name() == "end"
                && start.data_type() == end.data_type()
                && matches!(end.data_type(), DataType::Timestamp(..)) =>
        {
            Some(end.data_type())
        }
        _ => None,
    }
}

/// The fields of a window over times of a type.
pub(crate) fn window_fields(instant: &DataType) -> Fields {
    Fields::from(vec![
        Field::new("start", instant.clone(), true),
        Field::new("end", instant.clone(), true),
    ])
}
