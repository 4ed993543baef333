//! A guarded step of a batch.

use super::super::dead_letters::LetterColumns;
use super::super::nodes::{Guarded, Step, place_of};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::{PhysicalExprRef, create_physical_expr};
use datafusion::physical_plan::ExecutionPlan;
use onefold_operators::{Guard, GuardedStep, LetterOutlet, SideSender};
use std::sync::Arc;

/// The step over its input, with its way out for dead letters.
pub(super) fn exec(
    node: &Guarded,
    inputs: &[Arc<dyn ExecutionPlan>],
    out: Option<(&LetterColumns, &SideSender)>,
    (props, planning): (&ExecutionProps, &PhysicalPlanningContext),
) -> Result<Arc<dyn ExecutionPlan>> {
    let lost = || DataFusionError::Internal("a guarded step has no way for letters".to_owned());
    let schema = node.input.schema();
    let physical = |expr: &Expr| create_physical_expr(expr, schema, props, planning);
    let input = inputs.first().ok_or_else(lost)?;
    let (step, shown) = match &node.step {
        Step::Project(exprs) => {
            let columns = exprs.iter().map(physical).collect::<Result<Vec<_>>>()?;
            let shown = shown(&columns, node.schema().inner(), &input.schema())?;
            (GuardedStep::Project(columns), shown)
        }
        Step::Filter(condition) => (GuardedStep::Filter(physical(condition)?), input.schema()),
    };
    let (columns, to) = out.ok_or_else(lost)?;
    let shape = columns.shape(node.source).ok_or_else(lost)?;
    let outlet = LetterOutlet { shape, to: to.clone() };
    let record = place_of(schema, &node.record).ok_or_else(lost)?;
    Ok(Guard::over(Arc::clone(input), step, record, outlet, shown))
}

/// The columns as they are planned, and as what computes them says.
fn shown(columns: &[PhysicalExprRef], planned: &Schema, input: &Schema) -> Result<SchemaRef> {
    let fields = columns.iter().zip(planned.fields()).map(|(column, field)| {
        let nullable = column.nullable(input)?;
        let shown = Field::new(field.name(), column.data_type(input)?, nullable);
        Ok(shown.with_metadata(field.metadata().clone()))
    });
    let fields = fields.collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(Schema::new_with_metadata(fields, planned.metadata().clone())))
}
