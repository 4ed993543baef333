//! What a processor works with while it handles a key.

use super::timers::Timers;
use super::variables::Slot;
use crate::OperatorMetrics;
use crate::failure;
use crate::numbers::{NUMBER, number, push_number};
use arrow::array::{Array, ArrayRef, Int64Array};
use onefold_state::{KeyGroup, PartitionState, StateRow};
use onefold_types::{Error, Result};
use std::ops::Bound;
use std::sync::Arc;

/// Rows read from the state at a time.
const SCAN: usize = 1_024;

/// The key at hand, its state, its timers and the batch's times.
#[derive(Debug)]
pub struct ProcessorContext<'a> {
    pub(super) state: &'a mut dyn PartitionState,
    pub(super) slots: &'a [Slot],
    pub(super) timers: &'a mut Timers,
    pub(super) metrics: &'a OperatorMetrics,
    pub(super) key: &'a [u8],
    pub(super) group: KeyGroup,
    pub(super) watermark_ms: i64,
    pub(super) batch_time_ms: i64,
}

impl ProcessorContext<'_> {
    /// This batch's watermark in milliseconds since 1970; 0 while there is none.
    #[must_use]
    pub fn current_watermark_ms(&self) -> i64 {
        self.watermark_ms
    }

    /// This batch's time in milliseconds since 1970: the same in every run of the batch.
    #[must_use]
    pub fn current_processing_time_ms(&self) -> i64 {
        self.batch_time_ms
    }

    /// Registers a timer for the key, if there is none for that time yet.
    ///
    /// # Errors
    /// Invalid: the time mode is None, or the time is before 1970; what the state gives.
    pub fn register_timer(&mut self, expiry_ms: i64) -> Result<()> {
        self.timers.register(self.state, self.group, self.key, expiry_ms)
    }

    /// Deletes the key's timer for a time, if there is one.
    ///
    /// # Errors
    /// Invalid: the time mode is None; what the state gives.
    pub fn delete_timer(&mut self, expiry_ms: i64) -> Result<()> {
        self.timers.delete(self.state, self.group, self.key, expiry_ms)
    }

    /// The times of the key's timers, in ascending order.
    ///
    /// # Errors
    /// Invalid: the time mode is None; what the state gives.
    pub fn list_timers(&mut self) -> Result<Vec<i64>> {
        self.timers.list(self.state, self.group, self.key)
    }

    pub(super) fn slot(&self, place: usize) -> Result<&Slot> {
        self.slots.get(place).ok_or_else(|| {
            Error::invalid("a variable is used that init did not declare: declare it there")
        })
    }

    /// The key of a row: the group's key with what follows it.
    pub(super) fn row_key(&self, rest: &[u8]) -> Vec<u8> {
        [self.key, rest].concat()
    }

    /// The value of a row, if it is there and has not expired: an array of one.
    pub(super) fn read(&mut self, place: usize, rest: &[u8]) -> Result<Option<ArrayRef>> {
        let (family, key) = (self.slot(place)?.rows, self.row_key(rest));
        let found = self.state.get(family, &[(self.group, &key)])?;
        let Some(value) = found.into_iter().next().flatten() else { return Ok(None) };
        let slot = self.slot(place)?;
        if self.is_expired(slot, &value)? {
            return Ok(None);
        }
        decode(slot, std::iter::once(value.as_ref())).map(Some)
    }

    /// All rows of the group that have not expired: what follows the group's key, and the values.
    pub(super) fn read_all(&mut self, place: usize) -> Result<(Vec<Box<[u8]>>, ArrayRef)> {
        let mut rows = self.scan(self.slot(place)?.rows)?;
        let slot = self.slot(place)?;
        if slot.ttl_ms.is_some() {
            let mut kept = Vec::with_capacity(rows.len());
            for row in rows {
                if !self.is_expired(slot, &row.value)? {
                    kept.push(row);
                }
            }
            rows = kept;
        }
        let values = decode(slot, rows.iter().map(|row| row.value.as_ref()))?;
        let rest = |row: StateRow| row.key.get(self.key.len()..).unwrap_or_default().into();
        Ok((rows.into_iter().map(rest).collect(), values))
    }

    fn scan(&mut self, family: usize) -> Result<Vec<StateRow>> {
        let mut rows: Vec<StateRow> = Vec::new();
        let end = end_of(self.key);
        let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        loop {
            let from =
                rows.last().map_or(Bound::Included(self.key), |row| Bound::Excluded(&row.key));
            let found = self.state.scan(family, self.group, from, to, SCAN)?;
            let more = found.len() == SCAN;
            rows.extend(found);
            if !more {
                return Ok(rows);
            }
        }
    }

    /// Writes a row, and when it expires.
    pub(super) fn write(&mut self, place: usize, rest: &[u8], value: &ArrayRef) -> Result<()> {
        let key = self.row_key(rest);
        let slot = self.slot(place)?;
        let (family, expiries) = (slot.rows, slot.expiries);
        let expiry = slot.ttl_ms.map(|ttl| self.batch_time_ms.saturating_add(ttl));
        let bytes = encode(slot, value, expiry)?;
        if let Some((expiries, expiry)) = expiries.zip(expiry) {
            let old = self.state.get(family, &[(self.group, &key)])?;
            if let Some(old) = old.into_iter().next().flatten() {
                self.remove_expiry(expiries, &key, &old)?;
            }
            self.state.put(expiries, self.group, &expiry_key(expiry, &key), &[])?;
        }
        self.state.put(family, self.group, &key, &bytes)?;
        self.metrics.updated(1);
        Ok(())
    }

    /// Removes a row, if there is one; says whether there was.
    pub(super) fn remove(&mut self, place: usize, rest: &[u8]) -> Result<bool> {
        let key = self.row_key(rest);
        let slot = self.slot(place)?;
        let (family, expiries) = (slot.rows, slot.expiries);
        let old = self.state.get(family, &[(self.group, &key)])?;
        let Some(old) = old.into_iter().next().flatten() else { return Ok(false) };
        if let Some(expiries) = expiries {
            self.remove_expiry(expiries, &key, &old)?;
        }
        self.state.remove(family, self.group, &key)?;
        self.metrics.removed(1);
        Ok(true)
    }

    /// Removes all rows of the group.
    pub(super) fn remove_all(&mut self, place: usize) -> Result<()> {
        for row in self.scan(self.slot(place)?.rows)? {
            let rest = row.key.get(self.key.len()..).unwrap_or_default();
            self.remove(place, rest)?;
        }
        Ok(())
    }

    fn remove_expiry(&mut self, expiries: usize, key: &[u8], value: &[u8]) -> Result<()> {
        let expiry = expiry_of(value)?;
        self.state.remove(expiries, self.group, &expiry_key(expiry, key))
    }

    fn is_expired(&self, slot: &Slot, value: &[u8]) -> Result<bool> {
        Ok(slot.ttl_ms.is_some() && expiry_of(value)? <= self.batch_time_ms)
    }
}

