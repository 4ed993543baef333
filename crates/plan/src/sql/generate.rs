//! Functions that make several rows of one (`explode`, `posexplode`, `inline`, `stack`), as nodes
//! of a plan.

use crate::functions::generators::{Generated, generator};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, NullHandling, UnnestOptions};
use datafusion::error::{DataFusionError, Result};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

/// The column with the rows that a generator makes.
const GENERATED: &str = "#generated";
/// The name of an item that is to be the whole row, whatever columns it has.
pub(super) const ROW: &str = "#row";
/// Between several names of one item.
pub(crate) const AND: char = '\u{1}';

/// Puts a node below each projection that calls a generator.
pub(super) fn spread(plan: LogicalPlan) -> Result<LogicalPlan> {
    let done = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Projection(projection) = &node else { return Ok(Transformed::no(node)) };
        let mut found = Vec::new();
        for (place, item) in projection.expr.iter().enumerate() {
            let (call, name) = bare(item);
            if let Some(generated) = generator(call, projection.input.schema())? {
                found.push((place, generated, name));
            } else if let Some(names) = name.filter(|names| names.contains(AND)) {
                return Err(DataFusionError::Plan(format!(
                    "[MULTI_ALIAS_WITHOUT_GENERATOR] several names ({}) can be given only to a \
                     function that makes several columns, such as inline or stack",
                    names.split(AND).collect::<Vec<_>>().join(", ")
                )));
            }
        }
        let several = found.len() > 1;
        let Some((place, generated, name)) = found.pop() else { return Ok(Transformed::no(node)) };
        if several {
            return Err(DataFusionError::Plan(
                "[UNSUPPORTED_GENERATOR.MULTI_GENERATOR] only one function that makes several \
                 rows of one can stand in a SELECT"
                    .to_owned(),
            ));
        }
        let input = projection.input.as_ref().clone();
        let made = made(input, &projection.expr, place, &generated, name)?;
        Ok(Transformed::yes(made))
    })?;
    Ok(if done.transformed { done.data.recompute_schema()? } else { done.data })
}

/// The call itself, and the name that was given to it.
fn bare(item: &Expr) -> (&Expr, Option<&str>) {
    match item {
        Expr::Alias(alias) => (bare(&alias.expr).0, Some(alias.name.as_str())),
        other => (other, None),
    }
}

fn made(
    input: LogicalPlan,
    items: &[Expr],
    place: usize,
    generated: &Generated,
    name: Option<&str>,
) -> Result<LogicalPlan> {
    let mut columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    columns.push(generated.rows.clone().alias(GENERATED));
    let null_handling = match generated.outer {
        true => NullHandling::PreserveAndExpandEmpty,
        false => NullHandling::Drop,
    };
    let options = UnnestOptions { null_handling, recursions: Vec::new() };
    let plan = LogicalPlanBuilder::from(input)
        .project(columns)?
        .unnest_column_with_options(Column::from_name(GENERATED), options)?
        .build()?;
    let row = Expr::Column(Column::from_name(GENERATED));
    let mut outer = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        if at != place {
            outer.push(item.clone());
            continue;
        }
        if name == Some(ROW) {
            outer.push(row.clone().alias(ROW));
            continue;
        }
        let fields = generated.names(plan.schema())?;
        let names = names(name, &fields)?;
        if generated.single {
            outer.extend(names.into_iter().map(|name| row.clone().alias(name)));
        } else {
            outer.extend(
                fields
                    .iter()
                    .zip(names)
                    .map(|(field, name)| get_field(row.clone(), field.as_str()).alias(name)),
            );
        }
    }
    LogicalPlanBuilder::from(plan).project(outer)?.build()
}

/// The names of the columns: those that the query gives, if it gives as many, else their own.
fn names(given: Option<&str>, own: &[String]) -> Result<Vec<String>> {
    let Some(given) = given else { return Ok(own.to_vec()) };
    let given: Vec<String> = given.split(AND).map(str::to_owned).collect();
    if given.len() == own.len() {
        return Ok(given);
    }
    // A name that nobody gave: what Spark would print for the whole call.
    if given.len() == 1 && given.first().is_some_and(|name| name.contains('(') || name == "col") {
        return Ok(own.to_vec());
    }
    Err(DataFusionError::Plan(format!(
        "[NUM_COLUMNS_MISMATCH] the generator makes {} columns, and {} names are given",
        own.len(),
        given.len()
    )))
}
