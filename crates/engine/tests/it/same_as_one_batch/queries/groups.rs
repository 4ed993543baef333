//! Windows, sessions, aggregates.

use super::{
    Case, GROUP, append, complete, ended, grouped, in_windows, left, numbers, open, windows,
};
use super::{WINDOW, ZERO, tumbling};
use crate::same_as_one_batch::rows::{Input, LAST, Row};
use crate::world::World;
use onefold_engine::DataFrame;
use std::collections::{BTreeMap, BTreeSet};

pub const TUMBLING: Case = append(
    "tumbling",
    |world, _| windows(&left(world), "window(ts, '5 seconds')"),
    |input| numbers(ended(in_windows(input.left.iter().copied()), WINDOW, LAST)),
)
.keeps(|input| open(&in_windows(input.left.iter().copied()), WINDOW));

fn sliding(input: &Input) -> super::Groups {
    grouped(input.left.iter().copied(), &[0, 3_000, 6_000], 9_000)
}

pub const SLIDING: Case = append(
    "sliding",
    |world, _| windows(&left(world), "window(ts, '9 seconds', '3 seconds')"),
    |input| numbers(ended(sliding(input), 9_000, LAST)),
)
.keeps(|input| open(&sliding(input), 9_000));

/// In complete mode no row is late.
fn never_late(rows: &[Row]) -> impl Iterator<Item = Row> {
    rows.iter().map(|row| Row { late: 0, ..*row })
}

pub const COMPLETE: Case = complete(
    "complete",
    |world, _| windows(&left(world), "window(ts, '5 seconds')"),
    |input| numbers(in_windows(never_late(&input.left))),
)
.keeps(|input| in_windows(never_late(&input.left)).len());

type ByValue = BTreeMap<(i64, i64), (i64, i64)>;

/// Count and latest time of each key and value.
fn by_value(input: &Input) -> ByValue {
    let mut groups = ByValue::new();
    for row in &input.left {
        let group = groups.entry((row.k, row.v)).or_default();
        *group = (group.0 + 1, group.1.max(row.ts));
    }
    groups
}

fn by_value_frame(world: &World) -> DataFrame {
    let groups = left(world).group_by(&["k", "v"]);
    groups.agg(&["count(*) AS n", "max(ts) AS t"]).unwrap()
}

const BY_VALUE: &str = "((coalesce(k, 0) * 100 + v) * 1000 + n) * 10000000 + unix_millis(t) AS id";

fn by_value_number(((k, v), (n, t)): ((i64, i64), (i64, i64))) -> i64 {
    ((k * 100 + v) * 1_000 + n) * 10_000_000 + t
}

pub const FOREVER: Case = complete(
    "forever",
    |world, _| by_value_frame(world).select_expr(&[BY_VALUE]).unwrap(),
    |input| by_value(input).into_iter().map(by_value_number).collect(),
)
.keeps(|input| by_value(input).len());

pub const SORTED: Case = complete(
    "sorted",
    |world, _| {
        let sorted = by_value_frame(world).order_by(&["n DESC", "t", "k", "v DESC"]).unwrap();
        sorted.limit(4).unwrap().select_expr(&[BY_VALUE]).unwrap()
    },
    |input| {
        let mut groups: Vec<_> = by_value(input).into_iter().collect();
        groups.sort_by_key(|((k, v), (n, t))| (-n, *t, *k, -v));
        groups.into_iter().take(4).map(by_value_number).collect()
    },
)
.least(4);

pub const GLOBAL: Case = complete(
    "global",
    |world, _| {
        let all = left(world).agg(&["count(k) AS n", "sum(v) AS s", "max(ts) AS t"]).unwrap();
        all.select_expr(&["(s * 1000 + n) * 10000000 + unix_millis(t) AS id"]).unwrap()
    },
    |input| {
        let n = input.left.iter().filter(|row| row.k > 0).count() as i64;
        let s: i64 = input.left.iter().map(|row| row.v).sum();
        let t = input.left.iter().map(|row| row.ts).max().unwrap();
        vec![(s * 1_000 + n) * 10_000_000 + t]
    },
)
.keeps(|_| 1)
.least(1);

