//! One type for values that come together: the branches of `CASE`, and the sides of a union.
//!
//! *Why:* DataFusion finds that type when it analyses a plan. Until then such a column has the type of
//! the first branch, and whoever asks for it, or plans an operator over it, would be told wrong.

use crate::failure;
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result as PlanResult;
use datafusion::logical_expr::type_coercion::other::get_coerce_type_for_case_expression;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, cast as plain_cast,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use onefold_types::Result;

/// The plan with the types that its unions and branches have in the end.
pub(super) fn typed(plan: LogicalPlan) -> PlanResult<LogicalPlan> {
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

/// The expression with each branch of a `CASE` in it cast to the type that all have room in.
pub(crate) fn with_typed_branches(expr: Expr, schema: &DFSchema) -> PlanResult<Expr> {
    expr.transform_up(|part| {
        let Expr::Case(mut case) = part else { return Ok(Transformed::no(part)) };
        let types = case.when_then_expr.iter().map(|(_, then)| then.get_type(schema));
        let types = types.collect::<PlanResult<Vec<_>>>();
        let last = case.else_expr.as_ref().map(|last| last.get_type(schema)).transpose();
        // The variables of a lambda have no type before it is planned.
        let (Ok(types), Ok(last)) = (types, last) else {
            return Ok(Transformed::no(Expr::Case(case)));
        };
        let Some(common) = get_coerce_type_for_case_expression(&types, last.as_ref()) else {
            return Ok(Transformed::no(Expr::Case(case)));
        };
        if types.iter().chain(&last).all(|data_type| *data_type == common) {
            return Ok(Transformed::no(Expr::Case(case)));
        }
        let branches = case.when_then_expr.iter_mut().map(|(_, then)| then);
        for (branch, data_type) in
            branches.chain(&mut case.else_expr).zip(types.iter().chain(&last))
        {
            if *data_type != common {
                **branch = plain_cast(std::mem::take(&mut **branch), common.clone());
            }
        }
        Ok(Transformed::yes(Expr::Case(case)))
    })
    .data()
}

/// Two sides of a union, each column of the type that both have room in. Columns without such a type
/// stay as they are: the analysis of the union refuses them.
///
/// # Errors
/// Internal only.
pub fn alike(left: LogicalPlan, right: LogicalPlan) -> Result<(LogicalPlan, LogicalPlan)> {
    let types = |plan: &LogicalPlan| -> Vec<_> {
        plan.schema().fields().iter().map(|field| field.data_type().clone()).collect()
    };
    let (own, other) = (types(&left), types(&right));
    let common = own.iter().zip(&other).map(|(own, other)| {
        let common = get_coerce_type_for_case_expression(std::slice::from_ref(own), Some(other));
        common.unwrap_or_else(|| own.clone())
    });
    let common: Vec<_> = common.collect();
    let fitted = |plan: LogicalPlan, types: &[_]| -> PlanResult<LogicalPlan> {
        if types == common.as_slice() || types.len() != common.len() {
            return Ok(plan);
        }
        let columns: Vec<Expr> = plan
            .schema()
            .iter()
            .zip(&common)
            .map(|((qualifier, field), data_type)| {
                let column = Expr::Column((qualifier, field).into());
                match field.data_type() == data_type {
                    true => column,
                    false => plain_cast(column, data_type.clone())
                        .alias_qualified(qualifier.cloned(), field.name()),
                }
            })
            .collect();
        LogicalPlanBuilder::from(plan).project(columns)?.build()
    };
    let left = fitted(left, &own).map_err(failure::planning)?;
    Ok((left, fitted(right, &other).map_err(failure::planning)?))
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
        ] {
            let text = text.replace("FROM t", "FROM (VALUES (true), (false)) AS t(x)");
            let (types, rows) = run(&text).await;
            assert_eq!(types, [data_type], "{text}");
            assert!(rows.contains(value), "{text}: {rows}");
        }
    }
}
