//! Records that cannot be processed leave the query as dead letters, where they are wanted.
//!
//! From a stream up to the first operator that looks at several rows, each row comes from one
//! record. Up to there the record goes along in a column of its own, and each step that may fail is
//! a [`Guarded`] one: where a row cannot be computed, its record leaves, with the error, and the
//! step goes on. Steps with values that are not the same each time they are computed (random ones,
//! functions in Python) stay as they are: an error in them stops the query.

mod columns;
mod fallible;

pub(super) use columns::LetterColumns;

use super::nodes::{EventTimeWatermark, Guarded, Step, as_node, extension};
use super::table::{hidden, stream_definition};
use crate::observe::Observed;
use arrow::datatypes::{Field, Fields};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::error::{DataFusionError, Result};
use datafusion::functions::core::expr_fn::named_struct;
use datafusion::logical_expr::{
    Expr, Extension, Filter, LogicalPlan, Projection, SubqueryAlias, TableScan, TableScanBuilder,
    lit,
};
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::{OptimizerContext, OptimizerRule};
use fallible::{computed_alike, may_fail};
use std::sync::Arc;

/// The column with the record that a row came from. No column of a user has this name.
const RECORD: &str = "__onefold_record";

/// The plan with its steps guarded, and what dead letters look like; `None` if no step of it can
/// fail for a single record.
pub(super) fn guard(plan: LogicalPlan) -> Result<(LogicalPlan, Option<LetterColumns>)> {
    let mut sources = Vec::new();
    let plan = without_unused(plan)?;
    let plan = guard_below(plan, &mut sources)?;
    Ok((plan, LetterColumns::of(sources)))
}

/// The plan without what nothing asks for: a column that is not used is not computed in a query
/// without dead letters, and must not send a record away in one with them.
fn without_unused(plan: LogicalPlan) -> Result<LogicalPlan> {
    let config = OptimizerContext::new();
    Ok(OptimizeProjections::new().rewrite(plan, &config)?.data)
}

/// Guards the steps of each stream; what comes out has the columns that it had.
fn guard_below(plan: LogicalPlan, sources: &mut Vec<Fields>) -> Result<LogicalPlan> {
    let before = sources.len();
    if let Some(chain) = Chain::of(&plan, sources)? {
        if chain.guards == 0 {
            sources.truncate(before);
            return Ok(plan);
        }
        return without_record(chain.plan, plan.schema());
    }
    let below = plan.map_children(|input| guard_below(input, sources).map(Transformed::yes))?;
    Ok(below.data)
}

fn without_record(plan: LogicalPlan, shown: &DFSchema) -> Result<LogicalPlan> {
    let columns = shown.iter().map(|it| Expr::Column(Column::from(it))).collect();
    Projection::try_new(columns, Arc::new(plan)).map(LogicalPlan::Projection)
}

/// Steps over one stream, with the record as one more column.
struct Chain {
    plan: LogicalPlan,
    /// The place of the stream among those that are guarded.
    source: usize,
    /// How many steps are guarded.
    guards: usize,
}

impl Chain {
    /// The chain that a plan is; `None` where a row does not come from one record of a stream.
    fn of(plan: &LogicalPlan, sources: &mut Vec<Fields>) -> Result<Option<Chain>> {
        let mut below = |input: &LogicalPlan| Chain::of(input, sources);
        match plan {
            LogicalPlan::TableScan(scan) => Chain::beginning(scan, sources),
            LogicalPlan::SubqueryAlias(alias) => {
                let Some(chain) = below(&alias.input)? else { return Ok(None) };
                let named = SubqueryAlias::try_new(Arc::new(chain.plan), alias.alias.clone())?;
                Ok(Some(Chain { plan: LogicalPlan::SubqueryAlias(named), ..chain }))
            }
            LogicalPlan::Projection(node) => {
                let Some(chain) = below(&node.input)? else { return Ok(None) };
                chain.project(&node.expr).map(Some)
            }
            LogicalPlan::Filter(node) => {
                let Some(chain) = below(&node.input)? else { return Ok(None) };
                chain.filter(&node.predicate).map(Some)
            }
            LogicalPlan::Extension(node) if passes_rows_on(plan) => {
                let [input] = node.node.inputs()[..] else { return Ok(None) };
                let Some(chain) = below(input)? else { return Ok(None) };
                let exprs = node.node.expressions();
                let node = node.node.with_exprs_and_inputs(exprs, vec![chain.plan])?;
                Ok(Some(Chain { plan: LogicalPlan::Extension(Extension { node }), ..chain }))
            }
            _ => Ok(None),
        }
    }

    fn beginning(scan: &TableScan, sources: &mut Vec<Fields>) -> Result<Option<Chain>> {
        if stream_definition(scan).is_none() {
            return Ok(None);
        }
        // The record is whole, whatever the query uses of it.
        let scan = TableScanBuilder::new(scan.table_name.clone(), Arc::clone(&scan.source))
            .with_filters(scan.filters.clone())
            .with_fetch(scan.fetch);
        let scan = LogicalPlan::TableScan(scan.build()?);
        let schema = Arc::clone(scan.schema());
        let (mut columns, mut record, mut fields) = (Vec::new(), Vec::new(), Vec::new());
        for (qualifier, field) in schema.iter() {
            let column = Expr::Column(Column::from((qualifier, field)));
            if !hidden(field) {
                record.extend([lit(field.name().as_str()), column.clone()]);
                fields.push(Arc::new(Field::new(field.name(), field.data_type().clone(), true)));
            }
            columns.push(column);
        }
        columns.push(named_struct(record).alias(RECORD));
        let plan = Projection::try_new(columns, Arc::new(scan)).map(LogicalPlan::Projection)?;
        let source = sources.len();
        sources.push(fields.into());
        Ok(Some(Chain { plan, source, guards: 0 }))
    }

    fn project(self, exprs: &[Expr]) -> Result<Chain> {
        let guarded = exprs.iter().any(may_fail) && exprs.iter().all(computed_alike);
        let record = self.record()?;
        let exprs: Vec<Expr> = exprs.iter().chain([&record]).cloned().collect();
        if guarded {
            return self.guarded(Step::Project(exprs));
        }
        let plan = Projection::try_new(exprs, Arc::new(self.plan))?;
        Ok(Chain { plan: LogicalPlan::Projection(plan), ..self })
    }

    fn filter(self, condition: &Expr) -> Result<Chain> {
        if may_fail(condition) && computed_alike(condition) {
            return self.guarded(Step::Filter(Box::new(condition.clone())));
        }
        let plan = Filter::try_new(condition.clone(), Arc::new(self.plan))?;
        Ok(Chain { plan: LogicalPlan::Filter(plan), ..self })
    }

    fn guarded(self, step: Step) -> Result<Chain> {
        let record = self.record()?;
        let plan = extension(Guarded::try_new(self.plan, step, record, self.source)?);
        Ok(Chain { plan, source: self.source, guards: self.guards + 1 })
    }

    /// The column with the record.
    fn record(&self) -> Result<Expr> {
        let mut columns = self.plan.schema().iter();
        let found = columns.find(|(_, field)| field.name() == RECORD);
        let lost = || DataFusionError::Internal("a row lost its record while planning".to_owned());
        found.map(|column| Expr::Column(Column::from(column))).ok_or_else(lost)
    }
}

/// Whether a node passes all rows and columns on as they are.
fn passes_rows_on(plan: &LogicalPlan) -> bool {
    as_node::<EventTimeWatermark>(plan).is_some() || as_node::<Observed>(plan).is_some()
}