/// What stands in the aggregates of a group, each as a whole number.
const AGGREGATES: [&str; 19] = [
    "count(*)",
    "count(k)",
    "sum(v)",
    "min(v)",
    "max(ts) IS NOT NULL AND max(v) >= min(v)",
    "max(v)",
    "floor(avg(v) * 1000 + 0.01)",
    "count(DISTINCT v)",
    "approx_count_distinct(v)",
    "size(collect_list(v))",
    "size(collect_set(v))",
    "coalesce(floor(stddev(v) * 1000 + 0.01), -1)",
    "floor(var_pop(v) * 1000 + 0.01)",
    "percentile_approx(v, 0.5) BETWEEN min(v) AND max(v)",
    "any(v = 3)",
    "every(v < 4)",
    "min_by(v, unix_millis(ts) * 10 + v)",
    "max_by(v, unix_millis(ts) * 10 - v)",
    "array_contains(collect_set(v), first(v)) AND array_contains(collect_set(v), last(v))",
];

fn aggregates(rows: &[Row]) -> [i64; 19] {
    let n = rows.len() as i64;
    let mut values: Vec<i64> = rows.iter().map(|row| row.v).collect();
    values.sort_unstable();
    let sum: i64 = values.iter().sum();
    let distinct = values.iter().collect::<BTreeSet<_>>().len() as i64;
    let mean = sum as f64 / n as f64;
    let squares: f64 = values.iter().map(|v| (*v as f64 - mean).powi(2)).sum();
    let scaled = |value: f64| (value * 1_000.0 + 0.01).floor() as i64;
    let deviation = if n > 1 { scaled((squares / (n - 1) as f64).sqrt()) } else { -1 };
    let by = |sign: i64| move |row: &&Row| row.ts * 10 + sign * row.v;
    [
        n,
        rows.iter().filter(|row| row.k > 0).count() as i64,
        sum,
        values[0],
        1,
        values[values.len() - 1],
        scaled(mean),
        distinct,
        distinct,
        n,
        distinct,
        deviation,
        scaled(squares / n as f64),
        1,
        i64::from(values.contains(&3)),
        i64::from(!values.contains(&4)),
        rows.iter().min_by_key(by(1)).unwrap().v,
        rows.iter().max_by_key(by(-1)).unwrap().v,
        1,
    ]
}

/// Many numbers as one.
const PRIME: i64 = 1_000_000_007;

fn aggregated(world: &World) -> DataFrame {
    let named = AGGREGATES.iter().enumerate();
    let named: Vec<String> =
        named.map(|(place, text)| format!("CAST({text} AS BIGINT) AS a{place}")).collect();
    let named: Vec<&str> = named.iter().map(String::as_str).collect();
    let groups = left(world).group_by(&["window(ts, '5 seconds')", "k"]).agg(&named).unwrap();
    let key = "(unix_millis(window.start) - 900000) * 100 + coalesce(k, 0)".to_owned();
    let number = (0..AGGREGATES.len())
        .fold(key, |number, place| format!("(({number}) * 1009 + a{place}) % {PRIME}"));
    groups.select_expr(&[&format!("{number} AS id")]).unwrap()
}

fn rows_of_groups(rows: impl Iterator<Item = Row>) -> BTreeMap<(i64, i64), Vec<Row>> {
    let mut groups: BTreeMap<(i64, i64), Vec<Row>> = BTreeMap::new();
    for row in rows.filter(|row| tumbling(row.ts) + WINDOW > row.late) {
        groups.entry((tumbling(row.ts), row.k)).or_default().push(row);
    }
    groups
}

fn aggregate_numbers(groups: BTreeMap<(i64, i64), Vec<Row>>) -> Vec<i64> {
    let number = |((start, k), rows): ((i64, i64), Vec<Row>)| {
        let key = (start - ZERO) * 100 + k;
        aggregates(&rows).iter().fold(key, |number, value| (number * 1_009 + value) % PRIME)
    };
    groups.into_iter().map(number).collect()
}

pub const AGGREGATES_APPEND: Case = append(
    "aggregates",
    |world, _| aggregated(world),
    |input| {
        let mut groups = rows_of_groups(input.left.iter().copied());
        groups.retain(|(start, _), _| start + WINDOW <= LAST);
        aggregate_numbers(groups)
    },
);

pub const AGGREGATES_COMPLETE: Case = complete(
    "aggregates, complete",
    |world, _| aggregated(world),
    |input| aggregate_numbers(rows_of_groups(never_late(&input.left))),
);

