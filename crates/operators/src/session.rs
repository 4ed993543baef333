//! Aggregation by session windows.
//!
//! Each row opens a session of its own, `[time, time + gap)`; sessions of a key that overlap or
//! touch are one. The plan makes the column `struct<start, end>` of each row; this operator merges.
//!
//! # Invariants
//! - The sessions kept of a key neither overlap nor touch each other.
//! - A row is late by its own session, as in Spark, even where it would join a kept one.
//! - Partial state is merged in the order of session starts, kept before new.

mod layout;
mod merge;
mod pieces;
mod run;

use crate::aggregate::{NamedExpr, groups_as_columns, partial};
use crate::context::{EmitMode, OperatorContext};
use crate::failure;
use crate::keys;
use crate::late::{LateFilter, check_event_time};
use crate::unary::UnaryExec;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::expressions::BinaryExpr;
use datafusion::physical_plan::filter::FilterExec;
use layout::Layout;
use onefold_state::{Access, FamilySpec, OperatorId, OperatorSpec};
use onefold_types::{Error, Result as OwnResult};
use run::SaveSessions;
use std::sync::Arc;

/// Spark's name for the operator.
const KIND: &str = "sessionWindowStateStoreSaveExec";

/// `GROUP BY session_window(…), …` over a stream.
#[derive(Debug, Clone)]
pub struct SessionAggregate {
    /// The grouping expressions over the input and their names in the output.
    pub group: Vec<NamedExpr>,
    /// Which of them is the session: a struct of two timestamps, `start` and `end`, for each row.
    /// Rows whose session is NULL or ends where it starts are dropped.
    pub session: usize,
    /// The aggregates, their arguments over the input.
    pub aggregates: Vec<Arc<AggregateFunctionExpr>>,
    /// The `FILTER` of each aggregate.
    pub filters: Vec<Option<PhysicalExprRef>>,
}

impl SessionAggregate {
    /// The state that it keeps.
    ///
    /// # Errors
    /// Invalid: a group or an aggregate's state has a type that cannot be kept. Internal: the parts
    /// do not fit each other.
    pub fn spec(
        &self,
        id: OperatorId,
        label: impl Into<String>,
        input: &Schema,
    ) -> OwnResult<OperatorSpec> {
        let layout = self.layout(input)?;
        let sessions = FamilySpec {
            name: "default".to_owned(),
            key: layout.session_key(),
            value: layout.session_value(),
            access: Access::Ordered,
            counted: true,
        };
        let by_end = FamilySpec {
            name: "end".to_owned(),
            key: layout.end_key(),
            value: keys::state_schema([]),
            access: Access::Ordered,
            counted: false,
        };
        Ok(OperatorSpec {
            id,
            kind: KIND.to_owned(),
            label: label.into(),
            families: vec![sessions, by_end],
            single: layout.keys == 0,
        })
    }

    /// The rows that it gives: the groups, then the aggregates.
    ///
    /// # Errors
    /// As [`SessionAggregate::spec`].
    pub fn schema(&self, input: &Schema) -> OwnResult<SchemaRef> {
        Ok(Arc::clone(&self.layout(input)?.output))
    }

    /// The operator over a batch's input.
    ///
    /// # Errors
    /// Invalid: update mode, which Spark refuses for sessions too. Else as
    /// [`SessionAggregate::spec`].
    pub fn exec(
        &self,
        input: Arc<dyn ExecutionPlan>,
        context: OperatorContext,
    ) -> OwnResult<Arc<dyn ExecutionPlan>> {
        if context.mode == EmitMode::Update {
            return Err(Error::invalid(
                "update output mode not supported for session window on streaming \
                 DataFrames/Datasets; use append or complete",
            ));
        }
        let layout = Arc::new(self.layout(&input.schema())?);
        self.plan(input, layout, context).map_err(failure::planning)
    }

    fn layout(&self, input: &Schema) -> OwnResult<Layout> {
        if self.aggregates.len() != self.filters.len() {
            return Err(Error::internal("an aggregation has not one filter for each aggregate"));
        }
        let missing = || Error::internal(format!("there is no group column {}", self.session));
        let (session, _) = self.group.get(self.session).ok_or_else(missing)?;
        check_event_time(session, input)?;
        Layout::new(self, input).map_err(failure::planning)
    }

    fn plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        layout: Arc<Layout>,
        context: OperatorContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input_schema = input.schema();
        let (input, mut group) = groups_as_columns(input, &self.group)?;
        let (session, _) = group.remove(self.session);
        let start = (keys::window_start(&session), "start".to_owned());
        let end = (keys::event_time(&session, &input.schema())?, "end".to_owned());
        group.extend([start, end]);
        let (input, group) = groups_as_columns(input, &group)?;
        let columns = |from: usize| group.iter().skip(from).map(|(expr, _)| Arc::clone(expr));
        let [start, end] =
            <[PhysicalExprRef; 2]>::try_from(columns(layout.keys).collect::<Vec<_>>())
                .map_err(|_| failure::internal("a session has a start and an end"))?;
        let opens = Arc::new(BinaryExpr::new(start, Operator::Lt, Arc::clone(&end)));
        let mut input: Arc<dyn ExecutionPlan> = Arc::new(FilterExec::try_new(opens, input)?);
        // As in Spark also in complete mode, where other groups take late rows.
        if let Some(late_ms) = context.late_ms {
            let (keys, of) = (columns(0).collect(), (&context, input_schema.fields().len()));
            input = LateFilter::over(input, end, late_ms, of, Some(keys))?;
        }
        let (aggregates, filters) = (self.aggregates.clone(), self.filters.clone());
        let partial = partial(input, input_schema, group, aggregates, filters)?;
        let keys = layout.key_exprs(&partial.schema());
        let output = Arc::clone(&layout.output);
        let partitions = context.state.partitions();
        let save = SaveSessions::new(layout, context);
        UnaryExec::over_key_groups(partial, keys, partitions, output, Arc::new(save))
            .map_err(failure::external)
    }
}
