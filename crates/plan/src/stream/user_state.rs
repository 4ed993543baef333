//! State of the user's own in a query: `map_groups_with_state`, `flat_map_groups_with_state` and
//! `transform_with_state`.

use super::event_time::event_time_of;
use super::nodes::{Identity, InitialRows, UserFunction, UserState, extension};
use super::table::streaming;
use crate::failure;
use arrow::datatypes::SchemaRef;
use datafusion::common::DFSchema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use onefold_connector::OutputMode;
use onefold_operators::{GroupFunction, GroupTimeout, Processor, TimeMode};
use onefold_types::{Error, Result};
use std::sync::Arc;

/// What `map_groups_with_state` and `flat_map_groups_with_state` are given.
#[derive(Debug, Clone)]
pub struct GroupsOptions {
    /// A lasting name for the operator; without one it is made from the keys.
    pub name: Option<String>,
    /// The columns of the state.
    pub state: SchemaRef,
    /// The columns that come out.
    pub output: SchemaRef,
    /// The kind of timeout that the function may set.
    pub timeout: GroupTimeout,
    /// The output mode that the function is written for; that of the query must be the same.
    pub mode: OutputMode,
    /// What is called for each key.
    pub function: GroupFunction,
}

/// What `transform_with_state` is given.
#[derive(Debug, Clone)]
pub struct TransformOptions {
    /// A lasting name for the operator; without one it is made from the keys.
    pub name: Option<String>,
    /// The columns that come out.
    pub output: SchemaRef,
    /// What timers and TTL go by.
    pub time: TimeMode,
    /// The output mode that the processor is written for; that of the query must be the same.
    pub mode: OutputMode,
    /// What handles the rows of a key.
    pub processor: Processor,
    /// Static rows with which the state begins, and their keys: handled in the first batch.
    pub initial: Option<(LogicalPlan, Vec<Expr>)>,
}

/// Calls a function with the rows and the state of each key, in each batch that has rows of it or
/// in which it times out.
///
/// # Errors
/// Invalid: no key, or a timeout by event time without a watermark.
pub fn groups_with_state(
    plan: LogicalPlan,
    keys: Vec<Expr>,
    options: GroupsOptions,
) -> Result<LogicalPlan> {
    if options.timeout == GroupTimeout::EventTime && event_time_of(plan.schema()).is_none() {
        return Err(Error::invalid(
            "watermark must be specified in the query using withWatermark for using event-time \
             timeout in a [map|flatMap]GroupsWithState",
        ));
    }
    let output = Arc::clone(&options.output);
    let function = UserFunction::Groups(Arc::new(options));
    node(plan, keys, None, &output, function)
}

/// Runs a processor with state variables and timers over the rows of each key.
///
/// # Errors
/// Invalid: no key, event time without a watermark, or an initial state that is a stream or has
/// another number of keys.
pub fn transform_with_state(
    plan: LogicalPlan,
    keys: Vec<Expr>,
    mut options: TransformOptions,
) -> Result<LogicalPlan> {
    if options.time == TimeMode::EventTime && event_time_of(plan.schema()).is_none() {
        return Err(Error::invalid(
            "watermark must be specified in the query using withWatermark for using event time in \
             transformWithState",
        ));
    }
    let initial = options.initial.take().map(|(plan, keys)| InitialRows { plan, keys });
    if let Some(initial) = &initial {
        if streaming(&initial.plan) {
            return Err(Error::invalid("the initial state is a stream: it must be a static table"));
        }
        if initial.keys.len() != keys.len() {
            return Err(Error::invalid(format!(
                "the stream is grouped by {} keys, but the initial state by {}",
                keys.len(),
                initial.keys.len()
            )));
        }
    }
    let output = Arc::clone(&options.output);
    let function = UserFunction::Transform(Arc::new(options));
    node(plan, keys, initial, &output, function)
}

fn node(
    input: LogicalPlan,
    keys: Vec<Expr>,
    initial: Option<InitialRows>,
    output: &SchemaRef,
    function: UserFunction,
) -> Result<LogicalPlan> {
    if keys.is_empty() {
        return Err(Error::invalid("state of your own needs a key to group by"));
    }
    let schema = DFSchema::try_from(output.as_ref().clone()).map_err(failure::planning)?;
    let event_time = super::nodes::event_time_column(input.schema());
    Ok(extension(UserState {
        identity: Identity::default(),
        input,
        keys,
        event_time,
        initial,
        function,
        schema: Arc::new(schema),
    }))
}
