//! A state of the user's for each group: `map_groups_with_state`, `flat_map_groups_with_state`.
//!
//! ```
//! use onefold_operators::{GroupFunction, GroupState, Rows, UserError};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Deserialize)]
//! struct Click {
//!     user: String,
//!     amount: f64,
//! }
//!
//! #[derive(Serialize, Deserialize, Default)]
//! struct Total {
//!     clicks: i64,
//!     amount: f64,
//! }
//!
//! #[derive(Serialize)]
//! struct Report {
//!     user: String,
//!     clicks: i64,
//! }
//!
//! let function = GroupFunction::map(
//!     |user: String, clicks: Rows<'_, Click>, state: &mut GroupState<Total>| {
//!         let mut total = state.get()?.unwrap_or_default();
//!         for click in clicks {
//!             total.clicks += 1;
//!             total.amount += click?.amount;
//!         }
//!         state.update(&total)?;
//!         Ok::<_, UserError>(Report { user, clicks: total.clicks })
//!     },
//! );
//! # let _ = function;
//! ```
//!
//! In a batch the function is called once for each key that has rows, in the order of the keys'
//! bytes, and after that once for each key whose timeout is over and that had no rows, with no rows
//! and [`GroupState::has_timed_out`]. Each call starts without a timeout: one that should stay is
//! set again, as in Spark.
//!
//! # State
//! One row for each key: the user's columns as a struct, NULL when there is only a timeout, and
//! where a kind of timeout is declared the timeout in milliseconds (−1: none); and an index by
//! (timeout, key).

mod code;
mod function;
mod run;
mod state;
#[cfg(test)]
mod tests;

pub use code::{GroupCalls, GroupCode, GroupReturns, GroupRun, StateChange};
pub(crate) use function::of_user;
pub use function::{GroupFunction, UserError};
pub use state::GroupState;

use crate::OperatorContext;
use crate::failure;
use crate::grouped::Grouping;
use crate::keys::{RowCodec, plain, state_schema};
use crate::late::LateTap;
use crate::unary::UnaryExec;
use arrow::array::Array;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::ExecutionPlan;
use onefold_state::{Access, FamilySpec, OperatorId, OperatorSpec};
use onefold_types::{Error, Result as OwnResult};
use std::sync::Arc;

/// What ends the waiting of a group for more rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupTimeout {
    /// Nothing.
    None,
    /// The batches' time reaching a duration after the call.
    ProcessingTime,
    /// The watermark passing a time; late rows are dropped.
    EventTime,
}

/// `map_groups_with_state` or `flat_map_groups_with_state`.
#[derive(Debug, Clone)]
pub struct GroupsWithState {
    /// The grouping key and its columns' names.
    pub keys: Vec<(PhysicalExprRef, String)>,
    /// The columns of the user's state.
    pub state: SchemaRef,
    /// The columns that come out.
    pub output: SchemaRef,
    /// The kind of timeout that the function may set.
    pub timeout: GroupTimeout,
    /// The input's column that carries a watermark. Only with timeouts by event time are rows at or
    /// before the late watermark dropped.
    pub event_time: Option<PhysicalExprRef>,
    /// What is called.
    pub function: GroupFunction,
}

const STATE: usize = 0;
const TIMEOUTS: usize = 1;

/// Made ready for an input.
#[derive(Debug)]
struct GroupsPlan {
    grouping: Grouping,
    /// The user's columns as a struct, then the timeout.
    values: SchemaRef,
    codec: RowCodec,
    output: SchemaRef,
    timeout: GroupTimeout,
    function: GroupFunction,
}

