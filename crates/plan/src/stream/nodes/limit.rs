//! LIMIT over a stream: so many rows of the whole query.

use super::{Identity, one_input, unordered};
use datafusion::common::DFSchemaRef;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::fmt;

/// Lets the first rows of the query through, whichever batches they come in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct GlobalLimit {
    pub(crate) identity: Identity,
    pub(crate) input: LogicalPlan,
    pub(crate) rows: u64,
}

unordered!(GlobalLimit);

impl UserDefinedLogicalNodeCore for GlobalLimit {
    fn name(&self) -> &str {
        "GlobalLimit"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "GlobalLimit: {}", self.rows)
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let input = one_input("GlobalLimit", inputs)?;
        Ok(GlobalLimit { identity: self.identity.clone(), input, rows: self.rows })
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output_columns.to_vec()])
    }
}
