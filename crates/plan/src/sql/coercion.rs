//! One type for values that come together: the branches of `CASE`, and the sides of a union.
//!
//! *Why:* DataFusion finds that type when it analyses a plan. Until then such a column has the type of
//! the first branch, and whoever asks for it, or plans an operator over it, would be told wrong.

mod common;

use crate::failure;
use crate::functions::own;
use crate::schema::type_name;
use arrow::datatypes::DataType;
pub(crate) use common::common_type;
use common::is_text;
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result as PlanResult;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Union, cast as plain_cast, lit,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use onefold_types::Result;
use std::sync::Arc;

/// The plan with the types that its unions and branches have in the end.
pub(super) fn typed(plan: LogicalPlan) -> PlanResult<LogicalPlan> {
    let mut cast = false;
    let plan = plan.transform_up_with_subqueries(|node| {
        let node = with_spark_types(node)?;
        cast |= node.transformed;
        // The types of what is below may have changed.
        Ok(match cast {
            true => Transformed::yes(node.data.recompute_schema()?),
            false => node,
        })
    })?;
    let plan = plan.data;
    let concerned = plan.exists(|node| {
        let branches = |expr: &Expr| expr.exists(|part| Ok(matches!(part, Expr::Case(_))));
        let mut found = matches!(node, LogicalPlan::Union(_));
        for expr in node.expressions() {
            found |= branches(&expr)?;
        }
        Ok(found)
    })?;
    match concerned {
        true => TypeCoercion::new().analyze(plan, &ConfigOptions::default()),
        false => Ok(plan),
    }
}

/// One node, whose expressions keep their names.
fn with_spark_types(node: LogicalPlan) -> PlanResult<Transformed<LogicalPlan>> {
    if let LogicalPlan::Union(mut union) = node {
        let inputs = union.inputs.iter().map(|input| types_of(input));
        let inputs: Vec<Vec<DataType>> = inputs.collect();
        let Some(common) = common_columns(&inputs) else {
            return Ok(Transformed::no(LogicalPlan::Union(union)));
        };
        let fits = inputs.iter().all(|types| *types == common);
        if fits {
            return Ok(Transformed::no(LogicalPlan::Union(union)));
        }
        for input in &mut union.inputs {
            *input = Arc::new(fitted(input.as_ref().clone(), &common)?);
        }
        let union = Union::try_new_with_loose_types(union.inputs)?;
        return Ok(Transformed::yes(LogicalPlan::Union(union)));
    }
    let schema = match &node {
        LogicalPlan::TableScan(scan) => DFSchema::clone(&scan.projected_schema),
        _ => merge_schema(&node.inputs()),
    };
    let names = NamePreserver::new(&node);
    node.map_expressions(|expr| {
        let name = names.save(&expr);
        let typed = branches_typed(expr, &schema)?;
        Ok(match typed.transformed {
            true => typed.update_data(|expr| name.restore(expr)),
            false => typed,
        })
    })
}

fn types_of(plan: &LogicalPlan) -> Vec<DataType> {
    plan.schema().fields().iter().map(|field| field.data_type().clone()).collect()
}

/// The common type of each column, where all sides have as many; a column without one keeps that of
/// the first side, and the analysis of the union refuses it.
fn common_columns(sides: &[Vec<DataType>]) -> Option<Vec<DataType>> {
    let (first, rest) = sides.split_first()?;
    if rest.iter().any(|side| side.len() != first.len()) {
        return None;
    }
    let column = |(place, own): (usize, &DataType)| {
        let types: Vec<DataType> =
            sides.iter().filter_map(|side| side.get(place)).cloned().collect();
        common_type(&types).unwrap_or_else(|| own.clone())
    };
    Some(first.iter().enumerate().map(column).collect())
}

