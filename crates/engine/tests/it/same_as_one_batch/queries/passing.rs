//! Duplicates, limits, unions, joins with a table.

use super::{
    Case, WINDOW, ZERO, append, complete, ended, in_windows, left, numbers, open, right, windows,
};
use crate::same_as_one_batch::rows::{DELAY, Input, LAST, Row};
use crate::world::World;
use onefold_engine::DataFrame;
use std::collections::BTreeSet;

fn keys_and_values(input: &Input) -> BTreeSet<i64> {
    input.left_in_time().map(|row| row.k * 100 + row.v).collect()
}

pub const DEDUP: Case = append(
    "dedup",
    |world, _| {
        let rows = left(world).drop_duplicates(&["k", "v"]).unwrap();
        rows.select_expr(&["coalesce(k, 0) * 100 + v AS id"]).unwrap()
    },
    |input| keys_and_values(input).into_iter().collect(),
)
.keeps(|input| keys_and_values(input).len());

fn timed(input: &Input) -> BTreeSet<(i64, i64)> {
    input.left_in_time().map(|row| (row.ts, row.k)).collect()
}

pub const DEDUP_TIMED: Case = append(
    "dedup timed",
    |world, _| {
        let rows = left(world).drop_duplicates(&["k", "ts"]).unwrap();
        rows.select_expr(&["(unix_millis(ts) - 900000) * 100 + coalesce(k, 0) AS id"]).unwrap()
    },
    |input| timed(input).into_iter().map(|(ts, k)| (ts - ZERO) * 100 + k).collect(),
)
.keeps(|input| timed(input).iter().filter(|(ts, _)| *ts > LAST).count());

/// How long the rows of a key may be apart so that one of them comes out: no longer than the delay.
const APART: i64 = DELAY;

/// Rows in the first part of each so many milliseconds, by the begin of that time and key.
const EVERY: i64 = 7_000;

fn bursts(input: &Input) -> impl Iterator<Item = Row> {
    let rows = input.left_in_time().filter(|row| row.ts.rem_euclid(EVERY) <= APART);
    rows.map(|row| Row { v: row.ts - row.ts.rem_euclid(EVERY), ..*row })
}

fn burst_keys(rows: impl Iterator<Item = Row>) -> BTreeSet<(i64, i64)> {
    rows.map(|row| (row.v, row.k)).collect()
}

pub const DEDUP_WITHIN: Case = append(
    "dedup within",
    |world, _| {
        let rows = left(world).filter("unix_millis(ts) % 7000 <= 5000").unwrap();
        let rows = rows.with_column("burst", "unix_millis(ts) - unix_millis(ts) % 7000").unwrap();
        let rows = rows.drop_duplicates_within_watermark(&["burst", "k"]).unwrap();
        rows.select_expr(&["(burst - 900000) * 100 + coalesce(k, 0) AS id"]).unwrap()
    },
    |input| burst_keys(bursts(input)).into_iter().map(|(at, k)| (at - ZERO) * 100 + k).collect(),
)
.keeps(|input| burst_keys(bursts(input).filter(|row| row.ts + DELAY > LAST)).len());

pub const LIMIT: Case = append(
    "limit",
    |world, _| {
        let rows = left(world).drop_duplicates(&["k", "v"]).unwrap();
        rows.limit(9).unwrap().select_expr(&["coalesce(k, 0) * 0 AS id"]).unwrap()
    },
    |input| vec![0; keys_and_values(input).len().min(9)],
)
.keeps(|input| keys_and_values(input).len() + 1);

pub const LIMITED_COUNT: Case = complete(
    "limited count",
    |world, _| {
        let counted = left(world).limit(33).unwrap().agg(&["count(*) AS id"]).unwrap();
        counted.select_expr(&["id"]).unwrap()
    },
    |input| vec![input.left.len().min(33) as i64],
)
.keeps(|_| 2)
.least(1);

fn united(input: &Input) -> super::Groups {
    in_windows(input.left.iter().chain(&input.right).copied())
}

pub const UNION: Case = append(
    "union",
    |world, source| {
        let rows = left(world).union(&right(world, source)).unwrap();
        windows(&rows, "window(ts, '5 seconds')")
    },
    |input| numbers(ended(united(input), WINDOW, LAST)),
)
.of_two()
.keeps(|input| open(&united(input), WINDOW));

/// Key and value of the rows of a table without a stream.
const TABLE_ROWS: [(i64, i64); 4] = [(1, 2), (2, 1), (2, 4), (60, 3)];

fn with_table(world: &World, how: &str) -> DataFrame {
    let mut rows = TABLE_ROWS.iter().map(|(k, v)| format!("SELECT {k}L AS tk, {v}L AS tv"));
    let table = rows.by_ref().collect::<Vec<_>>().join(" UNION ALL ");
    let table = world.session.sql(&table).unwrap();
    left(world).join(&table, "k = tk", how).unwrap()
}

/// The rows with the table's value; 0 where the table has none.
fn with_table_rows(rows: impl Iterator<Item = Row>, outer: bool) -> Vec<Row> {
    rows.flat_map(|row| {
        let of_key = TABLE_ROWS.iter().filter(move |(k, _)| *k == row.k);
        let mut rows: Vec<Row> = of_key.map(|(_, v)| Row { v: *v, ..row }).collect();
        if rows.is_empty() && outer {
            rows.push(Row { v: 0, ..row });
        }
        rows
    })
    .collect()
}

pub const TABLE: Case = append(
    "table",
    |world, _| {
        let number = "((unix_millis(ts) - 900000) * 100 + k) * 100 + v * 10 + tv AS id";
        with_table(world, "inner").select_expr(&[number]).unwrap()
    },
    |input| {
        let number = |row: Row| ((row.ts - ZERO) * 100 + row.k) * 100 + row.v;
        let tens = input.left.iter().map(|row| Row { v: row.v * 10, ..*row });
        let rows = tens.flat_map(|row| {
            let joined = with_table_rows(std::iter::once(row), false);
            joined.into_iter().map(move |with| Row { v: row.v + with.v, ..row })
        });
        rows.map(number).collect()
    },
)
.unsettled();

fn table_windows(input: &Input) -> super::Groups {
    in_windows(with_table_rows(input.left.iter().copied(), true))
}

pub const TABLE_WINDOWS: Case = append(
    "table windows",
    |world, _| {
        let rows = with_table(world, "left");
        let rows = rows.select_expr(&["ts", "k", "coalesce(tv, 0) AS v"]).unwrap();
        windows(&rows, "window(ts, '5 seconds')")
    },
    |input| numbers(ended(table_windows(input), WINDOW, LAST)),
)
.keeps(|input| open(&table_windows(input), WINDOW));
