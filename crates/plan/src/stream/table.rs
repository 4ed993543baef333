//! The table that stands for a stream, its hidden columns, and finding streams in plans.

use super::StreamSource;
use crate::failure;
use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Column;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, TableProviderFilterPushDown, TableScan, TableType,
};
use datafusion::physical_plan::ExecutionPlan;
use onefold_connector::SourceDefinition;
use onefold_types::{Error, Result};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// Metadata key of a field: with the value `true` the column is there only when a query names it,
/// not in `SELECT *` (as Spark's `_metadata`).
///
/// How it is done: a stream's table has all its columns. Where this crate expands a wildcard (SQL
/// and `select_expr`), it leaves hidden columns out, and a hidden column that was named gets the
/// value `false`. [`super::StreamingPlan::new`] drops columns that reach the result still hidden:
/// nobody named them.
pub const HIDDEN: &str = "onefold.hidden";

/// Whether a field is hidden.
#[must_use]
pub fn hidden(field: &Field) -> bool {
    field.metadata().get(HIDDEN).is_some_and(|value| value == "true")
}

/// The schema without its hidden fields: what `SELECT *` gives.
#[must_use]
pub fn visible_schema(schema: &Schema) -> SchemaRef {
    let fields: Vec<_> = schema.fields().iter().filter(|field| !hidden(field)).cloned().collect();
    Arc::new(Schema::new(fields))
}

/// A stream as a table of logical plans. It cannot be scanned: a streaming query reads it.
pub struct StreamTable {
    name: Option<String>,
    definition: Arc<dyn SourceDefinition>,
}

impl StreamTable {
    /// A stream with the name that the user gave it, if any (Spark's `name()` of a source).
    #[must_use]
    pub fn new(name: Option<String>, definition: Arc<dyn SourceDefinition>) -> Self {
        StreamTable { name, definition }
    }

    /// The user's name for the source.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// What was defined.
    #[must_use]
    pub fn definition(&self) -> &Arc<dyn SourceDefinition> {
        &self.definition
    }
}

impl fmt::Debug for StreamTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamTable")
            .field("name", &self.name)
            .field("source", &self.definition.description())
            .finish()
    }
}

#[async_trait]
impl TableProvider for StreamTable {
    fn schema(&self) -> SchemaRef {
        self.definition.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> PlanResult<Vec<TableProviderFilterPushDown>> {
        // A source may skip data by them, or not; the plan applies them again.
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        _projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        Err(failure::external(Error::invalid(format!(
            "queries with streaming sources must be executed with write_stream().start(): {} is a \
             stream",
            self.definition.description()
        ))))
    }
}

/// The stream that a scan reads, if it reads one.
pub(super) fn stream_definition(scan: &TableScan) -> Option<Arc<dyn SourceDefinition>> {
    with_stream(scan, |table| Arc::clone(&table.definition))
}

fn with_stream<T>(scan: &TableScan, take: impl FnOnce(&StreamTable) -> T) -> Option<T> {
    let provider = source_as_provider(&scan.source).ok()?;
    provider.downcast_ref::<StreamTable>().map(take)
}

/// Whether a stream is read anywhere in the plan, subqueries included.
#[must_use]
pub fn is_streaming(plan: &LogicalPlan) -> bool {
    streaming(plan)
}

pub(super) fn streaming(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let walked = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            found = found || stream_definition(scan).is_some();
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    // The closure never fails; an error could only come from the walk itself.
    found || walked.is_err()
}

/// The place of a definition among the sources.
pub(super) fn place(
    sources: &[StreamSource],
    definition: &Arc<dyn SourceDefinition>,
) -> Option<usize> {
    sources.iter().position(|source| same(&source.definition, definition))
}

fn same(left: &Arc<dyn SourceDefinition>, right: &Arc<dyn SourceDefinition>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(left), Arc::as_ptr(right))
}

/// The sources of a plan, in plan order.
pub(super) fn sources(plan: &LogicalPlan) -> Result<Vec<StreamSource>> {
    let mut found: Vec<(Option<String>, Arc<dyn SourceDefinition>)> = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let table =
                with_stream(scan, |table| (table.name.clone(), Arc::clone(&table.definition)));
            if let Some((name, definition)) = table
                && !found.iter().any(|(_, known)| same(known, &definition))
            {
                found.push((name, definition));
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(failure::planning)?;
    let all_named = found.iter().all(|(name, _)| name.is_some());
    let mut ids = HashSet::new();
    let mut sources = Vec::with_capacity(found.len());
    for (place, (name, definition)) in found.into_iter().enumerate() {
        if let Some(name) = &name {
            check_name(name)?;
        }
        let id = match name {
            Some(name) if all_named => name,
            _ => place.to_string(),
        };
        if !ids.insert(id.to_lowercase()) {
            return Err(Error::invalid(format!(
                "two sources of the query have the name `{id}`; give each its own"
            )));
        }
        sources.push(StreamSource { id, definition });
    }
    Ok(sources)
}

/// A name becomes a folder of the checkpoint.
fn check_name(name: &str) -> Result<()> {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if plain && !name.is_empty() && name.len() <= 128 {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the source name `{}` may hold only letters, digits and underscores, at most 128",
        name.escape_debug()
    )))
}

/// Drops columns that reach the result still hidden.
///
/// # Errors
/// Those of the planner.
pub fn without_hidden(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !plan.schema().fields().iter().any(|field| hidden(field)) {
        return Ok(plan);
    }
    let visible: Vec<Expr> = plan
        .schema()
        .iter()
        .filter(|(_, field)| !hidden(field))
        .map(|(qualifier, field)| Expr::Column(Column::from((qualifier, field))))
        .collect();
    let projected = LogicalPlanBuilder::from(plan).project(visible);
    projected
        .and_then(LogicalPlanBuilder::build)
        .map_err(|error: DataFusionError| failure::planning(error))
}
