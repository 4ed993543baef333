//! A query of one operator, run batch by batch.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::col;
use datafusion::physical_plan::{ExecutionPlan, execute_stream_partitioned};
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;
use onefold_operators::{EmitMode, OperatorContext, OperatorMetrics};
use onefold_state::{OperatorSpec, StateStore};
use onefold_types::{BatchId, Result};
use std::sync::Arc;

/// Makes the operator over a batch's input.
pub type MakeExec =
    Box<dyn Fn(Arc<dyn ExecutionPlan>, OperatorContext) -> Result<Arc<dyn ExecutionPlan>>>;

/// A query of one operator.
pub struct Query {
    store: StateStore,
    make: MakeExec,
    input: SchemaRef,
    mode: EmitMode,
    batch: u64,
    watermark: Option<i64>,
}

/// What a batch gave.
pub struct Outcome {
    /// The rows as text, sorted.
    pub rows: Vec<String>,
    pub metrics: Arc<OperatorMetrics>,
}

impl Query {
    pub fn new(
        spec: OperatorSpec,
        input: &SchemaRef,
        mode: EmitMode,
        partitions: u32,
        make: MakeExec,
    ) -> Self {
        let store = StateStore::in_memory(vec![spec], partitions).unwrap();
        let input = Arc::clone(input);
        Query { store, make, input, mode, batch: 0, watermark: None }
    }

    /// Runs a batch whose watermark is given, over partitions of rows.
    pub async fn try_batch(
        &mut self,
        partitions: Vec<Vec<RecordBatch>>,
        watermark_ms: Option<i64>,
    ) -> datafusion::error::Result<Outcome> {
        let state = self.store.begin(BatchId(self.batch)).unwrap();
        let metrics = Arc::new(OperatorMetrics::default());
        let context = OperatorContext {
            id: 0,
            state: Arc::clone(&state) as _,
            late_ms: self.watermark,
            evict_ms: watermark_ms,
            batch_time_ms: 0,
            mode: self.mode,
            metrics: Arc::clone(&metrics),
            late_rows: None,
        };
        let input = MemorySourceConfig::try_new_exec(&partitions, Arc::clone(&self.input), None)?;
        let plan = (self.make)(input, context).unwrap();
        let mut rows = Vec::new();
        let schema = plan.schema();
        for stream in execute_stream_partitioned(plan, SessionContext::new().task_ctx())? {
            for batch in stream.try_collect::<Vec<_>>().await? {
                assert_eq!(batch.schema(), schema);
                rows.extend(text(&batch));
            }
        }
        self.store.apply(&state).await.unwrap();
        drop(state);
        self.batch += 1;
        self.watermark = watermark_ms.or(self.watermark);
        rows.sort();
        Ok(Outcome { rows, metrics })
    }

    /// As [`Query::try_batch`], of one partition, without an error.
    pub async fn batch(&mut self, rows: RecordBatch, watermark_ms: Option<i64>) -> Outcome {
        self.try_batch(vec![vec![rows]], watermark_ms).await.unwrap()
    }

    /// A batch without rows.
    pub async fn empty(&mut self, watermark_ms: Option<i64>) -> Outcome {
        let none = RecordBatch::new_empty(Arc::clone(&self.input));
        self.batch(none, watermark_ms).await
    }

    /// Rows of state by the state's own count.
    pub fn state_rows(&self) -> u64 {
        self.store.report()[0].rows
    }

    /// Rows of each family of the state.
    pub fn families(&self) -> Vec<u64> {
        self.store.report()[0].families.iter().map(|family| family.rows).collect()
    }
}

/// A batch's rows as text.
pub fn text(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<ArrayFormatter<'_>> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
        .collect();
    (0..batch.num_rows())
        .map(|row| {
            let values: Vec<String> =
                columns.iter().map(|column| column.value(row).to_string()).collect();
            values.join(" ")
        })
        .collect()
}

/// A timestamp type as Spark's `TIMESTAMP`.
pub fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

pub fn schema(fields: &[(&str, DataType)]) -> SchemaRef {
    let fields: Vec<Field> =
        fields.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true)).collect();
    Arc::new(Schema::new(fields))
}

pub fn rows(schema: &SchemaRef, columns: Vec<ArrayRef>) -> RecordBatch {
    RecordBatch::try_new(Arc::clone(schema), columns).unwrap()
}

pub fn column(schema: &SchemaRef, name: &str) -> PhysicalExprRef {
    col(name, schema).unwrap()
}

pub fn named(schema: &SchemaRef, names: &[&str]) -> Vec<(PhysicalExprRef, String)> {
    names.iter().map(|name| (column(schema, name), (*name).to_owned())).collect()
}

pub fn aggregate(
    schema: &SchemaRef,
    function: Arc<AggregateUDF>,
    argument: &str,
) -> Arc<AggregateFunctionExpr> {
    let name = format!("{}({argument})", function.name());
    let built = AggregateExprBuilder::new(function, vec![column(schema, argument)])
        .schema(Arc::clone(schema))
        .alias(name)
        .build();
    Arc::new(built.unwrap())
}
