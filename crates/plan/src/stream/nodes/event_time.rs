//! `withWatermark`.

use super::{one_input, unordered};
use crate::stream::event_time::WATERMARK_DELAY;
use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// Watches the event times that go through, and marks their column.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct EventTimeWatermark {
    pub(crate) input: LogicalPlan,
    /// A column of the input.
    pub(crate) column: Expr,
    pub(crate) delay_ms: i64,
    /// Its place among the query's watermarks, once that is known.
    pub(crate) place: usize,
    schema: DFSchemaRef,
}

unordered!(EventTimeWatermark);

impl EventTimeWatermark {
    pub(crate) fn try_new(
        input: LogicalPlan,
        column: Expr,
        delay_ms: i64,
        place: usize,
    ) -> Result<Self> {
        let Some(marked) = super::place_of(input.schema(), &column) else {
            return Err(DataFusionError::Plan(format!(
                "a watermark needs a column of its input, not `{column}`"
            )));
        };
        let fields = input.schema().iter().enumerate().map(|(place, (qualifier, field))| {
            let mut field = field.as_ref().clone();
            if place == marked {
                field.metadata_mut().insert(WATERMARK_DELAY.to_owned(), delay_ms.to_string());
            }
            (qualifier.cloned(), Arc::new(field))
        });
        let metadata = input.schema().metadata().clone();
        let schema = DFSchema::new_with_metadata(fields.collect(), metadata)?;
        Ok(EventTimeWatermark { input, column, delay_ms, place, schema: Arc::new(schema) })
    }
}

impl UserDefinedLogicalNodeCore for EventTimeWatermark {
    fn name(&self) -> &str {
        "EventTimeWatermark"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![self.column.clone()]
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        // A filter on other columns may go below, as in Spark; one on the event time would hide
        // times that move the watermark.
        match &self.column {
            Expr::Column(column) => HashSet::from([column.name.clone()]),
            _ => self.schema.fields().iter().map(|field| field.name().clone()).collect(),
        }
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "EventTimeWatermark: {}, {} ms", self.column, self.delay_ms)
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let input = one_input("EventTimeWatermark", inputs)?;
        let column = exprs.into_iter().next().unwrap_or_else(|| self.column.clone());
        Self::try_new(input, column, self.delay_ms, self.place)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output_columns.to_vec()])
    }
}
