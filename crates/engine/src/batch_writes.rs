//! Writes inside the function of `foreachBatch`, each with a name, so that a table does none twice.
//!
//! A batch that is run again after a crash calls the function again, and that writes the same things in
//! the same order. So the n-th write of a batch into a table is called (query, n) with the batch as its
//! number. A table that keeps a log stores both in the commit with the rows, and passes a write over
//! whose number it has, whoever did it. In a folder of files the names of a write's files tell it, and
//! they take the place of those that an earlier call left. Writes into several tables may change places.

use onefold_types::{BatchId, QueryId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use uuid::Uuid;

/// What one call of a `foreachBatch` function writes.
#[derive(Debug)]
pub struct BatchWrites {
    query: QueryId,
    batch: BatchId,
    /// Writes so far, by table.
    counts: Mutex<HashMap<String, u64>>,
}

/// A write as a table remembers it: who wrote, and its number, which grows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WriteName {
    pub(crate) application: String,
    pub(crate) number: i64,
    /// Whose the files are, by their names: each write has an id of its own.
    pub(crate) files: QueryId,
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<BatchWrites>>> = const { RefCell::new(None) };
}

/// Puts back what was current before.
struct Before(Option<Arc<BatchWrites>>);

impl Drop for Before {
    fn drop(&mut self) {
        let before = self.0.take();
        CURRENT.with(|current| *current.borrow_mut() = before);
    }
}

impl BatchWrites {
    pub(crate) fn new(query: QueryId, batch: BatchId) -> Arc<Self> {
        Arc::new(BatchWrites { query, batch, counts: Mutex::default() })
    }

    /// Those of the call that this thread is in.
    #[must_use]
    pub fn current() -> Option<Arc<BatchWrites>> {
        CURRENT.with(|current| current.borrow().clone())
    }

    /// Does something as a part of the call: what it writes on this thread is the batch's.
    pub fn within<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        let own = Some(Arc::clone(self));
        let _before = Before(CURRENT.with(|current| current.replace(own)));
        work()
    }

    /// The name of the next write into a table.
    pub(crate) fn next(&self, table: &str) -> WriteName {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(one_spelling(table)).or_default();
        let application = format!("{}.onefold.write.{count}", self.query);
        *count = count.saturating_add(1);
        // The query's own id never comes out: the count begins with one.
        let place = (u128::from(self.batch.0) << 32) | u128::from(*count);
        let files = QueryId(Uuid::from_u128(self.query.0.as_u128() ^ place));
        let number = i64::try_from(self.batch.0).unwrap_or(i64::MAX);
        WriteName { application, number, files }
    }
}

/// One spelling of a table's place: a second one would begin to count anew.
fn one_spelling(table: &str) -> String {
    let table = table.trim_end_matches('/');
    let path = table.strip_prefix("file://").or_else(|| table.strip_prefix("file:"));
    match path {
        None if table.contains("://") => table.to_owned(),
        path => {
            let path = path.unwrap_or(table);
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.into());
            let real = std::fs::canonicalize(&absolute).unwrap_or(absolute);
            real.to_string_lossy().into_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> QueryId {
        "7d8b8d6a-5f5c-4c4e-9d44-2f6d5a1c0b11".parse().unwrap()
    }

    #[test]
    fn writes_count_by_table_whatever_its_spelling_and_begin_anew_with_each_call() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_string_lossy().into_owned();
        let mut seen = Vec::new();
        for _ in 0..2 {
            let writes = BatchWrites::new(id(), BatchId(7));
            let names =
                [path.clone(), format!("file://{path}/"), "s3://b/t".to_owned(), path.clone()];
            let names = names.map(|table| writes.next(&table));
            let count = |name: &WriteName| name.application.rsplit('.').next().unwrap().to_owned();
            assert_eq!(names.each_ref().map(count), ["0", "1", "0", "2"]);
            assert!(names.iter().all(|name| name.number == 7));
            seen.push(names.map(|name| name.files));
        }
        assert_eq!(seen[0], seen[1], "the files of a write have the same names in each call");
        assert_ne!(seen[0][0], seen[0][1]);
        assert_ne!(BatchWrites::new(id(), BatchId(8)).next(&path).files, seen[0][0]);
    }

    #[test]
    fn a_thread_is_in_one_call_at_a_time() {
        assert!(BatchWrites::current().is_none());
        let (outer, inner) =
            (BatchWrites::new(id(), BatchId(1)), BatchWrites::new(id(), BatchId(2)));
        outer.within(|| {
            inner.within(|| assert_eq!(BatchWrites::current().unwrap().batch, BatchId(2)));
            assert_eq!(BatchWrites::current().unwrap().batch, BatchId(1));
            let panicked =
                std::panic::catch_unwind(|| inner.within(|| assert!(id().to_string().is_empty())));
            assert!(panicked.is_err());
            assert_eq!(BatchWrites::current().unwrap().batch, BatchId(1));
        });
        assert!(BatchWrites::current().is_none());
    }
}
