//! State of the user's own over static rows: one run, with state that nobody keeps.

use super::nodes::UserState;
use super::physical::Operator;
use crate::failure;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::provider_as_source;
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, TableType, UNNAMED_TABLE, UserDefinedLogicalNodeCore,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use onefold_operators::{EmitMode, EphemeralState, OperatorContext};
use onefold_types::Result;
use std::sync::Arc;

/// What the operator gives, as a table.
#[derive(Debug)]
pub(super) struct StaticState {
    node: UserState,
    schema: SchemaRef,
}

impl StaticState {
    /// The plan that reads it.
    pub(super) fn scan(node: UserState) -> Result<LogicalPlan> {
        let schema = Arc::clone(node.schema.inner());
        let source = provider_as_source(Arc::new(StaticState { node, schema }));
        LogicalPlanBuilder::scan(UNNAMED_TABLE, source, None)
            .and_then(LogicalPlanBuilder::build)
            .map_err(failure::planning)
    }
}

#[async_trait]
impl TableProvider for StaticState {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let props = session.execution_props();
        let planning = PhysicalPlanningContext::default();
        let operator = Operator::of(&self.node, props, &planning)?.ok_or_else(|| {
            DataFusionError::Internal("state of the user's own is no operator".to_owned())
        })?;
        let mut inputs = Vec::new();
        for input in self.node.inputs() {
            inputs.push(session.create_physical_plan(input).await?);
        }
        let partitions = session.config_options().execution.target_partitions;
        let begun = props.query_execution_start_time.map(|time| time.timestamp_millis());
        let context = OperatorContext {
            id: 0,
            state: Arc::new(EphemeralState::new(u32::try_from(partitions).unwrap_or(1))),
            late_ms: None,
            evict_ms: None,
            batch_time_ms: begun.unwrap_or(0),
            mode: EmitMode::Append,
            metrics: Arc::default(),
            late_rows: None,
        };
        let rows = operator.exec(&inputs, context)?;
        let Some(projection) = projection else { return Ok(rows) };
        let schema = rows.schema();
        let columns = projection.iter().map(|place| {
            let name = schema.field(*place).name().as_str();
            let column = datafusion::physical_expr::expressions::Column::new(name, *place);
            (Arc::new(column) as _, name.to_owned())
        });
        let columns: Vec<(Arc<dyn datafusion::physical_expr::PhysicalExpr>, String)> =
            columns.collect();
        Ok(Arc::new(ProjectionExec::try_new(columns, rows)?))
    }
}
