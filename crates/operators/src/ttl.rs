//! Letting go of state that was not written for a time: for operators that have no bound of their
//! own.
//!
//! Each key has the time of its last write, and an entry in an index by time. Times are those of
//! the batches, from their intents, and coarse, so that a key that is written again and again has
//! few entries; an entry that is older than its key's last write is passed over. So a batch looks
//! at what is due and at nothing else, and does the same when it runs again.

use crate::context::OperatorMetrics;
use crate::failure;
use crate::keys::state_schema;
use crate::sweep::{Sweep, TICK, encode_tick};
use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use onefold_state::{
    Access, BatchState, FamilySpec, KeyGroup, OperatorId, OperatorSpec, PartitionState, RowVisitor,
    StateRow,
};
use onefold_types::Result;
use std::ops::{Bound, Range};
use std::sync::Arc;

/// A key's time is exact to this part of the time that it may stay.
const GRAINS: i64 = 16;

/// A family whose rows are let go, with those that tell when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Watched {
    family: usize,
    by_time: usize,
    by_key: usize,
}

/// How long an operator keeps rows that are not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateTtl {
    /// Milliseconds from the last write, from 1 on.
    pub ms: i64,
    watched: Vec<Watched>,
}

impl StateTtl {
    /// Adds the families to an operator that its own `families`, by place, need to be let go of after
    /// so many milliseconds.
    pub fn declare(spec: &mut OperatorSpec, families: &[usize], ms: i64) -> StateTtl {
        let touched: FieldRef = Arc::new(Field::new(
            "touched",
            DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
            true,
        ));
        let mut watched = Vec::with_capacity(families.len());
        for family in families {
            let Some(rows) = spec.families.get(*family).cloned() else { continue };
            let key = rows.key.fields().iter().cloned();
            let place = spec.families.len();
            watched.push(Watched { family: *family, by_time: place, by_key: place + 1 });
            spec.families.push(FamilySpec {
                name: format!("{} by time", rows.name),
                key: state_schema(std::iter::once(Arc::clone(&touched)).chain(key)),
                value: state_schema([]),
                access: Access::Ordered,
                counted: false,
            });
            spec.families.push(FamilySpec {
                name: format!("{} last write", rows.name),
                key: Arc::clone(&rows.key),
                value: state_schema([Arc::clone(&touched)]),
                access: Access::Point,
                counted: false,
            });
        }
        StateTtl { ms, watched }
    }

    /// The state of a batch with that time, in milliseconds since 1970, of which what is due is let
    /// go when a partition is opened.
    #[must_use]
    pub fn over(
        self,
        state: Arc<dyn BatchState>,
        batch_time_ms: i64,
        metrics: Arc<OperatorMetrics>,
    ) -> Arc<dyn BatchState> {
        let grain = (self.ms / GRAINS).max(1);
        let now = batch_time_ms.div_euclid(grain).saturating_mul(grain);
        let due = batch_time_ms.saturating_sub(self.ms).saturating_sub(grain);
        Arc::new(TtlState { state, watched: self.watched, now: encode_tick(now), due, metrics })
    }
}

#[derive(Debug)]
struct TtlState {
    state: Arc<dyn BatchState>,
    watched: Vec<Watched>,
    /// The batch's time, coarse.
    now: [u8; TICK],
    /// Keys that were last written at this time or before are let go.
    due: i64,
    metrics: Arc<OperatorMetrics>,
}

impl BatchState for TtlState {
    fn partitions(&self) -> u32 {
        self.state.partitions()
    }

    fn open(&self, operator: OperatorId, partition: u32) -> Result<Box<dyn PartitionState>> {
        let mut state = self.state.open(operator, partition)?;
        for watched in &self.watched {
            begin(state.as_mut(), *watched, &self.now)?;
            let _timer = self.metrics.removal_time().timer();
            self.metrics.removed(let_go(state.as_mut(), *watched, self.due)?);
        }
        Ok(Box::new(TtlPartition { state, watched: self.watched.clone(), now: self.now }))
    }
}

