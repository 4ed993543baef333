//! The accumulators of several aggregates over the same groups.

use crate::failure;
use arrow::array::ArrayRef;
use datafusion::error::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::GroupsAccumulatorAdapter;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use std::ops::Range;
use std::sync::Arc;

/// Takes and gives partial state, and gives results, for groups numbered from 0.
pub(crate) struct Accumulators(Vec<Part>);

struct Part {
    accumulator: Box<dyn GroupsAccumulator>,
    /// Its columns among the state columns.
    columns: Range<usize>,
}

impl Accumulators {
    /// New ones. `global` tells that the partial state comes from an aggregation without groups,
    /// for which DataFusion uses other accumulators.
    pub(crate) fn new(aggregates: &[Arc<AggregateFunctionExpr>], global: bool) -> Result<Self> {
        let mut parts = Vec::with_capacity(aggregates.len());
        let mut next = 0;
        for aggregate in aggregates {
            let columns = next..next + aggregate.state_fields()?.len();
            next = columns.end;
            let accumulator: Box<dyn GroupsAccumulator> =
                if !global && aggregate.groups_accumulator_supported() {
                    aggregate.create_groups_accumulator()?
                } else {
                    let aggregate = Arc::clone(aggregate);
                    Box::new(GroupsAccumulatorAdapter::new(move || aggregate.create_accumulator()))
                };
            parts.push(Part { accumulator, columns });
        }
        Ok(Accumulators(parts))
    }

    /// Merges rows of partial state into the groups given for each; there are `total` groups.
    pub(crate) fn merge(
        &mut self,
        columns: &[ArrayRef],
        groups: &[usize],
        total: usize,
    ) -> Result<()> {
        for part in &mut self.0 {
            let columns = columns.get(part.columns.clone()).ok_or_else(|| {
                failure::internal("rows of partial state lack columns of an aggregate")
            })?;
            part.accumulator.merge_batch(columns, groups, total)?;
        }
        Ok(())
    }

    /// The partial state of all groups, and forgets it.
    pub(crate) fn state(&mut self) -> Result<Vec<ArrayRef>> {
        let mut columns = Vec::new();
        for part in &mut self.0 {
            columns.extend(part.accumulator.state(EmitTo::All)?);
        }
        Ok(columns)
    }

    /// The results of all groups, and forgets them.
    pub(crate) fn evaluate(&mut self) -> Result<Vec<ArrayRef>> {
        self.0.iter_mut().map(|part| part.accumulator.evaluate(EmitTo::All)).collect()
    }

    /// The results of rows of partial state, one group each.
    pub(crate) fn finish(
        aggregates: &[Arc<AggregateFunctionExpr>],
        global: bool,
        columns: &[ArrayRef],
        rows: usize,
    ) -> Result<Vec<ArrayRef>> {
        let mut accumulators = Accumulators::new(aggregates, global)?;
        let groups: Vec<usize> = (0..rows).collect();
        accumulators.merge(columns, &groups, rows)?;
        accumulators.evaluate()
    }
}