/// The key of an expiry.
pub(super) fn expiry_key(expiry: i64, key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(NUMBER + key.len());
    push_number(&mut bytes, expiry);
    bytes.extend_from_slice(key);
    bytes
}

/// When a value expires: its last column.
fn expiry_of(value: &[u8]) -> Result<i64> {
    let tail = value.len().checked_sub(NUMBER).and_then(|from| value.get(from..));
    tail.and_then(number).ok_or_else(damaged)
}

pub(super) fn damaged() -> Error {
    Error::corrupt("a row of a processor's state is too short: start from an older checkpoint")
}

/// The first bytes after all that begin with `prefix`; `None`: there are none.
pub(super) fn end_of(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return Some(end);
        }
    }
    None
}

fn encode(slot: &Slot, value: &ArrayRef, expiry: Option<i64>) -> Result<Vec<u8>> {
    let mut columns = vec![Arc::clone(value)];
    if let Some(expiry) = expiry {
        let expiry: ArrayRef = Arc::new(Int64Array::from(vec![expiry]));
        columns.push(expiry);
    }
    let rows = slot.codec.encode(&columns).map_err(failure::planning)?;
    Ok(rows.row(0).data().to_vec())
}

fn decode<'a>(slot: &Slot, values: impl Iterator<Item = &'a [u8]>) -> Result<ArrayRef> {
    let columns = slot.codec.decode(values).map_err(failure::planning)?;
    columns.into_iter().next().ok_or_else(damaged)
}

/// A user's key in a map, as bytes.
pub(super) fn user_key(slot: &Slot, key: &ArrayRef) -> Result<Vec<u8>> {
    let (_, codec) = slot.user_key.as_ref().ok_or_else(|| no_map(slot))?;
    if key.len() != 1 || key.is_null(0) {
        return Err(Error::invalid("a key of a map is NULL"));
    }
    let rows = codec.encode_keys(&[Arc::clone(key)]).map_err(failure::planning)?;
    Ok(rows.row(0).data().to_vec())
}

/// Users' keys in a map, from bytes.
pub(super) fn read_user_keys(slot: &Slot, keys: &[Box<[u8]>]) -> Result<ArrayRef> {
    let (_, codec) = slot.user_key.as_ref().ok_or_else(|| no_map(slot))?;
    let columns = codec.decode(keys.iter().map(AsRef::as_ref)).map_err(failure::planning)?;
    columns.into_iter().next().ok_or_else(damaged)
}

pub(super) fn no_map(slot: &Slot) -> Error {
    Error::invalid(format!("the variable {} is no map", slot.name))
}
