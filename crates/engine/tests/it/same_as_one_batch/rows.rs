//! Random rows near whatever decides on them, late ones too, in random batches and terms.

use std::hash::{DefaultHasher, Hash, Hasher};

/// The watermark's delay in milliseconds, as the queries have it.
pub const DELAY: i64 = 5_000;
/// About when the rows begin.
const BEGIN: i64 = 1_000_000;
/// No row is before.
const FIRST: i64 = 960_000;
/// The time of the last row of each source, far later than all others.
const END: i64 = 2_000_000;
/// The watermark behind which nothing comes.
pub const LAST: i64 = END - DELAY;
/// How far apart the interesting rows are: what windows, gaps, ranges and delays are made of, and a
/// little more or less.
const APART: [i64; 5] = [0, 1_000, 3_000, 4_000, 5_000];

/// Numbers that look random and depend on the seed alone.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64, name: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        (seed, name).hash(&mut hasher);
        Random(hasher.finish())
    }

    /// A number below another.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        usize::try_from(bits % u64::try_from(end.max(1)).unwrap()).unwrap()
    }

    fn upto(&mut self, most: i64) -> i64 {
        i64::try_from(self.below(usize::try_from(most + 1).unwrap())).unwrap()
    }

    /// A step from one row to another, or from a watermark.
    fn apart(&mut self) -> i64 {
        let far = APART[self.below(APART.len())];
        let near = self.upto(4) - 2;
        if self.below(2) == 0 { far + near } else { near - far }
    }
}

/// A row: event time in milliseconds, key (0 stands for NULL), value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    pub ts: i64,
    pub k: i64,
    pub v: i64,
    /// The watermark at or before which rows of its batch are late.
    pub late: i64,
}

impl Row {
    fn encoded(&self) -> i64 {
        self.ts * 10_000 + self.k * 100 + self.v
    }

    pub fn in_time(&self) -> bool {
        self.ts > self.late
    }
}

/// The columns of the numbers that a source gives.
pub const COLUMNS: [&str; 3] = [
    "timestamp_millis(CAST((id - id % 10000) / 10000 AS BIGINT)) AS ts",
    "nullif(CAST((id % 10000 - id % 100) / 100 AS BIGINT), 0) AS k",
    "id % 100 AS v",
];

/// What a query wants of its rows.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    /// From how many sources it reads.
    pub sources: usize,
    /// How far behind the watermark the nearest late row is: what is between may make one result
    /// or another, as rows fall into batches.
    pub late_by: i64,
    /// Whether a batch without rows follows the last one of a term.
    pub settles: bool,
    /// Of which sources the rows without a key can meet nothing and cannot come out alone: they
    /// move no watermark.
    pub keyless_go: [bool; 2],
}

/// The rows of two sources in the order in which they come.
#[derive(Debug, Default)]
pub struct Input {
    pub left: Vec<Row>,
    pub right: Vec<Row>,
    /// For each term how many rows the two sources have at its end.
    pub terms: Vec<[usize; 2]>,
    /// After how many rows a batch ends.
    pub splits: [Vec<usize>; 2],
}

impl Input {
    pub fn random(random: &mut Random, wish: Wish) -> Self {
        let mut making = Making { random, wish, input: Input::default(), late: 0 };
        for _ in 0..1 + making.random.below(3) {
            making.term();
        }
        making.end();
        making.input
    }

    pub fn encoded(&self, term: usize) -> [Vec<i64>; 2] {
        let [left, right] = self.terms[term];
        let encoded = |rows: &[Row]| rows.iter().map(Row::encoded).collect();
        [encoded(&self.left[..left]), encoded(&self.right[..right])]
    }

    /// The left rows that are not late.
    pub fn left_in_time(&self) -> impl Iterator<Item = &Row> {
        self.left.iter().filter(|row| row.in_time())
    }

    /// The right rows that are not late.
    pub fn right_in_time(&self) -> impl Iterator<Item = &Row> {
        self.right.iter().filter(|row| row.in_time())
    }
}

struct Making<'a> {
    random: &'a mut Random,
    wish: Wish,
    input: Input,
    /// The watermark of the batch before.
    late: i64,
}

