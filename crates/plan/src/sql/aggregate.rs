//! Grouping by expressions, outside a SQL text: what `groupBy(…).agg(…)` means.

use crate::failure;
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as PlanResult;
use datafusion::logical_expr::utils::find_aggregate_exprs;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder};
use onefold_types::{Error, Result};

/// Groups by expressions and computes results, which may be any expressions over aggregates and
/// grouping expressions. The columns are the groups, then the results.
///
/// # Errors
/// Invalid, when a result uses a column that is neither grouped by nor aggregated.
pub fn aggregate(input: LogicalPlan, groups: Vec<Expr>, results: Vec<Expr>) -> Result<LogicalPlan> {
    one_window(&groups)?;
    let keys: Vec<Expr> = groups.iter().map(|group| group.clone().unalias()).collect();
    aggregated(input, groups, keys, results).map_err(failure::planning)
}

/// The same over several sets of groups (`ROLLUP`, `CUBE`, `GROUPING SETS`) at once.
///
/// # Errors
/// As [`aggregate`].
pub fn aggregate_sets(
    input: LogicalPlan,
    groups: Vec<Expr>,
    sets: Expr,
    results: Vec<Expr>,
) -> Result<LogicalPlan> {
    one_window(&groups)?;
    aggregated(input, groups, vec![sets], results).map_err(failure::planning)
}

fn one_window(groups: &[Expr]) -> Result<()> {
    let mut windows = 0;
    for group in groups {
        let found = group.exists(|part| Ok(is_window(part))).map_err(failure::planning)?;
        windows += usize::from(found);
    }
    if windows > 1 {
        return Err(Error::invalid(
            "multiple time/session window expressions would result in a cartesian product of \
             rows, therefore they are currently not supported",
        ));
    }
    Ok(())
}

fn is_window(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if matches!(call.name(), "window" | "session_window"))
}

fn aggregated(
    input: LogicalPlan,
    groups: Vec<Expr>,
    keys: Vec<Expr>,
    results: Vec<Expr>,
) -> PlanResult<LogicalPlan> {
    let aggregates = find_aggregate_exprs(results.iter());
    let distinct = match keys.as_slice() {
        [Expr::GroupingSet(sets)] => sets.distinct_expr().into_iter().cloned().collect(),
        plain => plain.to_vec(),
    };
    let known: Vec<Expr> = distinct.iter().chain(&aggregates).cloned().collect();
    let plan = LogicalPlanBuilder::from(input).aggregate(keys, aggregates)?.build()?;
    // Which of the sets a row belongs to is a column of its own.
    let mut columns: Vec<Column> = plan.schema().columns();
    columns.retain(|column| column.name != Aggregate::INTERNAL_GROUPING_ID);
    let column_of = |expr: &Expr| {
        let place = known.iter().position(|known| known == expr)?;
        columns.get(place).cloned().map(Expr::Column)
    };
    let items: PlanResult<Vec<Expr>> = groups
        .into_iter()
        .chain(results)
        .map(|item| {
            // Which side of a join a column comes from is no part of its name.
            let name = match &item {
                Expr::Column(column) => column.name.clone(),
                other => other.schema_name().to_string(),
            };
            let replaced = item.unalias().transform_down(|part| {
                Ok(match column_of(&part) {
                    Some(column) => Transformed::new(
                        column,
                        true,
                        datafusion::common::tree_node::TreeNodeRecursion::Jump,
                    ),
                    None => Transformed::no(part),
                })
            })?;
            Ok(match replaced.data {
                Expr::Column(column) if column.name == name => Expr::Column(column),
                other => other.alias(name),
            })
        })
        .collect();
    LogicalPlanBuilder::from(plan).project(items?)?.build()
}
