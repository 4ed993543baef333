//! `df.observe(…)`: a place in a plan where somebody looks at the rows that pass.
//!
//! It is a node that no rule moves anything across: a filter that went through it, in either
//! direction, would change what is seen.

use crate::failure;
use crate::stream::{extension, one_input, place_of, unordered};
use arrow::array::ArrayRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::DFSchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Expr, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use futures::StreamExt;
use std::collections::HashSet;
use std::fmt::{self, Debug};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Who looks at rows.
pub trait Watcher: Debug + Send + Sync {
    /// Some rows pass: the columns that were asked for, in that order, and how many rows there are.
    /// Called from several threads at once.
    ///
    /// # Errors
    /// Ends the batch.
    fn see(&self, columns: Vec<ArrayRef>, rows: usize) -> onefold_types::Result<()>;
}

/// The plan with a place at its top where the watcher sees these columns of all rows that pass.
///
/// # Errors
/// Invalid, when one is no column of the plan.
pub fn observed(
    input: LogicalPlan,
    columns: Vec<Expr>,
    watcher: Arc<dyn Watcher>,
) -> onefold_types::Result<LogicalPlan> {
    let node = Observed { input, columns, watcher: Watched(watcher) };
    node.places().map_err(failure::planning)?;
    Ok(extension(node))
}

/// A watcher; equal to itself alone.
#[derive(Debug, Clone)]
struct Watched(Arc<dyn Watcher>);

impl PartialEq for Watched {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Watched {}

impl Hash for Watched {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::hash(Arc::as_ptr(&self.0).cast::<()>(), state);
    }
}

/// The place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Observed {
    input: LogicalPlan,
    columns: Vec<Expr>,
    watcher: Watched,
}

unordered!(Observed);

impl Observed {
    fn places(&self) -> Result<Vec<usize>> {
        let place = |column: &Expr| {
            place_of(self.input.schema(), column).ok_or_else(|| {
                DataFusionError::Plan(format!("`{column}` is no column of what is observed"))
            })
        };
        self.columns.iter().map(place).collect()
    }
}

impl UserDefinedLogicalNodeCore for Observed {
    fn name(&self) -> &'static str {
        "Observed"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        self.columns.clone()
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.input.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("CollectMetrics")
    }

    fn with_exprs_and_inputs(&self, columns: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let input = one_input("Observed", inputs)?;
        Ok(Observed { input, columns, watcher: self.watcher.clone() })
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output_columns.to_vec()])
    }
}

/// Makes the physical node.
#[derive(Debug)]
pub(crate) struct ObservedPlanner;

#[async_trait]
impl ExtensionPlanner for ObservedPlanner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        _session: &dyn Session,
        _planning: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<Observed>() else { return Ok(None) };
        let [input] = physical_inputs else {
            return Err(DataFusionError::Internal("what is observed has one input".to_owned()));
        };
        Ok(Some(Arc::new(ObservedExec {
            input: Arc::clone(input),
            places: node.places()?,
            watcher: Arc::clone(&node.watcher.0),
        })))
    }
}

/// Plans queries of a session over data that does not stream.
#[derive(Debug)]
pub(crate) struct Planner;

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(ObservedPlanner)])
            .create_physical_plan(plan, session)
            .await
    }
}

#[derive(Debug)]
struct ObservedExec {
    input: Arc<dyn ExecutionPlan>,
    places: Vec<usize>,
    watcher: Arc<dyn Watcher>,
}

impl DisplayAs for ObservedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CollectMetricsExec")
    }
}

impl ExecutionPlan for ObservedExec {
    fn name(&self) -> &'static str {
        "CollectMetricsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
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
        let Ok([input]) = <[Arc<dyn ExecutionPlan>; 1]>::try_from(children) else {
            return Err(DataFusionError::Internal("what is observed has one input".to_owned()));
        };
        let (places, watcher) = (self.places.clone(), Arc::clone(&self.watcher));
        Ok(Arc::new(ObservedExec { input, places, watcher }))
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
        let (places, watcher) = (self.places.clone(), Arc::clone(&self.watcher));
        let seen = self.input.execute(partition, context)?.map(move |batch| {
            let batch = batch?;
            let columns = places.iter().map(|place| Arc::clone(batch.column(*place)));
            watcher.see(columns.collect(), batch.num_rows()).map_err(failure::external)?;
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), seen)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;
    use datafusion::logical_expr::{LogicalPlanBuilder, col, lit};
    use datafusion::prelude::SessionContext;
    use std::sync::Mutex;

    #[derive(Debug, Default)]
    struct Ids(Mutex<Vec<i64>>);

    impl Watcher for Ids {
        fn see(&self, columns: Vec<ArrayRef>, rows: usize) -> onefold_types::Result<()> {
            let ids = columns[0].as_primitive::<Int64Type>().values();
            assert_eq!(ids.len(), rows);
            self.0.lock().unwrap().extend(ids);
            Ok(())
        }
    }

    #[tokio::test]
    async fn filters_go_through_in_neither_direction() {
        let context = SessionContext::new();
        crate::functions::register(&context).unwrap();
        let input = context.sql("SELECT value AS id, 1 AS one FROM generate_series(0, 9)").await;
        let input = input.unwrap().into_unoptimized_plan();
        let below = LogicalPlanBuilder::from(input).filter(col("id").gt(lit(3_i64))).unwrap();
        let ids = Arc::new(Ids::default());
        let watched = observed(below.build().unwrap(), vec![col("id")], Arc::clone(&ids) as _);
        let above = LogicalPlanBuilder::from(watched.unwrap())
            .filter(col("id").lt(lit(6_i64)))
            .and_then(|plan| plan.project(vec![col("one")]))
            .and_then(LogicalPlanBuilder::build);
        let frame = context.execute_logical_plan(above.unwrap()).await.unwrap();
        let rows: usize = frame.collect().await.unwrap().iter().map(|it| it.num_rows()).sum();
        assert_eq!(rows, 2);
        let mut seen = ids.0.lock().unwrap().clone();
        seen.sort_unstable();
        assert_eq!(seen, [4, 5, 6, 7, 8, 9]);
    }
}
