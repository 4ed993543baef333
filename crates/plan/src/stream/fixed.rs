//! Fixes what must not change between two runs of one batch: times and random values.
//!
//! Before the plan is optimised, each call of a function that tells the time becomes a parameter
//! (`$onefold_time`) that each batch fills with its own time, so that the optimised plan can be
//! reused; each call of a random function becomes a function of its own that is seeded by the node
//! that evaluates it ([`super::seeded`]).

use super::BatchContext;
use super::calls;
use super::random::{RandomFunction, RandomKind, mix};
use crate::{failure, functions};
use arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::logical_expr::expr::{Placeholder, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, ScalarUDF, lit};
use onefold_types::Result;
use std::sync::Arc;

const TIME: &str = "$onefold_time";
const SEED: &str = "$onefold_seed";

const TIME_FUNCTIONS: [&str; 9] = [
    "now",
    "current_timestamp",
    "current_date",
    "curdate",
    "current_time",
    "localtimestamp",
    "today",
    "getdate",
    "unix_timestamp",
];

/// Rewrites all calls in the plan, subqueries included.
pub(super) fn fix(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut sites = 0_u32;
    let mut changed = false;
    let fixed = plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        let node = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let fixed = expr.transform_up(|part| fix_call(part, &mut sites))?;
            changed |= fixed.transformed;
            Ok(fixed.update_data(|expr| name.restore(expr)))
        })?;
        if changed {
            return Ok(Transformed::yes(node.data.recompute_schema()?));
        }
        Ok(node)
    });
    fixed.data().map_err(failure::planning)
}

fn fix_call(expr: Expr, sites: &mut u32) -> PlanResult<Transformed<Expr>> {
    let Expr::ScalarFunction(call) = expr else { return Ok(Transformed::no(expr)) };
    if let Some(call) = calls::mark(&call, sites) {
        return Ok(Transformed::yes(Expr::ScalarFunction(call)));
    }
    let name = call.func.name().to_lowercase();
    if call.args.is_empty() && TIME_FUNCTIONS.contains(&name.as_str()) {
        let data_type = call.func.return_type(&[])?;
        let civil = match &data_type {
            DataType::Date32 => Some("DATE"),
            DataType::Timestamp(_, None) => Some("TIMESTAMP_NTZ"),
            _ => None,
        };
        // What clocks and calendars show then is the session's zone's matter.
        if let (Some(civil), Some(cast)) = (civil, functions::own("cast")) {
            let instant = crate::schema::timestamp();
            let instant = parameter(format!("{TIME}:{instant}"), instant);
            return Ok(Transformed::yes(cast.call(vec![instant, lit(civil)])));
        }
        return Ok(Transformed::yes(parameter(format!("{TIME}:{data_type}"), data_type)));
    }
    if name == "shuffle" && call.args.len() == 1 {
        *sites += 1;
        let mut call = call;
        call.args.push(parameter(format!("{SEED}:{sites}"), DataType::Int64));
        return Ok(Transformed::yes(Expr::ScalarFunction(call)));
    }
    let Some(kind) = RandomKind::of(&name) else {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    };
    let seed = match call.args.as_slice() {
        [] => None,
        [seed] => Some(literal_seed(&name, seed)?),
        _ => {
            return Err(DataFusionError::Plan(format!("{name} takes at most one argument")));
        }
    };
    *sites += 1;
    let function = ScalarUDF::new_from_impl(RandomFunction::site(kind, *sites, seed));
    let function = ScalarFunction::new_udf(Arc::new(function), Vec::new());
    Ok(Transformed::yes(Expr::ScalarFunction(function)))
}

fn parameter(id: String, data_type: DataType) -> Expr {
    let field = Arc::new(Field::new("", data_type, false));
    Expr::Placeholder(Placeholder::new_with_field(id, Some(field)))
}

/// The seed in `rand(seed)`: a whole number; NULL counts as 0, as in Spark.
fn literal_seed(name: &str, seed: &Expr) -> PlanResult<i64> {
    let value = match seed {
        Expr::Literal(value, _) => value.cast_to(&DataType::Int64)?,
        Expr::Negative(inner) => match inner.as_ref() {
            Expr::Literal(value, _) => value.cast_to(&DataType::Int64)?.arithmetic_negate()?,
            _ => ScalarValue::Utf8(None),
        },
        Expr::Cast(cast) => match cast.expr.as_ref() {
            Expr::Literal(value, _) => value.cast_to(&DataType::Int64)?,
            _ => ScalarValue::Utf8(None),
        },
        _ => ScalarValue::Utf8(None),
    };
    match value {
        ScalarValue::Int64(seed) => Ok(seed.unwrap_or(0)),
        _ => Err(DataFusionError::Plan(format!("the seed of {name} must be a literal number"))),
    }
}

/// Fills the parameters of an expression with the batch's values.
pub(super) fn fill(expr: Expr, context: &BatchContext) -> PlanResult<Transformed<Expr>> {
    expr.transform_up(|part| {
        let Expr::Placeholder(parameter) = &part else { return Ok(Transformed::no(part)) };
        let Some(field) = &parameter.field else { return Ok(Transformed::no(part)) };
        let value = if parameter.id.starts_with(TIME) {
            time(context.timestamp_ms, field.data_type())?
        } else if let Some(site) = parameter.id.strip_prefix(SEED) {
            let site = site.bytes().fold(0_u64, |sum, byte| sum * 31 + u64::from(byte));
            let seed = mix(batch_seed(context), site);
            ScalarValue::Int64(Some(i64::from_ne_bytes(seed.to_ne_bytes())))
        } else {
            return Ok(Transformed::no(part));
        };
        Ok(Transformed::yes(Expr::Literal(value, None)))
    })
}

/// The batch's time as a value of the type that the function returns.
fn time(timestamp_ms: i64, data_type: &DataType) -> PlanResult<ScalarValue> {
    let zone = match data_type {
        DataType::Timestamp(_, Some(zone)) => Arc::clone(zone),
        _ => crate::schema::UTC.into(),
    };
    let micros = timestamp_ms.saturating_mul(1_000);
    match data_type {
        DataType::Int64 => Ok(ScalarValue::Int64(Some(timestamp_ms.div_euclid(1_000)))),
        _ => ScalarValue::TimestampMicrosecond(Some(micros), Some(zone)).cast_to(data_type),
    }
}

/// What random values of a batch start from.
pub(super) fn batch_seed(context: &BatchContext) -> u64 {
    let (high, low) = context.query.0.as_u64_pair();
    mix(mix(high, low), context.batch.0)
}
