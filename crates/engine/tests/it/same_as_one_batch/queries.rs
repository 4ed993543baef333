//! Queries, and what they must give, computed by plain loops.

mod chains;
mod groups;
mod joins;
mod own;
mod passing;

pub use chains::*;
pub use groups::*;
pub use joins::*;
pub use own::*;
pub use passing::*;

use super::rows::{COLUMNS, Input, LAST, Row, Wish};
use crate::world::{Numbers, NumbersDefinition, World};
use onefold_engine::{DataFrame, OutputMode};
use std::collections::BTreeMap;
use std::sync::Arc;

pub type Query = fn(&World, &Arc<Numbers>) -> DataFrame;
pub type Wanted = fn(&Input) -> Vec<i64>;

pub struct Case {
    pub name: &'static str,
    pub query: Query,
    /// In complete mode the result is that of the last batch, else that of all batches.
    pub mode: OutputMode,
    pub wish: Wish,
    /// The numbers that come out, in any order.
    pub wanted: Wanted,
    /// How many rows are in the state at last, where that is known.
    pub kept: Option<fn(&Input) -> usize>,
    /// How many numbers come out of a seed in the mean at least.
    pub least: usize,
}

/// Rows of one source in append mode.
const fn append(name: &'static str, query: Query, wanted: Wanted) -> Case {
    let wish = Wish { sources: 1, late_by: 0, settles: true, keyless_go: [false; 2] };
    Case { name, query, mode: OutputMode::Append, wish, wanted, kept: None, least: 5 }
}

/// Rows of one source in complete mode.
const fn complete(name: &'static str, query: Query, wanted: Wanted) -> Case {
    let wish = Wish { sources: 1, late_by: 0, settles: false, keyless_go: [false; 2] };
    Case { name, query, mode: OutputMode::Complete, wish, wanted, kept: None, least: 5 }
}

impl Case {
    const fn of_two(mut self) -> Self {
        self.wish.sources = 2;
        self
    }

    const fn keeps(mut self, kept: fn(&Input) -> usize) -> Self {
        self.kept = Some(kept);
        self
    }

    /// No batch without rows follows the others, since nothing in the state has a time.
    const fn unsettled(mut self) -> Self {
        self.wish.settles = false;
        self
    }

    /// Rows of the left source, and of the right one, without a key go at once.
    const fn keyless_go(mut self, left: bool, right: bool) -> Self {
        self.wish.keyless_go = [left, right];
        self
    }

    const fn late_by(mut self, ms: i64) -> Self {
        self.wish.late_by = ms;
        self
    }

    const fn least(mut self, rows: usize) -> Self {
        self.least = rows;
        self
    }
}

fn watermarked(frame: &DataFrame) -> DataFrame {
    frame.select_expr(&COLUMNS).unwrap().with_watermark("ts", "5 seconds").unwrap()
}

fn left(world: &World) -> DataFrame {
    watermarked(&world.frame())
}

fn right(world: &World, source: &Arc<Numbers>) -> DataFrame {
    let definition = Arc::new(NumbersDefinition(Arc::clone(source)));
    watermarked(&world.session.read_stream().load_definition(definition).unwrap())
}

/// Times are counted from here, so that numbers are small.
const ZERO: i64 = 900_000;
/// How long the windows are as a rule.
const WINDOW: i64 = 5_000;

/// Row count and sum of each window and key.
type Groups = BTreeMap<(i64, i64), (i64, i64)>;

fn tumbling(ts: i64) -> i64 {
    ts - ts.rem_euclid(WINDOW)
}

/// Groups of rows by window and key; of a window that ends at or before a row's watermark, the row
/// is none.
fn grouped(rows: impl IntoIterator<Item = Row>, starts: &[i64], length: i64) -> Groups {
    let mut groups = Groups::new();
    for row in rows {
        for back in starts {
            let start = row.ts - row.ts.rem_euclid(step(starts, length)) - back;
            if start + length > row.late {
                let group = groups.entry((start, row.k)).or_default();
                group.0 += 1;
                group.1 += row.v;
            }
        }
    }
    groups
}

/// How far apart the windows begin.
fn step(starts: &[i64], length: i64) -> i64 {
    starts.get(1).copied().unwrap_or(length)
}

/// Of tumbling windows.
fn in_windows(rows: impl IntoIterator<Item = Row>) -> Groups {
    grouped(rows, &[0], WINDOW)
}

/// Those that end at or before a time.
fn ended(mut groups: Groups, length: i64, by: i64) -> Groups {
    groups.retain(|(start, _), _| start + length <= by);
    groups
}

/// How many end after the last watermark.
fn open(groups: &Groups, length: i64) -> usize {
    groups.keys().filter(|(start, _)| start + length > LAST).count()
}

/// As [`numbers`] in SQL.
const GROUP: &str = "(((unix_millis(window.start) - 900000) * 100 + coalesce(k, 0)) * 1000 + s) * \
                     1000 + n";

fn numbers(groups: Groups) -> Vec<i64> {
    let number = |((start, k), (n, s))| (((start - ZERO) * 100 + k) * 1_000 + s) * 1_000 + n;
    groups.into_iter().map(number).collect()
}

fn windows(frame: &DataFrame, window: &str) -> DataFrame {
    let groups = frame.group_by(&[window, "k"]);
    let groups = groups.agg(&["count(*) AS n", "sum(v) AS s"]).unwrap();
    groups.select_expr(&[&format!("{GROUP} AS id")]).unwrap()
}
