//! Functions over groups whose rows came as lists: aggregates, and pairs of groups.

use super::{PythonUdf, broken, fitted, offsets, stream};
use crate::python::wire::write_int;
use crate::rows::{plain_batch, plain_schema};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StructArray, new_empty_array};
use arrow::datatypes::DataType;
use onefold_types::{Error, Result};
use std::io::Write;

/// The rows of each list; a list that is NULL has none.
fn groups(column: &ArrayRef) -> Result<Vec<RecordBatch>> {
    let wrong = || Error::internal("groups are no lists of rows");
    let lists = column.as_list_opt::<i32>().ok_or_else(wrong)?;
    let DataType::Struct(fields) = lists.value_type() else { return Err(wrong()) };
    let nothing = StructArray::new_null(fields, 0);
    let mut batches = Vec::with_capacity(lists.len());
    for row in 0..lists.len() {
        let rows = match lists.is_valid(row) {
            true => lists.value(row).as_struct_opt().ok_or_else(wrong)?.clone(),
            false => nothing.clone(),
        };
        let batch = RecordBatch::from(rows);
        batches.push(
            plain_batch(&batch, &plain_schema(&batch.schema()))
                .map_err(|failure| Error::internal(failure.message().to_owned()))?,
        );
    }
    Ok(batches)
}

impl PythonUdf {
    /// One value for each group: the arguments of a group are the columns of its rows.
    pub(super) fn aggregates(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let output = &self.function.output;
        let [lists] = columns else { return Err(Error::internal("groups are one column")) };
        if rows == 0 {
            return Ok(new_empty_array(output));
        }
        let groups = groups(lists)?;
        let width = groups.first().map_or(0, RecordBatch::num_columns);
        let input = |out: &mut dyn Write| {
            for batch in &groups {
                write_int(&mut &mut *out, 1)?;
                stream(out, std::slice::from_ref(batch))?;
            }
            write_int(&mut &mut *out, 0)
        };
        let arguments = (0..width).map(|at| (i32::try_from(at).unwrap_or(i32::MAX), None));
        let task = self.task(arguments.collect(), Vec::new());
        let mut parts = Vec::new();
        for batch in task.run(&self.pool, &input)? {
            let column = batch.columns().first();
            let column = column.ok_or_else(|| Error::internal("a function gave no column"))?;
            parts.push(fitted(column, output)?);
        }
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        let whole = arrow::compute::concat(&parts).map_err(broken)?;
        if whole.len() != rows {
            return Err(Error::invalid(format!(
                "the function `{}` gave {} values for {rows} groups",
                self.function.name,
                whole.len()
            )));
        }
        Ok(whole)
    }

    /// Any number of rows for each pair of groups of two frames.
    pub(super) fn cogroups(
        &self,
        columns: &[ArrayRef],
        keys: usize,
        rows: usize,
    ) -> Result<ArrayRef> {
        let [left, right] = columns else {
            return Err(Error::internal("pairs of groups are two columns"));
        };
        if rows == 0 {
            return self.listed(&[], 0);
        }
        let (left, right) = (groups(left)?, groups(right)?);
        let input = |out: &mut dyn Write| {
            for (one, other) in left.iter().zip(&right) {
                write_int(&mut &mut *out, 2)?;
                stream(out, std::slice::from_ref(one))?;
                stream(out, std::slice::from_ref(other))?;
            }
            write_int(&mut &mut *out, 0)
        };
        let width = |groups: &[RecordBatch]| groups.first().map_or(0, RecordBatch::num_columns);
        let mut arguments = offsets(keys, width(&left));
        arguments.extend(offsets(keys, width(&right)));
        let batches = self.task(arguments, Vec::new()).run(&self.pool, &input)?;
        self.listed(&batches, rows)
    }
}
