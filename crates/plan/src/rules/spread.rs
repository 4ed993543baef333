//! `repartition` and `coalesce` hold where a program has them.
//!
//! *Why:* whoever writes files after them asks for that many. The rules that spread work over
//! partitions take every exchange for one of their own and remove it; so this rule stands before them
//! and gives those of the program a node that they do not know.

use super::in_order;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    SendableRecordBatchStream,
};
use futures::{StreamExt, stream};
use std::fmt;
use std::sync::Arc;

/// Puts a [`SpreadExec`] where the program has an exchange. Must be the first of the rules.
#[derive(Debug)]
pub(crate) struct KeepSpread;

impl PhysicalOptimizerRule for KeepSpread {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let kept = plan.transform_up(|node| match node.downcast_ref::<RepartitionExec>() {
            Some(exchange) => {
                let input = Arc::clone(exchange.input());
                let spread = SpreadExec::try_new(input, exchange.partitioning().clone())?;
                Ok(Transformed::yes(Arc::new(spread) as Arc<dyn ExecutionPlan>))
            }
            None => Ok(Transformed::no(node)),
        });
        kept.data()
    }

    fn name(&self) -> &'static str {
        "KeepSpread"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Spreads rows over as many partitions as the program asked for: by their values, or evenly.
#[derive(Debug)]
struct SpreadExec {
    input: Arc<dyn ExecutionPlan>,
    exchange: RepartitionExec,
}

impl SpreadExec {
    fn try_new(input: Arc<dyn ExecutionPlan>, partitioning: Partitioning) -> Result<Self> {
        let outputs = partitioning.partition_count();
        let pieces: Arc<dyn ExecutionPlan> = match partitioning {
            Partitioning::RoundRobinBatch(_) if outputs > 1 => {
                Arc::new(PiecesExec { input: Arc::clone(&input), pieces: outputs })
            }
            _ => Arc::clone(&input),
        };
        let exchange = RepartitionExec::try_new(pieces, partitioning)?;
        Ok(SpreadExec { input, exchange })
    }
}

impl DisplayAs for SpreadExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpreadExec: partitioning={}", self.exchange.partitioning())
    }
}

impl ExecutionPlan for SpreadExec {
    fn name(&self) -> &'static str {
        "SpreadExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.exchange.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.exchange.maintains_input_order()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.exchange.apply_expressions(visit)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(SpreadExec::try_new(only(children)?, self.exchange.partitioning().clone())?))
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
        match self.exchange.partitioning() {
            // Into one partition rows come as they stand.
            Partitioning::RoundRobinBatch(1) => {
                in_order(Arc::clone(&self.input)).execute(partition, context)
            }
            _ => self.exchange.execute(partition, context),
        }
    }
}

/// Cuts each batch into pieces, so that a batch is spread and not just batches.
#[derive(Debug)]
struct PiecesExec {
    input: Arc<dyn ExecutionPlan>,
    pieces: usize,
}

impl DisplayAs for PiecesExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PiecesExec: pieces={}", self.pieces)
    }
}

impl ExecutionPlan for PiecesExec {
    fn name(&self) -> &'static str {
        "PiecesExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
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
        Ok(Arc::new(PiecesExec { input: only(children)?, pieces: self.pieces }))
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
        let pieces = self.pieces;
        let input = self.input.execute(partition, context)?;
        let cut = input.flat_map(move |batch| match batch {
            Ok(batch) => stream::iter(cut(&batch, pieces)).map(Ok).left_stream(),
            Err(error) => stream::iter([Err(error)]).right_stream(),
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), cut)))
    }
}

/// At most so many pieces of about the same number of rows.
fn cut(batch: &RecordBatch, pieces: usize) -> Vec<RecordBatch> {
    let rows = batch.num_rows();
    let bound = |piece: usize| rows * piece / pieces.max(1);
    let cuts = (0..pieces).map(|piece| (bound(piece), bound(piece + 1)));
    cuts.filter(|(from, to)| from < to).map(|(from, to)| batch.slice(from, to - from)).collect()
}

pub(super) fn only(children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
    let mut children = children.into_iter();
    match (children.next(), children.next()) {
        (Some(child), None) => Ok(child),
        _ => Err(DataFusionError::Internal("a spread of rows has one input".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::Int32Array;
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::logical_expr::{LogicalPlanBuilder, Partitioning as Wanted, col};
    use datafusion::prelude::{SessionConfig, SessionContext};

    /// How many rows each partition gets, under a filter, of 1,000 in one batch.
    async fn rows_by_partition(wanted: Wanted) -> Vec<usize> {
        let config = SessionConfig::new().with_target_partitions(3);
        let context = SessionContext::new_with_config(config);
        crate::functions::register(&context).unwrap();
        let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int32, false)]));
        let ids = Arc::new(Int32Array::from_iter_values(0..1_000));
        let batch = RecordBatch::try_new(schema, vec![ids]).unwrap();
        let input = context.read_batch(batch).unwrap().into_optimized_plan().unwrap();
        let plan = LogicalPlanBuilder::from(input).repartition(wanted).unwrap().build().unwrap();
        let plan = context.state().create_physical_plan(&plan).await.unwrap();
        let mut rows = Vec::new();
        for partition in 0..plan.properties().partitioning.partition_count() {
            let mut batches = plan.execute(partition, context.task_ctx()).unwrap();
            let mut count = 0;
            while let Some(batch) = batches.next().await {
                count += batch.unwrap().num_rows();
            }
            rows.push(count);
        }
        rows
    }

    #[tokio::test]
    async fn one_batch_is_spread_evenly_over_the_partitions_asked_for() {
        let rows = rows_by_partition(Wanted::RoundRobinBatch(7)).await;
        assert_eq!((rows.len(), rows.iter().sum::<usize>()), (7, 1_000));
        assert!(rows.iter().all(|rows| (142..=143).contains(rows)), "{rows:?}");
    }

    #[tokio::test]
    async fn one_partition_and_values_hold_too() {
        assert_eq!(rows_by_partition(Wanted::RoundRobinBatch(1)).await, [1_000]);
        let rows = rows_by_partition(Wanted::Hash(vec![col("id")], 5)).await;
        assert_eq!((rows.len(), rows.iter().sum::<usize>()), (5, 1_000));
        assert!(rows.iter().all(|rows| *rows > 0), "{rows:?}");
    }
}
