//! Random rows, none of them late.

use std::hash::{DefaultHasher, Hash, Hasher};

/// The watermark's delay in seconds, as the queries have it.
const DELAY: i64 = 5;

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
}

/// A row: event time in seconds, key (0 stands for NULL), value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    pub ts: i64,
    pub k: i64,
    pub v: i64,
}

impl Row {
    fn encoded(&self) -> i64 {
        self.ts * 10_000 + self.k * 100 + self.v
    }
}

/// The rows of two sources in the order in which they come.
#[derive(Debug)]
pub struct Input {
    pub left: Vec<Row>,
    pub right: Vec<Row>,
}

/// The columns of the numbers that a source gives.
pub const COLUMNS: [&str; 3] = [
    "CAST(CAST((id - id % 10000) / 10000 AS BIGINT) AS TIMESTAMP) AS ts",
    "nullif(CAST((id % 10000 - id % 100) / 100 AS BIGINT), 0) AS k",
    "id % 100 AS v",
];

impl Input {
    pub fn random(random: &mut Random) -> Self {
        Input { left: rows(random), right: rows(random) }
    }

    pub fn encoded(&self) -> (Vec<i64>, Vec<i64>) {
        let encoded = |rows: &[Row]| rows.iter().map(Row::encoded).collect();
        (encoded(&self.left), encoded(&self.right))
    }

    /// Far later rows that match nothing: they bring the watermark past all others.
    pub fn closing_rows(&self) -> [Row; 2] {
        let row = |k| Row { ts: 100_000, k, v: 0 };
        [row(98), row(97)]
    }

    pub fn closing(&self) -> [i64; 2] {
        self.closing_rows().map(|row| row.encoded())
    }

    /// The left rows with the closing one.
    pub fn all_left(&self) -> impl Iterator<Item = Row> {
        self.left.iter().copied().chain(self.closing_rows().into_iter().take(1))
    }
}

fn rows(random: &mut Random) -> Vec<Row> {
    let mut newest = 1_000 + random.upto(4);
    let count = 20 + random.below(30);
    let step = 1 + random.upto(2);
    (0..count)
        .map(|_| {
            newest += random.upto(step);
            // The watermark is at most `newest - DELAY`. Many rows come as late as they may.
            let back = if random.below(3) == 0 { DELAY - 1 } else { random.upto(DELAY - 1) };
            let ts = newest - back;
            Row { ts, k: random.upto(3), v: random.upto(4) }
        })
        .collect()
}
