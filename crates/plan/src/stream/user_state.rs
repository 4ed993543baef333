//! State of the user's own in a query: `map_groups_with_state`, `flat_map_groups_with_state` and
//! `transform_with_state`.

use super::event_time::{WATERMARK_DELAY, delay_of, event_time_of, instant_type};
use super::nodes::{Identity, InitialRows, UserFunction, UserState, extension};
use super::static_state::StaticState;
use super::table::streaming;
use crate::failure;
use arrow::datatypes::{Field, Schema, SchemaRef};
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
    /// The output mode that the processor is written for, if that of the query must be the same.
    pub mode: Option<OutputMode>,
    /// The column that comes out with the event time, if the watermark is to hold behind the
    /// operator too.
    pub event_time: Option<String>,
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
    Ok(extension(node(plan, keys, None, &output, function)?))
}

/// Runs a processor with state variables and timers over the rows of each key. Over rows that are no
/// stream, it runs once with state that nobody keeps.
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
    if let Some(column) = &options.event_time {
        options.output = with_event_time(&options.output, column, plan.schema())?;
    }
    let output = Arc::clone(&options.output);
    let is_static = !streaming(&plan);
    let function = UserFunction::Transform(Arc::new(options));
    let node = node(plan, keys, initial, &output, function)?;
    if is_static { StaticState::scan(node) } else { Ok(extension(node)) }
}

/// The output with the input's watermark on a column.
fn with_event_time(output: &SchemaRef, column: &str, input: &DFSchema) -> Result<SchemaRef> {
    let place = output
        .fields()
        .iter()
        .position(|field| field.name().eq_ignore_ascii_case(column))
        .ok_or_else(|| {
            Error::invalid(format!(
                "the event time column `{column}` is not among the columns that transformWithState \
                 gives"
            ))
        })?;
    let delay = event_time_of(input).and_then(|place| delay_of(input.field(place)));
    let delay = delay.ok_or_else(|| {
        Error::invalid(
            "previous watermark definition must be set to define a new event time column: use \
             withWatermark on the input of transformWithState",
        )
    })?;
    let mut fields: Vec<Field> =
        output.fields().iter().map(|field| field.as_ref().clone()).collect();
    if let Some(field) = fields.get_mut(place) {
        if instant_type(field.data_type()).is_none() {
            return Err(Error::invalid(format!(
                "the event time column `{column}` is of type {}, not a timestamp",
                crate::schema::type_name(field.data_type())
            )));
        }
        field.metadata_mut().insert(WATERMARK_DELAY.to_owned(), delay.to_string());
    }
    Ok(Arc::new(Schema::new_with_metadata(fields, output.metadata().clone())))
}

fn node(
    input: LogicalPlan,
    keys: Vec<Expr>,
    initial: Option<InitialRows>,
    output: &SchemaRef,
    function: UserFunction,
) -> Result<UserState> {
    if keys.is_empty() {
        return Err(Error::invalid("state of your own needs a key to group by"));
    }
    let schema = DFSchema::try_from(output.as_ref().clone()).map_err(failure::planning)?;
    let event_time = super::nodes::event_time_column(input.schema());
    Ok(UserState {
        identity: Identity::default(),
        input,
        keys,
        event_time,
        initial,
        function,
        schema: Arc::new(schema),
    })
}
