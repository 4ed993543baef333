//! The columns of rows that leave a query beside its result: those of the rows where all that leave
//! have the same, else one column with the row as JSON; and columns that say why they left.

use crate::functions::json::json_of;
use arrow::array::{ArrayRef, RecordBatch, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use datafusion::error::Result;
use std::collections::HashSet;
use std::sync::Arc;

/// The column of rows as JSON.
const ROW: &str = "row";

/// What such rows look like.
#[derive(Debug, Clone)]
pub(super) struct SideColumns {
    schema: SchemaRef,
    json: bool,
}

impl SideColumns {
    /// Of rows with any of these columns, and behind them `why`; `None` where no rows leave.
    pub(super) fn of<'a>(
        mut rows: impl Iterator<Item = &'a Fields>,
        why: Vec<Field>,
    ) -> Option<SideColumns> {
        let first = rows.next()?;
        let same = rows.all(|it| it == first) && fit(first, &why);
        let shown: Vec<Arc<Field>> = match same {
            true => first.iter().cloned().collect(),
            false => vec![Arc::new(Field::new(ROW, DataType::Utf8, false))],
        };
        let fields: Vec<_> = shown.into_iter().chain(why.into_iter().map(Arc::new)).collect();
        Some(SideColumns { schema: Arc::new(Schema::new(fields)), json: !same })
    }

    pub(super) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Rows of `columns`, which are to have these fields, and why each left.
    ///
    /// # Errors
    /// When the columns are not those that were planned.
    pub(super) fn rows(
        &self,
        fields: &Fields,
        columns: Vec<ArrayRef>,
        why: Vec<ArrayRef>,
        count: usize,
    ) -> Result<RecordBatch> {
        let mut all = Vec::with_capacity(self.schema.fields().len());
        for (column, field) in columns.into_iter().zip(fields) {
            all.push(match column.data_type() == field.data_type() {
                true => column,
                false => cast(&column, field.data_type())?,
            });
        }
        if self.json {
            let structs = StructArray::try_new_with_length(fields.clone(), all, None, count)?;
            all = vec![json_of(&(Arc::new(structs) as ArrayRef))?];
        }
        all.extend(why);
        Ok(RecordBatch::try_new(self.schema(), all)?)
    }
}

/// Whether the names of columns differ, and none is one of ours.
fn fit(fields: &Fields, why: &[Field]) -> bool {
    let mut names: HashSet<String> = why.iter().map(|it| it.name().to_lowercase()).collect();
    fields.iter().all(|field| names.insert(field.name().to_lowercase()))
}