impl Making<'_> {
    fn rows(&mut self, side: usize) -> &mut Vec<Row> {
        if side == 0 { &mut self.input.left } else { &mut self.input.right }
    }

    fn newest(&self) -> [Option<i64>; 2] {
        [&self.input.left, &self.input.right].map(|rows| rows.iter().map(|row| row.ts).max())
    }

    /// The newest event time of a source that moves its watermark.
    fn mover(&self, side: usize) -> Option<i64> {
        let rows = if side == 0 { &self.input.left } else { &self.input.right };
        let moving = rows.iter().filter(|row| row.k != 0 || !self.wish.keyless_go[side]);
        moving.map(|row| row.ts).max()
    }

    /// The watermark once all rows so far are known.
    fn watermark(&self) -> i64 {
        let of_all = (0..self.wish.sources).map(|side| self.mover(side).unwrap_or(DELAY));
        (of_all.min().unwrap() - DELAY).max(0)
    }

    /// What comes between two starts.
    fn term(&mut self) {
        let chunks = [0, 1].map(|side| match side {
            side if side >= self.wish.sources => 0,
            _ => self.random.below(5),
        });
        for batch in 0..chunks[0].max(chunks[1]) {
            let mark = self.watermark();
            for side in (0..2).filter(|side| batch < chunks[*side]) {
                for _ in 0..2 + self.random.below(9) {
                    let row = self.row(mark);
                    self.rows(side).push(row);
                }
                let rows = self.rows(side).len();
                self.input.splits[side].push(rows);
            }
            self.late = mark;
        }
        self.ended();
    }

    fn ended(&mut self) {
        self.input.terms.push([self.input.left.len(), self.input.right.len()]);
        if self.wish.settles {
            self.late = self.watermark();
        }
    }

    fn row(&mut self, mark: i64) -> Row {
        let newest = self.newest().into_iter().flatten().max().unwrap_or(BEGIN);
        let rows: Vec<Row> = [&self.input.left, &self.input.right]
            .into_iter()
            .flat_map(|rows| rows.iter().rev().take(12).copied())
            .collect();
        let mut k = self.random.upto(2);
        let ts = match self.random.below(12) {
            // Near another row, of its key as a rule.
            0..=4 if !rows.is_empty() => {
                let near = rows[self.random.below(rows.len())];
                k = if self.random.below(4) > 0 { near.k } else { k };
                near.ts + self.random.apart()
            }
            // Near the watermark of this batch, or the next one.
            5 if mark > 0 => mark + self.random.apart(),
            6 => newest - DELAY + self.random.apart(),
            // As late as it may be, or later.
            7..=8 if self.late > 0 => self.late + 1,
            9 if self.late > 0 => self.late - self.wish.late_by - self.random.apart().max(0),
            // Forward to where a window ends, or a part of it.
            _ => {
                let part = if self.random.below(2) == 0 { 1_000 } else { 5_000 };
                (newest + self.random.upto(2_500)) / part * part + part + self.random.upto(2) - 1
            }
        };
        let mut ts = ts.clamp(FIRST, newest + 6_000);
        let near = ts > self.late - self.wish.late_by;
        if ts <= self.late && (near || self.random.below(2) == 0) {
            ts = self.late + 1;
        }
        Row { ts, k, v: self.random.upto(4), late: self.late }
    }

    /// A last term with far later rows: they bring the watermark past all others, and themselves
    /// stand at what it decides on.
    fn end(&mut self) {
        const FROM_LAST: [i64; 18] = [
            -8_001, -8_000, -5_001, -5_000, -4_999, -4_002, -4_001, -4_000, -3_999, -3_001, -3_000,
            -2_999, -1_000, -2, -1, 0, 1, DELAY,
        ];
        for (place, from) in (0..).zip(FROM_LAST) {
            let row = |k: i64| Row { ts: LAST + from, k, v: place % 5, late: self.late };
            let (left, right) = (row(10 + place), row(40 + place));
            self.input.left.push(left);
            self.input.right.push(right);
        }
        self.input.splits[0].push(self.input.left.len());
        self.input.splits[1].push(self.input.right.len());
        self.ended();
    }
}
