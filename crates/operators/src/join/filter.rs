//! The condition of a join, split by what it looks at.

use super::plan::Side;
use crate::failure;
use arrow::array::{Array, ArrayRef, BooleanArray, new_empty_array, new_null_array};
use arrow::compute::interleave;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::JoinSide;
use datafusion::common::cast::as_boolean_array;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::utils::{collect_columns, conjunction_opt};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use std::sync::Arc;

/// One side of some pairs.
pub(super) struct Half<'a> {
    /// Where they are.
    pub(super) batches: &'a [RecordBatch],
    /// For each pair the row: batch and row in it.
    pub(super) places: &'a [(usize, usize)],
}

impl Half<'_> {
    /// A column of the pairs.
    pub(super) fn column(&self, index: usize) -> Result<ArrayRef> {
        let mut arrays = Vec::with_capacity(self.batches.len());
        for batch in self.batches {
            let array = batch.columns().get(index);
            arrays.push(array.ok_or_else(|| missing(index))?.as_ref());
        }
        if self.places.is_empty() {
            let field = arrays.first().map(|array| array.data_type().clone());
            return Ok(new_empty_array(&field.unwrap_or(DataType::Null)));
        }
        Ok(interleave(&arrays, self.places)?)
    }
}

/// A part of the condition with the columns that it needs.
#[derive(Debug)]
struct Condition {
    expression: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    /// `None` for columns that this part does not look at.
    columns: Vec<Option<ColumnIndex>>,
}

/// The condition of a join besides its equal keys.
#[derive(Debug)]
pub(super) struct JoinCondition {
    left: Option<Condition>,
    right: Option<Condition>,
    pair: Option<Condition>,
}

impl JoinCondition {
    /// Splits a filter into what concerns one side alone and the rest.
    pub(super) fn new(filter: Option<&JoinFilter>) -> Self {
        let Some(filter) = filter else {
            return JoinCondition { left: None, right: None, pair: None };
        };
        let (mut left, mut right, mut pair) = (Vec::new(), Vec::new(), Vec::new());
        for conjunct in split_conjunction(filter.expression()) {
            let columns = collect_columns(conjunct);
            let mut sides = columns.iter().map(|column| side_of(filter, column.index()));
            let to = match sides.next() {
                // A constant, or one that depends on nothing that can be seen here.
                None | Some(None) => &mut pair,
                Some(first) if !sides.all(|side| side == first) => &mut pair,
                Some(Some(Side::Left)) => &mut left,
                Some(Some(Side::Right)) => &mut right,
            };
            to.push(Arc::clone(conjunct));
        }
        let condition = |conjuncts| Condition::new(filter, conjuncts);
        JoinCondition { left: condition(left), right: condition(right), pair: condition(pair) }
    }

    /// Which rows of a side fulfil the conditions on it alone; `None`: all.
    pub(super) fn admits(&self, side: Side, batch: &RecordBatch) -> Result<Option<BooleanArray>> {
        let condition = match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        };
        let Some(condition) = condition else { return Ok(None) };
        let mask = condition.evaluate(batch.num_rows(), |column| {
            let array = batch.columns().get(column.index);
            array.cloned().ok_or_else(|| missing(column.index))
        })?;
        Ok(Some(mask))
    }

    /// Which pairs fulfil the rest; `None`: all.
    pub(super) fn joins(&self, left: &Half<'_>, right: &Half<'_>) -> Result<Option<BooleanArray>> {
        let Some(condition) = &self.pair else { return Ok(None) };
        let mask = condition.evaluate(left.places.len(), |column| match column.side {
            JoinSide::Right => right.column(column.index),
            _ => left.column(column.index),
        })?;
        Ok(Some(mask))
    }
}

impl Condition {
    fn new(filter: &JoinFilter, conjuncts: Vec<Arc<dyn PhysicalExpr>>) -> Option<Self> {
        let expression = conjunction_opt(conjuncts)?;
        let used = collect_columns(&expression);
        let columns = filter.column_indices().iter().enumerate();
        let columns = columns.map(|(place, column)| {
            used.iter().any(|used| used.index() == place).then(|| column.clone())
        });
        let columns = columns.collect();
        // Columns that are not looked at are given as NULL, whatever their field says.
        let fields = filter.schema().fields().iter();
        let fields = fields.map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Some(Condition { expression, schema, columns })
    }

    /// NULL counts as not fulfilled.
    fn evaluate(
        &self,
        count: usize,
        mut column: impl FnMut(&ColumnIndex) -> Result<ArrayRef>,
    ) -> Result<BooleanArray> {
        if count == 0 {
            // Without batches the types of the columns are not known.
            return Ok(BooleanArray::new_null(0));
        }
        let mut columns = Vec::with_capacity(self.columns.len());
        for (index, field) in self.columns.iter().zip(self.schema.fields()) {
            columns.push(match index {
                Some(index) => column(index)?,
                None => new_null_array(field.data_type(), count),
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let schema = Arc::clone(&self.schema);
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        let value = self.expression.evaluate(&batch)?.into_array(count)?;
        let mask = as_boolean_array(&value)?;
        match mask.nulls() {
            None => Ok(mask.clone()),
            Some(nulls) => Ok(BooleanArray::new(mask.values() & nulls.inner(), None)),
        }
    }
}

fn side_of(filter: &JoinFilter, index: usize) -> Option<Side> {
    match filter.column_indices().get(index)?.side {
        JoinSide::Left => Some(Side::Left),
        JoinSide::Right => Some(Side::Right),
        JoinSide::None => None,
    }
}

fn missing(index: usize) -> DataFusionError {
    failure::internal(format!("a side of a join lacks column {index}"))
}
