//! `df.observe(name, …)`: aggregates over the rows that pass a place of the plan.
//!
//! The columns that the aggregates need are kept for each batch; they are computed when the batch is
//! over.

use crate::failure::{Failure, Outcome};
use arrow::array::ArrayRef;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use async_trait::async_trait;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::utils::expr_to_columns;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, UNNAMED_TABLE};
use onefold_engine::{BatchObserver, from_datafusion};
use onefold_plan::observe::Watcher;
use onefold_types::{Error, Result};
use serde_json::Value;
use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Aggregates over the rows of a batch.
pub(crate) struct Observer {
    name: String,
    /// Over the columns that are kept.
    metrics: Vec<Expr>,
    seen: Arc<Seen>,
    context: SessionContext,
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observer").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The rows of a batch, as far as they are needed.
#[derive(Debug)]
struct Seen {
    schema: SchemaRef,
    batches: Mutex<Vec<RecordBatch>>,
}

impl Seen {
    fn batches(&self) -> MutexGuard<'_, Vec<RecordBatch>> {
        // Each change is one call: a panic leaves it usable.
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watcher for Seen {
    fn see(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<()> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options);
        let batch = batch.map_err(|error| {
            Error::internal("observed rows are of other types than planned").because(error)
        })?;
        self.batches().push(batch);
        Ok(())
    }
}

/// The plan with an observer in it.
pub(crate) fn observed(
    input: LogicalPlan,
    name: &str,
    metrics: Vec<Expr>,
    context: &SessionContext,
) -> Outcome<(LogicalPlan, Arc<Observer>)> {
    if metrics.is_empty() {
        return Err(Failure::missing("metrics"));
    }
    let mut found = HashSet::new();
    for metric in &metrics {
        expr_to_columns(metric, &mut found)?;
    }
    // A metric may name a column with or without the table that it is of.
    let schema = input.schema();
    let places = found.iter().map(|column| schema.index_of_column(column));
    let places = places.collect::<PlanResult<BTreeSet<usize>>>()?;
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for place in &places {
        let (table, field) = schema.qualified_field(*place);
        fields.push(Field::new(kept_name(*place), field.data_type().clone(), true));
        columns.push(Expr::Column(Column::from((table, field))));
    }
    let metrics = metrics.into_iter().map(|metric| over_kept(metric, schema));
    let metrics = metrics.collect::<PlanResult<Vec<Expr>>>()?;
    let seen = Arc::new(Seen { schema: Arc::new(Schema::new(fields)), batches: Mutex::default() });
    let watcher = Arc::clone(&seen);
    let plan = onefold_plan::observe::observed(input, columns, watcher)?;
    let name = name.to_owned();
    let observer = Observer { name, metrics, seen, context: context.clone() };
    Ok((plan, Arc::new(observer)))
}

/// What the column at a place of the plan is called where it is kept.
fn kept_name(place: usize) -> String {
    format!("_{place}")
}

/// A metric over the columns as they are kept, under its own name.
fn over_kept(metric: Expr, schema: &DFSchema) -> PlanResult<Expr> {
    let name = metric.schema_name().to_string();
    let replaced = metric.unalias().transform(|part| {
        let Expr::Column(column) = &part else { return Ok(Transformed::no(part)) };
        let kept = Column::new_unqualified(kept_name(schema.index_of_column(column)?));
        Ok(Transformed::yes(Expr::Column(kept)))
    })?;
    Ok(replaced.data.alias(name))
}

#[async_trait]
impl BatchObserver for Observer {
    fn name(&self) -> &str {
        &self.name
    }

    fn begin(&self) {
        self.seen.batches().clear();
    }

    async fn tell(&self) -> Result<Value> {
        let row = self.take().await?;
        let mut bytes = Vec::new();
        let mut writer = arrow::json::WriterBuilder::new()
            .with_explicit_nulls(true)
            .build::<_, arrow::json::writer::LineDelimited>(&mut bytes);
        let wrong = |error: &dyn std::fmt::Display| {
            Error::internal(format!("a metric cannot be told: {error}"))
        };
        writer.write(&row).and_then(|()| writer.finish()).map_err(|error| wrong(&error))?;
        drop(writer);
        serde_json::from_slice(&bytes).map_err(|error| wrong(&error))
    }
}

impl Observer {
    /// The values over what was seen since the last time that anyone asked: one row.
    pub(crate) async fn take(&self) -> Result<RecordBatch> {
        let batches = std::mem::take(&mut *self.seen.batches());
        self.row(batches).await
    }

    /// What it is called.
    pub(crate) fn label(&self) -> &str {
        &self.name
    }

    /// The aggregates over what was seen: one row.
    async fn row(&self, batches: Vec<RecordBatch>) -> Result<RecordBatch> {
        let plan = self.plan(batches).map_err(from_datafusion)?;
        let frame = self.context.execute_logical_plan(plan).await.map_err(from_datafusion)?;
        let rows = frame.collect().await.map_err(from_datafusion)?;
        let row = rows.into_iter().find(|batch| batch.num_rows() > 0);
        row.ok_or_else(|| Error::internal("a metric over all rows has no value"))
    }

    fn plan(&self, batches: Vec<RecordBatch>) -> PlanResult<LogicalPlan> {
        let table = MemTable::try_new(Arc::clone(&self.seen.schema), vec![batches])?;
        let scan =
            LogicalPlanBuilder::scan(UNNAMED_TABLE, provider_as_source(Arc::new(table)), None)?;
        onefold_plan::sql::aggregate(scan.build()?, Vec::new(), self.metrics.clone())
            .map_err(|error| DataFusionError::External(Box::new(error)))
    }
}
