//! Joins of two streams.

use super::{Case, WINDOW, ZERO, append, left, right, tumbling};
use crate::same_as_one_batch::rows::{Input, LAST, Row};
use crate::world::{Numbers, World};
use onefold_engine::DataFrame;
use std::sync::Arc;

/// How long after the left row the right one may come.
pub(super) const RANGE: i64 = 4_000;

/// Both sides, their columns named apart.
fn both(world: &World, source: &Arc<Numbers>, columns: &str) -> [DataFrame; 2] {
    let side = |frame: DataFrame, name: &str| {
        let columns = columns.split(", ").map(|column| format!("{column} AS {name}{column}"));
        let columns: Vec<String> = columns.collect();
        frame.select_expr(&columns.iter().map(String::as_str).collect::<Vec<_>>()).unwrap()
    };
    [side(left(world), "l"), side(right(world, source), "r")]
}

pub(super) fn joined(world: &World, source: &Arc<Numbers>, how: &str) -> DataFrame {
    let [left, right] = both(world, source, "ts, k, v");
    let on = "lk = rk AND rts >= lts AND rts <= lts + INTERVAL 4 SECONDS";
    left.join(&right, on, how).unwrap()
}

/// As [`side`] in SQL, 0 for NULL.
const SIDES: &str = "coalesce(((unix_millis(lts) - 900000) * 100 + coalesce(lk, 0)) * 10 + lv, 0) \
                     * 2000000000 + \
                     coalesce(((unix_millis(rts) - 900000) * 100 + coalesce(rk, 0)) * 10 + rv, 0) \
                     AS id";

fn sides(world: &World, source: &Arc<Numbers>, how: &str) -> DataFrame {
    joined(world, source, how).select_expr(&[SIDES]).unwrap()
}

fn side(row: &Row) -> i64 {
    ((row.ts - ZERO) * 100 + row.k) * 10 + row.v
}

fn pair(left: &Row, right: &Row) -> i64 {
    side(left) * 2_000_000_000 + side(right)
}

type Matches = fn(&Row, &Row) -> bool;

pub(super) fn in_range(left: &Row, right: &Row) -> bool {
    left.k != 0 && left.k == right.k && right.ts >= left.ts && right.ts <= left.ts + RANGE
}

fn pairs(input: &Input, matches: Matches) -> Vec<i64> {
    let pairs = input.left_in_time().flat_map(|left| {
        let matching = input.right_in_time().filter(move |right| matches(left, right));
        matching.map(|right| pair(left, right))
    });
    pairs.collect()
}

fn has_right(input: &Input, left: &Row) -> bool {
    input.right_in_time().any(|right| in_range(left, right))
}

/// Whether the last watermark lets a left row go, and a right one. A row that could still meet one
/// at the watermark itself, which would be late, is kept for a millisecond more, as in Spark.
fn left_gone(row: &Row) -> bool {
    row.ts < LAST - RANGE
}

fn right_gone(row: &Row) -> bool {
    row.ts < LAST
}

fn alone_left(input: &Input) -> Vec<i64> {
    let alone = |left: &&Row| left_gone(left) && !has_right(input, left);
    input.left_in_time().filter(alone).map(|left| side(left) * 2_000_000_000).collect()
}

fn alone_right(input: &Input) -> Vec<i64> {
    let met = |right: &Row| input.left_in_time().any(|left| in_range(left, right));
    let alone = |right: &&Row| right_gone(right) && !met(right);
    input.right_in_time().filter(alone).map(side).collect()
}

/// How many rows are kept of each side: those without a key only where they come out alone.
fn kept(input: &Input, outer_left: bool, outer_right: bool) -> usize {
    let left = input.left_in_time().filter(|row| !left_gone(row) && (outer_left || row.k != 0));
    let right = input.right_in_time().filter(|row| !right_gone(row) && (outer_right || row.k != 0));
    left.count() + right.count()
}

pub const INNER: Case =
    append("inner", |world, right| sides(world, right, "inner"), |input| pairs(input, in_range))
        .of_two()
        .keyless_go(true, true)
        .keeps(|input| kept(input, false, false));

pub const LEFT: Case = append(
    "left",
    |world, right| sides(world, right, "left"),
    |input| [pairs(input, in_range), alone_left(input)].concat(),
)
.of_two()
.keyless_go(false, true)
.keeps(|input| kept(input, true, false));

pub const RIGHT: Case = append(
    "right",
    |world, right| sides(world, right, "right"),
    |input| [pairs(input, in_range), alone_right(input)].concat(),
)
.of_two()
.keyless_go(true, false)
.keeps(|input| kept(input, false, true));

