//! One memory budget for the state of all queries of a process.

use onefold_types::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The option that sets the budget.
pub const MEMORY_LIMIT_OPTION: &str = "onefold.state.memoryLimit";

/// How much is taken from the budget at a time, so that threads seldom meet at it.
const STEP: u64 = 256 * 1024;

/// Bytes of memory that state may take, shared by all queries of the process. Clones share it.
///
/// What is counted are the bytes of keys and values plus a fixed estimate for each row of what
/// holding it costs. Growing past the limit is refused; nothing is ever taken back by force.
#[derive(Debug, Clone)]
pub struct MemoryBudget {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    limit: u64,
    used: AtomicU64,
}

impl MemoryBudget {
    /// A budget of this many bytes.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        MemoryBudget { inner: Arc::new(Inner { limit, used: AtomicU64::new(0) }) }
    }

    /// A budget without a limit, for tests.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::new(u64::MAX)
    }

    /// The limit in bytes.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.inner.limit
    }

    /// The bytes in use, rounded up by at most 256 KiB for each open partition.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.inner.used.load(Ordering::Relaxed)
    }

    /// An empty share of this budget.
    pub(crate) fn share(&self) -> Share {
        Share { budget: self.clone(), taken: 0 }
    }

    fn take(&self, bytes: u64) -> bool {
        let taken = self.inner.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|used| *used <= self.inner.limit)
        });
        taken.is_ok()
    }
}

/// What one holder of rows has taken from a budget; given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: MemoryBudget,
    taken: u64,
}

impl Share {
    /// Makes sure that the share covers `need` bytes in all. Takes a little ahead.
    pub(crate) fn cover(&mut self, need: u64) -> Result<()> {
        if need <= self.taken {
            return Ok(());
        }
        let more = need - self.taken;
        for bytes in [more.max(STEP), more] {
            if self.budget.take(bytes) {
                self.taken += bytes;
                return Ok(());
            }
        }
        Err(self.refusal(more))
    }

    /// Whether all holders together are within the limit.
    pub(crate) fn within(&self) -> Result<()> {
        match self.budget.used().saturating_sub(self.budget.limit()) {
            0 => Ok(()),
            more => Err(self.refusal(more)),
        }
    }

    /// Sets the share to `need` bytes whatever the limit says: for rows that are there already.
    pub(crate) fn set(&mut self, need: u64) {
        let used = &self.budget.inner.used;
        if need >= self.taken {
            used.fetch_add(need - self.taken, Ordering::Relaxed);
        } else {
            used.fetch_sub(self.taken - need, Ordering::Relaxed);
        }
        self.taken = need;
    }

    fn refusal(&self, more: u64) -> Error {
        Error::invalid(format!(
            "state needs {more} bytes more than the {} of {MEMORY_LIMIT_OPTION}; raise it, let the \
             query forget (a watermark, a TTL), or keep state on disk with a build that has RocksDB \
             (spark.sql.streaming.stateStore.providerClass = rocksdb)",
            self.budget.limit()
        ))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.inner.used.fetch_sub(self.taken, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::MemoryBudget;

    #[test]
    fn what_two_holders_take_is_refused_past_the_limit_and_given_back_when_dropped() {
        let budget = MemoryBudget::new(1_000_000);
        let mut one = budget.share();
        let mut two = budget.share();
        one.cover(700_000).unwrap();
        let error = two.cover(400_000).unwrap_err().to_string();
        assert!(error.contains("onefold.state.memoryLimit"), "{error}");
        assert!(error.contains("rocksdb"), "{error}");
        two.cover(300_000).unwrap();
        drop(one);
        two.cover(1_000_000).unwrap();
        drop(two);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn rows_that_are_there_already_are_counted_even_past_the_limit() {
        let budget = MemoryBudget::new(10);
        let mut share = budget.share();
        share.set(50);
        assert_eq!(budget.used(), 50);
        share.set(5);
        assert_eq!(budget.used(), 5);
    }
}
