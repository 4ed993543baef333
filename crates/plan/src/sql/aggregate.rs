//! Grouping by expressions, outside a SQL text: what `groupBy(…).agg(…)` means.

use crate::failure;
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as PlanResult;
use datafusion::logical_expr::utils::find_aggregate_exprs;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use onefold_types::Result;

/// Groups by expressions and computes results, which may be any expressions over aggregates and
/// grouping expressions. The columns are the groups, then the results.
///
/// # Errors
/// Invalid, when a result uses a column that is neither grouped by nor aggregated.
pub fn aggregate(input: LogicalPlan, groups: Vec<Expr>, results: Vec<Expr>) -> Result<LogicalPlan> {
    aggregated(input, groups, results).map_err(failure::planning)
}

fn aggregated(
    input: LogicalPlan,
    groups: Vec<Expr>,
    results: Vec<Expr>,
) -> PlanResult<LogicalPlan> {
    let keys: Vec<Expr> = groups.iter().map(|group| group.clone().unalias()).collect();
    let aggregates = find_aggregate_exprs(results.iter());
    let known: Vec<Expr> = keys.iter().chain(&aggregates).cloned().collect();
    let plan = LogicalPlanBuilder::from(input).aggregate(keys, aggregates)?.build()?;
    let columns: Vec<Column> = plan.schema().columns();
    let column_of = |expr: &Expr| {
        let place = known.iter().position(|known| known == expr)?;
        columns.get(place).cloned().map(Expr::Column)
    };
    let items: PlanResult<Vec<Expr>> = groups
        .into_iter()
        .chain(results)
        .map(|item| {
            let name = item.schema_name().to_string();
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
