//! What a frame says in expressions rather than in a whole query: grouping and sorting.

use super::aggregate::aggregate;
use super::scope::{Scope, relations_of};
use super::{expression_of, items, text, window_names};
use crate::failure;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, SortExpr};
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast;
use onefold_types::{Error, Result};

/// Plans `groupBy(group).agg(aggregates)`: the columns of the group, then the aggregates. Both are
/// items of a projection, such as `window(ts, '1 minute')`, `k` and `count(*) AS n`. Without a
/// group it is one row over all.
///
/// # Errors
/// As [`query`](super::query).
pub fn group_by(
    context: &SessionContext,
    input: LogicalPlan,
    group: &[&str],
    aggregates: &[&str],
) -> Result<LogicalPlan> {
    let (mut query, _) = text::parse_query("SELECT 1")?;
    let ast::SetExpr::Select(select) = query.body.as_mut() else {
        return Err(Error::internal("a SELECT is no SELECT"));
    };
    let mut keys = Vec::with_capacity(group.len());
    select.projection.clear();
    for item in group {
        let item = text::parse_select_item(item)?;
        keys.push(match &item {
            ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. } => {
                expr.clone()
            }
            _ => return Err(Error::invalid(format!("`{item}` cannot be grouped by"))),
        });
        select.projection.push(item);
    }
    for item in aggregates {
        select.projection.push(text::parse_select_item(item)?);
    }
    select.group_by = ast::GroupByExpr::Expressions(keys, Vec::new());
    let scope = Scope { relations: relations_of(input.schema()), parent: None };
    window_names::put_in(select, &scope);
    let state = context.state();
    let (mut groups, mut results) = (Vec::new(), Vec::new());
    for (place, item) in std::mem::take(&mut select.projection).into_iter().enumerate() {
        let planned = items(&state, input.schema(), item)?;
        if place < group.len() { groups.extend(planned) } else { results.extend(planned) }
    }
    aggregate(input, groups, results)
}

/// Plans `orderBy(keys)`: expressions, each with `ASC` or `DESC` and `NULLS FIRST` or `NULLS LAST`
/// behind it if wanted.
///
/// # Errors
/// As [`query`](super::query).
pub fn order_by(
    context: &SessionContext,
    input: LogicalPlan,
    keys: &[&str],
) -> Result<LogicalPlan> {
    let (query, _) = text::parse_query(&format!("SELECT 1 ORDER BY {}", keys.join(", ")))?;
    match query.order_by.map(|order_by| order_by.kind) {
        Some(ast::OrderByKind::Expressions(keys)) => sort(context, input, keys),
        _ => Err(Error::invalid("a frame is ordered by expressions; name them")),
    }
}

/// As [`order_by`], of keys that are parsed already.
///
/// # Errors
/// As [`query`](super::query).
pub fn sort(
    context: &SessionContext,
    input: LogicalPlan,
    keys: Vec<ast::OrderByExpr>,
) -> Result<LogicalPlan> {
    let mut order: Vec<SortExpr> = Vec::with_capacity(keys.len());
    for key in keys {
        let expr = expression_of(context, input.schema(), key.expr)?;
        let ascending = key.options.asc.unwrap_or(true);
        // As in Spark NULL is the least value.
        order.push(expr.sort(ascending, key.options.nulls_first.unwrap_or(ascending)));
    }
    LogicalPlanBuilder::from(input)
        .sort(order)
        .and_then(LogicalPlanBuilder::build)
        .map_err(failure::planning)
}
