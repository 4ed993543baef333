//! Merges the sessions of a batch with those kept.

use super::layout::{Kept, Layout};
use super::pieces::{Merged, Origin, Piece, merge};
use crate::aggregate::Accumulators;
use crate::context::OperatorMetrics;
use crate::event_time::ticks;
use crate::failure::{self, external};
use crate::keys::{Keys, fit};
use crate::output::CHUNK;
use crate::sweep::{TICK, encode_tick};
use arrow::array::{Array, ArrayRef, Int64Array};
use arrow::compute::interleave;
use arrow::record_batch::RecordBatch;
use datafusion::common::HashMap;
use datafusion::error::Result;
use onefold_state::{KeyGroup, PartitionState, StateRow};
use std::ops::{Bound, Range};

/// The family of sessions by key and start.
pub(super) const SESSIONS: usize = 0;

/// The family of sessions by end, key and start.
pub(super) const BY_END: usize = 1;

/// Takes all rows that the partial aggregation gave a partition in a batch.
pub(super) struct Merger<'a> {
    layout: &'a Layout,
    metrics: &'a OperatorMetrics,
    state: &'a mut dyn PartitionState,
    rows: Rows,
    accumulators: Accumulators,
    /// The touched sessions, by number.
    sessions: Vec<Touched>,
    pending: Pending,
}

/// Rows of the partial aggregation, taken apart.
struct Rows {
    keys: Keys,
    starts: Int64Array,
    ends: Int64Array,
    states: Vec<ArrayRef>,
}

/// A session that rows of this batch are in.
struct Touched {
    /// A row with its key.
    row: usize,
    start: i64,
    end: i64,
}

/// Partial state that waits to be merged.
#[derive(Default)]
struct Pending {
    /// State of kept sessions.
    kept: Vec<Box<[u8]>>,
    /// For each piece the array, kept or new, and the row in it.
    places: Vec<(usize, usize)>,
    /// The session of each piece.
    sessions: Vec<usize>,
}

impl Rows {
    fn new(layout: &Layout, batch: &RecordBatch) -> Result<Self> {
        let column = |place: usize| {
            let column = batch.columns().get(place);
            column.ok_or_else(|| failure::internal("rows of sessions lack a column"))
        };
        let states = batch.columns().iter().skip(layout.keys + 2).zip(layout.states.types());
        Ok(Rows {
            keys: Keys::of(&layout.key_exprs(&batch.schema()), &layout.key.codec, batch)?,
            starts: ticks(column(layout.keys)?)?,
            ends: ticks(column(layout.keys + 1)?)?,
            states: states.map(|(column, wanted)| fit(column, wanted)).collect::<Result<_>>()?,
        })
    }

    /// The rows of each key.
    fn by_key(&self) -> Vec<Vec<usize>> {
        let mut numbers: HashMap<&[u8], usize> = HashMap::new();
        let mut by_key: Vec<Vec<usize>> = Vec::new();
        for (row, (_, key)) in self.keys.iter().enumerate() {
            let number = *numbers.entry(key).or_insert(by_key.len());
            match by_key.get_mut(number) {
                Some(rows) => rows.push(row),
                None => by_key.push(vec![row]),
            }
        }
        by_key
    }
}

impl<'a> Merger<'a> {
    /// Merges everything and puts the sessions that changed.
    pub(super) fn merge(
        layout: &'a Layout,
        metrics: &'a OperatorMetrics,
        state: &'a mut dyn PartitionState,
        batch: &RecordBatch,
    ) -> Result<()> {
        let mut merger = Merger {
            layout,
            metrics,
            state,
            rows: Rows::new(layout, batch)?,
            accumulators: Accumulators::new(&layout.aggregates, false)?,
            sessions: Vec::new(),
            pending: Pending::default(),
        };
        for rows in merger.rows.by_key() {
            merger.key(&rows)?;
        }
        merger.flush()?;
        merger.save()
    }

    /// Merges the sessions of one key, which these rows have.
    fn key(&mut self, rows: &[usize]) -> Result<()> {
        let Some(first) = rows.first() else { return Ok(()) };
        let (group, key) = self.rows.keys.get(*first);
        let stored = kept_sessions(self.state, group, key)?;
        let kept = stored.iter().map(|row| Kept::parse(&row.key, &row.value));
        let kept = kept.collect::<Result<Vec<_>>>()?;
        let new = rows.iter().map(|row| Piece {
            start: self.rows.starts.value(*row),
            end: self.rows.ends.value(*row),
            origin: Origin::New(*row),
        });
        let mut pieces: Vec<Piece> = kept
            .iter()
            .enumerate()
            .map(|(number, session)| Piece {
                start: session.start,
                end: session.end,
                origin: Origin::Kept(number),
            })
            .chain(new)
            .collect();
        let all = merge(&mut pieces);
        // As Spark counts: every session of a key that has new rows.
        self.metrics.updated(all.len());
        for merged in all {
            let members = pieces.get(merged.pieces.clone()).unwrap_or_default();
            if members.iter().any(|piece| matches!(piece.origin, Origin::New(_))) {
                self.touch(*first, &merged, members, &kept)?;
            }
        }
        if self.pending.places.len() >= CHUNK { self.flush() } else { Ok(()) }
    }