pub const FILTERED: Case = append(
    "filtered",
    |world, _| {
        let groups = left(world).group_by(&["window(ts, '5 seconds')", "k"]);
        let aggregates = ["count(*) FILTER (WHERE v > 1) AS n", "sum(v) FILTER (WHERE v < 4) AS s"];
        let having = groups.agg(&aggregates).unwrap().filter("n >= 2 AND s > 0").unwrap();
        having.select_expr(&[&format!("{GROUP} AS id")]).unwrap()
    },
    |input| {
        let mut groups = super::Groups::new();
        for ((start, k), rows) in rows_of_groups(input.left.iter().copied()) {
            let n = rows.iter().filter(|row| row.v > 1).count() as i64;
            let s = rows.iter().map(|row| row.v).filter(|v| *v < 4).sum();
            if n >= 2 && s > 0 {
                groups.insert((start, k), (n, s));
            }
        }
        numbers(ended(groups, WINDOW, LAST))
    },
)
.keeps(|input| open(&in_windows(input.left.iter().copied()), WINDOW))
.least(2);

/// Start, end, key, count and sum.
type Session = (i64, i64, i64, i64, i64);

/// Sessions of rows that end this long after themselves; a row without a gap is in none.
fn sessions(rows: impl Iterator<Item = Row>, gap: fn(&Row) -> i64) -> Vec<Session> {
    let mut rows: Vec<Row> = rows.filter(|row| gap(row) > 0).collect();
    rows.retain(|row| row.ts + gap(row) > row.late);
    rows.sort_unstable_by_key(|row| (row.k, row.ts));
    let mut sessions: Vec<Session> = Vec::new();
    for row in rows {
        let new = row.ts + gap(&row);
        match sessions.last_mut() {
            Some((_, end, k, n, s)) if *k == row.k && row.ts <= *end => {
                (*end, *n, *s) = (new.max(*end), *n + 1, *s + row.v);
            }
            _ => sessions.push((row.ts, new, row.k, 1, row.v)),
        }
    }
    sessions
}

fn session_frame(world: &World, gap: &str) -> DataFrame {
    let groups = left(world).group_by(&[&format!("session_window(ts, {gap})"), "k"]);
    let groups = groups.agg(&["count(*) AS n", "sum(v) AS s"]).unwrap();
    let number = "(((unix_millis(session_window.start) - 900000) * 100000 + \
                  unix_millis(session_window.end) - unix_millis(session_window.start)) * 100 + \
                  coalesce(k, 0)) * 10000 + s * 100 + n AS id";
    groups.select_expr(&[number]).unwrap()
}

fn session_number((start, end, k, n, s): Session) -> i64 {
    (((start - ZERO) * 100_000 + end - start) * 100 + k) * 10_000 + s * 100 + n
}

fn ended_sessions(mut sessions: Vec<Session>) -> Vec<i64> {
    sessions.retain(|(_, end, ..)| *end <= LAST);
    sessions.into_iter().map(session_number).collect()
}

fn open_sessions(mut sessions: Vec<Session>) -> usize {
    sessions.retain(|(_, end, ..)| *end > LAST);
    sessions.len()
}

pub const SESSIONS: Case = append(
    "sessions",
    |world, _| session_frame(world, "'3 seconds'"),
    |input| ended_sessions(sessions(input.left.iter().copied(), |_| 3_000)),
)
.keeps(|input| open_sessions(sessions(input.left.iter().copied(), |_| 3_000)))
.late_by(3_000);

pub const SESSIONS_COMPLETE: Case = complete(
    "sessions, complete",
    |world, _| session_frame(world, "'3 seconds'"),
    |input| {
        let sessions = sessions(input.left.iter().copied(), |_| 3_000);
        sessions.into_iter().map(session_number).collect()
    },
)
.keeps(|input| sessions(input.left.iter().copied(), |_| 3_000).len());

fn own_gap(row: &Row) -> i64 {
    [1_000, 3_000, 1_000, 4_000, 0][usize::try_from(row.v).unwrap()]
}

pub const GAPS: Case = append(
    "gaps",
    |world, _| {
        let gap = "CASE v WHEN 1 THEN '3 seconds' WHEN 3 THEN '4 seconds' WHEN 4 THEN '0 seconds' \
                   ELSE '1 second' END";
        session_frame(world, gap)
    },
    |input| ended_sessions(sessions(input.left.iter().copied(), own_gap)),
)
.keeps(|input| open_sessions(sessions(input.left.iter().copied(), own_gap)))
.late_by(4_000);
