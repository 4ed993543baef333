//! Calls to the outside world in the plan of a stream.
//!
//! A plan is made once, and a batch has its own log of what was answered. So the plan has a mark where a call
//! stands, and each batch puts the function there.

use super::BatchContext;
use crate::functions::http_call::{CallSite, Handle, NAME, function, misplaced};
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, ident};
use std::sync::Arc;

/// The mark for a call, if the function is one.
pub(super) fn mark(call: &ScalarFunction, sites: &mut u32) -> Option<ScalarFunction> {
    if call.func.name() != NAME || call.func.as_async().is_none() {
        return None;
    }
    *sites += 1;
    let udf = Arc::new(CallSite::udf(*sites));
    Some(ScalarFunction::new_udf(udf, call.args.clone()))
}

/// Gives a projection of their own below to calls that stand in the arguments of others, and to those that
/// stand in several places: the optimiser puts them there where it takes a reply apart. No two calls of the
/// user are equal, so that equal ones are one.
pub(super) fn unnest(plan: LogicalPlan) -> Result<LogicalPlan> {
    let unnested = plan.transform_down_with_subqueries(|node| {
        let LogicalPlan::Projection(projection) = &node else { return Ok(Transformed::no(node)) };
        let names = NamePreserver::new(&node);
        let mut lifted = Vec::new();
        let several = several_times(&projection.expr)?;
        let above = projection.expr.iter().map(|expr| {
            let name = names.save(expr);
            let above = match several {
                true => lift_all(expr.clone(), &mut lifted),
                false => lift(expr.clone(), &mut lifted),
            };
            above.map(|expr| name.restore(expr))
        });
        let above: Vec<Expr> = above.collect::<Result<_>>()?;
        if lifted.is_empty() {
            return Ok(Transformed::no(node));
        }
        let input = &projection.input;
        let kept = input.schema().iter().map(|field| Expr::Column(Column::from(field)));
        let below: Vec<Expr> = kept.chain(lifted).collect();
        let below = LogicalPlan::Projection(Projection::try_new(below, Arc::clone(input))?);
        let schema = Arc::clone(&projection.schema);
        let above = Projection::try_new_with_schema(above, Arc::new(below), schema)?;
        Ok(Transformed::yes(LogicalPlan::Projection(above)))
    });
    unnested.data()
}

/// Whether one of the calls comes more than once.
fn several_times(exprs: &[Expr]) -> Result<bool> {
    let (mut calls, mut several) = (Vec::new(), false);
    for expr in exprs {
        expr.apply(|part| {
            if matches!(part, Expr::ScalarFunction(call) if is_mark(call)) {
                several |= calls.contains(part);
                calls.push(part.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(several)
}

/// Puts columns in the place of calls in the arguments of calls.
fn lift(expr: Expr, lifted: &mut Vec<Expr>) -> Result<Expr> {
    let done = expr.transform_down(|part| {
        let Expr::ScalarFunction(mut call) = part else { return Ok(Transformed::no(part)) };
        if !is_mark(&call) {
            return Ok(Transformed::no(Expr::ScalarFunction(call)));
        }
        let before = lifted.len();
        let arguments = std::mem::take(&mut call.args).into_iter();
        call.args = arguments.map(|argument| lift_all(argument, lifted)).collect::<Result<_>>()?;
        let changed = lifted.len() > before;
        Ok(Transformed::new(Expr::ScalarFunction(call), changed, TreeNodeRecursion::Jump))
    });
    done.data()
}

/// Puts columns in the place of all calls; the same one for equal calls.
fn lift_all(argument: Expr, lifted: &mut Vec<Expr>) -> Result<Expr> {
    let done = argument.transform_down(|part| {
        if !matches!(&part, Expr::ScalarFunction(call) if is_mark(call)) {
            return Ok(Transformed::no(part));
        }
        let same = |known: &Expr| matches!(known, Expr::Alias(it) if *it.expr == part);
        let place = lifted.iter().position(same).unwrap_or(lifted.len());
        let name = format!("$onefold_call_{place}");
        if place == lifted.len() {
            lifted.push(part.alias(name.as_str()));
        }
        Ok(Transformed::new(ident(name), true, TreeNodeRecursion::Jump))
    });
    done.data()
}

/// Puts the function in the place of each mark.
///
/// # Errors
/// Plan: a call stands in the arguments of another one.
pub(super) fn bind(
    expr: Expr,
    calls: Option<&Arc<Handle>>,
    context: &BatchContext,
) -> Result<Transformed<Expr>> {
    expr.transform_down(|part| {
        let Expr::ScalarFunction(call) = part else { return Ok(Transformed::no(part)) };
        if !is_mark(&call) {
            return Ok(Transformed::no(Expr::ScalarFunction(call)));
        }
        for argument in &call.args {
            if argument
                .exists(|part| Ok(matches!(part, Expr::ScalarFunction(call) if is_mark(call))))?
            {
                return Err(misplaced());
            }
        }
        let log = context.effects.clone().map(|log| (log, context.batch));
        let udf = Arc::new(function(calls.cloned(), log));
        let call = Expr::ScalarFunction(ScalarFunction::new_udf(udf, call.args));
        Ok(Transformed::new(call, true, TreeNodeRecursion::Jump))
    })
}

fn is_mark(call: &ScalarFunction) -> bool {
    call.func.inner().downcast_ref::<CallSite>().is_some()
}
