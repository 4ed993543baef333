//! Projections outside a SQL text: what `select(…)` means.

use super::generate;
use crate::failure;
use datafusion::common::TableReference;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result as PlanResult;
use datafusion::logical_expr::expr_rewriter::normalize_cols;
use datafusion::logical_expr::utils::{find_aggregate_exprs, find_window_exprs};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use onefold_types::Result;
use std::collections::HashMap;

/// Computes items over the rows of a plan: plain expressions, functions over windows of rows, and
/// at most one function that makes several rows of one. Two columns may have one name. Aggregates
/// among them are over all rows, as in `df.select(sum("n"))`.
///
/// # Errors
/// Invalid, when an item does not fit the columns.
pub fn project(input: LogicalPlan, items: Vec<Expr>) -> Result<LogicalPlan> {
    let over_all = !find_aggregate_exprs(items.iter()).is_empty();
    if over_all && find_window_exprs(items.iter()).is_empty() {
        return super::aggregate::aggregate(input, Vec::new(), items);
    }
    projected(input, items).map_err(failure::planning)
}

fn projected(input: LogicalPlan, items: Vec<Expr>) -> PlanResult<LogicalPlan> {
    let items = normalize_cols(items, &input)?;
    let windows = find_window_exprs(items.iter());
    let (input, items) = if windows.is_empty() {
        (input, items)
    } else {
        let items: PlanResult<Vec<Expr>> =
            items.into_iter().map(|item| with_windows_named(item, &windows)).collect();
        (LogicalPlanBuilder::window_plan(input, windows)?, items?)
    };
    let plan = LogicalPlanBuilder::from(input).project(told_apart(items))?.build()?;
    generate::spread(plan)
}

/// The item with columns in place of functions over windows, which are computed below.
fn with_windows_named(item: Expr, windows: &[Expr]) -> PlanResult<Expr> {
    let name = item.schema_name().to_string();
    let replaced = item.transform_down(|part| {
        if !windows.contains(&part) {
            return Ok(Transformed::no(part));
        }
        let column =
            Expr::Column(datafusion::common::Column::from_name(part.schema_name().to_string()));
        Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
    })?;
    Ok(match (replaced.transformed, replaced.data) {
        (true, expr @ Expr::Alias(_)) => expr,
        (true, expr) => expr.alias(name),
        (false, expr) => expr,
    })
}

/// Columns of one name get qualifiers of their own: a schema may have a name several times then, and
/// whoever asks for it hears that it is ambiguous.
fn told_apart(items: Vec<Expr>) -> Vec<Expr> {
    let mut seen: HashMap<String, Vec<Option<TableReference>>> = HashMap::new();
    for item in &items {
        let (qualifier, name) = item.qualified_name();
        seen.entry(name).or_default().push(qualifier);
    }
    let mut again = 0_usize;
    items
        .into_iter()
        .map(|item| {
            let (qualifier, name) = item.qualified_name();
            let qualifiers = seen.get(&name).map(Vec::as_slice).unwrap_or_default();
            let same = qualifiers.iter().filter(|known| **known == qualifier).count();
            if qualifiers.len() == 1 || (qualifier.is_some() && same == 1) {
                return item;
            }
            again += 1;
            item.unalias().alias_qualified(Some(format!("#again{again}")), name)
        })
        .collect()
}
