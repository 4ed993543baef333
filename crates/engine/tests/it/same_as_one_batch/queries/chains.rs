//! Chains of operators with state.

use super::joins::{RANGE, in_range, joined};
use super::{
    Case, GROUP, Groups, WINDOW, ZERO, append, ended, grouped, in_windows, left, numbers, right,
    windows,
};
use crate::same_as_one_batch::rows::{Input, LAST, Row};
use std::collections::BTreeSet;

/// Rows as what follows an operator sees them: what it lets out is not late.
fn passed(row: &Row) -> Row {
    Row { late: 0, ..*row }
}

pub const WINDOWS_OF_WINDOWS: Case = append(
    "windows of windows",
    |world, _| {
        let groups = left(world).group_by(&["window(ts, '5 seconds')", "k"]);
        let groups = groups.agg(&["count(*) AS c", "sum(v) AS v"]).unwrap();
        let groups = groups.group_by(&["window(window, '20 seconds')", "k"]);
        let groups = groups.agg(&["sum(c) AS n", "sum(v) AS s"]).unwrap();
        groups.select_expr(&[&format!("{GROUP} AS id")]).unwrap()
    },
    |input| {
        let in_time = |row: &&Row| super::tumbling(row.ts) + WINDOW > row.late;
        let rows = input.left.iter().filter(in_time).map(passed);
        numbers(ended(grouped(rows, &[0], 20_000), 20_000, LAST))
    },
)
.least(2);

fn distinct(input: &Input) -> Groups {
    let rows: BTreeSet<Row> = input.left_in_time().map(passed).collect();
    in_windows(rows)
}

pub const DISTINCT_WINDOWS: Case = append(
    "distinct windows",
    |world, _| {
        let rows = left(world).drop_duplicates(&["ts", "k", "v"]).unwrap();
        windows(&rows, "window(ts, '5 seconds')")
    },
    |input| numbers(ended(distinct(input), WINDOW, LAST)),
);

/// The watermark behind a join: a left row may come out alone as late as this.
const BEHIND_JOIN: i64 = LAST - RANGE - 1;

/// The left rows with the values of right ones, 7 where there is none.
fn left_joined(input: &Input) -> Vec<Row> {
    let rows = input.left_in_time().flat_map(|left| {
        let matching = input.right_in_time().filter(|right| in_range(left, right));
        let mut rows: Vec<Row> =
            matching.map(|right| passed(&Row { v: right.v, ..*left })).collect();
        if rows.is_empty() && left.ts < LAST - RANGE {
            rows.push(passed(&Row { v: 7, ..*left }));
        }
        rows
    });
    rows.collect()
}

pub const JOINED_WINDOWS: Case = append(
    "joined windows",
    |world, right| {
        let rows = joined(world, right, "left");
        let rows = rows.select_expr(&["lts", "lk AS k", "coalesce(rv, 7) AS v"]).unwrap();
        windows(&rows, "window(lts, '5 seconds')")
    },
    |input| numbers(ended(in_windows(left_joined(input)), WINDOW, BEHIND_JOIN)),
)
.of_two()
.keyless_go(false, true);

/// Right rows come past the join, where the watermark is that behind the join all the same.
pub const UNITED_WINDOWS: Case = append(
    "united windows",
    |world, source| {
        let rows = joined(world, source, "left");
        let rows = rows.select_expr(&["lts AS ts", "lk AS k", "coalesce(rv, 7) AS v"]).unwrap();
        let rows = rows.union(&right(world, source)).unwrap();
        windows(&rows, "window(ts, '5 seconds')")
    },
    |input| {
        let right = input.right.iter().map(|row| Row { late: row.late - RANGE - 1, ..*row });
        let rows = left_joined(input).into_iter().chain(right);
        numbers(ended(in_windows(rows), WINDOW, BEHIND_JOIN))
    },
)
.of_two()
.keyless_go(false, true);

pub const JOINED_AGGREGATES: Case = append(
    "joined aggregates",
    |world, source| {
        let counted = |frame: onefold_engine::DataFrame, name: &str| {
            let groups = frame.group_by(&["window(ts, '5 seconds') AS w"]);
            let groups = groups.agg(&["count(*) AS n", "sum(v) AS s"]).unwrap();
            let columns = ["w", "n", "s"].map(|column| format!("{column} AS {name}{column}"));
            groups.select_expr(&columns.each_ref().map(String::as_str)).unwrap()
        };
        let left = counted(left(world), "l");
        let both = left.join(&counted(right(world, source), "r"), "lw = rw", "inner").unwrap();
        let number = "((((unix_millis(lw.start) - 900000) * 1000 + ls) * 100 + ln) * 1000 + rs) * \
                      100 + rn AS id";
        both.select_expr(&[number]).unwrap()
    },
    |input| {
        let groups = |rows: &[Row]| {
            let rows = rows.iter().map(|row| Row { k: 0, ..*row });
            ended(in_windows(rows), WINDOW, LAST)
        };
        let right = groups(&input.right);
        let pairs = groups(&input.left).into_iter().filter_map(|((start, k), (ln, ls))| {
            let (rn, rs) = right.get(&(start, k))?;
            Some(((((start - ZERO) * 1_000 + ls) * 100 + ln) * 1_000 + rs) * 100 + rn)
        });
        pairs.collect()
    },
)
.of_two()
.least(2);
