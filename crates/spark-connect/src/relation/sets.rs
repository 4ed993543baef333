//! Unions, intersections, differences, and duplicates.

use super::columns::{column, visible};
use super::{Planner, built};
use crate::failure::{Failure, Outcome};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder};
use onefold_plan::stream;
use spark_connect_proto::set_operation::SetOpType;
use spark_connect_proto::{Deduplicate, Sample, SetOperation, Tail, Unpivot};

fn same(left: &str, right: &str) -> bool {
    left.to_lowercase() == right.to_lowercase()
}

impl Planner<'_> {
    pub(super) fn set_operation(&mut self, operation: &SetOperation) -> Outcome<LogicalPlan> {
        let left = stream::shown(self.input(operation.left_input.as_deref())?)?;
        let right = stream::shown(self.input(operation.right_input.as_deref())?)?;
        let all = operation.is_all.unwrap_or(false);
        match operation.set_op_type() {
            SetOpType::Union if operation.by_name.unwrap_or(false) => {
                let missing = operation.allow_missing_columns.unwrap_or(false);
                let (left, right) = by_name(left, right, missing)?;
                union(left, right, all)
            }
            SetOpType::Union => union(left, right, all),
            SetOpType::Intersect | SetOpType::Except
                if all && !stream::is_streaming(&left) && !stream::is_streaming(&right) =>
            {
                by_copies(operation.set_op_type(), left, right)
            }
            SetOpType::Intersect => Ok(LogicalPlanBuilder::intersect(left, right, all)?),
            SetOpType::Except => Ok(LogicalPlanBuilder::except(left, right, all)?),
            SetOpType::Unspecified => Err(Failure::missing("set_op_type")),
        }
    }

    pub(super) fn deduplicate(&mut self, deduplicate: &Deduplicate) -> Outcome<LogicalPlan> {
        let input = self.input(deduplicate.input.as_deref())?;
        let all =
            deduplicate.all_columns_as_keys.unwrap_or(false) || deduplicate.column_names.is_empty();
        let within = deduplicate.within_watermark.unwrap_or(false);
        let names: Vec<&str> = deduplicate.column_names.iter().map(String::as_str).collect();
        let names = (!all).then_some(names.as_slice());
        if within || stream::is_streaming(&input) {
            return Ok(stream::drop_duplicates(input, names, within)?);
        }
        let Some(names) = names else {
            return built(LogicalPlanBuilder::from(input).distinct());
        };
        let mut keys = Vec::with_capacity(names.len());
        for name in names {
            keys.push(onefold_plan::sql::column(input.schema(), name)?);
        }
        let columns = visible(input.schema());
        built(LogicalPlanBuilder::from(input).distinct_on(keys, columns, None))
    }

    /// The last rows, in order.
    pub(super) fn tail(&mut self, tail: &Tail) -> Outcome<LogicalPlan> {
        let input = self.input(tail.input.as_deref())?;
        let wanted = super::counted(tail.limit, "tail")?;
        let batches = self.session.engine.frame(input.clone()).collect()?;
        let total: usize = batches.iter().map(|batch| batch.num_rows()).sum();
        let mut skip = total.saturating_sub(wanted);
        let mut kept = Vec::new();
        for batch in batches {
            let here = skip.min(batch.num_rows());
            skip -= here;
            kept.push(batch.slice(here, batch.num_rows() - here));
        }
        super::of_batches(input.schema().as_arrow().clone().into(), kept)
    }

    pub(super) fn sample(&mut self, sample: &Sample) -> Outcome<LogicalPlan> {
        let input = self.input(sample.input.as_deref())?;
        if sample.with_replacement.unwrap_or(false) {
            return Err(Failure::unsupported("a sample with replacement"));
        }
        let seed = sample.seed.unwrap_or_default();
        let draw = onefold_plan::sql::parse_expression(&format!("rand({seed})"))?;
        let context = self.session.engine.context();
        let draw = onefold_plan::sql::expression_of(context, input.schema(), draw)?;
        let (low, high) = (sample.lower_bound, sample.upper_bound);
        let condition = draw
            .clone()
            .gt_eq(datafusion::logical_expr::lit(low))
            .and(draw.lt(datafusion::logical_expr::lit(high)));
        built(LogicalPlanBuilder::from(input).filter(condition))
    }

    /// Columns as rows: one row for each value column.
    pub(super) fn unpivot(&mut self, unpivot: &Unpivot) -> Outcome<LogicalPlan> {
        let input = self.input(unpivot.input.as_deref())?;
        let ids = self.items(input.schema(), &unpivot.ids)?;
        let values = match &unpivot.values {
            Some(values) => self.items(input.schema(), &values.values)?,
            None => {
                let named = |expr: &Expr| match expr {
                    Expr::Column(column) => column.name.clone(),
                    other => other.schema_name().to_string(),
                };
                let taken: Vec<String> = ids.iter().map(named).collect();
                let columns = visible(input.schema()).into_iter();
                columns.filter(|column| !taken.contains(&named(column))).collect()
            }
        };
        let mut whole: Option<LogicalPlan> = None;
        for value in values {
            let name = value.schema_name().to_string();
            let name = match &value {
                Expr::Column(column) => column.name.clone(),
                _ => name,
            };
            let mut columns = ids.clone();
            let name = Expr::Literal(ScalarValue::Utf8(Some(name)), None);
            columns.push(name.alias(unpivot.variable_column_name.as_str()));
            columns.push(value.alias(unpivot.value_column_name.as_str()));
            let part = built(LogicalPlanBuilder::from(input.clone()).project(columns))?;
            whole = Some(match whole {
                None => part,
                Some(before) => union(before, part, true)?,
            });
        }
        whole.ok_or_else(|| Failure::analysis("unpivot needs at least one value column"))
    }
}

