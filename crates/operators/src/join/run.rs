//! One partition of a join in one batch.

use super::arrivals::Arrivals;
use super::candidates::{Meeting, Pairs, Stored, alone};
use super::codec::{
    complete, damaged, end_of_key, expiry_key, expiry_of_row, is_matched, row_key, row_of_expiry,
};
use super::filter::Half;
use super::keys::{Key, KeyTable};
use super::plan::{Bound, JoinPlan, Side, SidePlan};
use crate::OperatorContext;
use crate::failure::{external, internal};
use crate::numbers::{number, push_number};
use crate::outlet::Outlet;
use arrow::compute::interleave_record_batch;
use arrow::record_batch::RecordBatch;
use datafusion::common::HashMap;
use datafusion::common::instant::Instant;
use datafusion::error::Result;
use onefold_state::{KeyGroup, PartitionState, StateRow};
use std::ops::Bound as Limit;
use std::sync::Arc;

/// Rows read from the state at a time.
const SCAN: usize = 1_024;
/// Pairs, or rows, worked on at a time.
const CHUNK: usize = 8_192;

/// What becomes of a row of the batch once all pairs are formed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    /// Comes out with NULLs for the other side.
    Alone,
    Dropped,
}

pub(super) struct JoinRun {
    pub(super) plan: Arc<JoinPlan>,
    pub(super) context: OperatorContext,
    pub(super) state: Box<dyn PartitionState>,
    pub(super) outlet: Outlet,
    /// The next index of key groups that were asked for.
    pub(super) sequence: HashMap<KeyGroup, i64>,
}

impl JoinRun {
    /// Joins the rows that the batch brought.
    pub(super) async fn run(
        mut self,
        left: Vec<RecordBatch>,
        right: Vec<RecordBatch>,
    ) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        let metrics = Arc::clone(&self.context.metrics);
        let begun = Instant::now();
        let mut keys = KeyTable::default();
        let late_ms = self.context.late_ms;
        let mut left = Arrivals::gather(&plan, &plan.left, left, late_ms, &mut keys)?;
        let mut right = Arrivals::gather(&plan, &plan.right, right, late_ms, &mut keys)?;
        metrics.late(left.late + right.late, left.late + right.late);
        left.sort(keys.len());
        right.sort(keys.len());

        self.meet_stored(&plan.left, &mut left, &keys).await?;
        self.meet_stored(&plan.right, &mut right, &keys).await?;
        self.meet_each_other(&mut left, &mut right, &keys).await?;
        if plan.semi {
            left.rows.iter_mut().for_each(|row| row.done = row.matched);
        }
        self.store(&plan.left, &left, &keys).await?;
        self.store(&plan.right, &right, &keys).await?;
        self.write_sequence()?;
        metrics.update_time().add_elapsed(begun);

