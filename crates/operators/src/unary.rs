//! An operator with one input, as an execution plan.

use crate::exchange::KeyGroupExchangeExec;
use crate::failure;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalExprRef};
use datafusion::physical_plan::execution_plan::{
    ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    SendableRecordBatchStream,
};
use onefold_types::Result as OwnResult;
use std::fmt;
use std::sync::Arc;

/// What an operator does with a partition of its input.
pub(crate) trait Unary: fmt::Debug + Send + Sync {
    /// The plan node's name.
    fn name(&self) -> &'static str;

    /// What `EXPLAIN` shows after the name.
    fn describe(&self) -> String {
        String::new()
    }

    /// Runs one partition.
    fn run(
        &self,
        partition: usize,
        input: SendableRecordBatchStream,
        task: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream>;

    /// Runs one partition of an operator that may read another plan beside its input.
    fn run_beside(
        &self,
        partition: usize,
        input: SendableRecordBatchStream,
        beside: Arc<dyn ExecutionPlan>,
        task: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let _ = (partition, input, beside, task);
        Err(failure::internal(format!("{} has one input", self.name())))
    }
}

/// An operator over its input: partition by partition.
#[derive(Debug)]
pub(crate) struct UnaryExec {
    input: Arc<dyn ExecutionPlan>,
    /// Has as many partitions as the input.
    beside: Option<Arc<dyn ExecutionPlan>>,
    operator: Arc<dyn Unary>,
    properties: Arc<PlanProperties>,
}

impl UnaryExec {
    /// The operator gives rows of `schema`. Nothing is assumed of their order.
    pub(crate) fn over(
        input: Arc<dyn ExecutionPlan>,
        schema: SchemaRef,
        operator: Arc<dyn Unary>,
    ) -> Arc<dyn ExecutionPlan> {
        UnaryExec::over_both(input, None, schema, operator)
    }

    fn over_both(
        input: Arc<dyn ExecutionPlan>,
        beside: Option<Arc<dyn ExecutionPlan>>,
        schema: SchemaRef,
        operator: Arc<dyn Unary>,
    ) -> Arc<dyn ExecutionPlan> {
        let partitions = input.properties().partitioning.partition_count();
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            input.properties().boundedness,
        ));
        Arc::new(UnaryExec { input, beside, operator, properties })
    }

    /// As [`UnaryExec::over`], of rows that are brought to the partition that owns their key.
    ///
    /// # Errors
    /// As [`KeyGroupExchangeExec::try_new`].
    pub(crate) fn over_key_groups(
        input: Arc<dyn ExecutionPlan>,
        keys: Vec<PhysicalExprRef>,
        partitions: u32,
        schema: SchemaRef,
        operator: Arc<dyn Unary>,
    ) -> OwnResult<Arc<dyn ExecutionPlan>> {
        let input = KeyGroupExchangeExec::try_new(input, keys, partitions)?;
        Ok(UnaryExec::over(Arc::new(input), schema, operator))
    }

    /// As [`UnaryExec::over_key_groups`], with a plan beside whose rows are brought to the same
    /// partitions by keys of their own.
    ///
    /// # Errors
    /// As [`KeyGroupExchangeExec::try_new`].
    pub(crate) fn over_key_groups_beside(
        (input, keys): (Arc<dyn ExecutionPlan>, Vec<PhysicalExprRef>),
        (beside, beside_keys): (Arc<dyn ExecutionPlan>, Vec<PhysicalExprRef>),
        partitions: u32,
        schema: SchemaRef,
        operator: Arc<dyn Unary>,
    ) -> OwnResult<Arc<dyn ExecutionPlan>> {
        let input = KeyGroupExchangeExec::try_new(input, keys, partitions)?;
        let beside = KeyGroupExchangeExec::try_new(beside, beside_keys, partitions)?;
        Ok(UnaryExec::over_both(Arc::new(input), Some(Arc::new(beside)), schema, operator))
    }
}

impl DisplayAs for UnaryExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.operator.name())?;
        match self.operator.describe() {
            description if description.is_empty() => Ok(()),
            description => write!(f, ": {description}"),
        }
    }
}

impl ExecutionPlan for UnaryExec {
    fn name(&self) -> &str {
        self.operator.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false; self.children().len()]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.children().len()]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        std::iter::once(&self.input).chain(&self.beside).collect()
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
        let mut children = children.into_iter();
        let (input, beside) = (children.next(), children.next());
        match input.filter(|_| beside.is_some() == self.beside.is_some()) {
            Some(input) => {
                let operator = Arc::clone(&self.operator);
                Ok(UnaryExec::over_both(input, beside, self.schema(), operator))
            }
            None => Err(failure::internal(format!("{} has other children", self.name()))),
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
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, Arc::clone(&context))?;
        match &self.beside {
            Some(beside) => self.operator.run_beside(partition, input, Arc::clone(beside), context),
            None => self.operator.run(partition, input, context),
        }
    }
}
