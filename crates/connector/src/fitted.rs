//! Rows in the schema that was promised for them.

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::util::display::FormatOptions;
use onefold_types::{Error, Result};
use std::sync::Arc;

/// A value that does not fit is an error, and never NULL.
const WHOLE: CastOptions<'static> =
    CastOptions { safe: false, format_options: FormatOptions::new() };

/// A batch with the schema that was promised: operators may say other things of NULL and metadata.
/// For sinks that show their rows under [`crate::SinkContext::schema`].
///
/// # Errors
/// Internal, when the columns are others than promised.
pub fn fitted(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns: std::result::Result<Vec<ArrayRef>, ArrowError> = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| match column.data_type() == field.data_type() {
            true => Ok(Arc::clone(column)),
            false => cast_with_options(column, field.data_type(), &WHOLE),
        })
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let fitted = columns.and_then(|columns| {
        RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
    });
    fitted.map_err(|error| {
        Error::internal("the rows of a batch do not have the query's columns").because(error)
    })
}
