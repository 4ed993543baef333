//! `dropDuplicates` and `dropDuplicatesWithinWatermark`.

use super::{Identity, known_columns, names, one_input, unordered};
use datafusion::common::DFSchemaRef;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::fmt;

/// Lets the first row of each key through.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Deduplicate {
    pub(crate) identity: Identity,
    pub(crate) input: LogicalPlan,
    /// Columns of the input.
    pub(crate) keys: Vec<Expr>,
    /// The column of the input with the watermark, by which rows are late; set when the plan is
    /// lowered.
    pub(crate) event_time: Option<Expr>,
    /// Forgets a key when the watermark has passed the event time of its first row by this delay.
    pub(crate) within_ms: Option<i64>,
}

unordered!(Deduplicate);

impl UserDefinedLogicalNodeCore for Deduplicate {
    fn name(&self) -> &str {
        match self.within_ms {
            Some(_) => "DeduplicateWithinWatermark",
            None => "Deduplicate",
        }
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        self.keys.iter().cloned().chain(self.event_time.clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {}", UserDefinedLogicalNodeCore::name(self), names(&self.keys))
    }

    fn with_exprs_and_inputs(
        &self,
        mut exprs: Vec<Expr>,
        inputs: Vec<LogicalPlan>,
    ) -> Result<Self> {
        let input = one_input("Deduplicate", inputs)?;
        let rest = exprs.split_off(self.keys.len().min(exprs.len()));
        let event_time = rest.into_iter().next();
        let (identity, within_ms) = (self.identity.clone(), self.within_ms);
        Ok(Deduplicate { identity, input, keys: exprs, event_time, within_ms })
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        if self.identity.whole_rows {
            let known = known_columns(&self.input);
            let hidden = output_columns.iter().filter(|place| !known.contains(place));
            return Some(vec![known.iter().chain(hidden).copied().collect()]);
        }
        Some(vec![output_columns.to_vec()])
    }
}