/// The plan with its columns cast to these types.
fn fitted(plan: LogicalPlan, types: &[DataType]) -> PlanResult<LogicalPlan> {
    let columns: Vec<Expr> = plan
        .schema()
        .iter()
        .zip(types)
        .map(|((qualifier, field), data_type)| {
            let column = Expr::Column((qualifier, field).into());
            match field.data_type() == data_type {
                true => column,
                false => cast_to(column, field.data_type(), data_type)
                    .alias_qualified(qualifier.cloned(), field.name()),
            }
        })
        .collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// The expression with values that come together cast to the type that all have room in: branches
/// of `CASE` and `if`, elements of an array, arguments of `coalesce` and its like, the values of `IN`
/// and `BETWEEN`.
pub(crate) fn with_typed_branches(expr: Expr, schema: &DFSchema) -> PlanResult<Expr> {
    branches_typed(expr, schema).data()
}

fn branches_typed(expr: Expr, schema: &DFSchema) -> PlanResult<Transformed<Expr>> {
    expr.transform_up(|mut part| {
        let cast = match &mut part {
            Expr::Case(case) => {
                let branches = case.when_then_expr.iter_mut().map(|(_, then)| then);
                let branches = branches.chain(&mut case.else_expr).map(AsMut::as_mut);
                alike_in(branches.collect(), schema)
            }
            Expr::InList(within) => {
                let mut values: Vec<_> = within.list.iter_mut().collect();
                values.push(&mut within.expr);
                alike_in(values, schema)
            }
            Expr::Between(between) => {
                let values: [&mut Expr; 3] =
                    [&mut between.expr, &mut between.low, &mut between.high];
                alike_in(values.into(), schema)
            }
            Expr::ScalarFunction(call) => {
                let name = call.func.name();
                let several = call.args.len() > 1;
                match name {
                    _ if !several => false,
                    "coalesce" | "greatest" | "least" | "make_array" | "array" | "nvl"
                    | "ifnull" => alike_in(call.args.iter_mut().collect(), schema),
                    "if" | "nvl2" => alike_in(call.args.iter_mut().skip(1).collect(), schema),
                    "map" => {
                        let keys = call.args.iter_mut().step_by(2).collect();
                        let keys = alike_in(keys, schema);
                        alike_in(call.args.iter_mut().skip(1).step_by(2).collect(), schema) || keys
                    }
                    _ => false,
                }
            }
            _ => false,
        };
        Ok(if cast { Transformed::yes(part) } else { Transformed::no(part) })
    })
}

/// The cast; a text is read as Spark reads it, with Spark's errors.
fn cast_to(expr: Expr, from: &DataType, to: &DataType) -> Expr {
    match own("cast").filter(|_| is_text(from)) {
        Some(cast) => cast.call(vec![expr, lit(type_name(to))]),
        None => plain_cast(expr, to.clone()),
    }
}

/// Casts values to their common type; false when they have it, or there is none.
fn alike_in(mut values: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let types = values.iter().map(|value| value.get_type(schema)).collect::<PlanResult<Vec<_>>>();
    // The variables of a lambda have no type before it is planned.
    let Ok(types) = types else { return false };
    let Some(common) = common_type(&types) else { return false };
    let mut cast = false;
    for (value, data_type) in values.iter_mut().zip(&types) {
        if *data_type != common {
            **value = cast_to(std::mem::take(&mut **value), data_type, &common);
            cast = true;
        }
    }
    cast
}

/// Two sides of a union, each column of the type that both have room in. Columns without such a type
/// stay as they are: the analysis of the union refuses them.
///
/// # Errors
/// Internal only.
pub fn alike(left: LogicalPlan, right: LogicalPlan) -> Result<(LogicalPlan, LogicalPlan)> {
    let sides = [types_of(&left), types_of(&right)];
    let Some(common) = common_columns(&sides) else { return Ok((left, right)) };
    let side = |plan: LogicalPlan, own: &Vec<DataType>| match own == &common {
        true => Ok(plan),
        false => fitted(plan, &common).map_err(failure::planning),
    };
    let [own, other] = &sides;
    Ok((side(left, own)?, side(right, other)?))
}

#[cfg(test)]
mod tests {
    use arrow::util::pretty::pretty_format_batches;
    use datafusion::prelude::SessionContext;

    /// Types and values of a query, the types as they were known before it was analysed.
    async fn run(text: &str) -> (Vec<String>, String) {
        let context = SessionContext::new();
        crate::functions::register(&context).unwrap();
        let plan = crate::sql::query(&context, text).await.unwrap();
        let types = plan.schema().fields().iter();
        let types = types.map(|field| crate::schema::type_name(field.data_type())).collect();
        let frame = context.execute_logical_plan(plan).await.unwrap();
        let rows = frame.collect().await.unwrap();
        (types, pretty_format_batches(&rows).unwrap().to_string())
    }

    #[tokio::test]
    async fn a_union_has_room_for_the_values_of_both_sides() {
        for (text, data_type, value) in [
            ("SELECT 1 AS a UNION ALL SELECT 2.5D", "DOUBLE", "2.5"),
            ("SELECT 1 AS a UNION ALL SELECT 5000000000", "BIGINT", "5000000000"),
            ("SELECT 1 AS a UNION SELECT 2.5D", "DOUBLE", "2.5"),
            ("SELECT NULL AS a UNION ALL SELECT 1 UNION ALL SELECT 2.5D", "DOUBLE", "2.5"),
            (
                "SELECT CAST(1.5 AS DECIMAL(5,2)) AS a UNION ALL SELECT CAST(1.2345 AS DECIMAL(10,4))",
                "DECIMAL(10,4)",
                "1.2345",
            ),
            ("SELECT a + 1 AS a FROM (SELECT 1 AS a UNION ALL SELECT 2.5D)", "DOUBLE", "3.5"),
            ("SELECT 1.5 AS a UNION ALL SELECT 1e300", "DOUBLE", "e300"),
            ("SELECT 1 AS a UNION ALL SELECT '2'", "BIGINT", "2"),
        ] {
            let (types, rows) = run(text).await;
            assert_eq!(types, [data_type], "{text}");
            assert!(rows.contains(value), "{text}: {rows}");
        }
    }

    #[tokio::test]
    async fn a_case_has_room_for_the_values_of_all_branches() {
        for (text, data_type, value) in [
            ("SELECT CASE WHEN x THEN 1 ELSE 2.5D END AS a FROM t", "DOUBLE", "2.5"),
            ("SELECT CASE WHEN x THEN 1 ELSE 5000000000 END AS a FROM t", "BIGINT", "5000000000"),
            ("SELECT CASE WHEN x THEN 1 ELSE 2.5D END + 1 AS a FROM t", "DOUBLE", "3.5"),
            ("SELECT sum(CASE WHEN x THEN 1 ELSE 2.5D END) AS a FROM t", "DOUBLE", "3.5"),
            ("SELECT coalesce(if(x, NULL, 1.5), 1e300) + 1 AS a FROM t", "DOUBLE", "e300"),
            ("SELECT max(if(x, 1.5, 1e300)) FROM t", "DOUBLE", "e300"),
            ("SELECT array(1.5, 1e300)[1] AS a FROM t", "DOUBLE", "e300"),
            ("SELECT 1.5 < 1e300 AND 1e300 IN (1.5, 1e300) AS a FROM t", "BOOLEAN", "true"),
            ("SELECT 1.5 BETWEEN 1D AND 1e300 AS a FROM t", "BOOLEAN", "true"),
            ("SELECT greatest(1.5, if(x, 1e300, 2D)) AS a FROM t", "DOUBLE", "e300"),
        ] {
            let text = text.replace("FROM t", "FROM (VALUES (true), (false)) AS t(x)");
            let (types, rows) = run(&text).await;
            assert_eq!(types, [data_type], "{text}");
            assert!(rows.contains(value), "{text}: {rows}");
        }
    }
}
