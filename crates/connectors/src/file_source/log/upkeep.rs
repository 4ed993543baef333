//! Which files of the log must be made durable before others are deleted: decides, does nothing.
//!
//! Three things tell the files of an entry: its own file, every compacted file after it, and the
//! note of the intent that named it. At least one of them must be durable at every moment. While the
//! intent is there nothing else is needed; so before intents are purged their entries are synced,
//! in the compacted file where there is one, and before files are deleted the compacted file that
//! replaces them is.

use super::Numbers;
use std::collections::BTreeSet;

/// What was synced in this run. What a former run synced is synced again, once, which costs little.
#[derive(Debug, Default)]
pub(crate) struct Durable {
    /// Entries up to this one, included, are durable in some file that is there.
    through: Option<u64>,
    compacts: BTreeSet<u64>,
}

impl Durable {
    pub(super) fn add(&mut self, done: &Upkeep) {
        self.through = self.through.max(done.through);
        let compacts = done.sync.iter().filter(|(_, compact)| *compact);
        self.compacts.extend(compacts.map(|(number, _)| *number));
    }
}

/// First `sync`, then `delete`; files by number and whether they are compacted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Upkeep {
    pub(crate) sync: Vec<(u64, bool)>,
    pub(crate) delete: Vec<(u64, bool)>,
    through: Option<u64>,
}

pub(super) fn plan(
    files: &Numbers,
    latest: Option<u64>,
    needed: Option<u64>,
    keep: u64,
    durable: &Durable,
) -> Upkeep {
    let mut upkeep = Upkeep { through: durable.through, ..Upkeep::default() };
    let mut compacts = BTreeSet::new();
    if let Some(needed) = needed.filter(|needed| Some(*needed) > durable.through) {
        let newest = files.compacts.last().copied();
        compacts.extend(newest);
        upkeep.through = newest;
        if newest < Some(needed) {
            // All that are there, so that the next ones need no sync of their own.
            let from = newest.max(durable.through).map_or(0, |through| through + 1);
            upkeep.sync.extend(files.plain.range(from..).map(|number| (*number, false)));
            upkeep.through = latest;
        }
    }
    let old = latest.and_then(|latest| latest.checked_sub(keep));
    let base = old.and_then(|old| files.compacts.range(..=old).next_back().copied());
    if let Some(base) = base {
        upkeep.delete.extend(files.plain.range(..base).map(|number| (*number, false)));
        upkeep.delete.extend(files.compacts.range(..base).map(|number| (*number, true)));
        if !upkeep.delete.is_empty() {
            compacts.insert(base);
        }
    }
    compacts.retain(|compact| !durable.compacts.contains(compact));
    upkeep.sync.extend(compacts.into_iter().map(|number| (number, true)));
    upkeep
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(compacts: &[u64], plain: std::ops::Range<u64>) -> Numbers {
        let plain = plain.filter(|number| !compacts.contains(number)).collect();
        Numbers { compacts: compacts.iter().copied().collect(), plain }
    }

    #[test]
    fn a_compacted_file_is_synced_before_what_it_replaces_is_deleted() {
        let files = files(&[9, 19], 0..25);
        let mut durable = Durable::default();
        let done = plan(&files, Some(24), None, 10, &durable);
        assert_eq!(done.sync, [(9, true)]);
        assert_eq!(done.delete, (0..9).map(|n| (n, false)).collect::<Vec<_>>());
        durable.add(&done);
        assert_eq!(plan(&files, Some(24), None, 10, &durable).sync, []);
        let done = plan(&files, Some(24), None, 5, &durable);
        assert_eq!(done.sync, [(19, true)]);
        assert!(done.delete.contains(&(9, true)) && done.delete.contains(&(18, false)));
        assert_eq!(plan(&files, Some(24), None, 30, &durable), Upkeep::default());
    }

    #[test]
    fn entries_are_synced_before_the_intents_that_remember_them_go() {
        let mut durable = Durable::default();
        // A compacted file holds the entry.
        let done = plan(&files(&[9, 19], 0..25), Some(24), Some(12), 100, &durable);
        assert_eq!((done.sync.as_slice(), done.through), (&[(19, true)][..], Some(19)));
        durable.add(&done);
        assert_eq!(plan(&files(&[9, 19], 0..25), Some(24), Some(19), 100, &durable).sync, []);
        // None does: everything that is there, so that the next ones cost nothing.
        let done = plan(&files(&[9, 19], 0..25), Some(24), Some(21), 100, &durable);
        assert_eq!(done.sync, (20..25).map(|n| (n, false)).collect::<Vec<_>>());
        durable.add(&done);
        assert_eq!(plan(&files(&[9, 19], 0..25), Some(24), Some(24), 100, &durable).sync, []);
        let done = plan(&files(&[], 0..3), Some(2), Some(0), 100, &Durable::default());
        assert_eq!((done.sync.len(), done.through), (3, Some(2)));
    }
}
