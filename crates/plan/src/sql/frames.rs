//! What a frame says in expressions rather than in a whole query: grouping and sorting.

use super::catalog::Tables;
use super::{plan, text};
use datafusion::catalog::view::ViewTable;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast;
use onefold_types::{Error, Result};
use std::sync::Arc;

/// The name under which the frame stands in the query that is made for it.
const FRAME: &str = "onefold_frame";

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
    let (mut query, _) = text::parse_query(&format!("SELECT * FROM {FRAME}"))?;
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
    over(context, input, query)
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
    let (query, _) =
        text::parse_query(&format!("SELECT * FROM {FRAME} ORDER BY {}", keys.join(", ")))?;
    over(context, input, query)
}

fn over(
    context: &SessionContext,
    input: LogicalPlan,
    query: Box<ast::Query>,
) -> Result<LogicalPlan> {
    let mut tables = Tables::default();
    tables.insert(FRAME, provider_as_source(Arc::new(ViewTable::new(input, None))));
    plan(&context.state(), &tables, query)
}
