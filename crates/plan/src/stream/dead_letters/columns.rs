//! What dead letters look like: the record as its source gave it, and the error.

use super::super::side::SideColumns;
use crate::failure::planning;
use arrow::array::{Array, ArrayRef, RecordBatch, StringArray, StructArray};
use arrow::datatypes::{DataType, Field, Fields, SchemaRef};
use datafusion::error::{DataFusionError, Result};
use onefold_operators::LetterShape;
use std::sync::Arc;

/// The column with what was wrong.
const ERROR: &str = "_error";

/// What dead letters of a query look like.
#[derive(Debug, Clone)]
pub(in crate::stream) struct LetterColumns {
    columns: SideColumns,
    /// The fields of each source's records.
    sources: Vec<Fields>,
}

impl LetterColumns {
    /// Of the records of these sources; `None` if there are none.
    pub(super) fn of(sources: Vec<Fields>) -> Option<LetterColumns> {
        let why = vec![Field::new(ERROR, DataType::Utf8, false)];
        let columns = SideColumns::of(sources.iter(), why)?;
        Some(LetterColumns { columns, sources })
    }

    pub(in crate::stream) fn schema(&self) -> SchemaRef {
        self.columns.schema()
    }

    /// How records of one source become such rows.
    pub(in crate::stream) fn shape(&self, source: usize) -> Option<Arc<dyn LetterShape>> {
        let fields = self.sources.get(source)?.clone();
        Some(Arc::new(Shape { columns: self.columns.clone(), fields }))
    }
}

#[derive(Debug)]
struct Shape {
    columns: SideColumns,
    fields: Fields,
}

impl LetterShape for Shape {
    fn shape(&self, records: &StructArray, errors: Vec<DataFusionError>) -> Result<RecordBatch> {
        let errors = errors.into_iter().map(|error| planning(error).chain());
        let errors: ArrayRef = Arc::new(StringArray::from_iter_values(errors));
        let (columns, count) = (records.columns().to_vec(), records.len());
        self.columns.rows(&self.fields, columns, vec![errors], count)
    }
}
