//! What stands where in an aggregation's rows, keys and values.

use super::StatefulAggregate;
use crate::keys::{KeyLayout, RowCodec, batch_of, key_fields, state_schema};
use arrow::array::ArrayRef;
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::expressions::Column;
use std::sync::Arc;

/// Everything about an aggregation that no batch changes.
#[derive(Debug)]
pub(super) struct Layout {
    /// The state's keys.
    pub(super) key: KeyLayout,
    /// The state's values.
    pub(super) values: ValueLayout,
    /// The columns of the results.
    pub(super) output: SchemaRef,
    /// How many group columns there are.
    pub(super) groups: usize,
}

/// The state columns of aggregates.
#[derive(Debug)]
pub(crate) struct ValueLayout {
    pub(crate) aggregates: Vec<Arc<AggregateFunctionExpr>>,
    pub(crate) fields: Vec<FieldRef>,
}

impl ValueLayout {
    pub(crate) fn new(aggregates: &[Arc<AggregateFunctionExpr>]) -> Result<Self> {
        let mut fields = Vec::new();
        for expr in aggregates {
            fields.extend(expr.state_fields()?);
        }
        Ok(ValueLayout { aggregates: aggregates.to_vec(), fields })
    }
}

impl Layout {
    pub(super) fn new(aggregate: &StatefulAggregate, input: &Schema) -> Result<Self> {
        let groups = key_fields(&aggregate.group, input)?;
        let mut output = groups.clone();
        output.extend(aggregate.aggregates.iter().map(|expr| expr.field()));
        Ok(Layout {
            key: KeyLayout::new(&groups, aggregate.event_time)?,
            values: ValueLayout::new(&aggregate.aggregates)?,
            output: Arc::new(Schema::new(output)),
            groups: groups.len(),
        })
    }

    /// Whether there is one group only, always there.
    pub(super) fn global(&self) -> bool {
        self.groups == 0
    }

    /// The columns of the state's values.
    pub(super) fn value_schema(&self) -> SchemaRef {
        state_schema(self.values.fields.iter().cloned())
    }

    pub(super) fn value_codec(&self) -> Result<RowCodec> {
        RowCodec::of(&self.value_schema())
    }

    /// How many columns of the partial aggregation's rows are the key; the state follows.
    pub(super) fn key_columns(&self) -> usize {
        self.key.schema.fields().len()
    }

    /// The key columns over the rows of the partial aggregation.
    pub(super) fn key_exprs(&self, partial: &Schema) -> Vec<PhysicalExprRef> {
        let key = partial.fields().iter().take(self.key_columns()).enumerate();
        key.map(|(place, field)| Arc::new(Column::new(field.name(), place)) as PhysicalExprRef)
            .collect()
    }

    /// Result rows of groups with these keys and results.
    pub(super) fn results<'a>(
        &self,
        keys: impl IntoIterator<Item = &'a [u8]>,
        results: Vec<ArrayRef>,
        rows: usize,
    ) -> Result<RecordBatch> {
        let mut columns = self.key.decode(keys)?;
        columns.extend(results);
        batch_of(&self.output, columns, rows)
    }
}
