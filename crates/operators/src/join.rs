//! Joins of two streams with state on both sides.
//!
//! A row that arrives meets the rows of the other side that arrived before it and those of its own
//! batch, each once, and stays in the state until no row to come can meet it any more
//! ([`StateBound`]). Within a batch the order is: late rows are dropped, all pairs are formed,
//! new rows are stored, and only then rows are evicted; so a row that its own batch makes obsolete
//! still meets the rows of that batch.
//!
//! # State
//! For each side a family of rows by (join key, event time where there is a bound, index) with the
//! side's columns and whether the row has met another, and where there is a bound an index by
//! (event time, join key, index) so that eviction reads only what it removes. The index is a
//! number that is never used twice within a key group.
//!
//! # What comes out, and when
//! - Pairs: in the batch in which the second row arrives.
//! - A left row of a semi join: in the batch of its first match.
//! - A row of an outer side that met none: when it is evicted. At once, without being stored, when
//!   it can never meet any: a condition on its own columns is not met, or the value of its bound
//!   is NULL.
//! - Rows with a NULL in the join key match nothing; of an inner side they are dropped, of an outer
//!   side they come out as above.

mod arrivals;
mod candidates;
mod codec;
mod exec;
mod filter;
mod keys;
mod plan;
mod run;
#[cfg(test)]
mod tests;

use crate::OperatorContext;
use crate::late::LateTap;
use arrow::datatypes::SchemaRef;
use datafusion::common::JoinType;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::{JoinFilter, build_join_schema};
use onefold_state::{OperatorId, OperatorSpec};
use onefold_types::Result;
use std::sync::Arc;

/// Until when rows of a side are kept.
///
/// A row leaves the state in the first batch whose eviction watermark `w` has
/// `value <= w + offset_ms`. For a watermark on a join key the value is that key and the offset is
/// 0; for a condition `other >= value - x` (or `>`) between the event times of the sides it is the
/// event time and the offset is `-x` less 1 ms where the condition includes equality.
///
/// The value must be one that the join's condition needs: a row in which it is NULL is taken to
/// meet no other row in later batches.
#[derive(Debug, Clone)]
pub struct StateBound {
    /// A timestamp of the side, or a window, which counts by its end.
    pub value: PhysicalExprRef,
    /// Added to the watermark, in milliseconds.
    pub offset_ms: i64,
}

/// One side of a [`StreamJoin`].
#[derive(Debug, Clone)]
pub struct StreamJoinSide {
    /// Its columns.
    pub schema: SchemaRef,
    /// The equality keys, as many as on the other side.
    pub keys: Vec<PhysicalExprRef>,
    /// The column that carries a watermark, if one does: rows at or before the late watermark are
    /// dropped and counted.
    pub event_time: Option<PhysicalExprRef>,
    /// When its rows may go; `None` keeps them for ever.
    pub bound: Option<StateBound>,
}

/// A symmetric hash join of two streams.
#[derive(Debug, Clone)]
pub struct StreamJoin {
    /// The left side.
    pub left: StreamJoinSide,
    /// The right side.
    pub right: StreamJoinSide,
    /// Inner, Left, Right, Full or LeftSemi.
    pub join_type: JoinType,
    /// What must hold of a pair besides equal keys. Conditions on one side alone that stand in it
    /// as conjuncts are tested before the row is looked at further.
    pub filter: Option<JoinFilter>,
}

impl StreamJoin {
    /// The columns that come out: those of both sides, or of the left one for a semi join.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        let (schema, _) = build_join_schema(&self.left.schema, &self.right.schema, &self.join_type);
        Arc::new(schema)
    }

    /// The state that the join needs.
    ///
    /// # Errors
    /// Invalid: a kind of join that has no stream-stream form, no equality key, keys of types that
    /// cannot be compared, a bound or event time that is not a timestamp, or columns that cannot be
    /// kept in state.
    pub fn spec(&self, id: OperatorId, label: &str) -> Result<OperatorSpec> {
        Ok(plan::JoinPlan::new(self)?.spec(id, label))
    }

    /// The operator for one batch.
    ///
    /// # Errors
    /// As [`StreamJoin::spec`].
    pub fn exec(
        &self,
        left: Arc<dyn ExecutionPlan>,
        right: Arc<dyn ExecutionPlan>,
        context: OperatorContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = Arc::new(plan::JoinPlan::new(self)?);
        let left = LateTap::over(left, 0, self.left.event_time.as_ref(), &context);
        let right = LateTap::over(right, 1, self.right.event_time.as_ref(), &context);
        exec::StreamJoinExec::exchanged(plan, left, right, context)
    }
}
