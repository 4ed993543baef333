//! The manifest of a sink that joins a query which has run before: its first batch is not batch 0.
//!
//! Readers, Spark's too, want every batch since the newest compact file. So empty files are made for
//! those before the first one: the compact file that would be the newest, and what follows it.

use super::Files;
use crate::compact_interval;
use onefold_types::BatchId;

/// Bytes of a file without a line: `v1`.
const EMPTY: u64 = 2;

/// Whether no file has a line: the manifest tells of no batch yet.
pub(super) fn tells_nothing(files: &Files) -> bool {
    files.values().all(|form| form.size <= EMPTY)
}

/// The files that stand for the batches before the first one, oldest first, and which is compact.
pub(super) fn before(first: BatchId, interval: u64) -> impl Iterator<Item = (BatchId, bool)> {
    let interval = interval.max(1);
    let whole = first.0 / interval * interval;
    (whole.saturating_sub(1)..first.0)
        .map(move |batch| (BatchId(batch), compact_interval::compacts(batch, interval)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_compact_file_and_what_follows_it_stand_for_all_before() {
        let before = |first: u64, interval: u64| {
            before(BatchId(first), interval)
                .map(|(id, compact)| (id.0, compact))
                .collect::<Vec<_>>()
        };
        assert_eq!(before(0, 10), []);
        assert_eq!(before(2, 10), [(0, false), (1, false)]);
        assert_eq!(before(10, 10), [(9, true)]);
        assert_eq!(before(22, 10), [(19, true), (20, false), (21, false)]);
        assert_eq!(before(3, 1), [(2, true)]);
    }
}
