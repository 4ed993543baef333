//! Counts the rows that a source gives, and gives them the schema that it promised.

use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sits on top of a source's read. Nothing is pushed through it, so it counts what was read.
#[derive(Debug)]
pub(super) struct CountingExec {
    input: Arc<dyn ExecutionPlan>,
    /// `None` where another scan of the same source counts.
    rows: Option<Arc<AtomicU64>>,
    properties: Arc<PlanProperties>,
}

impl CountingExec {
    /// `schema` has the input's columns by type and order; names and metadata are taken from it.
    pub(super) fn new(
        input: Arc<dyn ExecutionPlan>,
        schema: SchemaRef,
        rows: Option<Arc<AtomicU64>>,
    ) -> Self {
        let properties = if input.schema() == schema {
            Arc::clone(input.properties())
        } else {
            Arc::new(PlanProperties::new(
                EquivalenceProperties::new(schema),
                input.properties().partitioning.clone(),
                input.properties().emission_type,
                input.properties().boundedness,
            ))
        };
        CountingExec { input, rows, properties }
    }
}

impl DisplayAs for CountingExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CountingExec")
    }
}

impl ExecutionPlan for CountingExec {
    fn name(&self) -> &str {
        "CountingExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
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
        match <[_; 1]>::try_from(children) {
            Ok([input]) => Ok(Arc::new(CountingExec::new(input, self.schema(), self.rows.clone()))),
            Err(_) => Err(DataFusionError::Internal("CountingExec has one child".to_owned())),
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
        let input = self.input.execute(partition, context)?;
        let (schema, rows) = (self.schema(), self.rows.clone());
        let same = input.schema() == schema;
        let given = Arc::clone(&schema);
        let counted = input.map(move |batch| {
            let batch = batch?;
            if let Some(rows) = &rows {
                let count = u64::try_from(batch.num_rows()).unwrap_or(u64::MAX);
                rows.fetch_add(count, Ordering::Relaxed);
            }
            if same {
                return Ok(batch);
            }
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let columns = batch.columns().to_vec();
            Ok(RecordBatch::try_new_with_options(Arc::clone(&given), columns, &options)?)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, counted)))
    }
}
