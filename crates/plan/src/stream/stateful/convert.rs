//! Operators over streams as nodes that keep state.

use crate::failure;
use crate::stream::bounds::{JoinBounds, join_bounds};
use crate::stream::event_time::{delay_of, is_session};
use crate::stream::nodes::{
    Deduplicate, EventTimeWatermark, GlobalLimit, Identity, StatefulAggregate, StreamJoin, as_node,
    event_time_column, extension,
};
use crate::stream::table::streaming;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::functions::core::expr_fn::named_struct;
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, Expr, FetchType, Join, Limit, LogicalPlan, SkipType,
    UserDefinedLogicalNodeCore, lit,
};
use onefold_connector::OutputMode;
use onefold_types::Error;
use std::sync::Arc;

pub(super) fn convert(plan: LogicalPlan, mode: OutputMode) -> Result<LogicalPlan> {
    plan.transform_up(|node| {
        if !streaming(&node) {
            return without_stream(node);
        }
        match node {
            LogicalPlan::Aggregate(node) => aggregate(node).map(Transformed::yes),
            LogicalPlan::Distinct(Distinct::All(input)) if !whole_result(&input, mode) => {
                Ok(Transformed::yes(distinct(Arc::unwrap_or_clone(input))))
            }
            LogicalPlan::Limit(node) if !whole_result(&node.input, mode) => {
                limit(node).map(Transformed::yes)
            }
            LogicalPlan::Join(node) if streaming(&node.left) && streaming(&node.right) => {
                join(node, mode).map(Transformed::yes)
            }
            other => Ok(match as_node::<Deduplicate>(&other) {
                Some(node) => {
                    let event_time = event_time_column(node.input.schema());
                    Transformed::yes(extension(Deduplicate { event_time, ..node.clone() }))
                }
                None => Transformed::no(other),
            }),
        }
    })
    .data()
}

/// Whether each batch gives the whole result here: after an aggregation in complete mode.
fn whole_result(plan: &LogicalPlan, mode: OutputMode) -> bool {
    mode == OutputMode::Complete
        && plan.exists(|node| Ok(as_node::<StatefulAggregate>(node).is_some())).unwrap_or(false)
}

/// Over static data a watermark says nothing, and deduplication needs no state.
fn without_stream(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if let Some(node) = as_node::<EventTimeWatermark>(&plan) {
        return Ok(Transformed::yes(node.input.clone()));
    }
    if let Some(node) = as_node::<Deduplicate>(&plan) {
        let all = columns(&node.input);
        let input = Arc::new(node.input.clone());
        let distinct = DistinctOn::try_new(node.keys.clone(), all, None, input)?;
        return Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(distinct))));
    }
    Ok(Transformed::no(plan))
}

fn columns(plan: &LogicalPlan) -> Vec<Expr> {
    let columns = plan.schema().iter();
    columns.map(|(qualifier, field)| Expr::Column(Column::from((qualifier, field)))).collect()
}

fn aggregate(node: Aggregate) -> Result<LogicalPlan> {
    let groups = node.group_expr.len();
    let fields = || node.schema.fields().iter().take(groups);
    let session = fields().position(|field| is_session(field));
    // The session is the event time of its groups, whatever else they have.
    let event_time = session
        .filter(|place| delay_of(node.schema.field(*place)).is_some())
        .or_else(|| fields().position(|field| delay_of(field).is_some()));
    Ok(extension(StatefulAggregate {
        identity: Identity::default(),
        input: Arc::unwrap_or_clone(node.input),
        group: node.group_expr,
        aggregates: node.aggr_expr,
        session,
        event_time,
        schema: node.schema,
    }))
}

fn distinct(input: LogicalPlan) -> LogicalPlan {
    let keys = columns(&input);
    let event_time = event_time_column(input.schema());
    let identity = Identity::default();
    extension(Deduplicate { identity, input, keys, event_time, within_ms: None })
}

