//! One operator: its state and its execution.

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::UserDefinedLogicalNode;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::physical_plan::ExecutionPlan;
use onefold_operators::OperatorContext;
use onefold_state::OperatorSpec;
use std::sync::Arc;

/// An operator that is ready to run in a batch.
pub(in crate::stream) struct Operator {
    spec: OperatorSpec,
}

impl Operator {
    /// The operator of a node; `None` for a node that is no operator with state.
    pub(in crate::stream) fn of(
        node: &dyn UserDefinedLogicalNode,
        _props: &ExecutionProps,
        _planning: &PhysicalPlanningContext,
    ) -> Result<Option<Self>> {
        Err(DataFusionError::NotImplemented(format!(
            "{} needs state, which this version of Onefold does not have yet",
            node.name()
        )))
    }

    pub(in crate::stream) fn spec(&self) -> &OperatorSpec {
        &self.spec
    }

    pub(in crate::stream) fn exec(
        &self,
        _inputs: &[Arc<dyn ExecutionPlan>],
        _context: OperatorContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(DataFusionError::NotImplemented(format!("{} has no operator", self.spec.label)))
    }
}
