//! Grouping, with rollups, cubes and pivots.

use super::{Planner, built};
use crate::failure::{Failure, Outcome};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::{
    Expr, ExprSchemable, GroupingSet, LogicalPlan, LogicalPlanBuilder, lit, when,
};
use spark_connect_proto::Aggregate;
use spark_connect_proto::aggregate::GroupType;

impl Planner<'_> {
    pub(super) fn aggregate(&mut self, aggregate: &Aggregate) -> Outcome<LogicalPlan> {
        let input = self.input(aggregate.input.as_deref())?;
        let groups = self.items(input.schema(), &aggregate.grouping_expressions)?;
        let results = self.items(input.schema(), &aggregate.aggregate_expressions)?;
        match aggregate.group_type() {
            GroupType::Groupby | GroupType::Unspecified => self.grouped(input, groups, results),
            GroupType::Rollup => {
                let set = Expr::GroupingSet(GroupingSet::Rollup(unaliased(&groups)));
                self.grouped_by_set(input, groups, set, results)
            }
            GroupType::Cube => {
                let set = Expr::GroupingSet(GroupingSet::Cube(unaliased(&groups)));
                self.grouped_by_set(input, groups, set, results)
            }
            GroupType::GroupingSets => {
                let mut sets = Vec::new();
                for set in &aggregate.grouping_sets {
                    sets.push(unaliased(&self.items(input.schema(), &set.grouping_set)?));
                }
                let set = Expr::GroupingSet(GroupingSet::GroupingSets(sets));
                self.grouped_by_set(input, groups, set, results)
            }
            GroupType::Pivot => self.pivot(aggregate, input, groups, results),
        }
    }

    fn grouped(
        &self,
        input: LogicalPlan,
        groups: Vec<Expr>,
        results: Vec<Expr>,
    ) -> Outcome<LogicalPlan> {
        Ok(onefold_plan::sql::aggregate(input, groups, results)?)
    }

    fn grouped_by_set(
        &self,
        input: LogicalPlan,
        groups: Vec<Expr>,
        set: Expr,
        results: Vec<Expr>,
    ) -> Outcome<LogicalPlan> {
        Ok(onefold_plan::sql::aggregate_sets(input, groups, set, results)?)
    }

    /// One column for each value of the pivot column and each aggregate.
    fn pivot(
        &mut self,
        aggregate: &Aggregate,
        input: LogicalPlan,
        groups: Vec<Expr>,
        results: Vec<Expr>,
    ) -> Outcome<LogicalPlan> {
        let pivot = aggregate.pivot.as_ref().ok_or_else(|| Failure::missing("pivot"))?;
        let column = pivot.col.as_ref().ok_or_else(|| Failure::missing("pivot.col"))?;
        let column = self.expression(&input, column)?;
        let mut values = Vec::new();
        for value in &pivot.values {
            let syntax = crate::expression::literal(value)?;
            let context = self.session.engine.context();
            let expr = onefold_plan::sql::expression_of(context, input.schema(), syntax)?;
            values.push((expr, literal_name(value)));
        }
        if values.is_empty() {
            values = self.pivot_values(&input, &column)?;
        }
        let to = column.get_type(input.schema().as_ref())?;
        let mut columns = Vec::new();
        for (value, name) in values {
            let value = datafusion::logical_expr::cast(value, to.clone());
            let meant = column.clone().eq(value);
            for result in &results {
                let own = match (results.len(), result) {
                    (1, _) => name.clone(),
                    (_, Expr::Alias(alias)) => format!("{name}_{}", alias.name),
                    (_, other) => format!("{name}_{}", other.schema_name()),
                };
                let filtered = filtered(result.clone().unalias(), &meant)?;
                // Where no row has the value there is no result, not even a count of 0.
                let rows = datafusion::functions_aggregate::expr_fn::count(lit(1_i64));
                let there = self::filtered(rows, &meant)?.gt(lit(0_i64));
                columns.push(when(there, filtered).end()?.alias(own));
            }
        }
        self.grouped(input, groups, columns)
    }

    fn pivot_values(&self, input: &LogicalPlan, column: &Expr) -> Outcome<Vec<(Expr, String)>> {
        let distinct = built(
            LogicalPlanBuilder::from(input.clone())
                .project(vec![column.clone().alias("value")])
                .and_then(LogicalPlanBuilder::distinct)
                .and_then(|plan| {
                    plan.sort(vec![datafusion::logical_expr::col("value").sort(true, true)])
                }),
        )?;
        let mut values = Vec::new();
        for batch in self.session.engine.frame(distinct).collect()? {
            let Some(array) = batch.columns().first() else { continue };
            for row in 0..batch.num_rows() {
                let value = ScalarValue::try_from_array(array, row)?;
                let name = if value.is_null() { "null".to_owned() } else { value.to_string() };
                values.push((Expr::Literal(value, None), name));
            }
        }
        Ok(values)
    }
}

fn literal_name(value: &spark_connect_proto::expression::Literal) -> String {
    use spark_connect_proto::expression::literal::LiteralType;
    match &value.literal_type {
        Some(LiteralType::String(text)) => text.clone(),
        Some(LiteralType::Boolean(it)) => it.to_string(),
        Some(LiteralType::Integer(it)) => it.to_string(),
        Some(LiteralType::Long(it)) => it.to_string(),
        Some(LiteralType::Double(it)) => it.to_string(),
        _ => "null".to_owned(),
    }
}

/// An aggregate over the rows for which a condition holds.
fn filtered(expr: Expr, condition: &Expr) -> Outcome<Expr> {
    match expr {
        Expr::AggregateFunction(AggregateFunction { func, params }) => {
            let filter = match params.filter {
                Some(own) => own.and(condition.clone()),
                None => condition.clone(),
            };
            let params = AggregateFunctionParams { filter: Some(Box::new(filter)), ..params };
            Ok(Expr::AggregateFunction(AggregateFunction { func, params }))
        }
        _ => Err(Failure::unsupported("a pivot over more than a plain aggregate")),
    }
}

fn unaliased(exprs: &[Expr]) -> Vec<Expr> {
    exprs.iter().map(|expr| expr.clone().unalias()).collect()
}
