//! `na.fill`, `na.drop`, `na.replace`.

use super::columns::column;
use super::{Planner, built};
use crate::expression::literal;
use crate::failure::{Failure, Outcome};
use arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Case, Expr, LogicalPlan, LogicalPlanBuilder, lit};
use spark_connect_proto::expression::Literal;
use spark_connect_proto::{NaDrop, NaFill, NaReplace};

/// Kinds of columns that a value can stand in for.
fn fits(value: &DataType, column: &DataType) -> bool {
    let text =
        |it: &DataType| matches!(it, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    (value.is_numeric() && column.is_numeric())
        || (text(value) && text(column))
        || (value == &DataType::Boolean && column == &DataType::Boolean)
}

fn lit_null(field: &Field) -> Expr {
    datafusion::logical_expr::cast(lit(ScalarValue::Null), field.data_type().clone())
}

impl Planner<'_> {
    fn value(&self, input: &LogicalPlan, value: &Literal) -> Outcome<(Expr, DataType)> {
        use datafusion::logical_expr::ExprSchemable;
        let context = self.session.engine.context();
        let schema = input.schema();
        let expr = onefold_plan::sql::expression_of(context, schema, literal(value)?)?;
        let data_type = expr.get_type(schema.as_ref())?;
        Ok((expr, data_type))
    }

    pub(super) fn fill_na(&mut self, fill: &NaFill) -> Outcome<LogicalPlan> {
        let input = self.input(fill.input.as_deref())?;
        let mut values = Vec::with_capacity(fill.values.len());
        for value in &fill.values {
            values.push(self.value(&input, value)?);
        }
        let value_for = |field: &Field| -> Option<&(Expr, DataType)> {
            let lower = field.name().to_lowercase();
            let named = fill.cols.iter().position(|name| name.to_lowercase() == lower);
            let value = match (values.as_slice(), named) {
                ([only], None) if fill.cols.is_empty() => only,
                ([only], Some(_)) => only,
                (several, Some(place)) => several.get(place)?,
                _ => return None,
            };
            fits(&value.1, field.data_type()).then_some(value)
        };
        let columns: Vec<Expr> = input
            .schema()
            .iter()
            .map(|(qualifier, field)| {
                let own = column(qualifier, field);
                match value_for(field) {
                    None => own,
                    Some((value, _)) => {
                        let value = datafusion::logical_expr::cast(
                            value.clone(),
                            field.data_type().clone(),
                        );
                        // NaN is missing, too.
                        let there = match field.data_type().is_floating() {
                            true => datafusion::functions::expr_fn::nanvl(own, lit_null(field)),
                            false => own,
                        };
                        let filled = datafusion::functions::expr_fn::coalesce(vec![there, value]);
                        filled.alias(field.name().as_str())
                    }
                }
            })
            .collect();
        built(LogicalPlanBuilder::from(input).project(columns))
    }

    pub(super) fn drop_na(&mut self, drop: &NaDrop) -> Outcome<LogicalPlan> {
        let input = self.input(drop.input.as_deref())?;
        let wanted: Vec<String> = drop.cols.iter().map(|name| name.to_lowercase()).collect();
        let columns: Vec<(Expr, bool)> = input
            .schema()
            .iter()
            .filter(|(_, field)| wanted.is_empty() || wanted.contains(&field.name().to_lowercase()))
            .map(|(qualifier, field)| (column(qualifier, field), field.data_type().is_floating()))
            .collect();
        let least = match drop.min_non_nulls {
            Some(least) => i64::from(least),
            None => i64::try_from(columns.len()).unwrap_or(i64::MAX),
        };
        let present = columns
            .into_iter()
            .map(|(column, floating)| {
                let mut there = column.clone().is_not_null();
                if floating {
                    there = there
                        .and(Expr::Not(Box::new(datafusion::functions::expr_fn::isnan(column))));
                }
                case(vec![(there, lit(1_i64))], Some(lit(0_i64)))
            })
            .reduce(|sum, one| sum + one)
            .unwrap_or_else(|| lit(0_i64));
        built(LogicalPlanBuilder::from(input).filter(present.gt_eq(lit(least))))
    }

    pub(super) fn replace(&mut self, replace: &NaReplace) -> Outcome<LogicalPlan> {
        let input = self.input(replace.input.as_deref())?;
        let mut pairs = Vec::with_capacity(replace.replacements.len());
        for pair in &replace.replacements {
            let old = pair.old_value.as_ref().ok_or_else(|| Failure::missing("old_value"))?;
            let new = pair.new_value.as_ref().ok_or_else(|| Failure::missing("new_value"))?;
            pairs.push((self.value(&input, old)?, self.value(&input, new)?.0));
        }
        let wanted: Vec<String> = replace.cols.iter().map(|name| name.to_lowercase()).collect();
        let columns: Vec<Expr> = input
            .schema()
            .iter()
            .map(|(qualifier, field)| {
                let own = column(qualifier, field);
                let meant = wanted.is_empty() || wanted.contains(&field.name().to_lowercase());
                let whens: Vec<(Expr, Expr)> = pairs
                    .iter()
                    .filter(|((_, kind), _)| meant && fits(kind, field.data_type()))
                    .map(|((old, _), new)| {
                        let to = field.data_type().clone();
                        let new = datafusion::logical_expr::cast(new.clone(), to);
                        (own.clone().eq(old.clone()), new)
                    })
                    .collect();
                if whens.is_empty() {
                    return own;
                }
                case(whens, Some(own)).alias(field.name().as_str())
            })
            .collect();
        built(LogicalPlanBuilder::from(input).project(columns))
    }
}

fn case(whens: Vec<(Expr, Expr)>, otherwise: Option<Expr>) -> Expr {
    let whens = whens.into_iter().map(|(when, then)| (Box::new(when), Box::new(then))).collect();
    Expr::Case(Case::new(None, whens, otherwise.map(Box::new)))
}
