//! Queries, and what they must give, computed by plain loops.

use super::rows::{COLUMNS, Input, Row};
use crate::world::{Numbers, NumbersDefinition, World};
use onefold_engine::{DataFrame, OutputMode};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Which batches make up the result.
#[derive(Clone, Copy)]
pub enum Whole {
    AllBatches,
    LastBatch,
}

pub struct Case {
    pub name: &'static str,
    pub query: fn(&World, &Arc<Numbers>) -> DataFrame,
    pub mode: OutputMode,
    pub whole: Whole,
    /// The numbers that come out, in any order.
    pub wanted: fn(&Input) -> Vec<i64>,
}

const fn append(
    name: &'static str,
    query: fn(&World, &Arc<Numbers>) -> DataFrame,
    wanted: fn(&Input) -> Vec<i64>,
) -> Case {
    Case { name, query, mode: OutputMode::Append, whole: Whole::AllBatches, wanted }
}

const fn complete(
    name: &'static str,
    query: fn(&World, &Arc<Numbers>) -> DataFrame,
    wanted: fn(&Input) -> Vec<i64>,
) -> Case {
    Case { name, query, mode: OutputMode::Complete, whole: Whole::LastBatch, wanted }
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

/// Row count and sum of each key.
type Groups = BTreeMap<(i64, i64), (i64, i64)>;

fn grouped(rows: impl Iterator<Item = Row>, windows: impl Fn(i64) -> Vec<i64>) -> Groups {
    let mut groups = Groups::new();
    for row in rows {
        for start in windows(row.ts) {
            let group = groups.entry((start, row.k)).or_default();
            group.0 += 1;
            group.1 += row.v;
        }
    }
    groups
}

const GROUP: &str = "((CAST(window.start AS BIGINT) * 100 + coalesce(k, 0)) * 1000 + s) * 1000 + n";

fn numbers(groups: Groups) -> Vec<i64> {
    let number = |((start, k), (n, s))| ((start * 100 + k) * 1_000 + s) * 1_000 + n;
    groups.into_iter().map(number).collect()
}

fn windows(frame: &DataFrame, window: &str) -> DataFrame {
    let groups = frame.group_by(&[window, "k"]);
    let groups = groups.agg(&["count(*) AS n", "sum(v) AS s"]).unwrap();
    groups.select_expr(&[&format!("{GROUP} AS id")]).unwrap()
}

fn tumbling(ts: i64) -> Vec<i64> {
    vec![ts - ts.rem_euclid(5)]
}

pub const TUMBLING: Case = append(
    "tumbling",
    |world, _| windows(&left(world), "window(ts, '5 seconds')"),
    |input| numbers(grouped(input.left.iter().copied(), tumbling)),
);

pub const SLIDING: Case = append(
    "sliding",
    |world, _| windows(&left(world), "window(ts, '9 seconds', '3 seconds')"),
    |input| {
        let starts = |ts: i64| {
            let newest = ts - ts.rem_euclid(3);
            vec![newest, newest - 3, newest - 6]
        };
        numbers(grouped(input.left.iter().copied(), starts))
    },
);

pub const COMPLETE: Case = complete(
    "complete",
    |world, _| windows(&left(world), "window(ts, '5 seconds')"),
    |input| numbers(grouped(input.all_left(), tumbling)),
);

pub const FOREVER: Case = complete(
    "forever",
    |world, _| {
        let groups = left(world).group_by(&["k", "v"]);
        let groups = groups.agg(&["count(*) AS n", "max(ts) AS t"]).unwrap();
        let number = "((coalesce(k, 0) * 100 + v) * 1000 + n) * 1000000 + CAST(t AS BIGINT) AS id";
        groups.select_expr(&[number]).unwrap()
    },
    |input| {
        let mut groups: BTreeMap<(i64, i64), (i64, i64)> = BTreeMap::new();
        for row in input.all_left() {
            let group = groups.entry((row.k, row.v)).or_default();
            *group = (group.0 + 1, group.1.max(row.ts));
        }
        let number = |((k, v), (n, t))| ((k * 100 + v) * 1_000 + n) * 1_000_000 + t;
        groups.into_iter().map(number).collect()
    },
);

pub const SESSIONS: Case = append(
    "sessions",
    |world, _| {
        let groups = left(world).group_by(&["session_window(ts, '3 seconds')", "k"]);
        let groups = groups.agg(&["count(*) AS n", "sum(v) AS s"]).unwrap();
        let number = "(((CAST(session_window.start AS BIGINT) * 100 + CAST(session_window.end AS \
                      BIGINT) - CAST(session_window.start AS BIGINT)) * 100 + coalesce(k, 0)) * \
                      1000 + s) * 1000 + n AS id";
        groups.select_expr(&[number]).unwrap()
    },
    |input| {
        let mut keys: BTreeMap<i64, Vec<Row>> = BTreeMap::new();
        for row in &input.left {
            keys.entry(row.k).or_default().push(*row);
        }
        let mut found = Vec::new();
        for (k, mut rows) in keys {
            rows.sort_unstable();
            let mut sessions: Vec<(i64, i64, i64, i64)> = Vec::new();
            for row in rows {
                match sessions.last_mut() {
                    Some((_, end, n, s)) if row.ts <= *end => {
                        (*end, *n, *s) = (row.ts + 3, *n + 1, *s + row.v);
                    }
                    _ => sessions.push((row.ts, row.ts + 3, 1, row.v)),
                }
            }
            let number = |(start, end, n, s)| {
                (((start * 100 + end - start) * 100 + k) * 1_000 + s) * 1_000 + n
            };
            found.extend(sessions.into_iter().map(number));
        }
        found
    },
);

pub const DEDUP: Case = append(
    "dedup",
    |world, _| {
        let rows = left(world).drop_duplicates(&["k", "v"]).unwrap();
        rows.select_expr(&["coalesce(k, 0) * 100 + v AS id"]).unwrap()
    },
    |input| {
        let keys: BTreeSet<i64> = input.all_left().map(|row| row.k * 100 + row.v).collect();
        keys.into_iter().collect()
    },
);

const TIMED: &str = "CAST(ts AS BIGINT) * 100 + coalesce(k, 0) AS id";

pub const DEDUP_TIMED: Case = append(
    "dedup timed",
    |world, _| {
        let rows = left(world).drop_duplicates(&["k", "ts"]).unwrap();
        rows.select_expr(&[TIMED]).unwrap()
    },
    |input| {
        let keys: BTreeSet<i64> = input.all_left().map(|row| row.ts * 100 + row.k).collect();
        keys.into_iter().collect()
    },
);

/// A key whose rows are all within 4 seconds, less than the delay: one of them comes out.
pub const DEDUP_WITHIN: Case = append(
    "dedup within",
    |world, _| {
        let bucket = "CAST(ts AS BIGINT) - CAST(ts AS BIGINT) % 4";
        let rows = left(world).with_column("bucket", bucket).unwrap();
        let rows = rows.drop_duplicates_within_watermark(&["bucket", "k"]).unwrap();
        rows.select_expr(&["bucket * 100 + coalesce(k, 0) AS id"]).unwrap()
    },
    |input| {
        let bucket = |ts: i64| ts - ts % 4;
        let keys: BTreeSet<i64> =
            input.all_left().map(|row| bucket(row.ts) * 100 + row.k).collect();
        keys.into_iter().collect()
    },
);

fn joined(world: &World, source: &Arc<Numbers>, how: &str) -> DataFrame {
    let left = left(world).select_expr(&["ts AS lts", "k AS lk", "v AS lv"]).unwrap();
    let right = right(world, source).select_expr(&["ts AS rts", "k AS rk", "v AS rv"]).unwrap();
    let on = "lk = rk AND rts >= lts AND rts <= lts + INTERVAL 4 SECONDS";
    left.join(&right, on, how).unwrap()
}

fn sides(world: &World, source: &Arc<Numbers>, how: &str) -> DataFrame {
    let number = "((coalesce(CAST(lts AS BIGINT), 0) * 10 + coalesce(lk, 0)) * 10 + coalesce(lv, \
                  0)) * 1000000 + (coalesce(CAST(rts AS BIGINT), 0) * 10 + coalesce(rk, 0)) * 10 + \
                  coalesce(rv, 0) AS id";
    joined(world, source, how).select_expr(&[number]).unwrap()
}

fn matches(left: &Row, right: &Row) -> bool {
    left.k != 0 && left.k == right.k && right.ts >= left.ts && right.ts <= left.ts + 4
}

fn pairs(input: &Input) -> Vec<i64> {
    let pairs = input.left.iter().flat_map(|left| {
        let matching = input.right.iter().filter(|right| matches(left, right));
        matching.map(|right| side(left) * 1_000_000 + side(right))
    });
    pairs.collect()
}

fn side(row: &Row) -> i64 {
    (row.ts * 10 + row.k) * 10 + row.v
}

fn alone_left(input: &Input) -> Vec<i64> {
    let alone = |left: &&Row| !input.right.iter().any(|right| matches(left, right));
    input.left.iter().filter(alone).map(|left| side(left) * 1_000_000).collect()
}

fn alone_right(input: &Input) -> Vec<i64> {
    let alone = |right: &&Row| !input.left.iter().any(|left| matches(left, right));
    input.right.iter().filter(alone).map(side).collect()
}

pub const INNER: Case = append("inner", |world, right| sides(world, right, "inner"), pairs);

pub const LEFT: Case = append(
    "left",
    |world, right| sides(world, right, "left"),
    |input| [pairs(input), alone_left(input)].concat(),
);

pub const RIGHT: Case = append(
    "right",
    |world, right| sides(world, right, "right"),
    |input| [pairs(input), alone_right(input)].concat(),
);

pub const FULL: Case = append(
    "full",
    |world, right| sides(world, right, "full"),
    |input| [pairs(input), alone_left(input), alone_right(input)].concat(),
);

pub const SEMI: Case = append(
    "semi",
    |world, right| {
        let number = "(CAST(lts AS BIGINT) * 10 + lk) * 10 + lv AS id";
        joined(world, right, "left_semi").select_expr(&[number]).unwrap()
    },
    |input| {
        let matched = |left: &&Row| input.right.iter().any(|right| matches(left, right));
        input.left.iter().filter(matched).map(side).collect()
    },
);

pub const WINDOWS_OF_WINDOWS: Case = append(
    "windows of windows",
    |world, _| {
        let groups = left(world).group_by(&["window(ts, '5 seconds')", "k"]);
        let groups = groups.agg(&["count(*) AS c", "sum(v) AS v"]).unwrap();
        let groups = groups.group_by(&["window(window, '20 seconds')", "k"]);
        let groups = groups.agg(&["sum(c) AS n", "sum(v) AS s"]).unwrap();
        groups.select_expr(&[&format!("{GROUP} AS id")]).unwrap()
    },
    |input| numbers(grouped(input.left.iter().copied(), |ts| vec![ts - ts.rem_euclid(20)])),
);

pub const DISTINCT_WINDOWS: Case = append(
    "distinct windows",
    |world, _| {
        let rows = left(world).drop_duplicates(&["ts", "k", "v"]).unwrap();
        windows(&rows, "window(ts, '5 seconds')")
    },
    |input| {
        let rows: BTreeSet<Row> = input.left.iter().copied().collect();
        numbers(grouped(rows.into_iter(), tumbling))
    },
);

pub const JOINED_WINDOWS: Case = append(
    "joined windows",
    |world, right| {
        let rows = joined(world, right, "left");
        let rows = rows.select_expr(&["lts", "lk AS k", "coalesce(rv, 7) AS v"]).unwrap();
        windows(&rows, "window(lts, '5 seconds')")
    },
    |input| {
        let rows = input.left.iter().flat_map(|left| {
            let matching = input.right.iter().filter(|right| matches(left, right));
            let mut rows: Vec<Row> = matching.map(|right| Row { v: right.v, ..*left }).collect();
            if rows.is_empty() {
                rows.push(Row { v: 7, ..*left });
            }
            rows
        });
        numbers(grouped(rows, tumbling))
    },
);
