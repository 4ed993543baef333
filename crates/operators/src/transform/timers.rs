//! Timers of keys.

use super::context::{damaged, end_of, expiry_key};
use super::variables::TimerFamilies;
use crate::numbers::{NUMBER, number, push_number};
use datafusion::common::HashSet;
use onefold_state::{KeyGroup, PartitionState};
use onefold_types::{Error, Result};
use std::ops::Bound;

/// Timers read at a time.
const SCAN: usize = 256;

/// The timers of a partition.
#[derive(Debug)]
pub(super) struct Timers {
    families: Option<TimerFamilies>,
    /// Once timers are handled: those registered since, which wait for a later batch.
    fresh: Option<HashSet<Vec<u8>>>,
}

/// A timer that is due.
#[derive(Debug, Clone)]
pub(super) struct Due {
    pub(super) expiry_ms: i64,
    pub(super) key: Box<[u8]>,
    /// Where it is in the state.
    place: Box<[u8]>,
}

impl Timers {
    pub(super) fn new(families: Option<TimerFamilies>) -> Self {
        Timers { families, fresh: None }
    }

    /// From now on timers are handled.
    pub(super) fn begin(&mut self) {
        self.fresh = Some(HashSet::new());
    }

    fn families(&self) -> Result<TimerFamilies> {
        self.families
            .ok_or_else(|| Error::invalid("timers need the time mode ProcessingTime or EventTime"))
    }

    pub(super) fn register(
        &mut self,
        state: &mut dyn PartitionState,
        group: KeyGroup,
        key: &[u8],
        expiry_ms: i64,
    ) -> Result<()> {
        let families = self.families()?;
        if expiry_ms < 0 {
            return Err(Error::invalid(format!("a timer for {expiry_ms} is before 1970")));
        }
        let (by_key, by_time) = (key_time(key, expiry_ms), expiry_key(expiry_ms, key));
        if let Some(fresh) = &mut self.fresh {
            let there = state.get(families.by_key, &[(group, &by_key)])?;
            if there.into_iter().next().flatten().is_none() {
                fresh.insert(by_time.clone());
            }
        }
        state.put(families.by_key, group, &by_key, &[])?;
        state.put(families.by_time, group, &by_time, &[])
    }

    pub(super) fn delete(
        &mut self,
        state: &mut dyn PartitionState,
        group: KeyGroup,
        key: &[u8],
        expiry_ms: i64,
    ) -> Result<()> {
        let families = self.families()?;
        let by_time = expiry_key(expiry_ms, key);
        if let Some(fresh) = &mut self.fresh {
            fresh.remove(&by_time);
        }
        state.remove(families.by_key, group, &key_time(key, expiry_ms))?;
        state.remove(families.by_time, group, &by_time)
    }

    pub(super) fn list(
        &self,
        state: &mut dyn PartitionState,
        group: KeyGroup,
        key: &[u8],
    ) -> Result<Vec<i64>> {
        let families = self.families()?;
        let end = end_of(key);
        let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let (mut times, mut last) = (Vec::new(), None::<Box<[u8]>>);
        loop {
            let from = last.as_deref().map_or(Bound::Included(key), Bound::Excluded);
            let found = state.scan(families.by_key, group, from, to, SCAN)?;
            for row in &found {
                let time = row.key.get(key.len()..).and_then(number);
                times.push(time.ok_or_else(damaged)?);
            }
            match found.into_iter().next_back() {
                Some(row) => last = Some(row.key),
                None => return Ok(times),
            }
        }
    }

    /// The next timers of a key group with a time up to `until`, after one of them.
    pub(super) fn due(
        &self,
        state: &mut dyn PartitionState,
        group: KeyGroup,
        until: i64,
        after: Option<&Due>,
    ) -> Result<Vec<Due>> {
        let families = self.families()?;
        if state.rows_in(families.by_time, group) == 0 {
            return Ok(Vec::new());
        }
        let mut end = Vec::new();
        push_number(&mut end, until.saturating_add(1));
        let from = after.map_or(Bound::Unbounded, |due| Bound::Excluded(due.place.as_ref()));
        let found = state.scan(families.by_time, group, from, Bound::Excluded(&end), SCAN)?;
        let due = found.into_iter().map(|row| {
            let expiry_ms = number(&row.key).ok_or_else(damaged)?;
            let key = row.key.get(NUMBER..).ok_or_else(damaged)?.into();
            Ok(Due { expiry_ms, key, place: row.key })
        });
        due.collect()
    }

    /// Whether a timer that was due is still there and not of this batch's making.
    pub(super) fn is_there(
        &self,
        state: &mut dyn PartitionState,
        group: KeyGroup,
        due: &Due,
    ) -> Result<bool> {
        let families = self.families()?;
        if self.fresh.as_ref().is_some_and(|fresh| fresh.contains(due.place.as_ref())) {
            return Ok(false);
        }
        let found = state.get(families.by_time, &[(group, &due.place)])?;
        Ok(found.into_iter().next().flatten().is_some())
    }

    /// Takes a timer that was due, if it [is there](Timers::is_there); says whether it is to be
    /// handled.
    pub(super) fn take(
        &mut self,
        state: &mut dyn PartitionState,
        group: KeyGroup,
        due: &Due,
    ) -> Result<bool> {
        let there = self.is_there(state, group, due)?;
        if there {
            self.delete(state, group, &due.key, due.expiry_ms)?;
        }
        Ok(there)
    }
}

fn key_time(key: &[u8], expiry_ms: i64) -> Vec<u8> {
    let mut bytes = key.to_vec();
    push_number(&mut bytes, expiry_ms);
    bytes
}
