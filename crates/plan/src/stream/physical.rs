//! The operators of a batch from their nodes.

use super::Leaving;
use super::nodes::{EventTimeWatermark, Guarded, as_node_of, place_of};
use super::ttl::TtlFamilies;
use super::{BatchContext, OperatorInBatch};
use crate::failure;
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use onefold_connector::OutputMode;
use onefold_operators::{
    EmitMode, EventTimeStats, LateOutlet, OperatorContext, OperatorMetrics, WatermarkExec,
};
use onefold_state::OperatorSpec;
use onefold_types::Error;
use std::sync::{Arc, Mutex, PoisonError};

mod guarded;
mod operator;

pub(super) use operator::Operator;

/// Plans the nodes of one batch.
pub(super) struct BatchPlanner {
    context: BatchContext,
    mode: EmitMode,
    /// What rows look like that leave beside the result.
    leaving: Leaving,
    ttl: TtlFamilies,
    /// The watermarks of each operator, by number: what is late, what is done with.
    late: Vec<Option<i64>>,
    evict: Vec<Option<i64>>,
    event_times: Vec<Arc<EventTimeStats>>,
    operators: Mutex<Vec<OperatorInBatch>>,
}

impl BatchPlanner {
    pub(super) fn new(
        (context, leaving): (&BatchContext, Leaving),
        (mode, ttl): (OutputMode, &TtlFamilies),
        (late, evict): (Vec<Option<i64>>, Vec<Option<i64>>),
        watermarks: usize,
    ) -> Self {
        BatchPlanner {
            context: context.clone(),
            mode: emit_mode(mode),
            leaving,
            ttl: ttl.clone(),
            late,
            evict,
            event_times: (0..watermarks).map(|_| Arc::default()).collect(),
            operators: Mutex::default(),
        }
    }

    /// What gathers the event times under each watermark.
    pub(super) fn event_times(&self) -> Vec<Arc<EventTimeStats>> {
        self.event_times.clone()
    }

    /// The operators that were planned, by number.
    pub(super) fn operators(&self) -> Vec<OperatorInBatch> {
        let mut operators = self.operators.lock().unwrap_or_else(PoisonError::into_inner).clone();
        operators.sort_by_key(|operator| operator.id);
        operators
    }

    fn operator_context(&self, spec: &OperatorSpec) -> Result<OperatorContext> {
        let Some(state) = &self.context.state else {
            return Err(failure::external(Error::internal(format!(
                "the operator `{}` has no state in this batch",
                spec.label
            ))));
        };
        let metrics = Arc::<OperatorMetrics>::default();
        let watermark = |of: &[Option<i64>]| {
            usize::try_from(spec.id).ok().and_then(|id| of.get(id).copied()).flatten()
        };
        self.operators.lock().unwrap_or_else(PoisonError::into_inner).push(OperatorInBatch {
            id: spec.id,
            kind: spec.kind.clone(),
            label: spec.label.clone(),
            metrics: Arc::clone(&metrics),
        });
        let state = match self.ttl.of(spec) {
            None => Arc::clone(state),
            Some(ttl) => {
                ttl.over(Arc::clone(state), self.context.timestamp_ms, Arc::clone(&metrics))
            }
        };
        let late_ms = watermark(&self.late);
        let late_rows = self.leaving.late.as_ref().zip(self.context.late_rows.clone());
        let late_rows = late_rows.zip(late_ms).map(|((columns, to), late_ms)| LateOutlet {
            shape: columns.shape(spec.id, &spec.label, late_ms),
            to,
        });
        Ok(OperatorContext {
            id: spec.id,
            state,
            late_ms,
            evict_ms: watermark(&self.evict),
            batch_time_ms: self.context.timestamp_ms,
            mode: self.mode,
            metrics,
            late_rows,
        })
    }
}

fn emit_mode(mode: OutputMode) -> EmitMode {
    match mode {
        OutputMode::Append => EmitMode::Append,
        OutputMode::Update => EmitMode::Update,
        OutputMode::Complete => EmitMode::Complete,
    }
}

#[async_trait]
impl ExtensionPlanner for BatchPlanner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        planning: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if let Some(node) = as_node_of::<EventTimeWatermark>(node) {
            return self.watermark(node, physical_inputs).map(Some);
        }
        let props = session.execution_props();
        if let Some(node) = as_node_of::<Guarded>(node) {
            let (columns, to) = (self.leaving.letters.as_ref(), self.context.dead_letters.as_ref());
            return guarded::exec(node, physical_inputs, columns.zip(to), (props, planning))
                .map(Some);
        }
        let Some(operator) = Operator::of(node, props, planning)? else { return Ok(None) };
        let context = self.operator_context(operator.spec())?;
        operator.exec(physical_inputs, context).map(Some)
    }
}

impl BatchPlanner {
    fn watermark(
        &self,
        node: &EventTimeWatermark,
        inputs: &[Arc<dyn ExecutionPlan>],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let lost = || DataFusionError::Internal("a watermark lost its column".to_owned());
        let place = place_of(node.input.schema(), &node.column).ok_or_else(lost)?;
        let stats = self.event_times.get(node.place).ok_or_else(lost)?;
        let input = inputs.first().ok_or_else(lost)?;
        let exec = WatermarkExec::try_new(Arc::clone(input), place, Arc::clone(stats));
        exec.map_err(failure::external)
    }
}

/// What the operators of an optimised plan declare of their state, by number.
pub(super) fn specs(plan: &LogicalPlan) -> Result<Vec<OperatorSpec>> {
    use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
    let props = ExecutionProps::new();
    let planning = PhysicalPlanningContext::default();
    let mut specs = Vec::new();
    plan.apply(|node| {
        if let LogicalPlan::Extension(extension) = node
            && let Some(operator) = Operator::of(extension.node.as_ref(), &props, &planning)?
        {
            specs.push(plain_names(operator.spec().clone()));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    specs.sort_by_key(|spec: &OperatorSpec| spec.id);
    Ok(specs)
}

/// A spec whose columns do not tell where in the query their stream stands.
fn plain_names(spec: OperatorSpec) -> OperatorSpec {
    renamed(spec, |name| {
        super::names::with_plain_literals(&crate::pipeline::without_table_names(name))
    })
}

/// A spec with other names of columns.
fn renamed(mut spec: OperatorSpec, name: impl Fn(&str) -> String) -> OperatorSpec {
    let with_names = |schema: &SchemaRef| -> SchemaRef {
        let fields =
            schema.fields().iter().map(|it| it.as_ref().clone().with_name(name(it.name())));
        Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
    };
    for family in &mut spec.families {
        family.key = with_names(&family.key);
        family.value = with_names(&family.value);
    }
    spec
}
