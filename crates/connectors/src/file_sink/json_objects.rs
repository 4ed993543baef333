//! Rows as JSON objects, as `to_json` and files of JSON have them, for sinks that write no files.

use super::columns::Columns;
use super::line_file::{Lines, lines};
use super::options::{self, FileOptions, Format};
use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use onefold_connector::{OptionSpec, Options};
use onefold_types::{OptionMap, Result};
use std::sync::Arc;

static TABLE: &[&[OptionSpec]] = &[options::COMMON, options::JSON];

/// Makes the objects.
#[derive(Debug)]
pub(crate) struct JsonObjects {
    columns: Columns,
    lines: Arc<dyn Lines>,
}

impl JsonObjects {
    /// Of rows with these columns; times are shown by clocks of the zone.
    ///
    /// # Errors
    /// Invalid: a column has a type that JSON does not hold, or the zone is none.
    pub(crate) fn new(schema: &Schema, time_zone: &str) -> Result<JsonObjects> {
        let options = Options::check("JSON", TABLE, OptionMap::new())?;
        let options = FileOptions::read(Format::Json, &options)?;
        let columns = Columns::split(Format::Json, schema, &[])?;
        let lines = lines(&options, &columns.file, time_zone)?;
        Ok(JsonObjects { columns, lines })
    }

    /// Calls `act` with the object of each row.
    ///
    /// # Errors
    /// As those of `act`; Invalid, where a value does not fit.
    pub(crate) fn each(
        &self,
        rows: &RecordBatch,
        act: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        self.lines.each(&self.columns.of_file(rows)?, act)
    }
}
