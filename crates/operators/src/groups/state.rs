//! The state of a group in one call of the user's function.

use super::GroupTimeout;
use crate::rows::{Value, typed, untyped};
use onefold_types::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::time::Duration;

/// What every call in a batch sees.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallTimes {
    pub(crate) timeout: GroupTimeout,
    pub(crate) watermark_ms: i64,
    pub(crate) batch_time_ms: i64,
}

/// The state of a group, whatever its type.
#[derive(Debug)]
pub(crate) struct GroupCell {
    /// `Value::Null` where there is no state.
    pub(super) value: Value<'static>,
    pub(super) updated: bool,
    pub(super) removed: bool,
    pub(super) timed_out: bool,
    pub(super) timeout_ms: Option<i64>,
    times: CallTimes,
}

impl GroupCell {
    pub(super) fn new(value: Value<'static>, timed_out: bool, times: CallTimes) -> Self {
        GroupCell { value, updated: false, removed: false, timed_out, timeout_ms: None, times }
    }
}

/// The state of a group in one call of the user's function.
#[derive(Debug)]
pub struct GroupState<'a, S> {
    cell: &'a mut GroupCell,
    of: PhantomData<fn() -> S>,
}

impl<'a, S> GroupState<'a, S> {
    pub(super) fn new(cell: &'a mut GroupCell) -> Self {
        GroupState { cell, of: PhantomData }
    }

    /// Whether the group has a state.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.cell.value != Value::Null
    }

    /// Removes the state.
    pub fn remove(&mut self) {
        self.cell.value = Value::Null;
        self.cell.removed = true;
        self.cell.updated = false;
    }

    /// Whether the call is there because the group's timeout is over.
    #[must_use]
    pub fn has_timed_out(&self) -> bool {
        self.cell.timed_out
    }

    /// Sets the timeout to a time after this batch's.
    ///
    /// # Errors
    /// Invalid: timeouts by processing time were not declared, or the duration is under 1 ms.
    pub fn set_timeout_duration(&mut self, after: Duration) -> Result<()> {
        if self.cell.times.timeout != GroupTimeout::ProcessingTime {
            return Err(Error::invalid(
                "set_timeout_duration needs the timeout ProcessingTime: declare it with the function",
            ));
        }
        let after = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
        if after == 0 {
            return Err(Error::invalid("the timeout's duration is under a millisecond"));
        }
        self.cell.timeout_ms = Some(self.cell.times.batch_time_ms.saturating_add(after));
        Ok(())
    }

    /// Sets the timeout to when the watermark passes a time, in milliseconds since 1970.
    ///
    /// # Errors
    /// Invalid: timeouts by event time were not declared, or the time is before the watermark or
    /// not after 1970.
    pub fn set_timeout_timestamp(&mut self, time_ms: i64) -> Result<()> {
        if self.cell.times.timeout != GroupTimeout::EventTime {
            return Err(Error::invalid(
                "set_timeout_timestamp needs the timeout EventTime: declare it with the function",
            ));
        }
        let watermark_ms = self.cell.times.watermark_ms;
        if time_ms <= 0 || time_ms < watermark_ms {
            return Err(Error::invalid(format!(
                "the timeout {time_ms} is before the watermark {watermark_ms}, or not positive"
            )));
        }
        self.cell.timeout_ms = Some(time_ms);
        Ok(())
    }

    /// This batch's watermark in milliseconds since 1970; 0 while there is none.
    #[must_use]
    pub fn current_watermark_ms(&self) -> i64 {
        self.cell.times.watermark_ms
    }

    /// This batch's time in milliseconds since 1970: the same in every run of the batch.
    #[must_use]
    pub fn current_processing_time_ms(&self) -> i64 {
        self.cell.times.batch_time_ms
    }
}

impl<S: Serialize + DeserializeOwned> GroupState<'_, S> {
    /// The state, if there is one.
    ///
    /// # Errors
    /// Invalid: what was kept cannot be read as `S`.
    pub fn get(&self) -> Result<Option<S>> {
        match &self.cell.value {
            Value::Null => Ok(None),
            value => typed(value.clone(), "the state of a group").map(Some),
        }
    }

    /// Sets the state.
    ///
    /// # Errors
    /// Invalid: the value is `None` or `()`, which stand for no state, or cannot be kept.
    pub fn update(&mut self, state: &S) -> Result<()> {
        let value = untyped(state, "the state of a group")?;
        if value == Value::Null {
            return Err(Error::invalid("a state of NULL cannot be kept: use remove"));
        }
        self.cell.value = value;
        self.cell.updated = true;
        self.cell.removed = false;
        Ok(())
    }
}
