//! Which files were taken already, bounded in memory by age as Spark does it.

use std::collections::HashMap;

/// Files that were taken, by path or by name.
#[derive(Debug, Clone)]
pub(crate) struct SeenFiles {
    by_key: HashMap<String, i64>,
    max_age_ms: i64,
    names_only: bool,
    latest_ms: i64,
    purged_before_ms: i64,
    /// So many files are held when those that are too old are looked for again.
    look_at: usize,
}

/// Files held before a purge looks through them.
const HELD: usize = 1_024;

impl SeenFiles {
    pub(crate) fn new(max_age_ms: i64, names_only: bool) -> Self {
        SeenFiles {
            by_key: HashMap::new(),
            max_age_ms,
            names_only,
            latest_ms: 0,
            purged_before_ms: 0,
            look_at: HELD,
        }
    }

    fn key<'a>(&self, path: &'a str) -> &'a str {
        if self.names_only { path.rsplit('/').next().unwrap_or(path) } else { path }
    }

    /// Whether a path was taken and is not forgotten.
    pub(crate) fn contains(&self, path: &str) -> bool {
        self.by_key.get(self.key(path)).is_some_and(|modified_ms| self.young(*modified_ms))
    }

    fn young(&self, modified_ms: i64) -> bool {
        self.purged_before_ms <= 0 || modified_ms >= self.purged_before_ms
    }

    /// Whether a file is to be taken: not taken yet, and not older than what was forgotten. Before
    /// anything was forgotten no file is too old, however early its time.
    pub(crate) fn is_new(&self, path: &str, modified_ms: i64) -> bool {
        self.young(modified_ms) && !self.contains(path)
    }

    pub(crate) fn add(&mut self, path: &str, modified_ms: i64) {
        self.by_key.insert(self.key(path).to_owned(), modified_ms);
        self.latest_ms = self.latest_ms.max(modified_ms);
    }

    /// Forgets files that are older than the newest by more than the age allowed. Their memory is
    /// given back now and then, so that a batch does not look through all.
    pub(crate) fn purge(&mut self) {
        let before = self.latest_ms.saturating_sub(self.max_age_ms);
        self.purged_before_ms = self.purged_before_ms.max(before);
        if self.purged_before_ms > 0 && self.by_key.len() >= self.look_at {
            let before = self.purged_before_ms;
            self.by_key.retain(|_, modified_ms| *modified_ms >= before);
            self.look_at = self.by_key.len().saturating_mul(2).max(HELD);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_files_are_forgotten_and_not_taken_again() {
        let mut seen = SeenFiles::new(100, false);
        assert!(seen.is_new("file:///a", -5), "times before 1970 are not too old");
        seen.add("file:///a", 1_000);
        seen.add("file:///b", 2_000);
        seen.purge();
        assert!(!seen.contains("file:///a"));
        assert!(!seen.is_new("file:///a", 1_000));
        assert!(!seen.is_new("file:///b", 2_000));
        assert!(seen.is_new("file:///c", 1_950));
    }

    #[test]
    fn memory_does_not_grow_with_files_that_are_too_old() {
        let mut seen = SeenFiles::new(100, false);
        for time in 1..100_000 {
            seen.add(&format!("file:///{time}"), time);
            seen.purge();
            assert!(seen.by_key.len() <= HELD, "{} files are held", seen.by_key.len());
        }
        assert!(!seen.is_new("file:///99950", 99_950), "it was taken");
        assert!(!seen.is_new("file:///other", 99_000), "it is too old");
        assert!(seen.is_new("file:///other", 99_950));
    }

    #[test]
    fn names_alone_compare_with_file_name_only() {
        let mut seen = SeenFiles::new(100, true);
        seen.add("file:///x/a", 1);
        assert!(seen.contains("file:///y/a"));
    }
}
