//! Moves windows of time below the nodes that use them.
//!
//! `GROUP BY window(ts, …)` groups rows that have a window each, and a sliding window makes several
//! rows of one. So below a node that calls `window` or `session_window`, a column with the window
//! is added, rows without a time are left out, and the call becomes that column. As in Spark, a
//! node can have one such call only: two would make every combination of their windows.

use crate::failure;
use crate::functions::window::{Spacing, WindowKind, each_window, window_kind};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ScalarValue, UnnestOptions};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{FieldMetadata, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection};
use onefold_types::Error;
use std::sync::Arc;

/// What names of made-up columns begin with.
const WINDOW: &str = "__onefold_window_";

/// Moves all of them; whether there were any.
pub(super) fn expand(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut count = 0_usize;
    let expanded = plan.transform_up(|node| {
        let calls = calls(&node)?;
        let [call] = calls.as_slice() else {
            if calls.is_empty() {
                return Ok(if count > 0 {
                    Transformed::yes(node.recompute_schema()?)
                } else {
                    Transformed::no(node)
                });
            }
            return Err(failure::external(Error::invalid(
                "multiple time/session window expressions would result in a cartesian product of \
                 rows, therefore they are currently not supported; take each in a query of its own",
            )));
        };
        count += 1;
        expand_node(node, call, &format!("{WINDOW}{count}")).map(Transformed::yes)
    })?;
    Ok(if count > 0 { Transformed::yes(expanded.data) } else { expanded })
}

/// Whether a column is one of a window that was made up here.
pub(super) fn made_up(name: &str) -> bool {
    name.starts_with(WINDOW)
}

/// The different calls of window functions in a node's own expressions.
fn calls(node: &LogicalPlan) -> Result<Vec<Expr>> {
    let mut found: Vec<Expr> = Vec::new();
    node.apply_expressions(|expr| {
        expr.apply(|part| {
            if kind_of(part).is_some() && !found.contains(part) {
                found.push(part.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}

fn kind_of(expr: &Expr) -> Option<WindowKind> {
    match expr {
        Expr::ScalarFunction(call) => window_kind(&call.func),
        _ => None,
    }
}

fn expand_node(node: LogicalPlan, call: &Expr, name: &str) -> Result<LogicalPlan> {
    // A projection and an aggregation make their own columns; of others the new one must go again.
    let keeps = match &node {
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) => false,
        LogicalPlan::Filter(_) | LogicalPlan::Sort(_) => true,
        _ => {
            return Err(failure::external(Error::invalid(
                "window(…) and session_window(…) are not supported in a join's condition and the \
                 like: select the window in a query below and use its column",
            )));
        }
    };
    let (Some(input), Expr::ScalarFunction(function)) = (node.inputs().into_iter().next(), call)
    else {
        return Err(DataFusionError::Internal("a window without an input".to_owned()));
    };
    let columns = columns(node.schema().as_ref());
    let input = with_window(input.clone(), function, name)?;
    let names = NamePreserver::new(&node);
    let replacement = Expr::Column(Column::new_unqualified(name));
    let exprs: Vec<Expr> = node
        .expressions()
        .into_iter()
        .map(|expr| {
            let saved = names.save(&expr);
            let replaced = expr.transform_down(|part| {
                Ok(if &part == call {
                    Transformed::yes(replacement.clone())
                } else {
                    Transformed::no(part)
                })
            })?;
            Ok(if replaced.transformed { saved.restore(replaced.data) } else { replaced.data })
        })
        .collect::<Result<_>>()?;
    let node = node.with_new_exprs(exprs, vec![input])?.recompute_schema()?;
    if !keeps {
        return Ok(node);
    }
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(node))?))
}

fn columns(schema: &datafusion::common::DFSchema) -> Vec<Expr> {
    schema.iter().map(|(qualifier, field)| Expr::Column(Column::from((qualifier, field)))).collect()
}

/// The input with one more column, and without rows that have no window.
fn with_window(input: LogicalPlan, call: &ScalarFunction, name: &str) -> Result<LogicalPlan> {
    let schema = Arc::clone(input.schema());
    let window = Expr::ScalarFunction(call.clone());
    let (_, field) = window.to_field(schema.as_ref())?;
    let metadata = Some(FieldMetadata::from(field.as_ref()));
    let mut exprs = columns(&schema);
    let time = call.args.first().cloned().unwrap_or_else(|| window.clone());
    let kind = window_kind(&call.func);
    let mut given = time.is_not_null();
    if kind == Some(WindowKind::Session) && !matches!(call.args.get(1), Some(Expr::Literal(..))) {
        // A gap of the row's own may be missing or not above 0: such a row has no session.
        given = given.and(window.clone().is_not_null());
    }
    let builder = LogicalPlanBuilder::from(input).filter(given)?;
    if kind == Some(WindowKind::Session) || !overlaps(call)? {
        exprs.push(window.alias_with_metadata(name, metadata));
        return builder.project(exprs)?.build();
    }
    let list =
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(each_window()), call.args.clone()));
    exprs.push(list.alias(name));
    let options = UnnestOptions::new().with_preserve_nulls(false);
    let unnested = builder
        .project(exprs)?
        .unnest_column_with_options(Column::new_unqualified(name), options)?;
    let mut exprs = columns(&schema);
    let column = Expr::Column(Column::new_unqualified(name));
    exprs.push(column.alias_with_metadata(name, metadata));
    unnested.project(exprs)?.build()
}

