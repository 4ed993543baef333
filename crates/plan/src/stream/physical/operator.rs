//! One operator with state: what it keeps, and how it runs in a batch.

use super::super::nodes::{self, as_node_of};
use super::super::stateful::dedup_event_time;
use crate::failure;
use datafusion::common::DFSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, UserDefinedLogicalNode};
use datafusion::physical_expr::aggregate::{AggregateFunctionExpr, LoweredAggregateBuilder};
use datafusion::physical_expr::{PhysicalExprRef, create_physical_expr};
use datafusion::physical_plan::ExecutionPlan;
use onefold_operators::{
    Deduplicate, DeduplicateWithin, GlobalLimit, NamedExpr, OperatorContext, StatefulAggregate,
};
use onefold_state::OperatorSpec;
use std::sync::Arc;

/// An operator that is ready to run in a batch.
pub(in crate::stream) struct Operator {
    spec: OperatorSpec,
    kind: Kind,
}

enum Kind {
    Aggregate(StatefulAggregate),
    Deduplicate(Deduplicate),
    Within(DeduplicateWithin),
    Limit(GlobalLimit),
}

/// Makes physical expressions.
struct Lowering<'a> {
    props: &'a ExecutionProps,
    planning: &'a PhysicalPlanningContext,
}

impl Operator {
    /// The operator of a node; `None` for a node that is no operator with state.
    pub(in crate::stream) fn of(
        node: &dyn UserDefinedLogicalNode,
        props: &ExecutionProps,
        planning: &PhysicalPlanningContext,
    ) -> Result<Option<Self>> {
        let lowering = Lowering { props, planning };
        if let Some(node) = as_node_of::<nodes::StatefulAggregate>(node) {
            return lowering.aggregate(node).map(Some);
        }
        if let Some(node) = as_node_of::<nodes::Deduplicate>(node) {
            return lowering.deduplicate(node).map(Some);
        }
        if let Some(node) = as_node_of::<nodes::GlobalLimit>(node) {
            let limit = GlobalLimit { limit: node.rows };
            let spec = limit.spec(node.identity.id, node.identity.label.clone());
            return Ok(Some(Operator { spec, kind: Kind::Limit(limit) }));
        }
        if let Some(node) = as_node_of::<nodes::StreamJoin>(node) {
            return Err(missing(&node.identity.label));
        }
        Ok(None)
    }

    pub(in crate::stream) fn spec(&self) -> &OperatorSpec {
        &self.spec
    }

    pub(in crate::stream) fn exec(
        &self,
        inputs: &[Arc<dyn ExecutionPlan>],
        context: OperatorContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let exec = match (&self.kind, inputs) {
            (Kind::Aggregate(operator), [input]) => operator.exec(Arc::clone(input), context),
            (Kind::Deduplicate(operator), [input]) => operator.exec(Arc::clone(input), context),
            (Kind::Within(operator), [input]) => operator.exec(Arc::clone(input), context),
            (Kind::Limit(operator), [input]) => operator.exec(Arc::clone(input), context),
            _ => {
                return Err(DataFusionError::Internal(format!(
                    "the operator `{}` has {} inputs",
                    self.spec.label,
                    inputs.len()
                )));
            }
        };
        exec.map_err(failure::external)
    }
}

impl Lowering<'_> {
    fn expr(&self, expr: &Expr, schema: &DFSchema) -> Result<PhysicalExprRef> {
        create_physical_expr(expr, schema, self.props, self.planning)
    }

    fn exprs(&self, exprs: &[Expr], schema: &DFSchema) -> Result<Vec<PhysicalExprRef>> {
        exprs.iter().map(|expr| self.expr(expr, schema)).collect()
    }

    fn aggregate(&self, node: &nodes::StatefulAggregate) -> Result<Operator> {
        let input = node.input.schema();
        let names = node.schema.fields().iter().map(|field| field.name().clone());
        let group: Vec<NamedExpr> =
            self.exprs(&node.group, input)?.into_iter().zip(names).collect();
        let mut aggregates: Vec<Arc<AggregateFunctionExpr>> = Vec::new();
        let mut filters: Vec<Option<PhysicalExprRef>> = Vec::new();
        let names = node.schema.fields().iter().skip(node.group.len());
        for (aggregate, field) in node.aggregates.iter().zip(names) {
            let arrow = input.as_arrow();
            let lowered =
                LoweredAggregateBuilder::new(aggregate, input, arrow, self.props, self.planning)
                    .with_name(field.name().clone())
                    .build()?;
            aggregates.push(lowered.aggregate);
            filters.push(lowered.filter);
        }
        let (id, label, arrow) = (node.identity.id, node.identity.label.clone(), input.as_arrow());
        if node.session.is_some() {
            return Err(missing(&label));
        }
        let event_time = node.event_time;
        let operator = StatefulAggregate { group, aggregates, filters, event_time };
        let spec = operator.spec(id, label, arrow).map_err(failure::external)?;
        Ok(Operator { spec, kind: Kind::Aggregate(operator) })
    }

    fn deduplicate(&self, node: &nodes::Deduplicate) -> Result<Operator> {
        let input = node.input.schema();
        let keys = self.exprs(&node.keys, input)?;
        let event_time = node.event_time.as_ref().map(|expr| self.expr(expr, input)).transpose()?;
        let (id, label, arrow) = (node.identity.id, node.identity.label.clone(), input.as_arrow());
        if let Some(delay_ms) = node.within_ms {
            let event_time = event_time.ok_or_else(|| {
                DataFusionError::Plan(
                    "dropDuplicatesWithinWatermark is not supported on streaming \
                     DataFrames/Datasets without watermark"
                        .to_owned(),
                )
            })?;
            let operator = DeduplicateWithin { keys, event_time, delay_ms };
            let spec = operator.spec(id, label, arrow).map_err(failure::external)?;
            return Ok(Operator { spec, kind: Kind::Within(operator) });
        }
        let operator = Deduplicate { keys, event_time: dedup_event_time(node), late: event_time };
        let spec = operator.spec(id, label, arrow).map_err(failure::external)?;
        Ok(Operator { spec, kind: Kind::Deduplicate(operator) })
    }
}

fn missing(label: &str) -> DataFusionError {
    DataFusionError::NotImplemented(format!(
        "the operator `{label}` is not part of this version of Onefold yet"
    ))
}
