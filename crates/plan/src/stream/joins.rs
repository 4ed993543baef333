//! Puts the static side of a stream-static join where it is collected.
//!
//! DataFusion collects the left side of a join and streams the right one through it. The static
//! side belongs to the left, so that a batch of any size passes in bounded memory and keeps its
//! partitions and row order.

use super::table::streaming;
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Projection};
use std::sync::Arc;

pub(super) fn static_side_first(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up(|node| match node {
        LogicalPlan::Join(join)
            // The null-aware anti join (NOT IN) exists in one direction only.
            if !join.null_aware && streaming(&join.left) && !streaming(&join.right) =>
        {
            swap(join).map(Transformed::yes)
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}

fn swap(join: Join) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = join
        .schema
        .iter()
        .map(|(qualifier, field)| Expr::Column(Column::from((qualifier, field))))
        .collect();
    let schema = Arc::clone(&join.schema);
    let on = join.on.into_iter().map(|(left, right)| (right, left)).collect();
    let swapped = Join::try_new(
        join.right,
        join.left,
        on,
        join.filter,
        join.join_type.swap(),
        join.join_constraint,
        join.null_equality,
        false,
    )?;
    let swapped = Arc::new(LogicalPlan::Join(swapped));
    Ok(LogicalPlan::Projection(Projection::try_new_with_schema(columns, swapped, schema)?))
}