/// Rows from before anything was to be let go count from now on.
fn begin(state: &mut dyn PartitionState, watched: Watched, now: &[u8; TICK]) -> Result<()> {
    if state.rows(watched.by_key) > 0 || state.rows(watched.family) == 0 {
        return Ok(());
    }
    let mut keys: Vec<(KeyGroup, Box<[u8]>)> = Vec::new();
    state.for_each(watched.family, &mut |group, key, _| {
        keys.push((group, key.into()));
        Ok(())
    })?;
    for (group, key) in keys {
        touch(state, watched, now, (group, &key))?;
    }
    Ok(())
}

fn touch(
    state: &mut dyn PartitionState,
    watched: Watched,
    now: &[u8; TICK],
    (group, key): (KeyGroup, &[u8]),
) -> Result<()> {
    state.put(watched.by_key, group, key, now)?;
    state.put(watched.by_time, group, &[now, key].concat(), &[])
}

/// Removes what is due; how many rows that were.
fn let_go(state: &mut dyn PartitionState, watched: Watched, due: i64) -> Result<usize> {
    let mut sweep = Sweep::new(watched.by_time, due, state.groups());
    let mut removed = 0;
    loop {
        let entries = sweep.next(state).map_err(failure::planning)?;
        if entries.is_empty() {
            return Ok(removed);
        }
        let parts = entries.iter().filter_map(|(group, row)| {
            let (time, key) = row.key.split_at_checked(TICK)?;
            Some((*group, time, key))
        });
        let parts: Vec<_> = parts.collect();
        let keys: Vec<_> = parts.iter().map(|(group, _, key)| (*group, *key)).collect();
        let last = state.get(watched.by_key, &keys)?;
        for ((group, time, key), last) in parts.into_iter().zip(last) {
            if last.as_deref() == Some(time) {
                state.remove(watched.family, group, key)?;
                state.remove(watched.by_key, group, key)?;
                removed += 1;
            }
        }
    }
}

/// A partition of which each write is noted.
#[derive(Debug)]
struct TtlPartition {
    state: Box<dyn PartitionState>,
    watched: Vec<Watched>,
    now: [u8; TICK],
}

impl TtlPartition {
    fn watched(&self, family: usize) -> Option<Watched> {
        self.watched.iter().copied().find(|watched| watched.family == family)
    }
}

impl PartitionState for TtlPartition {
    fn groups(&self) -> Range<u32> {
        self.state.groups()
    }

    fn get(&mut self, family: usize, keys: &[(KeyGroup, &[u8])]) -> Result<Vec<Option<Box<[u8]>>>> {
        self.state.get(family, keys)
    }

    fn put(&mut self, family: usize, group: KeyGroup, key: &[u8], value: &[u8]) -> Result<()> {
        if let Some(watched) = self.watched(family) {
            touch(self.state.as_mut(), watched, &self.now, (group, key))?;
        }
        self.state.put(family, group, key, value)
    }

    fn remove(&mut self, family: usize, group: KeyGroup, key: &[u8]) -> Result<()> {
        if let Some(watched) = self.watched(family) {
            self.state.remove(watched.by_key, group, key)?;
        }
        self.state.remove(family, group, key)
    }

    fn scan(
        &mut self,
        family: usize,
        group: KeyGroup,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        limit: usize,
    ) -> Result<Vec<StateRow>> {
        self.state.scan(family, group, from, to, limit)
    }

    fn for_each(&mut self, family: usize, each: &mut RowVisitor<'_>) -> Result<()> {
        self.state.for_each(family, each)
    }

    fn rows(&self, family: usize) -> u64 {
        self.state.rows(family)
    }

    fn rows_in(&self, family: usize, group: KeyGroup) -> u64 {
        self.state.rows_in(family, group)
    }
}