impl GroupsWithState {
    /// The state that the operator needs over an input.
    ///
    /// # Errors
    /// Invalid: a key or a column of the state is of a type that state cannot keep, or the event
    /// time is no timestamp.
    pub fn spec(&self, id: OperatorId, label: &str, input: &Schema) -> OwnResult<OperatorSpec> {
        let plan = self.plan(input).map_err(failure::planning)?;
        let mut families = vec![FamilySpec {
            name: "default".to_owned(),
            key: Arc::clone(&plan.grouping.schema),
            value: Arc::clone(&plan.values),
            access: Access::Point,
            counted: true,
        }];
        if self.timeout != GroupTimeout::None {
            let timeout = [timeout_field()].into_iter();
            let keys = plan.grouping.schema.fields().iter().cloned();
            families.push(FamilySpec {
                name: "timeouts".to_owned(),
                key: state_schema(timeout.chain(keys)),
                value: Arc::new(Schema::empty()),
                access: Access::Ordered,
                counted: false,
            });
        }
        Ok(OperatorSpec {
            id,
            kind: self.function.operator_name().to_owned(),
            label: label.to_owned(),
            families,
            single: self.keys.is_empty(),
        })
    }

    /// The operator for one batch.
    ///
    /// # Errors
    /// As [`GroupsWithState::spec`].
    pub fn exec(
        &self,
        input: Arc<dyn ExecutionPlan>,
        context: OperatorContext,
    ) -> OwnResult<Arc<dyn ExecutionPlan>> {
        let plan = self.plan(&input.schema()).map_err(failure::planning)?;
        let (keys, partitions) = (plan.grouping.exprs.clone(), context.state.partitions());
        let input = LateTap::over(input, 0, plan.grouping.event_time.as_ref(), &context);
        let operator = run::GroupsOperator { plan: Arc::new(plan), context };
        let output = Arc::clone(&self.output);
        UnaryExec::over_key_groups(input, keys, partitions, output, Arc::new(operator))
    }

    fn plan(&self, input: &Schema) -> Result<GroupsPlan> {
        let event_time = self.event_time.clone();
        let event_time = event_time.filter(|_| self.timeout == GroupTimeout::EventTime);
        let state = DataType::Struct(self.state.fields().clone());
        let mut values = vec![Arc::new(Field::new("groupState", plain(&state), true))];
        if self.timeout != GroupTimeout::None {
            values.push(timeout_field());
        }
        let values = state_schema(values);
        Ok(GroupsPlan {
            grouping: Grouping::new(&self.keys, event_time, input)?,
            codec: RowCodec::of(&values)?,
            values,
            output: Arc::clone(&self.output),
            timeout: self.timeout,
            function: self.function.clone(),
        })
    }
}

impl GroupsPlan {
    /// A batch that the code gave, under the declared names; its columns have the declared types.
    fn fit_output(&self, batch: RecordBatch) -> OwnResult<RecordBatch> {
        let (count, options) = (batch.num_rows(), RecordBatchOptions::new());
        let options = options.with_row_count(Some(count));
        let columns = batch.columns().to_vec();
        RecordBatch::try_new_with_options(Arc::clone(&self.output), columns, &options).map_err(
            |error| {
                Error::invalid("what a user function gave does not fit its schema").because(error)
            },
        )
    }

    fn check(&self, groups: usize, given: &GroupReturns) -> OwnResult<()> {
        let lengths = [given.states.len(), given.changes.len(), given.timeouts_ms.len()];
        if lengths.iter().any(|length| *length != groups) {
            return Err(Error::invalid(format!(
                "a user function was called for {groups} groups but answered for {}",
                lengths.iter().max().unwrap_or(&0)
            )));
        }
        let wanted = self.values.fields().first().map(|field| field.data_type());
        if wanted != Some(given.states.data_type()) {
            return Err(Error::invalid(format!(
                "a user function gave a state of type {}, which is not the declared one",
                given.states.data_type()
            )));
        }
        if self.timeout == GroupTimeout::None && given.timeouts_ms.iter().any(Option::is_some) {
            return Err(Error::invalid(
                "a user function set a timeout where none was declared: declare its kind",
            ));
        }
        Ok(())
    }
}

fn timeout_field() -> FieldRef {
    Arc::new(Field::new("timeoutTimestamp", DataType::Int64, true))
}
