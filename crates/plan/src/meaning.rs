//! Gives a plan Spark's meaning where the planner's own is another, once all types are known.
//!
//! - Floats are compared, joined and grouped with one NaN above all numbers and one zero.
//! - In a session whose zone is not UTC, casts between instants and civil times, clock fields of
//!   instants and sums of instants and intervals go by that zone.

use crate::functions::cast::crosses;
use crate::functions::zone::Zone;
use crate::functions::zoned_times::{CUT, PLUS};
use crate::functions::{floats, own};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{Between, InList, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, cast as plain_cast, lit,
};
use datafusion::optimizer::AnalyzerRule;

/// The rule; it stands behind the one that coerces types. What it has changed it leaves as it is.
#[derive(Debug)]
pub(crate) struct SparkMeaning;

impl AnalyzerRule for SparkMeaning {
    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        let zoned = !Zone::of(options)?.is_utc();
        plan.transform_up_with_subqueries(|node| meant(node, zoned)).data()
    }

    fn name(&self) -> &'static str {
        "spark_meaning"
    }
}

fn meant(node: LogicalPlan, zoned: bool) -> Result<Transformed<LogicalPlan>> {
    let schema = match &node {
        LogicalPlan::TableScan(scan) => DFSchema::clone(&scan.projected_schema),
        _ => merge_schema(&node.inputs()),
    };
    // Keys are compared although no operator says so.
    let keys = matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Join(_));
    let grouped = match &node {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.len(),
        LogicalPlan::Join(join) => 2 * join.on.len(),
        _ => 0,
    };
    let names = NamePreserver::new(&node);
    let mut place = 0;
    let meant = node.map_expressions(|expr| {
        let name = names.save(&expr);
        let mut meant = expr.transform_up(|part| part_meant(part, &schema, zoned))?;
        if keys && place < grouped && floating(&meant.data, &schema) && !ordered(&meant.data) {
            meant = Transformed::yes(floats::in_order(meant.data));
        }
        place += 1;
        if !meant.transformed {
            return Ok(meant);
        }
        Ok(meant.update_data(|expr| name.restore(expr)))
    })?;
    if meant.transformed {
        return Ok(Transformed::yes(meant.data.recompute_schema()?));
    }
    Ok(meant)
}

fn part_meant(part: Expr, schema: &DFSchema, zoned: bool) -> Result<Transformed<Expr>> {
    let compared = compared(part, schema)?;
    if !zoned || compared.transformed {
        return Ok(compared);
    }
    in_zone(compared.data, schema)
}

fn floating(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| floats::has_floats(&data_type))
}

/// Whether it was changed before.
fn ordered(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => ordered(&alias.expr),
        other => floats::is_in_order(other),
    }
}

fn compared(part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let order = |expr: Box<Expr>| Box::new(floats::in_order(*expr));
    Ok(match part {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if compares(op)
                && (floating(&left, schema) || floating(&right, schema))
                && !(ordered(&left) && ordered(&right))
                && !exact(op, &left, &right) =>
        {
            Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(order(left), op, order(right))))
        }
        Expr::Between(between) if floating(&between.expr, schema) && !ordered(&between.expr) => {
            let Between { expr, negated, low, high } = between;
            let between = Between::new(order(expr), negated, order(low), order(high));
            Transformed::yes(Expr::Between(between))
        }
        Expr::InList(within) if floating(&within.expr, schema) && !ordered(&within.expr) => {
            let InList { expr, list, negated } = within;
            let list = list.into_iter().map(floats::in_order).collect();
            Transformed::yes(Expr::InList(InList::new(order(expr), list, negated)))
        }
        Expr::Case(mut case)
            if case.expr.as_ref().is_some_and(|it| floating(it, schema) && !ordered(it)) =>
        {
            case.expr = case.expr.map(order);
            let branches = case.when_then_expr.into_iter();
            case.when_then_expr = branches.map(|(when, then)| (order(when), then)).collect();
            Transformed::yes(Expr::Case(case))
        }
        other => Transformed::no(other),
    })
}

fn compares(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

/// Whether bits tell as well: equal to a number that is written in one way only.
fn exact(op: Operator, left: &Expr, right: &Expr) -> bool {
    matches!(op, Operator::Eq | Operator::NotEq)
        && [left, right]
            .into_iter()
            .any(|side| matches!(side, Expr::Literal(value, _) if floats::is_plain(value)))
}

/// Functions of an instant that read a clock.
const CLOCK: [&str; 5] = ["hour", "minute", "second", "date_part", "extract"];

fn in_zone(part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let instant =
        |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Timestamp(_, Some(_))));
    Ok(match part {
        Expr::Cast(cast) => {
            let to = cast.field.data_type();
            match (cast.expr.get_type(schema), cast_name(to)) {
                (Ok(from), Some(name)) if crosses(&from, to) || texts(&from, to) => {
                    let meant = call("cast", vec![*cast.expr, lit(name)]);
                    // It may be wanted in another unit.
                    match meant.data.get_type(schema) {
                        Ok(given) if &given == to => meant,
                        _ => meant.update_data(|it| plain_cast(it, to.clone())),
                    }
                }
                _ => Transformed::no(Expr::Cast(cast)),
            }
        }
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: op @ (Operator::Plus | Operator::Minus),
            right,
        }) => {
            let interval = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Interval(_)));
            if op == Operator::Minus && instant(&left) && instant(&right) {
                // Days and hours between what the clocks show.
                let civil =
                    |it: Box<Expr>| Box::new(call("cast", vec![*it, lit("TIMESTAMP_NTZ")]).data);
                let between = BinaryExpr::new(civil(left), op, civil(right));
                Transformed::yes(Expr::BinaryExpr(between))
            } else if instant(&left) && interval(&right) {
                let right = if op == Operator::Minus { Expr::Negative(right) } else { *right };
                call(PLUS, vec![*left, right])
            } else if op == Operator::Plus && interval(&left) && instant(&right) {
                call(PLUS, vec![*right, *left])
            } else {
                Transformed::no(Expr::BinaryExpr(BinaryExpr::new(left, op, right)))
            }
        }
        Expr::ScalarFunction(ScalarFunction { func, args })
            if func.name() == "date_trunc" && args.iter().any(instant) =>
        {
            call(CUT, args)
        }
        Expr::ScalarFunction(ScalarFunction { func, mut args })
            if CLOCK.contains(&func.name()) && args.iter().any(instant) =>
        {
            for argument in args.iter_mut().filter(|arg| instant(arg)) {
                *argument = call("cast", vec![std::mem::take(argument), lit("TIMESTAMP_NTZ")]).data;
            }
            Transformed::yes(func.call(args))
        }
        other => Transformed::no(other),
    })
}

fn text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Whether a cast writes instants or reads them.
fn texts(from: &DataType, to: &DataType) -> bool {
    let instant = |it: &DataType| matches!(it, DataType::Timestamp(_, Some(_)));
    (instant(from) && to == &DataType::Utf8) || (text(from) && instant(to))
}

/// What Spark calls a type that such a cast goes to.
fn cast_name(to: &DataType) -> Option<&'static str> {
    Some(match to {
        DataType::Date32 => "DATE",
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP",
        DataType::Timestamp(_, None) => "TIMESTAMP_NTZ",
        DataType::Utf8 => "STRING",
        _ => return None,
    })
}

fn call(name: &str, arguments: Vec<Expr>) -> Transformed<Expr> {
    match own(name) {
        Some(function) => Transformed::yes(function.call(arguments)),
        // All names are those of functions here.
        None => Transformed::no(arguments.into_iter().next().unwrap_or_default()),
    }
}
