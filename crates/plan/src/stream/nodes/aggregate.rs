//! GROUP BY over a stream.

use super::{Identity, known_columns, names, one_input, unordered};
use datafusion::common::DFSchemaRef;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::fmt;

/// Groups rows over all batches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct StatefulAggregate {
    pub(crate) identity: Identity,
    pub(crate) input: LogicalPlan,
    pub(crate) group: Vec<Expr>,
    pub(crate) aggregates: Vec<Expr>,
    /// The place among the groups of the session window, if there is one.
    pub(crate) session: Option<usize>,
    /// The place among the groups of the event time that has a watermark.
    pub(crate) event_time: Option<usize>,
    /// The groups and then the results.
    pub(crate) schema: DFSchemaRef,
}

unordered!(StatefulAggregate);

impl UserDefinedLogicalNodeCore for StatefulAggregate {
    fn name(&self) -> &str {
        match self.session {
            Some(_) => "SessionAggregate",
            None => "StatefulAggregate",
        }
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.group.iter().chain(&self.aggregates).cloned().collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let name = UserDefinedLogicalNodeCore::name(self);
        let (group, aggregates) = (names(&self.group), names(&self.aggregates));
        write!(f, "{name}: groupBy=[{group}], aggr=[{aggregates}]")
    }

    fn with_exprs_and_inputs(
        &self,
        mut exprs: Vec<Expr>,
        inputs: Vec<LogicalPlan>,
    ) -> Result<Self> {
        let input = one_input("StatefulAggregate", inputs)?;
        let aggregates = exprs.split_off(self.group.len().min(exprs.len()));
        Ok(StatefulAggregate { input, group: exprs, aggregates, ..self.clone() })
    }

    fn necessary_children_exprs(&self, _output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        // What the expressions name is added by the caller.
        Some(vec![if self.identity.whole_rows { known_columns(&self.input) } else { Vec::new() }])
    }
}
