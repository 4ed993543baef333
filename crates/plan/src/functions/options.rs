//! The options that functions on JSON and CSV take as a map.

use super::pattern::Pattern;
use super::zone::Zone;
use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use chrono::DateTime;
use datafusion::error::{DataFusionError, Result};

/// Options of one call.
pub(in crate::functions) struct Options {
    /// How dates are written, where not as `2026-01-31`.
    pub(in crate::functions) date: Option<Pattern>,
    /// How times are written.
    pub(in crate::functions) time: Option<Pattern>,
    /// A record that does not fit is an error.
    pub(in crate::functions) fail_fast: bool,
    /// Fields that are NULL are left out.
    pub(in crate::functions) without_nulls: bool,
    /// The column that gets the text of a record that does not fit.
    pub(in crate::functions) corrupt: String,
    /// What stands between the values of a line of CSV.
    pub(in crate::functions) separator: char,
    /// The most characters that a value of CSV may have.
    pub(in crate::functions) chars_max: Option<usize>,
}

impl Options {
    /// Those of the first row of a column of maps.
    ///
    /// # Errors
    /// Plan, when an option is not there or has a wrong value.
    pub(in crate::functions) fn of(column: Option<&ArrayRef>) -> Result<Self> {
        let mut options = Options {
            date: None,
            time: None,
            fail_fast: false,
            without_nulls: true,
            corrupt: "_corrupt_record".to_owned(),
            separator: ',',
            chars_max: None,
        };
        let Some(column) = column else { return Ok(options) };
        let maps = column.as_map_opt().ok_or_else(|| {
            DataFusionError::Plan(
                "[INVALID_OPTIONS.NON_MAP_FUNCTION] options are a map of texts".to_owned(),
            )
        })?;
        if maps.is_empty() || maps.is_null(0) {
            return Ok(options);
        }
        let entries = maps.value(0);
        let texts = |place: usize| -> Result<ArrayRef> {
            let column = entries.columns().get(place);
            let column =
                column.ok_or_else(|| DataFusionError::Internal("no entries".to_owned()))?;
            Ok(arrow::compute::cast(column, &arrow::datatypes::DataType::Utf8)?)
        };
        let (names, values) = (texts(0)?, texts(1)?);
        for (name, value) in names.as_string::<i32>().iter().zip(values.as_string::<i32>()) {
            if let (Some(name), Some(value)) = (name, value) {
                options.set(name, value)?;
            }
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name.to_ascii_lowercase().as_str() {
            "dateformat" => self.date = Some(Pattern::new(value)?),
            "timestampformat" | "timestampntzformat" => self.time = Some(Pattern::new(value)?),
            "mode" => {
                self.fail_fast = match value.to_ascii_uppercase().as_str() {
                    "FAILFAST" => true,
                    "PERMISSIVE" => false,
                    other => {
                        return Err(DataFusionError::Plan(format!(
                            "[PARSE_MODE_UNSUPPORTED] there is no mode {other}, only \
                             PERMISSIVE and FAILFAST"
                        )));
                    }
                };
            }
            "sep" | "delimiter" => {
                self.separator = match value.chars().collect::<Vec<_>>().as_slice() {
                    [one] => *one,
                    _ => {
                        return Err(DataFusionError::Plan(format!(
                            "a separator is one character, and not `{value}`"
                        )));
                    }
                };
            }
            // As in Spark -1 is no bound.
            "maxcharspercolumn" => {
                self.chars_max = match value.trim().parse::<i64>() {
                    Ok(-1) => None,
                    Ok(most) => usize::try_from(most).ok(),
                    Err(_) => {
                        return Err(DataFusionError::Plan(format!(
                            "`maxCharsPerColumn` is a whole number, and not `{value}`"
                        )));
                    }
                };
            }
            "ignorenullfields" => self.without_nulls = !value.eq_ignore_ascii_case("false"),
            "columnnameofcorruptrecord" => value.clone_into(&mut self.corrupt),
            _ => {
                return Err(DataFusionError::Plan(format!(
                    "the option `{name}` of functions on JSON and CSV is not there; there are mode, \
                     dateFormat, timestampFormat, ignoreNullFields, columnNameOfCorruptRecord, sep, \
                     maxCharsPerColumn"
                )));
            }
        }
        Ok(())
    }

    /// Whether one of the values has more characters than it may.
    pub(in crate::functions) fn too_long(&self, values: &[Option<String>]) -> bool {
        let Some(most) = self.chars_max else { return false };
        values.iter().flatten().any(|value| value.chars().count() > most)
    }

    /// An error, where a bad record is one.
    ///
    /// # Errors
    /// Execution, with the first of them.
    pub(in crate::functions) fn refuse(
        &self,
        bad: &[bool],
        texts: &StringArray,
        function: &str,
    ) -> Result<()> {
        let Some(row) = bad.iter().position(|bad| *bad).filter(|_| self.fail_fast) else {
            return Ok(());
        };
        let text: String = texts.value(row).chars().take(200).collect();
        Err(DataFusionError::Execution(format!(
            "[MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] the text `{text}` does not fit the \
             schema of {function}; the mode PERMISSIVE gives NULL instead"
        )))
    }

    /// A time as text: an instant as clocks of the zone show it, with their offset.
    pub(in crate::functions) fn time_text(
        &self,
        micros: i64,
        instant: bool,
        zone: &Zone,
    ) -> String {
        let utc = Zone::utc();
        let zone = if instant { zone } else { &utc };
        if let Some(text) = self.time.as_ref().and_then(|it| it.format(micros, zone)) {
            return text;
        }
        let Some(time) = DateTime::from_timestamp_micros(zone.local(micros)) else {
            return micros.to_string();
        };
        let text = time.format("%Y-%m-%dT%H:%M:%S%.3f").to_string();
        match (instant, zone.offset_seconds(micros)) {
            (false, _) => text,
            (true, 0) => text + "Z",
            (true, offset) => {
                let sign = if offset < 0 { '-' } else { '+' };
                let minutes = offset.unsigned_abs() / 60;
                format!("{text}{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            }
        }
    }
}
