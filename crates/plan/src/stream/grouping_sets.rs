//! Grouping sets over a stream: each row comes once for each set, with NULL for what the set does
//! not group by, and which set it is becomes a group of its own.

use super::table::streaming;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, ScalarValue, UnnestOptions};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::utils::powerset;
use datafusion::logical_expr::{
    Aggregate, Expr, GroupingSet, LogicalPlan, LogicalPlanBuilder, lit, when,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::resolve_grouping_function::ResolveGroupingFunction;

/// The column with the set of a row, below the aggregation.
const SET: &str = "__onefold_set";

pub(super) fn expand(plan: LogicalPlan) -> Result<LogicalPlan> {
    // `grouping(…)` means what the sets are, so that it goes first.
    let plan = ResolveGroupingFunction::new().analyze(plan, &ConfigOptions::default())?;
    plan.transform_up(|node| match node {
        LogicalPlan::Aggregate(aggregate) if streaming(&aggregate.input) => {
            match aggregate.group_expr.as_slice() {
                [Expr::GroupingSet(sets)] => {
                    let (groups, sets) = (distinct(sets), sets_of(sets)?);
                    expand_one(&aggregate, &groups, &sets).map(Transformed::yes)
                }
                _ => Ok(Transformed::no(LogicalPlan::Aggregate(aggregate))),
            }
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}

fn distinct(sets: &GroupingSet) -> Vec<Expr> {
    sets.distinct_expr().into_iter().cloned().collect()
}

/// The expressions of each set.
fn sets_of(sets: &GroupingSet) -> Result<Vec<Vec<Expr>>> {
    Ok(match sets {
        GroupingSet::Rollup(exprs) => (0..=exprs.len())
            .rev()
            .map(|count| exprs.iter().take(count).cloned().collect())
            .collect(),
        GroupingSet::Cube(exprs) => {
            powerset(exprs)?.into_iter().map(|set| set.into_iter().cloned().collect()).collect()
        }
        GroupingSet::GroupingSets(sets) => sets.clone(),
    })
}

/// The number of each set: a bit for each group that it leaves out, the last group's the lowest;
/// above them, how many equal sets stand before it.
fn numbers(groups: &[Expr], sets: &[Vec<Expr>]) -> Vec<u64> {
    let mut numbers: Vec<u64> = Vec::with_capacity(sets.len());
    for set in sets {
        let left_out = |group: &Expr| u64::from(!set.contains(group));
        let mask = groups.iter().fold(0, |mask, group| (mask << 1) | left_out(group));
        let all = (1_u64 << groups.len()) - 1;
        let equal = numbers.iter().filter(|number| **number & all == mask).count();
        numbers.push(((equal as u64) << groups.len()) | mask);
    }
    numbers
}

fn expand_one(aggregate: &Aggregate, groups: &[Expr], sets: &[Vec<Expr>]) -> Result<LogicalPlan> {
    let schema = &aggregate.schema;
    let set_type = schema.field(groups.len()).data_type().clone();
    // The number has a bit for each group.
    if groups.len() >= 32 {
        return Err(DataFusionError::Plan("grouping sets take up to 31 columns".to_owned()));
    }
    let numbers = numbers(groups, sets)
        .into_iter()
        .map(|number| ScalarValue::UInt64(Some(number)).cast_to(&set_type))
        .collect::<Result<Vec<_>>>()?;
    let all = ScalarValue::List(ScalarValue::new_list(&numbers, &set_type, false));
    let columns = aggregate.input.schema().iter();
    let mut columns: Vec<Expr> =
        columns.map(|(qualifier, field)| Expr::Column(Column::from((qualifier, field)))).collect();
    columns.push(lit(all).alias(SET));
    let set = Column::new_unqualified(SET);
    let input = LogicalPlanBuilder::from(aggregate.input.as_ref().clone())
        .project(columns)?
        .unnest_column_with_options(set.clone(), UnnestOptions::new().with_preserve_nulls(false))?;
    let mut keys = Vec::with_capacity(groups.len() + 1);
    for (place, group) in groups.iter().enumerate() {
        let with: Vec<Expr> = numbers
            .iter()
            .zip(sets)
            .filter(|(_, set)| set.contains(group))
            .map(|(number, _)| lit(number.clone()))
            .collect();
        let name = schema.field(place).name().clone();
        keys.push(if with.len() == sets.len() {
            group.clone().alias(name)
        } else {
            let grouped = Expr::Column(set.clone()).in_list(with, false);
            when(grouped, group.clone()).end()?.alias(name)
        });
    }
    keys.push(Expr::Column(set).alias(Aggregate::INTERNAL_GROUPING_ID));
    let plan = input.aggregate(keys, aggregate.aggr_expr.clone())?.build()?;
    let same = plan.schema().iter().zip(schema.iter()).map(|((from, field), (to, wanted))| {
        Expr::Column(Column::from((from, field))).alias_qualified(to.cloned(), wanted.name())
    });
    let same: Vec<Expr> = same.collect();
    LogicalPlanBuilder::from(plan).project(same)?.build()
}

#[cfg(test)]
mod tests {
    use super::{numbers, sets_of};
    use datafusion::logical_expr::{GroupingSet, col};

    #[test]
    fn the_number_of_a_set_says_what_it_leaves_out_and_tells_equal_sets_apart() {
        let (a, b) = (col("a"), col("b"));
        let groups = [a.clone(), b.clone()];
        let of = |sets: GroupingSet| numbers(&groups, &sets_of(&sets).unwrap());
        assert_eq!(of(GroupingSet::Rollup(groups.to_vec())), [0b00, 0b01, 0b11]);
        let mut cube = of(GroupingSet::Cube(groups.to_vec()));
        cube.sort_unstable();
        assert_eq!(cube, [0b00, 0b01, 0b10, 0b11]);
        let sets = vec![vec![b.clone()], vec![b], vec![a]];
        assert_eq!(of(GroupingSet::GroupingSets(sets)), [0b010, 0b110, 0b001]);
    }
}
