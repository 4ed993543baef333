//! One operator with state: what it keeps, and how it runs in a batch.

use super::super::bounds::StateBound as Bound;
use super::super::names::lasting;
use super::super::nodes::{self, UserFunction, as_node_of};
use super::super::stateful::dedup_event_time;
use crate::failure;
use datafusion::common::{Column, DFSchema, JoinSide};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_expr::aggregate::{AggregateFunctionExpr, LoweredAggregateBuilder};
use datafusion::physical_expr::{PhysicalExprRef, create_physical_expr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use onefold_operators::{
    Deduplicate, DeduplicateWithin, GlobalLimit, GroupsWithState, InitialState, NamedExpr,
    OperatorContext, SessionAggregate, StateBound, StatefulAggregate, StreamJoin, StreamJoinSide,
    TransformWithState,
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
    Session(SessionAggregate),
    Deduplicate(Deduplicate),
    Within(DeduplicateWithin),
    Limit(GlobalLimit),
    Join(Box<StreamJoin>),
    Groups(Box<GroupsWithState>),
    Transform(Box<TransformWithState>),
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
            return lowering.join(node).map(Some);
        }
        if let Some(node) = as_node_of::<nodes::UserState>(node) {
            return lowering.user_state(node).map(Some);
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
            (Kind::Join(join), [left, right]) => {
                join.exec(Arc::clone(left), Arc::clone(right), context)
            }
            (Kind::Aggregate(operator), [input]) => operator.exec(Arc::clone(input), context),
            (Kind::Groups(operator), [input]) => operator.exec(Arc::clone(input), context),
            (Kind::Transform(operator), [input]) => operator.exec(Arc::clone(input), None, context),
            (Kind::Transform(operator), [input, initial]) => {
                operator.exec(Arc::clone(input), Some(Arc::clone(initial)), context)
            }
            (Kind::Session(operator), [input]) => operator.exec(Arc::clone(input), context),
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
        let (spec, kind) = if let Some(session) = node.session {
            let operator = SessionAggregate { group, session, aggregates, filters };
            (operator.spec(id, label, arrow), Kind::Session(operator))
        } else {
            let event_time = node.event_time;
            let operator = StatefulAggregate { group, aggregates, filters, event_time };
            (operator.spec(id, label, arrow), Kind::Aggregate(operator))
        };
        let spec = with_lasting_names(spec.map_err(failure::external)?, node);
        Ok(Operator { spec, kind })
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

    fn named(&self, keys: &[Expr], schema: &DFSchema) -> Result<Vec<NamedExpr>> {
        let names = keys.iter().map(|key| nodes::names(std::slice::from_ref(key)));
        Ok(self.exprs(keys, schema)?.into_iter().zip(names).collect())
    }

    fn user_state(&self, node: &nodes::UserState) -> Result<Operator> {
        let input = node.input.schema();
        let keys = self.named(&node.keys, input)?;
        let event_time = node.event_time.as_ref().map(|expr| self.expr(expr, input)).transpose()?;
        let (id, label, arrow) = (node.identity.id, &node.identity.label, input.as_arrow());
        match &node.function {
            UserFunction::Groups(options) => {
                let operator = GroupsWithState {
                    keys,
                    state: Arc::clone(&options.state),
                    output: Arc::clone(&options.output),
                    timeout: options.timeout,
                    event_time,
                    function: options.function.clone(),
                };
                let spec = operator.spec(id, label, arrow).map_err(failure::external)?;
                Ok(Operator { spec, kind: Kind::Groups(Box::new(operator)) })
            }
            UserFunction::Transform(options) => {
                let initial = node.initial.as_ref().map(|initial| {
                    let schema = initial.plan.schema();
                    let keys = self.named(&initial.keys, schema)?;
                    Ok::<_, DataFusionError>(InitialState {
                        schema: Arc::clone(schema.inner()),
                        keys,
                    })
                });
                let operator = TransformWithState {
                    keys,
                    output: Arc::clone(&options.output),
                    mode: options.time,
                    event_time,
                    initial: initial.transpose()?,
                    processor: options.processor.clone(),
                };
                let spec = operator.spec(id, label, arrow).map_err(failure::external)?;
                Ok(Operator { spec, kind: Kind::Transform(Box::new(operator)) })
            }
        }
    }

    fn join(&self, node: &nodes::StreamJoin) -> Result<Operator> {
        let (left_keys, right_keys): (Vec<Expr>, Vec<Expr>) = node.on.iter().cloned().unzip();
        let operator = StreamJoin {
            left: self.side(&node.left, &left_keys, node.bounds.left)?,
            right: self.side(&node.right, &right_keys, node.bounds.right)?,
            join_type: node.join_type,
            filter: node.filter.as_ref().map(|filter| self.filter(node, filter)).transpose()?,
        };
        let spec = operator.spec(node.identity.id, &node.identity.label);
        let spec = spec.map_err(failure::external)?;
        Ok(Operator { spec, kind: Kind::Join(Box::new(operator)) })
    }

    fn side(
        &self,
        input: &LogicalPlan,
        keys: &[Expr],
        bound: Option<Bound>,
    ) -> Result<StreamJoinSide> {
        let schema = input.schema();
        let keys = self.exprs(keys, schema)?;
        let event_time = nodes::event_time_column(schema)
            .map(|column| self.expr(&column, schema))
            .transpose()?;
        let lost = || DataFusionError::Internal("a join lost what bounds its state".to_owned());
        let bound = match bound {
            None => None,
            Some(Bound::Key { position }) => {
                let value = keys.get(position).cloned().ok_or_else(lost)?;
                Some(StateBound { value, offset_ms: 0 })
            }
            Some(Bound::Value { slack_ms }) => {
                let value = event_time.clone().ok_or_else(lost)?;
                Some(StateBound { value, offset_ms: slack_ms })
            }
        };
        let schema = Arc::new(schema.as_arrow().clone());
        Ok(StreamJoinSide { schema, keys, event_time, bound })
    }

    /// The rest of the condition over the columns that it names.
    fn filter(&self, node: &nodes::StreamJoin, filter: &Expr) -> Result<JoinFilter> {
        let named = filter.column_refs();
        let (mut fields, mut indices) = (Vec::new(), Vec::new());
        for (side, schema) in
            [(JoinSide::Left, node.left.schema()), (JoinSide::Right, node.right.schema())]
        {
            for (index, (qualifier, field)) in schema.iter().enumerate() {
                if named.contains(&Column::from((qualifier, field))) {
                    fields.push((qualifier.cloned(), Arc::clone(field)));
                    indices.push(ColumnIndex { index, side });
                }
            }
        }
        let schema = DFSchema::new_with_metadata(fields, Default::default())?;
        let expression = self.expr(filter, &schema)?;
        let schema = Arc::new(schema.as_arrow().clone());
        Ok(JoinFilter::new(expression, indices, schema))
    }
}

/// Columns of state named after what they hold: a column's name begins with that of its group or
/// aggregate in the query.
fn with_lasting_names(spec: OperatorSpec, node: &nodes::StatefulAggregate) -> OperatorSpec {
    let exprs = node.group.iter().chain(&node.aggregates);
    let names: Vec<(&str, String)> = (node.schema.fields().iter().zip(exprs))
        .map(|(field, expr)| (field.name().as_str(), lasting(expr)))
        .filter(|(name, lasting)| name != lasting)
        .collect();
    super::renamed(spec, |column| {
        let known = names.iter().find_map(|(name, lasting)| {
            let rest = column.strip_prefix(name)?;
            let whole = rest.is_empty() || rest.starts_with(['[', '.']);
            whole.then(|| format!("{lasting}{rest}"))
        });
        known.unwrap_or_else(|| column.to_owned())
    })
}
