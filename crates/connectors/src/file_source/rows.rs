//! Rows of one format on their way into batches: modes for corrupt records, and the corrupt column.

use super::cells::{Mismatch, Record};
use super::formats::Reading;
use arrow::array::{Array as _, ArrayRef, BooleanArray, StringBuilder};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use onefold_types::{Error, Result};
use std::sync::Arc;

/// What happens to a record that does not fit (option `mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Permissive,
    DropMalformed,
    FailFast,
}

/// Takes finished batches; false means that nobody wants more.
pub(crate) type Emit<'a> = dyn FnMut(RecordBatch) -> Result<bool> + 'a;

/// Rows under construction.
pub(crate) struct Rows<'a> {
    pub(crate) record: Record,
    schema: SchemaRef,
    corrupt: Option<(usize, StringBuilder)>,
    kept: Vec<bool>,
    dropped: bool,
    pub(crate) mode: Mode,
    pub(crate) reading: Reading,
    batch_rows: usize,
    path: &'a str,
    line: u64,
    emit: &'a mut Emit<'a>,
}

impl<'a> Rows<'a> {
    /// `schema` are the columns wanted of the files; `corrupt_column` is among them if it is wanted.
    pub(crate) fn new(
        schema: &SchemaRef,
        corrupt_column: &str,
        mode: Mode,
        reading: Reading,
        batch_rows: usize,
        path: &'a str,
        emit: &'a mut Emit<'a>,
    ) -> Result<Rows<'a>> {
        let corrupt = schema.index_of(corrupt_column).ok();
        let fields: Vec<_> = schema
            .fields()
            .iter()
            .enumerate()
            .filter(|(at, _)| Some(*at) != corrupt)
            .map(|(_, field)| Arc::clone(field))
            .collect();
        Ok(Rows {
            record: Record::new(&fields.into())?,
            schema: Arc::clone(schema),
            corrupt: corrupt.map(|at| (at, StringBuilder::new())),
            kept: Vec::with_capacity(batch_rows),
            dropped: false,
            mode,
            reading,
            batch_rows,
            path,
            line: 0,
            emit,
        })
    }

    /// Counts a line, for messages.
    pub(crate) fn next_line(&mut self) {
        self.line += 1;
    }

    /// A row was added to the record; `outcome` says whether it fits, `raw` is its text.
    pub(crate) fn added(&mut self, outcome: Result<(), Mismatch>, raw: &str) -> Result<bool> {
        let good = outcome.is_ok();
        if !good && self.mode == Mode::FailFast {
            return Err(Error::invalid(format!(
                "{} line {} is malformed; correct it, or use mode PERMISSIVE or DROPMALFORMED",
                self.path, self.line
            )));
        }
        if let Some((_, texts)) = &mut self.corrupt {
            if good { texts.append_null() } else { texts.append_value(raw) }
        }
        let keep = good || self.mode == Mode::Permissive;
        self.dropped |= !keep;
        self.kept.push(keep);
        if self.kept.len() >= self.batch_rows { self.flush() } else { Ok(true) }
    }

    /// A record of which nothing can be used.
    pub(crate) fn malformed(&mut self, raw: &str) -> Result<bool> {
        self.record.push_nulls();
        self.added(Err(Mismatch), raw)
    }

    /// Gives out what is there.
    pub(crate) fn flush(&mut self) -> Result<bool> {
        let count = self.kept.len();
        if count == 0 {
            return Ok(true);
        }
        let mut columns = self.record.finish()?;
        if let Some((at, texts)) = &mut self.corrupt {
            columns.insert(*at, Arc::new(texts.finish()));
        }
        let batch = batch_of(&self.schema, columns, count)?;
        let kept = std::mem::take(&mut self.kept);
        let batch = if std::mem::take(&mut self.dropped) {
            filter_record_batch(&batch, &BooleanArray::from(kept))
                .map_err(|error| Error::internal("rows could not be left out").because(error))?
        } else {
            batch
        };
        if batch.num_rows() == 0 { Ok(true) } else { (self.emit)(batch) }
    }
}

/// A batch of these columns, cast where the schema wants another form of the same type.
pub(crate) fn batch_of(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch> {
    let columns = columns
        .into_iter()
        .zip(schema.fields())
        .map(|(column, field)| {
            if column.data_type() == field.data_type() {
                Ok(column)
            } else {
                arrow::compute::cast(&column, field.data_type())
            }
        })
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Error::internal("a column has another type").because(error))?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| Error::internal("columns do not fit the schema").because(error))
}
