//! `transform_with_state`: a processor of the user's with several variables, timers and TTL for
//! each key.
//!
//! ```
//! use arrow::datatypes::DataType;
//! use onefold_operators::{
//!     ExpiredTimer, ProcessorContext, Rows, StatefulProcessor, UserError, ValueState, Variables,
//! };
//!
//! #[derive(Clone, Default)]
//! struct Counter {
//!     count: ValueState<i64>,
//! }
//!
//! impl StatefulProcessor for Counter {
//!     type Key = String;
//!     type Input = (String, i64);
//!     type Initial = ();
//!     type Output = (String, i64);
//!
//!     fn init(&mut self, variables: &mut Variables) -> Result<(), UserError> {
//!         self.count = variables.value("count", DataType::Int64, None)?;
//!         Ok(())
//!     }
//!
//!     fn handle_input_rows(
//!         &mut self,
//!         key: String,
//!         rows: Rows<'_, (String, i64)>,
//!         context: &mut ProcessorContext<'_>,
//!     ) -> Result<Vec<(String, i64)>, UserError> {
//!         let count = self.count.get(context)?.unwrap_or(0) + i64::try_from(rows.len())?;
//!         self.count.update(context, &count)?;
//!         context.register_timer(context.current_watermark_ms() + 60_000)?;
//!         Ok(vec![(key, count)])
//!     }
//!
//!     fn handle_expired_timer(
//!         &mut self,
//!         key: String,
//!         _timer: ExpiredTimer,
//!         context: &mut ProcessorContext<'_>,
//!     ) -> Result<Vec<(String, i64)>, UserError> {
//!         let count = self.count.get(context)?.unwrap_or(0);
//!         self.count.clear(context)?;
//!         Ok(vec![(key, count)])
//!     }
//! }
//! ```
//!
//! In a batch and partition there is one copy of the processor: `init`, then a call for each key
//! with rows in the order of the keys' bytes, then one for each timer that is due, in the order of
//! key group, time and key, then `close`. What a call writes to a variable is seen by it and all
//! later ones. A timer is due when its time is at or before the batch's time, or its watermark; one
//! that is registered while timers are handled is due in a later batch at the earliest.
//!
//! # TTL
//! Only in [`TimeMode::ProcessingTime`]. What is written at the batch's time `t` is gone once a
//! batch has a time of at least `t + ttl`: not seen any more, and removed at that batch's end. The
//! elements of a list and the entries of a map expire each by itself.
//!
//! # State
//! A family for each variable under its name, by key (list: and position; map: and the user's key),
//! and `$rowCounter_NAME` for a list's size, `$ttl_NAME` by expiry, two families for timers, and
//! `$initialState`, which has a row in each key group once the initial state was taken.

mod arrow_values;
mod code;
mod context;
mod kinds;
mod partition;
mod processor;
mod run;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_whole;
mod timers;
mod variables;

pub use code::{DueTimers, ProcessorCode, ProcessorRun, ProcessorStart, ProcessorState};
pub use context::ProcessorContext;
pub use kinds::{ListState, MapState, ValueState};
pub use partition::{PartitionKeys, PartitionRows, PartitionRun};
pub use processor::{ExpiredTimer, Processor, StatefulProcessor};
pub use variables::Variables;

use crate::OperatorContext;
use crate::failure;
use crate::grouped::Grouping;
use crate::late::LateTap;
use crate::unary::UnaryExec;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::ExecutionPlan;
use onefold_state::{OperatorId, OperatorSpec};
use onefold_types::{Error, Result};
use std::sync::Arc;
use variables::Layout;

/// Which time timers and TTL go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeMode {
    /// There are none.
    None,
    /// The batches' time.
    ProcessingTime,
    /// The watermark; late rows are dropped.
    EventTime,
}

