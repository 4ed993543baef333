//! What a streaming query may have. Sentences follow Spark's, so that its users find them.

use super::table::streaming;
use crate::failure;
use datafusion::common::JoinType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result as PlanResult;
use datafusion::logical_expr::{Distinct, Expr, Join, LogicalPlan};
use onefold_connector::OutputMode;
use onefold_types::{Error, Result};

/// Checks the whole plan.
pub(super) fn check(plan: &LogicalPlan, mode: OutputMode) -> Result<()> {
    if !streaming(plan) {
        return Err(Error::invalid(
            "write_stream() can be called only on a streaming query: this one reads no stream",
        ));
    }
    let walked = plan.apply(|node| {
        check_node(node).map_err(failure::external)?;
        Ok(TreeNodeRecursion::Continue)
    });
    walked.map_err(failure::planning)?;
    if mode == OutputMode::Complete {
        return Err(Error::invalid(
            "complete output mode not supported when there are no streaming aggregations on \
             streaming DataFrames/Datasets; use append or update",
        ));
    }
    Ok(())
}

fn check_node(node: &LogicalPlan) -> Result<()> {
    check_expressions(node).map_err(failure::planning)?;
    if !node.inputs().iter().any(|input| streaming(input)) {
        // Only reads static data, or is a scan.
        return Ok(());
    }
    match node {
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::Unnest(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::TableScan(_) => Ok(()),
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
        LogicalPlan::Aggregate(_) => Err(needs_state("streaming aggregation (GROUP BY)")),
        LogicalPlan::Distinct(Distinct::On(_)) => Err(needs_state("DISTINCT ON over a stream")),
        LogicalPlan::Distinct(Distinct::All(_)) => Err(needs_state(
            "DISTINCT (also UNION without ALL, INTERSECT and EXCEPT) over a stream",
        )),
        LogicalPlan::Sort(_) => Err(Error::invalid(
            "sorting is not supported on streaming DataFrames/Datasets, unless it is on an \
             aggregated DataFrame/Dataset in complete output mode; take the ORDER BY out",
        )),
        LogicalPlan::Limit(_) => Err(needs_state("LIMIT or OFFSET over a stream")),
        LogicalPlan::Window(_) => Err(Error::invalid(
            "non-time-based windows are not supported on streaming DataFrames/Datasets: take the \
             window function (OVER …) out",
        )),
        LogicalPlan::RecursiveQuery(_) => {
            Err(Error::invalid("a recursive query over a stream is not supported"))
        }
        LogicalPlan::Extension(extension) => Err(Error::invalid(format!(
            "the operation {} over a stream is not supported",
            extension.node.name()
        ))),
        other => {
            Err(Error::invalid(format!("{} is not part of a streaming query", statement(other))))
        }
    }
}

fn needs_state(what: &str) -> Error {
    Error::invalid(format!(
        "{what} is not supported: it needs state, which this version of Onefold does not have yet"
    ))
}

fn check_join(join: &Join) -> Result<()> {
    let (left, right) = (streaming(&join.left), streaming(&join.right));
    if left && right {
        return Err(needs_state(match join.join_type {
            JoinType::LeftSemi | JoinType::RightSemi => {
                "a semi join of two streams (also IN, EXISTS and INTERSECT)"
            }
            JoinType::LeftAnti | JoinType::RightAnti => {
                "an anti join of two streams (also NOT IN, NOT EXISTS and EXCEPT)"
            }
            _ => "a join of two streams",
        }));
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
                return Err(failure::external(needs_state("a subquery that reads a stream")));
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