pub const FULL: Case = append(
    "full",
    |world, right| sides(world, right, "full"),
    |input| [pairs(input, in_range), alone_left(input), alone_right(input)].concat(),
)
.of_two()
.keeps(|input| kept(input, true, true));

pub const SEMI: Case = append(
    "semi",
    |world, right| {
        let number = "((unix_millis(lts) - 900000) * 100 + lk) * 10 + lv AS id";
        joined(world, right, "left_semi").select_expr(&[number]).unwrap()
    },
    |input| input.left_in_time().filter(|left| has_right(input, left)).map(side).collect(),
)
.of_two()
.keyless_go(true, true)
.keeps(|input| kept(input, false, false));

/// Ends that do not belong to the range, and a condition on one side.
pub const OPEN: Case = append(
    "open",
    |world, source| {
        let [left, right] = both(world, source, "ts, k, v");
        let on = "lk = rk AND rts > lts - INTERVAL 3 SECONDS AND rts < lts + INTERVAL 4 SECONDS \
                  AND lv < 4";
        left.join(&right, on, "full").unwrap().select_expr(&[SIDES]).unwrap()
    },
    |input| {
        let met = |left: &Row, right: &Row| {
            let apart = right.ts - left.ts;
            left.k != 0 && left.k == right.k && apart > -3_000 && apart < 4_000 && left.v < 4
        };
        let left = input.left_in_time().filter(|left| {
            // One that the condition on its side excludes comes out at once.
            let gone = left.ts <= LAST - 4_000 || left.v == 4;
            gone && !input.right_in_time().any(|right| met(left, right))
        });
        let right = input.right_in_time().filter(|right| {
            right.ts <= LAST - 3_000 && !input.left_in_time().any(|left| met(left, right))
        });
        let left = left.map(|left| side(left) * 2_000_000_000);
        left.chain(right.map(side)).chain(pairs(input, met)).collect()
    },
)
.of_two();

fn of_windows(world: &World, source: &Arc<Numbers>, how: &str) -> DataFrame {
    let columns = ["window(ts, '5 seconds') AS w", "k", "unix_millis(ts) AS ts", "v"];
    let [left, right] =
        [left(world), right(world, source)].map(|frame| frame.select_expr(&columns).unwrap());
    let side = |frame: DataFrame, name: &str| {
        let columns = ["w", "k", "ts", "v"].map(|column| format!("{column} AS {name}{column}"));
        frame.select_expr(&columns.each_ref().map(String::as_str)).unwrap()
    };
    let joined = side(left, "l").join(&side(right, "r"), "lw = rw AND lk = rk", how).unwrap();
    let number = SIDES.replace("unix_millis(lts)", "lts").replace("unix_millis(rts)", "rts");
    joined.select_expr(&[&number]).unwrap()
}

fn same_window(left: &Row, right: &Row) -> bool {
    left.k != 0 && left.k == right.k && tumbling(left.ts) == tumbling(right.ts)
}

/// Rows whose window was not over.
fn windowed(rows: &[Row]) -> impl Iterator<Item = &Row> {
    rows.iter().filter(|row| tumbling(row.ts) + WINDOW > row.late)
}

fn window_pairs(input: &Input) -> Vec<i64> {
    let pairs = windowed(&input.left).flat_map(|left| {
        let matching = windowed(&input.right).filter(move |right| same_window(left, right));
        matching.map(|right| pair(left, right))
    });
    pairs.collect()
}

fn window_gone(row: &Row) -> bool {
    tumbling(row.ts) + WINDOW <= LAST
}

fn window_kept(input: &Input, outer: bool) -> usize {
    let rows = windowed(&input.left).chain(windowed(&input.right));
    rows.filter(|row| !window_gone(row) && (outer || row.k != 0)).count()
}

pub const WINDOW_INNER: Case =
    append("window inner", |world, source| of_windows(world, source, "inner"), window_pairs)
        .of_two()
        .keyless_go(true, true)
        .keeps(|input| window_kept(input, false));

pub const WINDOW_FULL: Case = append(
    "window full",
    |world, source| of_windows(world, source, "full"),
    |input| {
        let left = windowed(&input.left).filter(|left| {
            window_gone(left) && !windowed(&input.right).any(|right| same_window(left, right))
        });
        let right = windowed(&input.right).filter(|right| {
            window_gone(right) && !windowed(&input.left).any(|left| same_window(left, right))
        });
        let left = left.map(|left| side(left) * 2_000_000_000);
        left.chain(right.map(side)).chain(window_pairs(input)).collect()
    },
)
.of_two()
.keeps(|input| window_kept(input, true));
