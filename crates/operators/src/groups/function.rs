//! Rust functions over groups.

use super::code::{GroupCalls, GroupCode, GroupReturns, GroupRun, StateChange};
use super::state::{CallTimes, GroupCell, GroupState};
use crate::rows::{Rows, Value, batch_of_values, column_of_values, row, typed, untyped, value_at};
use arrow::array::{Array, AsArray};
use onefold_types::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::Arc;

/// The error of a user function: any.
pub type UserError = Box<dyn std::error::Error + Send + Sync>;

/// The call for one group.
struct Call<'a> {
    key: Value<'static>,
    calls: &'a GroupCalls,
    group: usize,
    cell: &'a mut GroupCell,
    out: &'a mut Vec<Value<'static>>,
}

type Function = dyn Fn(Call<'_>) -> Result<()> + Send + Sync;

/// A function of the user's over groups with state.
///
/// It takes the key (`K`: the key columns as a struct, a tuple, or a bare value where there is one),
/// the group's rows (`V`: the input's columns) and the state (`S`); see [`Rows`] for how they are
/// read. It must give the same for the same arguments: a batch may run again.
#[derive(Debug, Clone)]
pub struct GroupFunction(Arc<dyn GroupCode>);

impl GroupFunction {
    /// A function that gives one row for each call: `map_groups_with_state`.
    pub fn map<K, V, S, O, F>(function: F) -> Self
    where
        K: DeserializeOwned,
        O: Serialize,
        F: Fn(K, Rows<'_, V>, &mut GroupState<'_, S>) -> Result<O, UserError>
            + Send
            + Sync
            + 'static,
    {
        GroupFunction::flat_map(move |key, rows, state: &mut GroupState<'_, S>| {
            function(key, rows, state).map(|row| [row])
        })
    }

    /// A function that gives any number of rows for each call: `flat_map_groups_with_state`.
    pub fn flat_map<K, V, S, I, F>(function: F) -> Self
    where
        K: DeserializeOwned,
        I: IntoIterator,
        I::Item: Serialize,
        F: Fn(K, Rows<'_, V>, &mut GroupState<'_, S>) -> Result<I, UserError>
            + Send
            + Sync
            + 'static,
    {
        let function = move |call: Call<'_>| {
            let key = typed(call.key, "the key of a group")?;
            let groups = &call.calls.groups;
            let rows = Rows::new(&groups.rows, groups.rows_of(call.group));
            let mut state = GroupState::new(call.cell);
            for row in function(key, rows, &mut state).map_err(of_user)? {
                call.out.push(untyped(&row, "a row that the function gave")?);
            }
            Ok(())
        };
        GroupFunction(Arc::new(Typed(Arc::new(function))))
    }

    /// Code over Arrow, of any language.
    #[must_use]
    pub fn code(code: Arc<dyn GroupCode>) -> Self {
        GroupFunction(code)
    }

    pub(super) fn start(&self) -> Result<Box<dyn GroupRun>> {
        self.0.start()
    }

    pub(super) fn operator_name(&self) -> &'static str {
        self.0.operator_name()
    }
}

/// A function that takes and gives Rust's types.
#[derive(Clone)]
struct Typed(Arc<Function>);

impl fmt::Debug for Typed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Typed")
    }
}

impl GroupCode for Typed {
    fn start(&self) -> Result<Box<dyn GroupRun>> {
        Ok(Box::new(self.clone()))
    }
}

impl GroupRun for Typed {
    fn call(&mut self, calls: &GroupCalls) -> Result<GroupReturns> {
        let times = CallTimes {
            timeout: calls.timeout,
            watermark_ms: calls.watermark_ms,
            batch_time_ms: calls.batch_time_ms,
        };
        let (mut out, mut states) = (Vec::new(), Vec::new());
        let (mut changes, mut timeouts_ms) = (Vec::new(), Vec::new());
        for group in 0..calls.groups.len() {
            let key = row(&calls.groups.keys, group)?.into_owned();
            let before = value_at(&calls.states, group)?.into_owned();
            let mut cell = GroupCell::new(before, calls.timed_out, times);
            (self.0)(Call { key, calls, group, cell: &mut cell, out: &mut out })?;
            changes.push(match (cell.removed, cell.updated) {
                (true, _) => StateChange::Remove,
                (_, true) => StateChange::Update,
                (false, false) => StateChange::Keep,
            });
            states.push(if cell.updated { cell.value } else { Value::Null });
            timeouts_ms.push(cell.timeout_ms);
        }
        let states = column_of_values(calls.states.data_type(), states, "the state of a group")?;
        let states = states.as_struct_opt().cloned();
        let states = states.ok_or_else(|| Error::internal("a state is no struct"))?;
        let output = batch_of_values(&calls.output, out, "a row that the function gave")?;
        Ok(GroupReturns { output: vec![output], states, changes, timeouts_ms })
    }
}

/// A user's error as ours: our own come back as they were.
pub(crate) fn of_user(error: UserError) -> Error {
    match error.downcast::<Error>() {
        Ok(own) => *own,
        Err(error) => Error::invalid("a user function failed").because(error),
    }
}
