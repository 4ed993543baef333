//! Columns of one name in a SELECT. Spark gives them all; the planner wants names that tell columns
//! apart, so that the later ones get another one inside, and the query's result their own again.

use super::scope::{Column, ident};
use datafusion::common::Column as PlannedColumn;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr as PlannedExpr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{Expr, SelectItem};

/// What the planner tells a column by: the table whose column it is, and the name.
fn told_by(item: &SelectItem) -> Option<(Option<String>, &str)> {
    let SelectItem::ExprWithAlias { expr, alias } = item else { return None };
    let table = match expr {
        Expr::CompoundIdentifier(path) => match path.as_slice() {
            [table, name] if name.value == alias.value => Some(table.value.clone()),
            _ => None,
        },
        _ => None,
    };
    Some((table, alias.value.as_str()))
}

/// Gives items names of their own, where the planner could not tell them from earlier ones; `columns`
/// are those that the items make.
pub(super) fn told_apart(items: &mut [SelectItem], columns: &mut [Column]) {
    if items.len() != columns.len() {
        return;
    }
    let mut seen: Vec<(Option<String>, String)> = Vec::with_capacity(items.len());
    for (place, (item, column)) in items.iter_mut().zip(columns).enumerate() {
        let Some((table, name)) = told_by(item) else { continue };
        let taken = seen.iter().any(|(other, known)| {
            known == name && (table.is_none() || other.is_none() || *other == table)
        });
        if !taken {
            seen.push((table, name.to_owned()));
            continue;
        }
        let own = format!("{name}#{place}");
        if let SelectItem::ExprWithAlias { alias, .. } = item {
            *alias = ident(&own);
        }
        column.inner = Some(own);
    }
}

/// The plan of a query with the names that its columns have for the user.
pub(super) fn named(plan: LogicalPlan, columns: &[Column]) -> Result<LogicalPlan> {
    let renamed = columns.iter().any(|column| column.inner.is_some());
    if !renamed || plan.schema().fields().len() != columns.len() {
        return Ok(plan);
    }
    let same = |name: &str| columns.iter().filter(|column| column.name == name).count() > 1;
    let items: Vec<PlannedExpr> = plan
        .schema()
        .iter()
        .zip(columns)
        .enumerate()
        .map(|(place, ((qualifier, field), column))| {
            let value = PlannedExpr::Column(PlannedColumn::from((qualifier, field)));
            match same(&column.name) {
                true => value.alias_qualified(Some(format!("#again{place}")), &column.name),
                false => value,
            }
        })
        .collect();
    LogicalPlanBuilder::from(plan).project(items)?.build()
}
