//! Judges a pass-through query: every id of `0..expected` must be seen once.

/// How many examples of each fault are kept.
const EXAMPLES: usize = 10;

/// What was seen of the ids that should have been.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many ids there should be.
    pub expected: u64,
    /// How many ids of `0..expected` were seen at least once.
    pub seen: u64,
    /// How many were never seen.
    pub lost: u64,
    /// How many rows were seen beyond the first of their id.
    pub duplicated: u64,
    /// How many rows had an id that nobody made.
    pub invented: u64,
    /// The first lost ids.
    pub lost_examples: Vec<u64>,
    /// The first ids seen again.
    pub duplicated_examples: Vec<u64>,
    /// The first invented ids.
    pub invented_examples: Vec<i64>,
}

impl Tally {
    /// Whether every id was seen exactly once and none was invented.
    #[must_use]
    pub fn exact(&self) -> bool {
        self.lost == 0 && self.duplicated == 0 && self.invented == 0
    }

    /// Whether no id was doubled or invented: what must hold at every instant of a run, when not
    /// all input has arrived yet.
    #[must_use]
    pub fn sound(&self) -> bool {
        self.duplicated == 0 && self.invented == 0
    }
}

/// Counts ids against `0..expected`, one bit an id.
pub fn count(expected: u64, ids: impl IntoIterator<Item = i64>) -> Tally {
    let mut tally = Tally { expected, ..Tally::default() };
    let mut bits = vec![0_u64; usize::try_from(expected.div_ceil(64)).unwrap_or(usize::MAX)];
    for id in ids {
        let place = u64::try_from(id).ok().filter(|id| *id < expected);
        let word = place.and_then(|id| bits.get_mut(usize::try_from(id / 64).ok()?));
        let (Some(id), Some(word)) = (place, word) else {
            tally.invented += 1;
            keep(&mut tally.invented_examples, id);
            continue;
        };
        let bit = 1 << (id % 64);
        if *word & bit == 0 {
            tally.seen += 1;
        } else {
            tally.duplicated += 1;
            keep(&mut tally.duplicated_examples, id);
        }
        *word |= bit;
    }
    tally.lost = expected - tally.seen;
    tally.lost_examples = (0..expected)
        .zip(bits.iter().flat_map(|word| (0..64).map(move |bit| word & (1 << bit) != 0)))
        .filter(|(_, seen)| !seen)
        .map(|(id, _)| id)
        .take(EXAMPLES)
        .collect();
    tally
}

fn keep<T>(examples: &mut Vec<T>, id: T) {
    if examples.len() < EXAMPLES {
        examples.push(id);
    }
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn lost_doubled_and_invented_ids_are_told_apart() {
        let tally = count(70, (0..70).filter(|id| *id != 65).chain([3, 3, -1, 70]));
        assert_eq!((tally.lost, tally.duplicated, tally.invented), (1, 2, 2));
        assert_eq!(tally.lost_examples, [65]);
        assert_eq!(tally.duplicated_examples, [3, 3]);
        assert_eq!(tally.invented_examples, [-1, 70]);
        assert!(!tally.exact() && !tally.sound());
        assert!(count(70, 0..70).exact());
        assert!(count(0, []).exact());
        assert!(count(9, 0..4).sound() && !count(9, 0..4).exact());
    }
}
