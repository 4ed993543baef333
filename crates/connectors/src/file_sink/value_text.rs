//! Values as the text formats write them, with the patterns of their options.

use super::pattern::{Moment, Pattern};
use super::spark_text::{Texts, day, in_zone, naive, zone};
use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Date32Type, TimestampMicrosecondType};
use chrono::Offset as _;
use onefold_types::{Error, Result};

/// How dates and times are written.
#[derive(Debug, Clone)]
pub(crate) struct Times {
    pub(crate) date: Pattern,
    pub(crate) timestamp: Pattern,
    pub(crate) timestamp_ntz: Pattern,
    pub(crate) time_zone: String,
}

impl Times {
    /// The text of a day counted from 1970.
    pub(crate) fn date(&self, days: i32, into: &mut String) {
        let local = day(days).and_time(chrono::NaiveTime::MIN);
        self.date.write(Moment { local, offset_seconds: None, zone: "" }, into);
    }

    /// The text of a point in time, in microseconds since 1970.
    pub(crate) fn timestamp(
        &self,
        micros: i64,
        zone: arrow::array::timezone::Tz,
        into: &mut String,
    ) {
        let time = in_zone(micros, zone);
        let offset_seconds = Some(time.offset().fix().local_minus_utc());
        let moment = Moment { local: time.naive_local(), offset_seconds, zone: &self.time_zone };
        self.timestamp.write(moment, into);
    }

    /// The text of a time without a zone.
    pub(crate) fn timestamp_ntz(&self, micros: i64, into: &mut String) {
        let moment = Moment { local: naive(micros), offset_seconds: None, zone: "" };
        self.timestamp_ntz.write(moment, into);
    }
}

/// The texts of one column.
pub(crate) struct ValueTexts(Texts);

impl ValueTexts {
    /// The texts of all columns.
    pub(crate) fn of_rows(rows: &RecordBatch, times: &Times) -> Result<Vec<ValueTexts>> {
        let fields = rows.schema_ref().fields();
        let columns = fields.iter().zip(rows.columns());
        columns.map(|(field, column)| ValueTexts::of(field.name(), column, times)).collect()
    }

    fn of(name: &str, column: &ArrayRef, times: &Times) -> Result<ValueTexts> {
        let made = |texts: Vec<Option<String>>| Ok(ValueTexts(Texts::Made(texts)));
        let text = |write: &dyn Fn(&mut String)| {
            let mut text = String::new();
            write(&mut text);
            text
        };
        match column.data_type() {
            DataType::Date32 => {
                let days = column.as_primitive::<Date32Type>().iter();
                made(days.map(|v| v.map(|v| text(&|into| times.date(v, into)))).collect())
            }
            DataType::Timestamp(_, None) => {
                let micros = column.as_primitive::<TimestampMicrosecondType>().iter();
                made(micros.map(|v| v.map(|v| text(&|t| times.timestamp_ntz(v, t)))).collect())
            }
            DataType::Timestamp(_, Some(_)) => {
                let zone = zone(&times.time_zone)?;
                let micros = column.as_primitive::<TimestampMicrosecondType>().iter();
                made(micros.map(|v| v.map(|v| text(&|t| times.timestamp(v, zone, t)))).collect())
            }
            nested if nested.is_nested() => Err(Error::invalid(format!(
                "column `{name}` is a {nested}, which csv files do not hold; take it apart or use \
                 to_json({name})"
            ))),
            _ => Texts::of(name, column, &times.time_zone).map(ValueTexts),
        }
    }

    /// The text of a row; `None` for null.
    pub(crate) fn get(&self, row: usize) -> Option<&str> {
        self.0.get(row)
    }
}
