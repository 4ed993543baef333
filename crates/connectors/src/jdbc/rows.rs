//! Rows of a database on their way to Arrow batches.

use super::cell::Cell;
use super::columns::column;
use super::database::Column;
use super::failure::Failure;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use std::sync::Arc;

/// Rows on their way to batches.
pub(crate) struct Rows<'a> {
    schema: &'a SchemaRef,
    columns: &'a [Column],
    fetch: usize,
    held: Vec<Vec<Cell>>,
    before: u64,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(schema: &'a SchemaRef, columns: &'a [Column], fetch: usize) -> Rows<'a> {
        let held = columns.iter().map(|_| Vec::new()).collect();
        Rows { schema, columns, fetch: fetch.max(1), held, before: 0 }
    }

    fn count(&self) -> usize {
        self.held.first().map_or(0, Vec::len)
    }

    /// Adds a row; a batch when there are enough.
    ///
    /// # Errors
    /// Refused: a value does not fit its column.
    pub(crate) fn add(&mut self, row: Vec<Cell>) -> Result<Option<RecordBatch>, Failure> {
        for (held, cell) in self.held.iter_mut().zip(row) {
            held.push(cell);
        }
        if self.count() < self.fetch { Ok(None) } else { self.end() }
    }

    /// The rows that are left.
    ///
    /// # Errors
    /// Refused: a value does not fit its column.
    pub(crate) fn end(&mut self) -> Result<Option<RecordBatch>, Failure> {
        let count = self.count();
        if count == 0 {
            return Ok(None);
        }
        let mut arrays = Vec::with_capacity(self.columns.len());
        for ((cells, field), own) in self.held.iter().zip(self.schema.fields()).zip(self.columns) {
            let array = column(cells, field.data_type()).map_err(|unfit| {
                let row = self.before + unfit.row as u64;
                Failure::refused(unfit.why).at(Some(row), Some(own.name.clone()))
            })?;
            arrays.push(array);
        }
        self.before += count as u64;
        self.held.iter_mut().for_each(Vec::clear);
        RecordBatch::try_new(Arc::clone(self.schema), arrays)
            .map(Some)
            .map_err(|error| Failure::refused(error.to_string()))
    }
}
