//! A join of two streams.

use super::{Identity, unordered};
use crate::stream::bounds::JoinBounds;
use datafusion::common::{DFSchemaRef, JoinType};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore, build_join_schema};
use std::fmt;
use std::sync::Arc;

/// Joins rows of two streams over all batches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct StreamJoin {
    pub(crate) identity: Identity,
    pub(crate) left: LogicalPlan,
    pub(crate) right: LogicalPlan,
    pub(crate) join_type: JoinType,
    /// Equal keys: an expression over the left side and one over the right side.
    pub(crate) on: Vec<(Expr, Expr)>,
    /// The rest of the condition.
    pub(crate) filter: Option<Expr>,
    pub(crate) bounds: JoinBounds,
    schema: DFSchemaRef,
}

unordered!(StreamJoin);

impl StreamJoin {
    pub(crate) fn try_new(
        identity: Identity,
        (left, right): (LogicalPlan, LogicalPlan),
        join_type: JoinType,
        on: Vec<(Expr, Expr)>,
        filter: Option<Expr>,
        bounds: JoinBounds,
    ) -> Result<Self> {
        let schema = build_join_schema(left.schema(), right.schema(), &join_type)?;
        let schema = Arc::new(schema);
        Ok(StreamJoin { identity, left, right, join_type, on, filter, bounds, schema })
    }
}

impl UserDefinedLogicalNodeCore for StreamJoin {
    fn name(&self) -> &str {
        "StreamJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.left, &self.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        let keys = self.on.iter().flat_map(|(left, right)| [left.clone(), right.clone()]);
        keys.chain(self.filter.clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "StreamJoin: {}, on=[", self.join_type)?;
        for (place, (left, right)) in self.on.iter().enumerate() {
            write!(f, "{}{left} = {right}", if place > 0 { ", " } else { "" })?;
        }
        f.write_str("]")?;
        match &self.filter {
            Some(filter) => write!(f, ", filter={filter}"),
            None => Ok(()),
        }
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let Ok([left, right]) = <[LogicalPlan; 2]>::try_from(inputs) else {
            return Err(DataFusionError::Internal("StreamJoin has two inputs".to_owned()));
        };
        let mut exprs = exprs.into_iter();
        let mut on = Vec::with_capacity(self.on.len());
        for _ in &self.on {
            let (Some(left), Some(right)) = (exprs.next(), exprs.next()) else {
                return Err(DataFusionError::Internal("StreamJoin lost a key".to_owned()));
            };
            on.push((left, right));
        }
        let filter = self.filter.as_ref().and_then(|_| exprs.next());
        let (identity, join_type) = (self.identity.clone(), self.join_type);
        StreamJoin::try_new(identity, (left, right), join_type, on, filter, self.bounds)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let width = self.left.schema().fields().len();
        match self.join_type {
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {
                let (left, right): (Vec<usize>, Vec<usize>) =
                    output_columns.iter().partition(|place| **place < width);
                Some(vec![left, right.into_iter().map(|place| place - width).collect()])
            }
            JoinType::LeftSemi | JoinType::LeftAnti => {
                Some(vec![output_columns.to_vec(), Vec::new()])
            }
            JoinType::RightSemi | JoinType::RightAnti => {
                Some(vec![Vec::new(), output_columns.to_vec()])
            }
            _ => None,
        }
    }
}