/// Rows that are there several times count so often: the first copy meets the first, and so on.
fn by_copies(kind: SetOpType, left: LogicalPlan, right: LogicalPlan) -> Outcome<LogicalPlan> {
    const COPY: &str = "#copy";
    let numbered = |plan: LogicalPlan| -> Outcome<LogicalPlan> {
        let mut columns = visible(plan.schema());
        let number = datafusion::functions_window::expr_fn::row_number()
            .partition_by(columns.clone())
            .build()?;
        columns.push(number.alias(COPY));
        Ok(onefold_plan::sql::project(plan, columns)?)
    };
    let (left, right) = (numbered(left)?, numbered(right)?);
    let rows = match kind {
        SetOpType::Intersect => LogicalPlanBuilder::intersect(left, right, true)?,
        _ => LogicalPlanBuilder::except(left, right, true)?,
    };
    let mut columns = visible(rows.schema());
    columns.retain(|column| !matches!(column, Expr::Column(column) if column.name == COPY));
    built(LogicalPlanBuilder::from(rows).project(columns))
}

fn union(left: LogicalPlan, right: LogicalPlan, all: bool) -> Outcome<LogicalPlan> {
    let (first, second) = (visible(left.schema()).len(), visible(right.schema()).len());
    if first != second {
        return Err(Failure::columns_differ("UNION", first, second));
    }
    let (left, right) = onefold_plan::sql::alike(left, right)?;
    let builder = LogicalPlanBuilder::from(left);
    built(if all { builder.union(right) } else { builder.union_distinct(right) })
}

/// Both sides with the columns of the left first; missing ones are NULL where that is allowed.
fn by_name(
    left: LogicalPlan,
    right: LogicalPlan,
    missing: bool,
) -> Outcome<(LogicalPlan, LogicalPlan)> {
    let mut names: Vec<(String, arrow::datatypes::DataType)> = Vec::new();
    for plan in [&left, &right] {
        for field in plan.schema().fields() {
            if !names.iter().any(|(name, _)| same(name, field.name())) {
                names.push((field.name().clone(), field.data_type().clone()));
            }
        }
    }
    let side = |plan: LogicalPlan| -> Outcome<LogicalPlan> {
        let mut columns = Vec::with_capacity(names.len());
        for (name, data_type) in &names {
            let found = plan.schema().iter().find(|(_, field)| same(field.name(), name));
            columns.push(match found {
                Some((qualifier, field)) => column(qualifier, field).alias(name.as_str()),
                None if missing => {
                    let null = ScalarValue::try_from(data_type)?;
                    Expr::Literal(null, None).alias(name.as_str())
                }
                None => return Err(Failure::no_column(name, "")),
            });
        }
        built(LogicalPlanBuilder::from(plan).project(columns))
    };
    Ok((side(left)?, side(right)?))
}
