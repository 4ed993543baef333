//! Queries and expressions in Spark's SQL.
//!
//! DataFusion's planner does the work; this module brings Spark's text to it: names without case
//! (`userId` finds `userid` and the other way round), hidden columns left out of `*`, Spark's
//! column names for expressions without an alias, Spark's operators, casts and literals. Errors of
//! parsing point at line and column of the text.
//!
//! Where to start: [`query`], [`select_items`], [`expression`].

mod aggregate;
pub(crate) mod aliases;
mod catalog;
pub(crate) mod coercion;
mod counted;
mod dialect;
mod forms;
mod frames;
pub(crate) mod generate;
mod intervals;
mod lateral_alias;
mod lateral_view;
mod literals;
mod naming;
mod pivot;
mod project;
mod registered;
mod repeated;
mod resolve;
mod rewrite;
mod scope;
mod table_functions;
pub(crate) mod text;
mod using;
mod values;
pub(crate) mod watermark_clause;
mod window_names;

use crate::failure;
use crate::functions::floats;
use crate::stream::{HIDDEN, hidden};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, ExprSchema};
use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::FieldMetadata;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use datafusion::prelude::SessionContext;
use datafusion::sql::planner::{PlannerContext, SqlToRel};
use datafusion::sql::sqlparser::ast;
use onefold_types::{Error, Result};
use std::collections::BTreeMap;

pub use aggregate::{aggregate, aggregate_sets};
pub(crate) use catalog::{Tables, object_name, relations};
pub use coercion::alike;
pub use frames::{group_by, order_by, sort};
pub use project::project;
pub use text::SQL_BYTES_MAX;

/// Plans one query (`SELECT …`, `WITH …`, `VALUES …`) over the tables of the session.
///
/// # Errors
/// Invalid: the text does not parse (with line, column and the line itself), or does not fit the
/// tables.
pub async fn query(context: &SessionContext, sql: &str) -> Result<LogicalPlan> {
    let (ast, watermarked) = text::parse_query(sql)?;
    let state = context.state();
    let mut tables = Tables::default();
    watermark_clause::plan_all(&state, &mut tables, &watermarked).await?;
    tables.find_all(&state, &ast).await?;
    plan(&state, &tables, ast)
}

/// Plans the items of a projection, as `selectExpr` takes them: `*`, `a`, `a + 1 AS b`. One text
/// may give several columns.
///
/// # Errors
/// As [`query`].
pub fn select_items(context: &SessionContext, schema: &DFSchema, sql: &str) -> Result<Vec<Expr>> {
    items(&context.state(), schema, text::parse_select_item(sql)?)
}

/// As [`select_items`], of an item that is parsed already.
///
/// # Errors
/// As [`query`].
pub fn select_item_of(
    context: &SessionContext,
    schema: &DFSchema,
    item: ast::SelectItem,
) -> Result<Vec<Expr>> {
    items(&context.state(), schema, item)
}

fn items(state: &SessionState, schema: &DFSchema, mut item: ast::SelectItem) -> Result<Vec<Expr>> {
    let items = resolve::select_item(&mut item, schema)?;
    items.into_iter().map(|(ast, name)| lower(state, schema, ast, name)).collect()
}

/// Plans one expression, as `filter` and `withColumn` take it.
///
/// # Errors
/// As [`query`].
pub fn expression(context: &SessionContext, schema: &DFSchema, sql: &str) -> Result<Expr> {
    expression_of(context, schema, text::parse_expression(sql)?)
}

/// As [`expression`], of one that is parsed already.
///
/// # Errors
/// As [`query`].
pub fn expression_of(
    context: &SessionContext,
    schema: &DFSchema,
    mut ast: ast::Expr,
) -> Result<Expr> {
    resolve::expression(&mut ast, schema)?;
    lower(&context.state(), schema, ast, None)
}

/// Parses an item of a projection: `*`, `a`, `a + 1 AS b`.
///
/// # Errors
/// Invalid, with line and column.
pub fn parse_select_item(sql: &str) -> Result<ast::SelectItem> {
    text::parse_select_item(sql)
}