fn limit(node: Limit) -> Result<LogicalPlan> {
    let refused = |what: &str| failure::external(Error::invalid(what));
    match node.get_skip_type()? {
        SkipType::Literal(0) => {}
        _ => {
            return Err(refused(
                "offset is not supported on streaming DataFrames/Datasets; take the OFFSET out",
            ));
        }
    }
    let input = Arc::unwrap_or_clone(Arc::clone(&node.input));
    match node.get_fetch_type()? {
        FetchType::Literal(Some(rows)) => Ok(extension(GlobalLimit {
            identity: Identity::default(),
            input,
            rows: u64::try_from(rows).unwrap_or(u64::MAX),
        })),
        FetchType::Literal(None) => Ok(input),
        FetchType::UnsupportedExpr => {
            Err(refused("the LIMIT of a stream must be a literal number"))
        }
    }
}

/// Keys of which NULL equals NULL: values in a struct, which is never NULL itself.
fn null_safe(on: Vec<(Expr, Expr)>) -> Vec<(Expr, Expr)> {
    let wrapped = |key: Expr| named_struct(vec![lit("key"), key]);
    on.into_iter().map(|(left, right)| (wrapped(left), wrapped(right))).collect()
}

fn join(mut node: Join, mode: OutputMode) -> Result<LogicalPlan> {
    let refused = |what: String| failure::external(Error::invalid(what));
    if node.null_equality == NullEquality::NullEqualsNull {
        // What INTERSECT is planned as.
        if node.join_type == JoinType::LeftSemi {
            return Err(refused(
                "intersect of two streaming DataFrames/Datasets is not supported".to_owned(),
            ));
        }
        node.on = null_safe(node.on);
    }
    if node.on.is_empty() {
        return Err(refused(
            "stream-stream join without equality predicate is not supported: the condition needs \
             an equal key"
                .to_owned(),
        ));
    }
    let (left, right) = (Arc::unwrap_or_clone(node.left), Arc::unwrap_or_clone(node.right));
    let bounds = join_bounds(left.schema(), right.schema(), &node.on, node.filter.as_ref());
    check_join(node.join_type, bounds, mode).map_err(failure::external)?;
    let (join_type, identity) = (node.join_type, Identity::default());
    let joined =
        StreamJoin::try_new(identity, (left, right), join_type, node.on, node.filter, bounds)?;
    debug_assert_eq!(joined.schema().fields().len(), node.schema.fields().len());
    Ok(extension(joined))
}

/// An unmatched row may come out once it is known that nothing will match it.
fn check_join(
    join_type: JoinType,
    bounds: JoinBounds,
    mode: OutputMode,
) -> std::result::Result<(), Error> {
    let (name, bounded) = match join_type {
        JoinType::Inner => return Ok(()),
        JoinType::Left => ("LeftOuter", bounds.left.is_some()),
        JoinType::LeftSemi => ("LeftSemi", bounds.left.is_some()),
        JoinType::Right => ("RightOuter", bounds.right.is_some()),
        JoinType::RightSemi => ("RightSemi", bounds.right.is_some()),
        JoinType::Full => ("FullOuter", bounds.left.is_some() || bounds.right.is_some()),
        JoinType::LeftAnti | JoinType::RightAnti | JoinType::LeftMark | JoinType::RightMark => {
            return Err(Error::invalid(
                "an anti join (also NOT IN, NOT EXISTS and EXCEPT) of two streaming \
                 DataFrames/Datasets is not supported",
            ));
        }
    };
    if mode == OutputMode::Update {
        return Err(Error::invalid(format!(
            "{name} join of two streaming DataFrames/Datasets is not supported in update output \
             mode, only in append output mode"
        )));
    }
    if bounded {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "stream-stream {name} join between two streaming DataFrames/Datasets is not supported \
         without a watermark in the join keys, or a watermark on the nullable side and an \
         appropriate range condition"
    )))
}
