//! The plan of a table's query.

use super::ast::{
    Pipeline, Place, Query, Statement, StreamRead, StreamReference, StreamingTable, View,
};
use super::streams::{table_name, whole_name};
use crate::failure;
use crate::schema::{COMMENT, type_name};
use crate::sql::{self, Tables, watermark_clause};
use crate::stream::{StreamTable, is_streaming};
use arrow::datatypes::Schema;
use datafusion::catalog::TableProvider;
use datafusion::catalog::view::ViewTable;
use datafusion::common::Column;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::expr::FieldMetadata;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableSource};
use datafusion::prelude::SessionContext;
use futures::future::BoxFuture;
use onefold_types::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Deepest chain of views that read views.
const VIEW_DEPTH_MAX: usize = 32;

/// Makes the streams that a pipeline names.
pub trait StreamResolver: Send + Sync {
    /// The stream for a `STREAM read_files(…)` or for a `STREAM(name)` that reads what another
    /// table of the file writes. Called once for each place in the file that a table's query
    /// reaches.
    ///
    /// # Errors
    /// Whatever defining the source returns.
    fn stream<'a>(
        &'a self,
        reference: &'a StreamReference,
    ) -> BoxFuture<'a, Result<Arc<StreamTable>>>;

    /// The table for a `read_files(…)` without STREAM: all that is there, looked up anew in each
    /// batch.
    ///
    /// # Errors
    /// Whatever defining the source returns.
    fn whole<'a>(&'a self, read: &'a StreamRead) -> BoxFuture<'a, Result<Arc<dyn TableProvider>>>;
}

/// Plans the query of one table of a pipeline: views are put in, streams come from the resolver,
/// declared columns are checked.
///
/// # Errors
/// Invalid: the query does not fit its tables, or its result the declared columns. The error names
/// the table and the line of its statement.
pub async fn plan_table(
    context: &SessionContext,
    pipeline: &Pipeline,
    table: &StreamingTable,
    resolver: &dyn StreamResolver,
) -> Result<LogicalPlan> {
    let mut planner = Planner { context, pipeline, resolver, views: BTreeMap::new() };
    let open = &mut vec![table.name.to_lowercase()];
    let plan = planner.query(&table.query, open).await;
    let plan = plan.and_then(|plan| check_stream(plan, &table.query));
    let plan = plan.and_then(|plan| match &table.columns {
        Some(columns) => declared(plan, columns),
        None => Ok(plan),
    });
    let plan = plan.and_then(|plan| check_partitions(plan, &table.partition_by));
    plan.map_err(|error| at_statement(&error, table.kind(), &table.name, table.place))
}

/// The error with the statement that it is about.
fn at_statement(error: &Error, kind: &str, name: &str, place: Place) -> Error {
    let told = |kind: &str| error.to_string().starts_with(&format!("{kind} `"));
    if ["table", "flow", "view"].into_iter().any(told) {
        return Error::new(error.kind(), error.to_string());
    }
    Error::new(error.kind(), format!("{kind} `{name}` (line {}): {}", place.line, error.chain()))
}

struct Planner<'a> {
    context: &'a SessionContext,
    pipeline: &'a Pipeline,
    resolver: &'a dyn StreamResolver,
    /// Views that are planned: a view used twice reads its sources once.
    views: BTreeMap<String, Arc<dyn TableSource>>,
}

