//! What iterators of Python have not given yet.

use arrow::array::ArrayRef;
use std::collections::HashMap;
use std::ops::Range;

/// Rows sent at a time.
const ROWS: usize = 4_096;

/// By the name that the client gave an iterator.
#[derive(Debug, Default)]
pub(super) struct Pages(HashMap<String, Page>);

#[derive(Debug)]
struct Page {
    columns: Vec<ArrayRef>,
    next: usize,
}

impl Pages {
    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether an iterator is under way.
    pub(super) fn has(&self, iterator: &str) -> bool {
        self.0.contains_key(iterator)
    }

    /// Begins with an iterator over rows.
    pub(super) fn begin(&mut self, iterator: String, columns: Vec<ArrayRef>) {
        self.0.insert(iterator, Page { columns, next: 0 });
    }

    /// Notes that an iterator has given all.
    pub(super) fn ended(&mut self, iterator: String) {
        self.begin(iterator, Vec::new());
    }

    /// Whether an iterator has given all.
    pub(super) fn is_over(&self, iterator: &str) -> bool {
        self.0.get(iterator).is_some_and(|page| page.next >= page.rows())
    }

    /// The next rows of an iterator, and whether there are more.
    pub(super) fn next(&mut self, iterator: &str) -> (Vec<ArrayRef>, Range<usize>, bool) {
        let Some(page) = self.0.get_mut(iterator) else { return (Vec::new(), 0..0, false) };
        let to = page.rows().min(page.next + ROWS);
        let range = page.next..to;
        page.next = to;
        (page.columns.clone(), range, to < page.rows())
    }
}

impl Page {
    fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.len())
    }
}
