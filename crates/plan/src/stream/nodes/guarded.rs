//! A step of which rows that cannot be computed leave as dead letters.

use super::{names, one_input, unordered};
use datafusion::common::DFSchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, UserDefinedLogicalNodeCore};
use std::fmt;
use std::sync::Arc;

/// What is computed of each row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// `SELECT`: the columns that come out.
    Project(Vec<Expr>),
    /// `WHERE`: the condition.
    Filter(Box<Expr>),
}

/// A projection or a filter that goes on where a row cannot be computed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Guarded {
    pub(crate) input: LogicalPlan,
    pub(crate) step: Step,
    /// The column of the input with the record that a row came from.
    pub(crate) record: Expr,
    /// Which of the query's sources gave the record, by its place among those that are guarded.
    pub(crate) source: usize,
    schema: DFSchemaRef,
}

unordered!(Guarded);

impl Guarded {
    pub(crate) fn try_new(
        input: LogicalPlan,
        step: Step,
        record: Expr,
        source: usize,
    ) -> Result<Self> {
        let schema = match &step {
            Step::Filter(_) => Arc::clone(input.schema()),
            Step::Project(exprs) => {
                Projection::try_new(exprs.clone(), Arc::new(input.clone()))?.schema
            }
        };
        Ok(Guarded { input, step, record, source, schema })
    }

    fn computed(&self) -> &[Expr] {
        match &self.step {
            Step::Project(exprs) => exprs,
            Step::Filter(condition) => std::slice::from_ref(condition),
        }
    }
}

impl UserDefinedLogicalNodeCore for Guarded {
    fn name(&self) -> &str {
        match &self.step {
            Step::Project(_) => "GuardedProjection",
            Step::Filter(_) => "GuardedFilter",
        }
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.computed().iter().chain([&self.record]).cloned().collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {}", UserDefinedLogicalNodeCore::name(self), names(self.computed()))
    }

    fn with_exprs_and_inputs(
        &self,
        mut exprs: Vec<Expr>,
        inputs: Vec<LogicalPlan>,
    ) -> Result<Self> {
        let input = one_input("a guarded step", inputs)?;
        let lost = || DataFusionError::Internal("a guarded step lost an expression".to_owned());
        let record = exprs.pop().ok_or_else(lost)?;
        let step = match &self.step {
            Step::Project(_) => Step::Project(exprs),
            Step::Filter(_) => Step::Filter(Box::new(exprs.pop().ok_or_else(lost)?)),
        };
        Guarded::try_new(input, step, record, self.source)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        // What the expressions name is added by the caller.
        Some(vec![match &self.step {
            Step::Project(_) => Vec::new(),
            Step::Filter(_) => output_columns.to_vec(),
        }])
    }
}