        let begun = Instant::now();
        for side in [&plan.left, &plan.right] {
            if let (Some(bound), Some(watermark)) = (&side.bound, self.context.evict_ms) {
                self.evict(side, bound, bound.last_evicted(watermark)).await?;
            }
        }
        metrics.removal_time().add_elapsed(begun);
        self.outlet.finish().await?;
        metrics.partition_done(self.state.rows(plan.left.rows) + self.state.rows(plan.right.rows));
        Ok(())
    }

    /// Forms the pairs of the batch's rows of a side with the other side's rows of batches before.
    async fn meet_stored(
        &mut self,
        side: &SidePlan,
        arrivals: &mut Arrivals,
        keys: &KeyTable,
    ) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        let other = plan.side(side.side.other());
        let (mut pairs, mut stored) = (Pairs::default(), Stored::default());
        for (id, key) in keys.iter() {
            if arrivals.of_key(id).is_empty() || self.state.rows_in(other.rows, key.group) == 0 {
                continue;
            }
            let mut from = None;
            loop {
                let found = self.scan_key(other, key, from.as_deref())?;
                let last = (found.len() == SCAN).then(|| found.last().map(|row| row.key.clone()));
                let first = stored.len();
                found.into_iter().for_each(|row| stored.push(key.group, row));
                for place in 0..arrivals.of_key(id).len() {
                    let Some(row) = arrivals.of_key(id).get(place).copied() else { break };
                    for candidate in first..stored.len() {
                        pairs.push(side.side, row, candidate);
                        if pairs.len() >= CHUNK {
                            self.weigh(side.side, &mut pairs, arrivals, &mut stored).await?;
                        }
                    }
                }
                if stored.len() >= CHUNK {
                    self.weigh(side.side, &mut pairs, arrivals, &mut stored).await?;
                    self.put_flags(other, &mut stored)?;
                }
                match last.flatten() {
                    Some(last) => from = Some(last),
                    None => break,
                }
            }
        }
        self.weigh(side.side, &mut pairs, arrivals, &mut stored).await?;
        self.put_flags(other, &mut stored)
    }

    /// The next stored rows of a key.
    fn scan_key(
        &mut self,
        side: &SidePlan,
        key: Key<'_>,
        after: Option<&[u8]>,
    ) -> Result<Vec<StateRow>> {
        let from = after.map_or(Limit::Included(key.bytes), Limit::Excluded);
        let end = end_of_key(key.bytes);
        let to = Limit::Excluded(end.as_slice());
        self.state.scan(side.rows, key.group, from, to, SCAN).map_err(external)
    }

    async fn weigh(
        &mut self,
        side: Side,
        pairs: &mut Pairs,
        arrivals: &mut Arrivals,
        stored: &mut Stored,
    ) -> Result<()> {
        if pairs.len() == 0 {
            return Ok(());
        }
        stored.decode(self.plan.side(side.other()))?;
        let (left, right): (&mut dyn Meeting, &mut dyn Meeting) = match side {
            Side::Left => (arrivals, stored),
            Side::Right => (stored, arrivals),
        };
        let rows = pairs.weigh(&self.plan, left, right)?;
        self.outlet.push(rows).await
    }

    /// Writes the flags of stored rows that have met their first partner. In a semi join such a row
    /// has come out, and goes.
    fn put_flags(&mut self, side: &SidePlan, stored: &mut Stored) -> Result<()> {
        for (group, row) in stored.clear()? {
            if !self.plan.semi {
                self.state.put(side.rows, group, &row.key, &row.value).map_err(external)?;
                continue;
            }
            if let Some(bound) = &side.bound {
                let expiry = expiry_of_row(&row.key).ok_or_else(damaged)?;
                self.state.remove(bound.expiry, group, &expiry).map_err(external)?;
            }
            self.state.remove(side.rows, group, &row.key).map_err(external)?;
            self.context.metrics.removed(1);
        }
        Ok(())
    }

    /// Forms the pairs within the batch.
    async fn meet_each_other(
        &mut self,
        left: &mut Arrivals,
        right: &mut Arrivals,
        keys: &KeyTable,
    ) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        let mut pairs = Pairs::default();
        for (id, _) in keys.iter() {
            for place in 0..left.of_key(id).len() {
                let Some(row) = left.of_key(id).get(place).copied() else { break };
                for other in 0..right.of_key(id).len() {
                    let Some(other) = right.of_key(id).get(other).copied() else { break };
                    pairs.push(Side::Left, row, other);
                    if pairs.len() >= CHUNK {
                        let rows = pairs.weigh(&plan, left, right)?;
                        self.outlet.push(rows).await?;
                    }
                }
            }
        }
        let rows = pairs.weigh(&plan, left, right)?;
        self.outlet.push(rows).await
    }

    /// Stores the batch's rows of a side that later rows may meet, and lets out those that can
    /// meet none.
    async fn store(&mut self, side: &SidePlan, arrivals: &Arrivals, keys: &KeyTable) -> Result<()> {
        let evicted = side.bound.as_ref().zip(self.context.evict_ms);
        let evicted = evicted.map(|(bound, watermark)| bound.last_evicted(watermark));
        let (mut kept, mut lonely) = (Vec::new(), Vec::new());
        for (number, row) in arrivals.rows.iter().enumerate() {
            match fate(side, row, evicted) {
                Fate::Kept => kept.push(number),
                Fate::Alone => lonely.push(row.place),
                Fate::Dropped => {}
            }
        }
        for places in lonely.chunks(CHUNK) {
            let rows = alone(&self.plan, side, &Half { batches: &arrivals.batches, places })?;
            self.outlet.push(rows).await?;
        }
        self.context.metrics.updated(kept.len());
        let batches: Vec<_> = arrivals.batches.iter().collect();
        for numbers in kept.chunks(CHUNK) {
            self.put_rows(side, arrivals, &batches, keys, numbers)?;
        }
        Ok(())
    }

    fn put_rows(
        &mut self,
        side: &SidePlan,
        arrivals: &Arrivals,
        batches: &[&RecordBatch],
        keys: &KeyTable,
        numbers: &[usize],
    ) -> Result<()> {
        let mut places = Vec::with_capacity(numbers.len());
        for number in numbers {
            places.push(arrivals.place(*number)?);
        }
        let columns = side.values.encode(&interleave_record_batch(batches, &places)?)?;
        let (mut bytes, mut value) = (Vec::new(), Vec::new());
        for (columns, number) in columns.iter().zip(numbers) {
            let row = arrivals.row(*number)?;
            let key = keys.get(row.key).ok_or_else(|| internal("a join lost a key"))?;
            let index = self.next_index(key.group)?;
            let bound = side.bound.as_ref().zip(row.bound);
            row_key(&mut bytes, key.bytes, bound.map(|(_, time)| time), index);
            complete(&mut value, columns.data(), row.matched && side.tracked);
            self.state.put(side.rows, key.group, &bytes, &value).map_err(external)?;
            if let Some((bound, time)) = bound {
                expiry_key(&mut bytes, key.bytes, time, index);
                self.state.put(bound.expiry, key.group, &bytes, &[]).map_err(external)?;
            }
        }
        Ok(())
    }

    fn next_index(&mut self, group: KeyGroup) -> Result<i64> {
        if let Some(next) = self.sequence.get_mut(&group) {
            *next += 1;
            return Ok(*next - 1);
        }
        let key = sequence_key(group);
        let found = self.state.get(self.plan.sequence, &[(group, &key)]).map_err(external)?;
        let index = match found.into_iter().next().flatten() {
            Some(value) => number(&value).ok_or_else(damaged)?,
            None => 0,
        };
        self.sequence.insert(group, index + 1);
        Ok(index)
    }

    fn write_sequence(&mut self) -> Result<()> {
        for (group, next) in std::mem::take(&mut self.sequence) {
            let mut value = Vec::new();
            push_number(&mut value, next);
            let key = sequence_key(group);
            self.state.put(self.plan.sequence, group, &key, &value).map_err(external)?;
        }
        Ok(())
    }

    /// Removes the stored rows of a side with a time up to `last`, and lets out those of an outer
    /// side that met none.
    async fn evict(&mut self, side: &SidePlan, bound: &Bound, last: i64) -> Result<()> {
        let mut end = Vec::new();
        push_number(&mut end, last.saturating_add(1));
        let to = if last == i64::MAX { Limit::Unbounded } else { Limit::Excluded(end.as_slice()) };
        let mut lonely = Vec::new();
        for group in self.state.groups() {
            let group = KeyGroup::try_from(group).map_err(|_| internal("a key group over 255"))?;
            if self.state.rows_in(bound.expiry, group) == 0 {
                continue;
            }
            let mut from: Option<Box<[u8]>> = None;
            loop {
                let start = from.as_deref().map_or(Limit::Unbounded, Limit::Excluded);
                let due = self.state.scan(bound.expiry, group, start, to, SCAN);
                let due = due.map_err(external)?;
                self.remove(side, bound, group, &due, &mut lonely)?;
                if lonely.len() >= CHUNK {
                    self.let_out(side, &mut lonely).await?;
                }
                let more = due.len() == SCAN;
                match due.into_iter().next_back() {
                    Some(row) if more => from = Some(row.key),
                    _ => break,
                }
            }
        }
        self.let_out(side, &mut lonely).await
    }

    fn remove(
        &mut self,
        side: &SidePlan,
        bound: &Bound,
        group: KeyGroup,
        due: &[StateRow],
        lonely: &mut Vec<Box<[u8]>>,
    ) -> Result<()> {
        let mut rows = Vec::with_capacity(due.len());
        for expiry in due {
            rows.push(row_of_expiry(&expiry.key).ok_or_else(damaged)?);
        }
        if side.outer {
            let keys: Vec<_> = rows.iter().map(|key| (group, key.as_slice())).collect();
            let values = self.state.get(side.rows, &keys).map_err(external)?;
            for value in values {
                let value = value.ok_or_else(damaged)?;
                if !is_matched(&value) {
                    lonely.push(value);
                }
            }
        }
        for (expiry, row) in due.iter().zip(&rows) {
            self.state.remove(bound.expiry, group, &expiry.key).map_err(external)?;
            self.state.remove(side.rows, group, row).map_err(external)?;
        }
        self.context.metrics.removed(rows.len());
        Ok(())
    }

    async fn let_out(&mut self, side: &SidePlan, lonely: &mut Vec<Box<[u8]>>) -> Result<()> {
        if lonely.is_empty() {
            return Ok(());
        }
        let rows = side.values.decode(lonely.iter().map(AsRef::as_ref))?;
        let places: Vec<_> = (0..lonely.len()).map(|row| (0, row)).collect();
        lonely.clear();
        let rows = alone(&self.plan, side, &Half { batches: &[rows], places: &places })?;
        self.outlet.push(rows).await
    }
}

/// What becomes of a row after all pairs of the batch; rows with a time up to `evicted` are what
/// this batch evicts.
fn fate(side: &SidePlan, row: &super::arrivals::Arrival, evicted: Option<i64>) -> Fate {
    let leaving = if side.outer && !row.matched { Fate::Alone } else { Fate::Dropped };
    if row.done || !row.admitted || (!row.joinable && !side.outer) {
        return leaving;
    }
    match (&side.bound, row.bound) {
        // Without a bound nothing ever evicts it: a row that cannot match need not wait.
        (None, _) if row.joinable => Fate::Kept,
        (None, _) | (Some(_), None) => leaving,
        (Some(_), Some(time)) if evicted.is_some_and(|evicted| time <= evicted) => leaving,
        (Some(_), Some(_)) => Fate::Kept,
    }
}

fn sequence_key(group: KeyGroup) -> [u8; 2] {
    // The encoding of a number of 8 bits that is not NULL.
    [1, group]
}