/// `transform_with_state`.
#[derive(Debug, Clone)]
pub struct TransformWithState {
    /// The grouping key and its columns' names.
    pub keys: Vec<(PhysicalExprRef, String)>,
    /// The columns that come out.
    pub output: SchemaRef,
    /// Which time timers and TTL go by.
    pub mode: TimeMode,
    /// The input's column that carries a watermark: in event time, rows at or before the late
    /// watermark are dropped.
    pub event_time: Option<PhysicalExprRef>,
    /// The key's columns over the rows of the initial state, if there is one: as many as `keys`,
    /// and of the same types.
    pub initial: Option<InitialState>,
    /// What handles the rows.
    pub processor: Processor,
}

/// What a query's state begins with.
#[derive(Debug, Clone)]
pub struct InitialState {
    /// The columns of its rows.
    pub schema: SchemaRef,
    /// The key over them, and its columns' names.
    pub keys: Vec<(PhysicalExprRef, String)>,
}

/// Made ready for an input.
#[derive(Debug)]
struct TransformPlan {
    grouping: Grouping,
    /// How rows of the initial state are grouped.
    initial: Option<Grouping>,
    layout: Layout,
    output: SchemaRef,
    mode: TimeMode,
    processor: Processor,
}

impl TransformWithState {
    /// The state that the operator needs over an input: what the processor's `init` declares.
    ///
    /// # Errors
    /// What `init` gives; Invalid: a key or variable of a type that state cannot keep, two variables
    /// of one name, TTL without processing time, or an event time that is no timestamp.
    pub fn spec(&self, id: OperatorId, label: &str, input: &Schema) -> Result<OperatorSpec> {
        let plan = self.plan(input)?;
        Ok(OperatorSpec {
            id,
            kind: self.processor.get().kind().to_owned(),
            label: label.to_owned(),
            families: plan.layout.families,
            single: self.keys.is_empty(),
        })
    }

    /// The operator for one batch. `initial` gives the rows of the initial state; they are read in
    /// the first batch only.
    ///
    /// # Errors
    /// As [`TransformWithState::spec`].
    pub fn exec(
        &self,
        input: Arc<dyn ExecutionPlan>,
        initial: Option<Arc<dyn ExecutionPlan>>,
        context: OperatorContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.plan(&input.schema())?;
        let (keys, partitions) = (plan.grouping.exprs.clone(), context.state.partitions());
        let input = LateTap::over(input, 0, plan.grouping.event_time.as_ref(), &context);
        let initial_keys = plan.initial.as_ref().map(|grouping| grouping.exprs.clone());
        let operator = Arc::new(run::TransformOperator { plan: Arc::new(plan), context });
        let output = Arc::clone(&self.output);
        match initial.zip(initial_keys) {
            Some(beside) => {
                let input = (input, keys);
                UnaryExec::over_key_groups_beside(input, beside, partitions, output, operator)
            }
            None => UnaryExec::over_key_groups(input, keys, partitions, output, operator),
        }
    }

    fn plan(&self, input: &Schema) -> Result<TransformPlan> {
        let event_time = self.event_time.clone();
        let event_time = event_time.filter(|_| self.mode == TimeMode::EventTime);
        let grouping = Grouping::new(&self.keys, event_time, input).map_err(failure::planning)?;
        let initial = self.initial.as_ref().map(|initial| {
            Grouping::new(&initial.keys, None, &initial.schema).map_err(failure::planning)
        });
        let initial = initial.transpose()?;
        if initial.as_ref().is_some_and(|initial| !initial.fits(&grouping)) {
            return Err(Error::invalid(
                "the key of the initial state does not have the types of the stream's key; cast it",
            ));
        }
        let mut variables = Variables::new(self.mode);
        self.processor.get().declare(&mut variables)?;
        Ok(TransformPlan {
            layout: Layout::of(&variables, &grouping, self.mode, initial.is_some())?,
            grouping,
            initial,
            output: Arc::clone(&self.output),
            mode: self.mode,
            processor: self.processor.clone(),
        })
    }
}
