//! Which entries of the log are remembered only by intents that may be purged.

use std::collections::VecDeque;

/// The ends of batches that are over, by a count of batches.
#[derive(Debug, Default)]
pub(crate) struct Released {
    batches: u64,
    /// The count, and the newest entry that batches up to it have read.
    ends: VecDeque<(u64, u64)>,
}

impl Released {
    /// A batch with this number was over before this run.
    pub(crate) fn before_start(&mut self, batch: u64, end: Option<u64>) {
        self.batches = self.batches.max(batch);
        self.note(batch, end);
    }

    /// One more batch is over.
    pub(crate) fn batch(&mut self, end: Option<u64>) {
        self.batches += 1;
        self.note(self.batches, end);
    }

    fn note(&mut self, batch: u64, end: Option<u64>) {
        let Some(end) = end else { return };
        if self.ends.back().is_none_or(|(_, known)| *known < end) {
            self.ends.push_back((batch, end));
        }
    }

    /// The newest entry that was read at least so many batches ago.
    pub(crate) fn older_than(&mut self, batches: u64) -> Option<u64> {
        let old = |(batch, _): &&(u64, u64)| self.batches - batch >= batches;
        let count = self.ends.iter().take_while(old).count();
        // The last of them stays, since it is asked for again.
        self.ends.drain(..count.saturating_sub(1));
        self.ends.front().filter(|_| count > 0).map(|(_, end)| *end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_grows_old_with_each_batch_even_without_files() {
        let mut released = Released::default();
        assert_eq!(released.older_than(0), None);
        released.before_start(6, Some(2));
        released.before_start(7, Some(3));
        released.batch(Some(4));
        released.batch(Some(4));
        assert_eq!(released.older_than(4), None);
        assert_eq!(released.older_than(3), Some(2));
        released.batch(None);
        assert_eq!(released.older_than(3), Some(3));
        assert_eq!(released.older_than(3), Some(3));
        assert_eq!(released.older_than(0), Some(4));
    }
}
