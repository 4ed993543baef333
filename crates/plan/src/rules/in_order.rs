//! Partitions one after the other where a program sees the order of rows: what it collects, the rows
//! that a limit lets through, and those that it brought into one partition.
//!
//! *Why:* the rows of `a.union(b)` come as those of `a` and then those of `b`, and so do the first ten,
//! in every run, as in Spark. DataFusion takes rows from whichever partition has some.

use super::spread::only;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::limit::LimitStream;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    SendableRecordBatchStream,
};
use futures::{StreamExt, stream};
use std::fmt;
use std::sync::Arc;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;

/// Batches of a partition that are computed ahead of their turn.
const AHEAD: usize = 4;

/// The plan with its rows in one partition, in the order of its partitions.
#[must_use]
pub fn in_order(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match plan.properties().partitioning.partition_count() {
        1 => plan,
        _ => Arc::new(InOrderExec::over(plan, None)),
    }
}

/// Keeps the order of partitions where a limit cuts.
#[derive(Debug)]
pub(super) struct KeepOrder;

impl PhysicalOptimizerRule for KeepOrder {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let kept = plan.transform_up(|node| {
            let found = node.downcast_ref::<CoalescePartitionsExec>();
            match found.and_then(|found| Some((Arc::clone(found.input()), found.fetch()?))) {
                Some((input, fetch)) => {
                    let ordered = InOrderExec::over(input, Some(fetch));
                    Ok(Transformed::yes(Arc::new(ordered) as Arc<dyn ExecutionPlan>))
                }
                None => Ok(Transformed::no(node)),
            }
        });
        kept.data()
    }

    fn name(&self) -> &'static str {
        "KeepOrder"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct InOrderExec {
    input: Arc<dyn ExecutionPlan>,
    fetch: Option<usize>,
    properties: Arc<PlanProperties>,
}

impl InOrderExec {
    fn over(input: Arc<dyn ExecutionPlan>, fetch: Option<usize>) -> Self {
        let own = input.properties();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            own.emission_type,
            own.boundedness,
        );
        InOrderExec { input, fetch, properties: Arc::new(properties) }
    }
}

impl DisplayAs for InOrderExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fetch {
            Some(fetch) => write!(f, "InOrderExec: fetch={fetch}"),
            None => f.write_str("InOrderExec"),
        }
    }
}

impl ExecutionPlan for InOrderExec {
    fn name(&self) -> &'static str {
        "InOrderExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
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
        Ok(Arc::new(InOrderExec::over(only(children)?, self.fetch)))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return Err(DataFusionError::Internal(format!("there is no partition {partition}")));
        }
        let mut readers = JoinSet::new();
        let mut turns = Vec::new();
        for partition in 0..self.input.properties().partitioning.partition_count() {
            let rows = self.input.execute(partition, Arc::clone(&context))?;
            let (sender, receiver) = channel(AHEAD);
            readers.spawn(read(rows, sender));
            turns.push(receiver);
        }
        // The readers end with the stream.
        let state = (turns.into_iter(), None::<Receiver<Result<RecordBatch>>>, readers);
        let rows = stream::unfold(state, |(mut turns, mut now, readers)| async move {
            loop {
                if let Some(turn) = &mut now
                    && let Some(batch) = turn.recv().await
                {
                    return Some((batch, (turns, now, readers)));
                }
                now = Some(turns.next()?);
            }
        });
        let rows = Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), rows));
        let Some(fetch) = self.fetch else { return Ok(rows) };
        let metrics = BaselineMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
        Ok(Box::pin(LimitStream::new(rows, 0, Some(fetch), metrics)))
    }
}

async fn read(mut rows: SendableRecordBatchStream, to: Sender<Result<RecordBatch>>) {
    while let Some(batch) = rows.next().await {
        if to.send(batch).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::spread::KeepSpread;
    use super::*;
    use datafusion::arrow::array::AsArray;
    use datafusion::arrow::datatypes::Int64Type;
    use datafusion::logical_expr::{self, LogicalPlanBuilder};
    use datafusion::prelude::{SessionConfig, SessionContext};

    async fn ids(
        change: impl FnOnce(LogicalPlanBuilder) -> Result<LogicalPlanBuilder>,
    ) -> Vec<i64> {
        let config = SessionConfig::new().with_target_partitions(4).with_batch_size(7);
        let context = SessionContext::new_with_config(config);
        crate::functions::register(&context).unwrap();
        let series =
            |from: u32, to: u32| format!("SELECT value FROM generate_series({from}, {to})");
        let text = [series(0, 199), series(200, 399), series(400, 599)].join(" UNION ALL ");
        let plan = context.sql(&text).await.unwrap().into_unoptimized_plan();
        let plan = change(LogicalPlanBuilder::from(plan)).unwrap().build().unwrap();
        let plan = context.state().create_physical_plan(&plan).await.unwrap();
        let options = ConfigOptions::default();
        let plan = KeepSpread.optimize(plan, &options).unwrap();
        let plan = KeepOrder.optimize(plan, &options).unwrap();
        let mut rows = in_order(plan).execute(0, context.task_ctx()).unwrap();
        let mut ids = Vec::new();
        while let Some(batch) = rows.next().await {
            ids.extend(batch.unwrap().column(0).as_primitive::<Int64Type>().values());
        }
        ids
    }

    #[tokio::test]
    async fn a_union_comes_side_by_side_and_a_limit_takes_its_first_rows() {
        assert_eq!(ids(Ok).await, (0..600).collect::<Vec<_>>());
        let cut = ids(|plan| plan.limit(0, Some(230))).await;
        assert_eq!(cut, (0..230).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn rows_that_are_brought_into_one_partition_stay_in_order() {
        let one = logical_expr::Partitioning::RoundRobinBatch(1);
        let gathered = ids(|plan| plan.repartition(one)).await;
        assert_eq!(gathered, (0..600).collect::<Vec<_>>());
    }
}
