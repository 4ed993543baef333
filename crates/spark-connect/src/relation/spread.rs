//! `repartition` and `coalesce`: over how many partitions rows are spread, and so how many files a
//! write makes.

use super::{Planner, built};
use crate::failure::{Failure, Outcome};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Partitioning};
use spark_connect_proto::expression::{ExprType, SortOrder};
use spark_connect_proto::{Expression, Repartition, RepartitionByExpression};

/// More partitions than that would take memory and files and help nobody.
const PARTITIONS_MAX: usize = 100_000;

impl Planner<'_> {
    pub(super) fn repartition(&mut self, spread: &Repartition) -> Outcome<LogicalPlan> {
        let input = self.input(spread.input.as_deref())?;
        let wanted = number(spread.num_partitions)?;
        // `coalesce` only makes fewer of those that are there, and there are at most so many.
        let partitions = match spread.shuffle() {
            true => wanted,
            false => wanted.min(self.partitions()),
        };
        spread_by(input, Vec::new(), partitions)
    }

    /// By values; `repartitionByRange` too: its ranges are not kept, only that equal values stay
    /// together.
    pub(super) fn repartition_by(&mut self, by: &RepartitionByExpression) -> Outcome<LogicalPlan> {
        let input = self.input(by.input.as_deref())?;
        let partitions = match by.num_partitions {
            Some(partitions) => number(partitions)?,
            None => self.partitions(),
        };
        let values = by.partition_exprs.iter().map(|value| self.expression(&input, ordered(value)));
        let values = values.collect::<Outcome<Vec<_>>>()?;
        spread_by(input, values, partitions)
    }

    pub(super) fn partitions(&self) -> usize {
        self.session.engine.context().state_ref().read().config().target_partitions()
    }
}

/// The rows over so many partitions: equal values together, or evenly where there are none.
pub(super) fn spread_by(
    input: LogicalPlan,
    values: Vec<Expr>,
    partitions: usize,
) -> Outcome<LogicalPlan> {
    let spread = match values.is_empty() {
        true => Partitioning::RoundRobinBatch(partitions),
        false => Partitioning::Hash(values, partitions),
    };
    built(LogicalPlanBuilder::from(input).repartition(spread))
}

/// What a sort order orders.
fn ordered(value: &Expression) -> &Expression {
    match &value.expr_type {
        Some(ExprType::SortOrder(order)) => match order.as_ref() {
            SortOrder { child: Some(child), .. } => child,
            SortOrder { child: None, .. } => value,
        },
        _ => value,
    }
}

pub(super) fn number(partitions: i32) -> Outcome<usize> {
    match usize::try_from(partitions) {
        Ok(number) if (1..=PARTITIONS_MAX).contains(&number) => Ok(number),
        _ => Err(Failure::analysis(format!(
            "Number of partitions ({partitions}) must be positive and at most {PARTITIONS_MAX}"
        ))),
    }
}