    /// Queues the state of a session's pieces and removes kept ones that it takes the place of.
    fn touch(
        &mut self,
        row: usize,
        merged: &Merged,
        members: &[Piece],
        kept: &[Kept<'_>],
    ) -> Result<()> {
        let number = self.sessions.len();
        self.sessions.push(Touched { row, start: merged.start, end: merged.end });
        let (group, key) = self.rows.keys.get(row);
        for piece in members {
            let place = match piece.origin {
                Origin::New(row) => (1, row),
                Origin::Kept(session) => {
                    if piece.start != merged.start {
                        let key = [key, &encode_tick(piece.start)].concat();
                        self.state.remove(SESSIONS, group, &key).map_err(external)?;
                        self.metrics.removed(1);
                    }
                    if (piece.start, piece.end) != (merged.start, merged.end) {
                        let key = end_key(piece.end, key, piece.start);
                        self.state.remove(BY_END, group, &key).map_err(external)?;
                    }
                    let state = kept.get(session).map(|session| session.state);
                    self.pending.kept.push(state.unwrap_or_default().into());
                    (0, self.pending.kept.len() - 1)
                }
            };
            self.pending.places.push(place);
            self.pending.sessions.push(number);
        }
        Ok(())
    }

    /// Merges the state that waits.
    fn flush(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        if pending.places.is_empty() || self.rows.states.is_empty() {
            return Ok(());
        }
        let kept = self.layout.states.decode(pending.kept.iter().map(AsRef::as_ref))?;
        let columns = kept.iter().zip(&self.rows.states).map(|(kept, new)| {
            let arrays: [&dyn Array; 2] = [kept.as_ref(), new.as_ref()];
            Ok(interleave(&arrays, &pending.places)?)
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        self.accumulators.merge(&columns, &pending.sessions, self.sessions.len())
    }

    /// Puts the touched sessions.
    fn save(mut self) -> Result<()> {
        let states = self.accumulators.state()?;
        let all = self.sessions.len();
        for chunk in (0..all).step_by(CHUNK).map(|start| start..all.min(start + CHUNK)) {
            self.save_chunk(chunk, &states)?;
        }
        Ok(())
    }

    fn save_chunk(&mut self, chunk: Range<usize>, states: &[ArrayRef]) -> Result<()> {
        let values = if states.is_empty() {
            None
        } else {
            let columns = states.iter().map(|column| column.slice(chunk.start, chunk.len()));
            Some(self.layout.states.encode(&columns.collect::<Vec<_>>())?)
        };
        for (row, session) in self.sessions.get(chunk).unwrap_or_default().iter().enumerate() {
            let (group, key) = self.rows.keys.get(session.row);
            let state = values.as_ref().map_or(&[][..], |values| values.row(row).data());
            let value = [&encode_tick(session.end), state].concat();
            let by_start = [key, &encode_tick(session.start)].concat();
            self.state.put(SESSIONS, group, &by_start, &value).map_err(external)?;
            let by_end = end_key(session.end, key, session.start);
            self.state.put(BY_END, group, &by_end, &[]).map_err(external)?;
        }
        Ok(())
    }
}

/// The key that a session is found by when it is over.
pub(super) fn end_key(end: i64, key: &[u8], start: i64) -> Vec<u8> {
    [&encode_tick(end), key, &encode_tick(start)].concat()
}

/// All sessions kept of a key, by start.
fn kept_sessions(
    state: &mut dyn PartitionState,
    group: KeyGroup,
    key: &[u8],
) -> Result<Vec<StateRow>> {
    if state.rows_in(SESSIONS, group) == 0 {
        return Ok(Vec::new());
    }
    // What follows the key is a start, whose encoding begins with 1.
    let to = [key, &[2]].concat();
    let mut rows: Vec<StateRow> = Vec::new();
    loop {
        let from =
            rows.last().map_or(Bound::Included(key), |row| Bound::Excluded(row.key.as_ref()));
        let to = Bound::Excluded(to.as_ref());
        let more = state.scan(SESSIONS, group, from, to, CHUNK).map_err(external)?;
        let last = more.len() < CHUNK;
        rows.extend(more);
        if last {
            return Ok(rows);
        }
    }
}

/// The key by which the session of a key in [`BY_END`] is kept.
pub(super) fn session_key(by_end: &[u8]) -> &[u8] {
    by_end.get(TICK..).unwrap_or_default()
}
