//! The join as an execution plan.

use super::plan::JoinPlan;
use super::run::JoinRun;
use crate::OperatorContext;
use crate::exchange::KeyGroupExchangeExec;
use crate::failure;
use crate::outlet::Outlet;
use crate::output;
use arrow::record_batch::RecordBatch;
use datafusion::common::HashMap;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    SendableRecordBatchStream,
};
use futures::TryStreamExt;
use onefold_types::Result as OwnResult;
use std::fmt;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct StreamJoinExec {
    plan: Arc<JoinPlan>,
    left: Arc<dyn ExecutionPlan>,
    right: Arc<dyn ExecutionPlan>,
    context: OperatorContext,
    properties: Arc<PlanProperties>,
}

impl StreamJoinExec {
    /// The join over its inputs, each brought into partitions by key group.
    pub(super) fn exchanged(
        plan: Arc<JoinPlan>,
        left: Arc<dyn ExecutionPlan>,
        right: Arc<dyn ExecutionPlan>,
        context: OperatorContext,
    ) -> OwnResult<Arc<dyn ExecutionPlan>> {
        let partitions = context.state.partitions();
        let exchange = |input, keys: &Vec<_>| {
            KeyGroupExchangeExec::try_new(input, keys.clone(), partitions).map(Arc::new)
        };
        let left = exchange(left, &plan.left.keys)?;
        let right = exchange(right, &plan.right.keys)?;
        Ok(Arc::new(Self::over(plan, left, right, context)))
    }

    fn over(
        plan: Arc<JoinPlan>,
        left: Arc<dyn ExecutionPlan>,
        right: Arc<dyn ExecutionPlan>,
        context: OperatorContext,
    ) -> Self {
        let partitions = usize::try_from(context.state.partitions()).unwrap_or(1);
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&plan.schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        StreamJoinExec { plan, left, right, context, properties }
    }
}

impl DisplayAs for StreamJoinExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamJoinExec: {}, on=[", self.plan.join_type)?;
        let keys = self.plan.left.keys.iter().zip(&self.plan.right.keys);
        for (place, (left, right)) in keys.enumerate() {
            write!(f, "{}{left} = {right}", if place == 0 { "" } else { ", " })?;
        }
        f.write_str("]")
    }
}

impl ExecutionPlan for StreamJoinExec {
    fn name(&self) -> &str {
        "StreamJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.left, &self.right]
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match <[_; 2]>::try_from(children) {
            Ok([left, right]) => {
                let (plan, context) = (Arc::clone(&self.plan), self.context.clone());
                Ok(Arc::new(StreamJoinExec::over(plan, left, right, context)))
            }
            Err(_) => Err(failure::internal("StreamJoinExec has two children")),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(
        &self,
        partition: usize,
        task: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let left = self.left.execute(partition, Arc::clone(&task))?;
        let right = self.right.execute(partition, Arc::clone(&task))?;
        let number = output::number(partition)?;
        let schema = Arc::clone(&self.plan.schema);
        let (plan, context) = (Arc::clone(&self.plan), self.context.clone());
        Ok(output::spawn(Arc::clone(&schema), move |to| async move {
            // Both at once: they may be fed by the same source.
            let (left, right): (Vec<RecordBatch>, Vec<RecordBatch>) =
                futures::try_join!(left.try_collect(), right.try_collect())?;
            let state = context.state.open(context.id, number).map_err(failure::external)?;
            let outlet = Outlet::new(schema, to);
            let run = JoinRun { plan, context, state, outlet, sequence: HashMap::new() };
            run.run(left, right).await
        }))
    }
}
