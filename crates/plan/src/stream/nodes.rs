//! Nodes of logical plans that DataFusion does not know: event-time watermarks, steps that let bad
//! records leave, and operators with state.
//!
//! Watermarks and deduplication stand in a query as these nodes from the start. Aggregations,
//! joins of streams, DISTINCT and LIMIT become such nodes in [`super::stateful`], before the plan
//! is optimised, so that no rule drops an operator, moves rows past it or changes what it keeps.
//! Rules may narrow the inputs to the columns that are needed.

mod aggregate;
mod deduplicate;
mod event_time;
mod guarded;
mod join;
mod limit;
mod user_state;

use datafusion::common::{Column, DFSchema};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNode};
use std::sync::Arc;

pub(crate) use aggregate::StatefulAggregate;
pub(crate) use deduplicate::Deduplicate;
pub(crate) use event_time::EventTimeWatermark;
pub(crate) use guarded::{Guarded, Step};
pub(crate) use join::StreamJoin;
pub(crate) use limit::GlobalLimit;
pub(crate) use user_state::{InitialRows, UserFunction, UserState};

/// Which operator of the query a node is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    /// Its number, parent first.
    pub(crate) id: u32,
    /// Its lasting name.
    pub(crate) label: String,
    /// Whether it gets all columns of its input, since late rows are wanted whole.
    pub(crate) whole_rows: bool,
}

/// Nodes have no order: only equal ones compare.
macro_rules! unordered {
    ($node:ty) => {
        impl PartialOrd for $node {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                (self == other).then_some(std::cmp::Ordering::Equal)
            }
        }
    };
}
pub(crate) use unordered;

/// A node as a plan.
pub(crate) fn extension(node: impl UserDefinedLogicalNode + 'static) -> LogicalPlan {
    LogicalPlan::Extension(Extension { node: Arc::new(node) })
}

/// The node of this kind that a plan is.
pub(crate) fn as_node<T: 'static>(plan: &LogicalPlan) -> Option<&T> {
    match plan {
        LogicalPlan::Extension(extension) => as_node_of(extension.node.as_ref()),
        _ => None,
    }
}

/// The node as this kind.
pub(crate) fn as_node_of<T: 'static>(node: &dyn UserDefinedLogicalNode) -> Option<&T> {
    node.as_any().downcast_ref()
}

pub(crate) fn one_input(name: &str, inputs: Vec<LogicalPlan>) -> Result<LogicalPlan> {
    match <[LogicalPlan; 1]>::try_from(inputs) {
        Ok([input]) => Ok(input),
        Err(inputs) => {
            Err(DataFusionError::Internal(format!("{name} has one input, not {}", inputs.len())))
        }
    }
}

pub(crate) fn names(exprs: &[Expr]) -> String {
    exprs.iter().map(|expr| expr.schema_name().to_string()).collect::<Vec<_>>().join(", ")
}

/// The place of a column of a schema that an expression is.
pub(crate) fn place_of(schema: &DFSchema, expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Column(column) => schema.maybe_index_of_column(column),
        Expr::Alias(alias) => place_of(schema, &alias.expr),
        _ => None,
    }
}

/// The places of the columns that are not hidden.
pub(crate) fn known_columns(plan: &LogicalPlan) -> Vec<usize> {
    let fields = plan.schema().fields().iter().enumerate();
    fields.filter(|(_, field)| !super::table::hidden(field)).map(|(place, _)| place).collect()
}

/// The first column of a schema with a watermark.
pub(crate) fn event_time_column(schema: &DFSchema) -> Option<Expr> {
    let place = super::event_time::event_time_of(schema)?;
    let (qualifier, field) = schema.qualified_field(place);
    Some(Expr::Column(Column::from((qualifier, field.as_ref()))))
}
