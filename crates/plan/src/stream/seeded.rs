//! Gives each node of a physical plan its own random values.
//!
//! A scalar function sees neither its partition nor the rows before it. So each node of a plan
//! that has random calls is wrapped: while the wrapper polls the node, the node's frame (seed,
//! partition, one generator for each call) is the thread's current one. A node that polls its own
//! input runs the input's wrapper, which puts the input's frame in its place and restores ours;
//! a node that moves its input to another task (an exchange) has a wrapped input there. Values
//! are made row by row in the order in which the node sees its rows.

use super::random::{Frame, mix, with_frame};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, RecordBatchStream,
    SendableRecordBatchStream,
};
use futures::Stream;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::random::RandomFunction;

/// Wraps the nodes, if there is a random call anywhere.
pub(super) fn seed_nodes(
    plan: Arc<dyn ExecutionPlan>,
    batch_seed: u64,
) -> Result<Arc<dyn ExecutionPlan>> {
    if !calls_random(&plan)? {
        return Ok(plan);
    }
    let mut node_number = 0_u64;
    plan.transform_up(|node| {
        if node.children().is_empty() {
            return Ok(Transformed::no(node));
        }
        node_number += 1;
        let seed = mix(batch_seed, node_number);
        Ok(Transformed::yes(Arc::new(SeededExec { input: node, seed }) as Arc<dyn ExecutionPlan>))
    })
    .data()
}

fn calls_random(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        node.apply_expressions(&mut |expr| {
            found |= expression_calls_random(expr)?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}

fn expression_calls_random(expr: &Arc<dyn PhysicalExpr>) -> Result<bool> {
    expr.exists(|part| {
        let call = part.downcast_ref::<ScalarFunctionExpr>();
        Ok(call.is_some_and(|call| call.fun().inner().downcast_ref::<RandomFunction>().is_some()))
    })
}

#[derive(Debug)]
struct SeededExec {
    input: Arc<dyn ExecutionPlan>,
    seed: u64,
}

impl DisplayAs for SeededExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SeededExec")
    }
}

impl ExecutionPlan for SeededExec {
    fn name(&self) -> &str {
        "SeededExec"
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
        match <[_; 1]>::try_from(children) {
            Ok([input]) => Ok(Arc::new(SeededExec { input, seed: self.seed })),
            Err(_) => Err(DataFusionError::Internal("SeededExec has one child".to_owned())),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mode = datafusion::physical_plan::execution_plan::ChildrenPropertiesMode::Recompute;
        self.replace_children(children, ReplaceChildrenOptions::new(mode))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let mut frame = Some(Frame::new(self.seed, partition));
        let input = with_frame(&mut frame, || self.input.execute(partition, context))?;
        Ok(Box::pin(SeededStream { input, frame }))
    }
}

struct SeededStream {
    input: SendableRecordBatchStream,
    frame: Option<Frame>,
}

impl Stream for SeededStream {
    type Item = Result<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        with_frame(&mut this.frame, || this.input.as_mut().poll_next(task))
    }
}

impl RecordBatchStream for SeededStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::RandomKind;
    use super::*;
    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::config::ConfigOptions;
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::logical_expr::ScalarUDF;
    use datafusion::physical_expr::expressions::col;
    use datafusion::physical_plan::Partitioning;
    use datafusion::physical_plan::projection::ProjectionExec;
    use datafusion::physical_plan::repartition::RepartitionExec;
    use futures::TryStreamExt;

    /// Rows of one partition spread over two by an exchange, which runs in tasks of its own; the
    /// random call is above it.
    async fn values(batch_seed: u64) -> Vec<(i64, String)> {
        let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
        let batches: Vec<RecordBatch> = (0..8)
            .map(|id| {
                let ids = Arc::new(Int64Array::from(vec![id, id + 100]));
                RecordBatch::try_new(Arc::clone(&schema), vec![ids]).unwrap()
            })
            .collect();
        let source = MemorySourceConfig::try_new_exec(&[batches], Arc::clone(&schema), None);
        let exchange =
            RepartitionExec::try_new(source.unwrap(), Partitioning::RoundRobinBatch(2)).unwrap();
        let uuid = ScalarUDF::new_from_impl(RandomFunction::site(RandomKind::Uuid, 1, None));
        let config = Arc::new(ConfigOptions::new());
        let uuid =
            ScalarFunctionExpr::try_new(Arc::new(uuid), Vec::new(), &schema, config).unwrap();
        let columns: Vec<(Arc<dyn PhysicalExpr>, String)> = vec![
            (col("id", &schema).unwrap(), "id".to_owned()),
            (Arc::new(uuid), "uuid".to_owned()),
        ];
        let plan = ProjectionExec::try_new(columns, Arc::new(exchange)).unwrap();
        let plan = seed_nodes(Arc::new(plan), batch_seed).unwrap();
        let context = Arc::new(TaskContext::default());
        let mut rows = Vec::new();
        let streams = datafusion::physical_plan::execute_stream_partitioned(plan, context).unwrap();
        for stream in streams {
            for batch in stream.try_collect::<Vec<_>>().await.unwrap() {
                let ids = batch.column(0).as_primitive::<arrow::datatypes::Int64Type>();
                let uuids = batch.column(1).as_string::<i32>();
                for row in 0..batch.num_rows() {
                    rows.push((ids.value(row), uuids.value(row).to_owned()));
                }
            }
        }
        rows.sort();
        rows
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_exchange_below_a_random_call_changes_nothing_between_runs() {
        let first = values(7).await;
        assert_eq!(first.len(), 16);
        assert_eq!(first, values(7).await);
        assert_ne!(first, values(8).await);
        let mut uuids: Vec<_> = first.iter().map(|(_, uuid)| uuid).collect();
        uuids.sort();
        uuids.dedup();
        assert_eq!(uuids.len(), 16);
    }
}