/// Parses an expression of Spark's SQL.
///
/// # Errors
/// Invalid, with line and column.
pub fn parse_expression(sql: &str) -> Result<ast::Expr> {
    text::parse_expression(sql)
}

/// The column that a name means, without case; `_metadata` and other hidden ones included.
///
/// # Errors
/// Invalid, when there is none or more than one.
pub fn column(schema: &DFSchema, name: &str) -> Result<Expr> {
    let wanted = name.to_lowercase();
    let mut found =
        schema.iter().filter(|(_, field)| field.name().to_lowercase() == wanted).peekable();
    match (found.next(), found.peek()) {
        (Some((qualifier, field)), None) => {
            let column = Expr::Column(Column::from((qualifier, field)));
            Ok(if hidden(field) { shown(column, field.name()) } else { column })
        }
        (Some(_), Some(_)) => Err(Error::invalid(format!("the column `{name}` is ambiguous"))),
        (None, _) => {
            let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            Err(Error::invalid(format!(
                "there is no column `{name}`; there are {}",
                names.join(", ")
            )))
        }
    }
}

fn lower(
    state: &SessionState,
    schema: &DFSchema,
    mut ast: ast::Expr,
    name: Option<String>,
) -> Result<Expr> {
    registered::pin(state, &mut ast)?;
    let tables = Tables::default();
    let catalog = catalog::Catalog::new(state, &tables);
    let planner = SqlToRel::new_with_options(&catalog, catalog::options());
    let expr =
        planner.sql_to_expr(ast, schema, &mut PlannerContext::new()).map_err(failure::planning)?;
    let expr = coercion::with_typed_branches(expr, schema).map_err(failure::planning)?;
    let Some(name) = name else { return Ok(expr) };
    if let Expr::Column(column) = &expr {
        let field = schema.field_from_column(column).map_err(failure::planning)?;
        if hidden(field) {
            return Ok(shown(expr, &name));
        }
        if column.name == name {
            return Ok(expr);
        }
    }
    Ok(expr.alias(name))
}

/// A hidden column that was named: a column like others from here on.
fn shown(column: Expr, name: &str) -> Expr {
    let mark = BTreeMap::from([(HIDDEN.to_owned(), "false".to_owned())]);
    column.alias_with_metadata(name, Some(FieldMetadata::from(mark)))
}

/// Plans a parsed query over tables that are already found.
pub(crate) fn plan(
    state: &SessionState,
    tables: &Tables,
    mut query: Box<ast::Query>,
) -> Result<LogicalPlan> {
    let columns = resolve::query(&mut query, tables)?;
    registered::pin(state, &mut query)?;
    let catalog = catalog::Catalog::new(state, tables);
    let planner = SqlToRel::new_with_options(&catalog, catalog::options());
    let plan =
        planner.sql_statement_to_plan(ast::Statement::Query(query)).map_err(failure::planning)?;
    let plan = coercion::typed(plan).map_err(failure::planning)?;
    let plan = show_named(plan).and_then(generate::spread).and_then(sort_floats);
    plan.and_then(|plan| repeated::named(plan, &columns)).map_err(failure::planning)
}

/// Sorts floats as Spark does: NaN after all numbers, zeros as equal.
fn sort_floats(plan: LogicalPlan) -> Result<LogicalPlan, DataFusionError> {
    let sorted = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Sort(mut sort) = node else { return Ok(Transformed::no(node)) };
        for key in &mut sort.expr {
            if key.expr.get_type(sort.input.schema()).is_ok_and(|it| floats::has_floats(&it)) {
                key.expr = floats::in_order(std::mem::take(&mut key.expr));
            }
        }
        Ok(Transformed::yes(LogicalPlan::Sort(sort)))
    })?;
    Ok(sorted.data)
}

/// Hidden columns in the result were named, since wildcards leave them out.
fn show_named(plan: LogicalPlan) -> Result<LogicalPlan, DataFusionError> {
    if !plan.schema().fields().iter().any(|field| hidden(field)) {
        return Ok(plan);
    }
    let columns: Vec<Expr> = plan
        .schema()
        .iter()
        .map(|(qualifier, field)| {
            let column = Expr::Column(Column::from((qualifier, field)));
            if hidden(field) { shown(column, field.name()) } else { column }
        })
        .collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}
