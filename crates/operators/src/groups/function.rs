//! User functions over groups, without their types.

use super::state::{GroupCell, GroupState};
use crate::rows::{Rows, Value, typed, untyped};
use arrow::record_batch::RecordBatch;
use onefold_types::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::Arc;

/// The error of a user function: any.
pub type UserError = Box<dyn std::error::Error + Send + Sync>;

/// One call for a group.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) key: Value<'static>,
    pub(crate) batches: &'a [RecordBatch],
    pub(crate) rows: &'a [(usize, usize)],
    pub(crate) cell: &'a mut GroupCell,
    pub(crate) out: &'a mut Vec<Value<'static>>,
}

type Function = dyn Fn(Call<'_>) -> Result<()> + Send + Sync;

/// A function of the user's over groups with state.
///
/// It takes the key (`K`: the key columns as a struct, a tuple, or a bare value where there is one),
/// the group's rows (`V`: the input's columns) and the state (`S`); see [`Rows`] for how they are
/// read. It must give the same for the same arguments: a batch may run again.
#[derive(Clone)]
pub struct GroupFunction(Arc<Function>);

impl fmt::Debug for GroupFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupFunction")
    }
}

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
        GroupFunction(Arc::new(move |call| {
            let key = typed(call.key, "the key of a group")?;
            let rows = Rows::new(call.batches, call.rows);
            let mut state = GroupState::new(call.cell);
            for row in function(key, rows, &mut state).map_err(of_user)? {
                call.out.push(untyped(&row, "a row that the function gave")?);
            }
            Ok(())
        }))
    }

    pub(crate) fn call(&self, call: Call<'_>) -> Result<()> {
        (self.0)(call)
    }
}

/// A user's error as ours: our own come back as they were.
pub(crate) fn of_user(error: UserError) -> Error {
    match error.downcast::<Error>() {
        Ok(own) => *own,
        Err(error) => Error::invalid("a user function failed").because(error),
    }
}