fn overlaps(call: &ScalarFunction) -> Result<bool> {
    let literals: Vec<Option<ScalarValue>> =
        call.args.iter().skip(1).map(literal).collect::<Result<_>>()?;
    let literals: Vec<Option<&ScalarValue>> = literals.iter().map(Option::as_ref).collect();
    Ok(Spacing::of(&literals)?.overlaps())
}

fn literal(expr: &Expr) -> Result<Option<ScalarValue>> {
    Ok(match expr {
        Expr::Literal(value, _) => Some(value.clone()),
        Expr::Alias(alias) => literal(&alias.expr)?,
        Expr::Cast(cast) => match literal(&cast.expr)? {
            Some(value) => Some(value.cast_to(cast.field.data_type())?),
            None => None,
        },
        Expr::Negative(inner) => match literal(inner)? {
            Some(value) => Some(value.arithmetic_negate()?),
            None => None,
        },
        _ => None,
    })
}

/// Gives the sides of a union one delay: as in Spark, that of the first side holds for the result.
pub(super) fn unify_unions(plan: LogicalPlan) -> Result<LogicalPlan> {
    use super::event_time::{WATERMARK_DELAY, delay_of};
    let mut changed = false;
    plan.transform_up(|node| {
        let LogicalPlan::Union(union) = node else {
            return Ok(if changed {
                Transformed::yes(node.recompute_schema()?)
            } else {
                Transformed::no(node)
            });
        };
        let Some(first) = union.inputs.first() else {
            return Ok(Transformed::no(LogicalPlan::Union(union)));
        };
        let delays: Vec<Option<i64>> =
            first.schema().fields().iter().map(|field| delay_of(field)).collect();
        let differs = union.inputs.iter().any(|input| {
            input
                .schema()
                .fields()
                .iter()
                .zip(&delays)
                .any(|(field, delay)| delay.is_some() && delay_of(field) != *delay)
        });
        if !differs {
            return Ok(Transformed::no(LogicalPlan::Union(union)));
        }
        changed = true;
        let inputs = union.inputs.iter().map(|input| {
            let marked = input.schema().iter().zip(&delays).map(|((qualifier, field), delay)| {
                let column = Expr::Column(Column::from((qualifier, field)));
                match delay {
                    Some(delay) if delay_of(field) != Some(*delay) => {
                        let mark = [(WATERMARK_DELAY.to_owned(), delay.to_string())];
                        let metadata = FieldMetadata::from(
                            mark.into_iter().collect::<std::collections::BTreeMap<_, _>>(),
                        );
                        let alias =
                            column.alias_qualified(qualifier.cloned(), field.name().clone());
                        match alias {
                            Expr::Alias(alias) => Expr::Alias(alias.with_metadata(Some(metadata))),
                            other => other,
                        }
                    }
                    _ => column,
                }
            });
            let projection = Projection::try_new(marked.collect(), Arc::clone(input))?;
            Ok(Arc::new(LogicalPlan::Projection(projection)))
        });
        let union = datafusion::logical_expr::Union::try_new(inputs.collect::<Result<Vec<_>>>()?)?;
        Ok(Transformed::yes(LogicalPlan::Union(union)))
    })
    .data()
}
