//! State of the user's own: functions and processors over the groups of a stream.
//!
//! ```no_run
//! use onefold_engine::{DataFrame, GroupState, GroupTimeout, OutputMode, Rows, UserError};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Deserialize)]
//! struct Click {
//!     user: String,
//!     at_ms: i64,
//! }
//!
//! #[derive(Serialize, Deserialize, Default)]
//! struct Visit {
//!     clicks: i64,
//!     last_ms: i64,
//! }
//!
//! #[derive(Serialize)]
//! struct Done {
//!     user: String,
//!     clicks: i64,
//! }
//!
//! /// A row for each user who has not clicked for a minute.
//! fn visits(clicks: &DataFrame) -> onefold_types::Result<DataFrame> {
//!     let visit = |user: String, clicks: Rows<'_, Click>, state: &mut GroupState<'_, Visit>| {
//!         let mut visit = state.get()?.unwrap_or_default();
//!         if state.has_timed_out() {
//!             state.remove();
//!             return Ok::<_, UserError>(vec![Done { user, clicks: visit.clicks }]);
//!         }
//!         for click in clicks {
//!             visit.clicks += 1;
//!             visit.last_ms = visit.last_ms.max(click?.at_ms);
//!         }
//!         state.set_timeout_timestamp(visit.last_ms.max(state.current_watermark_ms()) + 60_000)?;
//!         state.update(&visit)?;
//!         Ok(Vec::new())
//!     };
//!     clicks
//!         .with_column("at_ms", "CAST(ts AS BIGINT) * 1000")?
//!         .with_watermark("ts", "10 seconds")?
//!         .group_by(&["user"])
//!         .flat_map_groups_with_state(
//!             "clicks BIGINT, last_ms BIGINT",
//!             "user STRING, clicks BIGINT",
//!             OutputMode::Append,
//!             GroupTimeout::EventTime,
//!             visit,
//!         )
//! }
//! # let _ = visits;
//! ```

use crate::frame::DataFrame;
use crate::grouped::GroupedData;
use datafusion::logical_expr::{Expr, LogicalPlan};
use onefold_connector::OutputMode;
use onefold_operators::{
    GroupFunction, GroupState, GroupTimeout, Processor, Rows, StatefulProcessor, TimeMode,
    UserError,
};
use onefold_plan::schema::parse_schema;
use onefold_plan::stream::{self, GroupsOptions, TransformOptions};
use onefold_types::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;

impl GroupedData {
    /// Calls a function with each group's rows and its state, in each batch that has rows of it or
    /// in which it times out; one row comes out of each call. `state` and `output` are the columns
    /// of the state and of what comes out, as in `n BIGINT, names ARRAY<STRING>`; they, the key and
    /// the rows are types of the user's by serde, as [`Rows`] says. The query's output mode is
    /// update.
    ///
    /// # Errors
    /// Invalid: no or unknown columns to group by, a schema that cannot be read, or a timeout by
    /// event time without a watermark.
    pub fn map_groups_with_state<K, V, S, O, F>(
        &self,
        state: &str,
        output: &str,
        timeout: GroupTimeout,
        function: F,
    ) -> Result<DataFrame>
    where
        K: DeserializeOwned,
        O: Serialize,
        F: Fn(K, Rows<'_, V>, &mut GroupState<'_, S>) -> Result<O, UserError>
            + Send
            + Sync
            + 'static,
    {
        let function = GroupFunction::map(function);
        self.groups_with_state(state, output, OutputMode::Update, timeout, function)
    }

    /// As [`GroupedData::map_groups_with_state`], with any number of rows out of each call, and
    /// for queries in append or update mode.
    ///
    /// # Errors
    /// As [`GroupedData::map_groups_with_state`].
    pub fn flat_map_groups_with_state<K, V, S, I, F>(
        &self,
        state: &str,
        output: &str,
        mode: OutputMode,
        timeout: GroupTimeout,
        function: F,
    ) -> Result<DataFrame>
    where
        K: DeserializeOwned,
        I: IntoIterator,
        I::Item: Serialize,
        F: Fn(K, Rows<'_, V>, &mut GroupState<'_, S>) -> Result<I, UserError>
            + Send
            + Sync
            + 'static,
    {
        let function = GroupFunction::flat_map(function);
        self.groups_with_state(state, output, mode, timeout, function)
    }

    /// As [`GroupedData::flat_map_groups_with_state`], of a function that is made already, maybe
    /// of [code over Arrow](GroupFunction::code).
    ///
    /// # Errors
    /// As [`GroupedData::map_groups_with_state`].
    pub fn groups_with_state(
        &self,
        state: &str,
        output: &str,
        mode: OutputMode,
        timeout: GroupTimeout,
        function: GroupFunction,
    ) -> Result<DataFrame> {
        let (input, keys) = self.keyed()?;
        let options = GroupsOptions {
            name: None,
            state: parse_schema(state)?,
            output: parse_schema(output)?,
            timeout,
            mode,
            function,
        };
        self.made(stream::groups_with_state(input, keys, options)?)
    }

    /// Runs a processor with state variables, timers and TTL over the rows of each key. `output` is
    /// the columns of what comes out. See [`StatefulProcessor`].
    ///
    /// # Errors
    /// Invalid: no or unknown columns to group by, a schema that cannot be read, or event time
    /// without a watermark.
    pub fn transform_with_state(
        &self,
        output: &str,
        time: TimeMode,
        mode: OutputMode,
        processor: impl StatefulProcessor,
    ) -> Result<DataFrame> {
        self.transform(output, time, mode, Processor::new(processor), None)
    }

    /// As [`GroupedData::transform_with_state`], beginning with a static frame grouped by keys of
    /// the same types: its rows go to
    /// [`handle_initial_state`](StatefulProcessor::handle_initial_state) in the first batch.
    ///
    /// # Errors
    /// As [`GroupedData::transform_with_state`]; Invalid: the initial state is a stream, or is
    /// grouped by another number of keys.
    pub fn transform_with_initial_state(
        &self,
        output: &str,
        time: TimeMode,
        mode: OutputMode,
        processor: impl StatefulProcessor,
        initial: &GroupedData,
    ) -> Result<DataFrame> {
        self.transform(output, time, mode, Processor::new(processor), Some(initial))
    }

    /// As [`GroupedData::transform_with_state`], of a processor that is made already, maybe of
    /// [code over Arrow](Processor::code).
    ///
    /// # Errors
    /// As [`GroupedData::transform_with_initial_state`].
    pub fn transform(
        &self,
        output: &str,
        time: TimeMode,
        mode: OutputMode,
        processor: Processor,
        initial: Option<&GroupedData>,
    ) -> Result<DataFrame> {
        let (input, keys) = self.keyed()?;
        let options = TransformOptions {
            name: None,
            output: parse_schema(output)?,
            time,
            mode: Some(mode),
            event_time: None,
            processor,
            initial: initial.map(GroupedData::keyed).transpose()?,
        };
        self.made(stream::transform_with_state(input, keys, options)?)
    }

    /// The frame's plan and the key over it.
    fn keyed(&self) -> Result<(LogicalPlan, Vec<Expr>)> {
        let plan = self.frame().logical_plan().clone();
        let context = self.frame().session().context();
        let mut keys = Vec::new();
        for text in self.group() {
            keys.extend(onefold_plan::sql::select_items(context, plan.schema(), text)?);
        }
        Ok((plan, keys))
    }

    fn made(&self, plan: LogicalPlan) -> Result<DataFrame> {
        Ok(DataFrame::new(self.frame().session().clone(), plan))
    }
}
