//! Which operators with state go with which output mode.

use super::super::event_time::{delay_of, is_session};
use super::super::nodes::{Deduplicate, EventTimeWatermark, UserFunction, UserState, as_node};
use super::super::stateful::dedup_event_time;
use super::super::table::streaming;
use crate::failure;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Aggregate, Distinct, Expr, LogicalPlan};
use onefold_connector::OutputMode;
use onefold_types::{Error, Result};

fn name(mode: OutputMode) -> &'static str {
    match mode {
        OutputMode::Append => "append",
        OutputMode::Update => "update",
        OutputMode::Complete => "complete",
    }
}

/// Checks what concerns more than one node.
pub(super) fn check(plan: &LogicalPlan, mode: OutputMode) -> Result<()> {
    let aggregates = count(plan, |node| matches!(node, LogicalPlan::Aggregate(_)))?;
    if mode == OutputMode::Complete && aggregates == 0 {
        return Err(Error::invalid(
            "complete output mode not supported when there are no streaming aggregations on \
             streaming DataFrames/Datasets; use append or update",
        ));
    }
    let chained = count(plan, chains)?;
    if chained > 1 && mode != OutputMode::Append {
        return Err(Error::invalid(format!(
            "multiple stateful operators are not supported in {} output mode, only in append \
             output mode",
            name(mode)
        )));
    }
    Ok(())
}

fn count(plan: &LogicalPlan, wanted: impl Fn(&LogicalPlan) -> bool) -> Result<usize> {
    let mut found = 0;
    plan.apply(|node| {
        found += usize::from(wanted(node) && streaming(node));
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(failure::planning)?;
    Ok(found)
}

/// Operators of which only append mode can have several: what comes out of one may change later
/// in the others.
fn chains(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Aggregate(_) => true,
        LogicalPlan::Join(join) => streaming(&join.left) && streaming(&join.right),
        _ if as_node::<UserState>(node).is_some() => true,
        _ => as_node::<Deduplicate>(node)
            .is_some_and(|node| node.within_ms.is_some() || dedup_event_time(node).is_some()),
    }
}

/// Whether each batch gives the whole result here: after an aggregation in complete mode.
pub(super) fn whole_result(node: &LogicalPlan, mode: OutputMode) -> bool {
    mode == OutputMode::Complete
        && count(node, |node| matches!(node, LogicalPlan::Aggregate(_))).is_ok_and(|it| it > 0)
}

pub(super) fn check_aggregate(aggregate: &Aggregate, mode: OutputMode) -> Result<()> {
    if aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
        return Err(Error::invalid(
            "grouping sets, CUBE and ROLLUP are not supported on streaming DataFrames/Datasets",
        ));
    }
    let groups = aggregate.group_expr.len();
    let fields = || aggregate.schema.fields().iter().take(groups);
    if let Some(session) = fields().position(|field| is_session(field)) {
        if mode == OutputMode::Update {
            return Err(Error::invalid(
                "update output mode not supported for session window on streaming \
                 DataFrames/Datasets",
            ));
        }
        if groups < 2 {
            return Err(Error::invalid(
                "a session window needs a key beside it: a global session window on streaming \
                 DataFrames/Datasets is not supported",
            ));
        }
        let others = fields().enumerate().filter(|(place, _)| *place != session);
        if others.into_iter().any(|(_, field)| is_session(field)) {
            return Err(Error::invalid("a query can group by one session window only"));
        }
    }
    let watermark = fields().any(|field| delay_of(field).is_some());
    if mode == OutputMode::Append && !watermark {
        return Err(Error::invalid(
            "append output mode not supported when there are streaming aggregations on streaming \
             DataFrames/DataSets without watermark; group by a window or column that has one \
             (withWatermark, or WATERMARK … DELAY OF … in SQL), or use update or complete",
        ));
    }
    Ok(())
}

/// A second watermark on the way from a source would make two meanings of late.
pub(super) fn check_watermark(node: &LogicalPlan) -> Result<()> {
    let below = node.inputs().into_iter().try_fold(0, |sum, input| {
        Ok::<usize, Error>(sum + count(input, |it| as_node::<EventTimeWatermark>(it).is_some())?)
    })?;
    if below == 0 {
        return Ok(());
    }
    Err(Error::invalid(
        "redefining watermark is disallowed: the input of withWatermark has a watermark already",
    ))
}

pub(super) fn check_deduplicate(node: &Deduplicate, mode: OutputMode) -> Result<()> {
    let after = count(&node.input, |it| {
        matches!(it, LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(Distinct::On(_)))
    })?;
    if after > 0 && mode != OutputMode::Append {
        return Err(Error::invalid(format!(
            "dropDuplicates is not supported after aggregation on a streaming DataFrame/Dataset \
             in {} output mode",
            name(mode)
        )));
    }
    Ok(())
}

pub(super) fn check_user_state(node: &UserState, mode: OutputMode) -> Result<()> {
    let kind = match node.function {
        UserFunction::Groups(_) => "[map|flatMap]GroupsWithState",
        UserFunction::Transform(_) => "transformWithState",
    };
    if let Some(own) = node.function.mode().filter(|own| *own != mode) {
        return Err(Error::invalid(format!(
            "{kind} in {} mode is not supported with {} output mode on a streaming \
             DataFrame/Dataset",
            name(own),
            name(mode)
        )));
    }
    let aggregates = count(&node.input, |it| matches!(it, LogicalPlan::Aggregate(_)))?;
    if aggregates > 0 && mode != OutputMode::Append {
        return Err(Error::invalid(format!(
            "{kind} in {} mode is not supported with aggregation on a streaming DataFrame/Dataset",
            name(mode)
        )));
    }
    Ok(())
}
