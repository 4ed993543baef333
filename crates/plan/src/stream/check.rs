//! What a streaming query may have. Sentences follow Spark's, so that its users find them.

mod modes;

use super::nodes::{Deduplicate, EventTimeWatermark, UserState, as_node};
use super::table::streaming;
use crate::failure;
use crate::observe::Observed;
use datafusion::common::JoinType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result as PlanResult;
use datafusion::logical_expr::{Distinct, Expr, Join, LogicalPlan};
use onefold_connector::OutputMode;
use onefold_types::{Error, Result};

/// Checks the whole plan. What depends on a join's condition is checked when the plan is lowered.
pub(super) fn check(plan: &LogicalPlan, mode: OutputMode) -> Result<()> {
    if !streaming(plan) {
        return Err(Error::invalid(
            "write_stream() can be called only on a streaming query: this one reads no stream",
        ));
    }
    let walked = plan.apply(|node| {
        check_node(node, mode).map_err(failure::external)?;
        Ok(TreeNodeRecursion::Continue)
    });
    walked.map_err(failure::planning)?;
    modes::check(plan, mode)
}

fn check_node(node: &LogicalPlan, mode: OutputMode) -> Result<()> {
    check_expressions(node).map_err(failure::planning)?;
    if !node.inputs().iter().any(|input| streaming(input)) {
        // Only reads static data, or is a scan.
        return Ok(());
    }
    match node {
        LogicalPlan::Projection(projection) if numbers_rows(&projection.expr)? => {
            Err(non_time_window())
        }
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::Unnest(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::TableScan(_)
        | LogicalPlan::Distinct(Distinct::All(_)) => Ok(()),
        LogicalPlan::Union(union) => {
            if union.inputs.iter().all(|input| streaming(input)) {
                return Ok(());
            }
            Err(Error::invalid(
                "union between streaming and batch DataFrames/Datasets is not supported: the \
                 static rows would come again with each batch",
            ))
        }
        LogicalPlan::Join(join) => check_join(join),
        LogicalPlan::Aggregate(aggregate) => modes::check_aggregate(aggregate, mode),
        LogicalPlan::Distinct(Distinct::On(_)) => {
            Err(Error::invalid("DISTINCT ON over a stream is not supported: use dropDuplicates"))
        }
        LogicalPlan::Sort(_) if modes::whole_result(node, mode) => Ok(()),
        LogicalPlan::Sort(_) => Err(Error::invalid(
            "sorting is not supported on streaming DataFrames/Datasets, unless it is on an \
             aggregated DataFrame/Dataset in complete output mode; take the ORDER BY out",
        )),
        LogicalPlan::Limit(_) if mode == OutputMode::Update => Err(Error::invalid(
            "limits are not supported on streaming DataFrames/Datasets in update output mode",
        )),
        LogicalPlan::Limit(_) => Ok(()),
        LogicalPlan::Window(_) => Err(non_time_window()),
        LogicalPlan::RecursiveQuery(_) => {
            Err(Error::invalid("a recursive query over a stream is not supported"))
        }
        LogicalPlan::Extension(extension) => {
            if as_node::<EventTimeWatermark>(node).is_some() {
                return modes::check_watermark(node);
            }
            if as_node::<Observed>(node).is_some() {
                return Ok(());
            }
            if let Some(deduplicate) = as_node::<Deduplicate>(node) {
                return modes::check_deduplicate(deduplicate, mode);
            }
            if let Some(own) = as_node::<UserState>(node) {
                return modes::check_user_state(own, mode);
            }
            Err(Error::invalid(format!(
                "the operation {} over a stream is not supported",
                extension.node.name()
            )))
        }
        other => {
            Err(Error::invalid(format!("{} is not part of a streaming query", statement(other))))
        }
    }
}

fn non_time_window() -> Error {
    Error::invalid(
        "non-time-based windows are not supported on streaming DataFrames/Datasets: take the \
         window function (OVER …) out",
    )
}

/// Whether an expression has a function over other rows (`OVER …`).
fn numbers_rows(exprs: &[Expr]) -> Result<bool> {
    for expr in exprs {
        let over = |part: &Expr| Ok(matches!(part, Expr::WindowFunction(_)));
        if expr.exists(over).map_err(failure::planning)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn check_join(join: &Join) -> Result<()> {
    let (left, right) = (streaming(&join.left), streaming(&join.right));
    if left && right {
        // Its condition decides; it is looked at when the equal keys are known.
        return Ok(());
    }
    // The side whose rows are kept must be the stream: nobody knows which static rows no later
    // batch will match.
    let (fits, name) = match join.join_type {
        JoinType::Inner => (true, "inner join"),
        JoinType::Left => (left, "left outer join"),
        JoinType::LeftSemi => (left, "left semi join"),
        JoinType::LeftAnti => (left, "left anti join"),
        JoinType::LeftMark => (left, "left mark join"),
        JoinType::Right => (right, "right outer join"),
        JoinType::RightSemi => (right, "right semi join"),
        JoinType::RightAnti => (right, "right anti join"),
        JoinType::RightMark => (right, "right mark join"),
        JoinType::Full => (false, "full outer join"),
    };
    if fits {
        return Ok(());
    }
    let (stream, other) = if left { ("left", "right") } else { ("right", "left") };
    Err(Error::invalid(format!(
        "{name} with a streaming DataFrame/Dataset on the {stream} and a static DataFrame/Dataset \
         on the {other} is not supported"
    )))
}

/// Subqueries in expressions may read static tables only; parameters must have values.
fn check_expressions(node: &LogicalPlan) -> PlanResult<()> {
    node.apply_expressions(|expr| {
        expr.apply(|part| {
            let subquery = match part {
                Expr::Exists(exists) => Some(&exists.subquery),
                Expr::InSubquery(within) => Some(&within.subquery),
                Expr::SetComparison(comparison) => Some(&comparison.subquery),
                Expr::ScalarSubquery(subquery) => Some(subquery),
                Expr::Placeholder(parameter) => {
                    return Err(failure::external(Error::invalid(format!(
                        "the query has a parameter `{}` that has no value",
                        parameter.id
                    ))));
                }
                _ => None,
            };
            if subquery.is_some_and(|subquery| streaming(&subquery.subquery)) {
                return Err(failure::external(Error::invalid(
                    "a subquery that reads a stream is not supported: join the streams",
                )));
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })
    .map(|_| ())
}

fn statement(plan: &LogicalPlan) -> &'static str {
    match plan {
        LogicalPlan::Dml(_) => "INSERT, UPDATE or DELETE",
        LogicalPlan::Ddl(_) => "CREATE or DROP",
        LogicalPlan::Copy(_) => "COPY",
        LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => "EXPLAIN",
        LogicalPlan::DescribeTable(_) => "DESCRIBE",
        LogicalPlan::Statement(_) => "a statement that is no query",
        _ => "this operation",
    }
}