impl Planner<'_> {
    fn view(&self, name: &str) -> Option<&View> {
        self.pipeline.statements.iter().find_map(|statement| match statement {
            Statement::View(view) if view.name.to_lowercase() == name.to_lowercase() => Some(view),
            _ => None,
        })
    }

    fn table(&self, name: &str) -> Option<&StreamingTable> {
        self.pipeline.statements.iter().find_map(|statement| match statement {
            Statement::Table(table) if table.name.to_lowercase() == name.to_lowercase() => {
                Some(table)
            }
            _ => None,
        })
    }

    fn query<'b>(
        &'b mut self,
        query: &'b Query,
        open: &'b mut Vec<String>,
    ) -> BoxFuture<'b, Result<LogicalPlan>> {
        Box::pin(async move {
            let mut tables = Tables::default();
            for (place, reference) in query.streams.iter().enumerate() {
                let source = self.stream(reference, open).await?;
                tables.insert(&table_name(place), source);
            }
            for (place, read) in query.wholes.iter().enumerate() {
                let table = self.resolver.whole(read).await?;
                tables.insert(&whole_name(place), provider_as_source(table));
            }
            let own = sql::relations(&query.ast).iter().map(sql::object_name).collect::<Vec<_>>();
            for name in own.into_iter().chain(watermark_clause::names(&query.watermarked)) {
                if tables.get(&name).is_some() {
                    continue;
                }
                if self.view(&name).is_some() {
                    let source = self.planned_view(&name, open).await?;
                    tables.insert(&name, source);
                } else if self.table(&name).is_some() {
                    return Err(Error::invalid(format!(
                        "`{name}` is a streaming table of this file: read it as STREAM({name})"
                    )));
                }
            }
            let state = self.context.state();
            watermark_clause::plan_all(&state, &mut tables, &query.watermarked).await?;
            tables.find_all(&state, &query.ast).await?;
            sql::plan(&state, &tables, query.ast.clone())
        })
    }

    async fn stream(
        &mut self,
        reference: &StreamReference,
        open: &mut Vec<String>,
    ) -> Result<Arc<dyn TableSource>> {
        if let StreamReference::Table { name, place } = reference {
            if self.view(name).is_some() {
                return self.planned_view(name, open).await;
            }
            if open.first() == Some(&name.to_lowercase()) {
                return Err(Error::invalid(format!("line {}: the table reads itself", place.line)));
            }
        }
        let table: Arc<StreamTable> = self.resolver.stream(reference).await?;
        Ok(provider_as_source(table))
    }

    async fn planned_view(
        &mut self,
        name: &str,
        open: &mut Vec<String>,
    ) -> Result<Arc<dyn TableSource>> {
        let key = name.to_lowercase();
        if let Some(done) = self.views.get(&key) {
            return Ok(Arc::clone(done));
        }
        let Some(view) = self.view(name).cloned() else {
            return Err(Error::internal(format!("the view `{name}` is gone")));
        };
        if open.contains(&key) {
            return Err(Error::invalid(format!("the view `{name}` reads itself")));
        }
        if open.len() > VIEW_DEPTH_MAX {
            return Err(Error::invalid(format!(
                "views read views more than {VIEW_DEPTH_MAX} deep"
            )));
        }
        open.push(key.clone());
        let plan = self.query(&view.query, open).await;
        open.pop();
        let plan = plan.map_err(|error| at_statement(&error, "view", &view.name, view.place))?;
        let source = provider_as_source(Arc::new(ViewTable::new(plan, None)));
        self.views.insert(key, Arc::clone(&source));
        Ok(source)
    }
}

/// The result with the declared columns: same names and types, in the declared order, with the
/// declared comments.
fn declared(plan: LogicalPlan, columns: &Schema) -> Result<LogicalPlan> {
    let mut projection = Vec::with_capacity(columns.fields().len());
    for wanted in columns.fields() {
        let found = plan
            .schema()
            .iter()
            .find(|(_, field)| field.name().to_lowercase() == wanted.name().to_lowercase());
        let Some((qualifier, field)) = found else {
            return Err(Error::invalid(format!(
                "the column `{}` is declared but the query does not give it",
                wanted.name()
            )));
        };
        if !wanted.data_type().equals_datatype(field.data_type()) {
            return Err(Error::invalid(format!(
                "the column `{}` is declared {} but the query gives {}; cast it",
                wanted.name(),
                type_name(wanted.data_type()),
                type_name(field.data_type())
            )));
        }
        if !wanted.is_nullable() && field.is_nullable() {
            return Err(Error::invalid(format!(
                "the column `{}` is declared NOT NULL but the query may give NULL",
                wanted.name()
            )));
        }
        let comment = wanted.metadata().get(COMMENT);
        let metadata = comment.map(|comment| {
            FieldMetadata::from(BTreeMap::from([(COMMENT.to_owned(), comment.clone())]))
        });
        let column = Expr::Column(Column::from((qualifier, field)));
        projection.push(column.alias_with_metadata(wanted.name(), metadata));
    }
    if let Some(extra) = plan.schema().fields().iter().find(|field| {
        let name = field.name().to_lowercase();
        !columns.fields().iter().any(|wanted| wanted.name().to_lowercase() == name)
    }) {
        return Err(Error::invalid(format!(
            "the query gives the column `{}`, which is not declared",
            extra.name()
        )));
    }
    let plan = LogicalPlanBuilder::from(plan).project(projection);
    plan.and_then(LogicalPlanBuilder::build).map_err(failure::planning)
}

/// A streaming table reads a stream; without one it would write the same again in each batch.
fn check_stream(plan: LogicalPlan, query: &Query) -> Result<LogicalPlan> {
    let Some(read) = query.wholes.first().filter(|_| !is_streaming(&plan)) else {
        return Ok(plan);
    };
    Err(Error::invalid(format!(
        "line {}, column {}: a streaming table reads a stream: write STREAM before read_{}(…)",
        read.place.line,
        read.place.column,
        read.format.as_deref().filter(|it| ["kafka", "delta"].contains(it)).unwrap_or("files")
    )))
}

fn check_partitions(plan: LogicalPlan, partition_by: &[String]) -> Result<LogicalPlan> {
    for name in partition_by {
        let known = plan
            .schema()
            .fields()
            .iter()
            .any(|field| field.name().to_lowercase() == name.to_lowercase());
        if !known {
            return Err(Error::invalid(format!(
                "PARTITIONED BY names `{name}`, which the query does not give"
            )));
        }
    }
    Ok(plan)
}
