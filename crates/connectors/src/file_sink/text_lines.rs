//! Text files: the one column of the rows, one text a line.

use super::line_file::Lines;
use super::options::FileOptions;
use arrow::array::{Array, AsArray, RecordBatch};
use onefold_types::Result;

/// Lines of text. A text that holds the line end is several lines, and counts as such: that is
/// what a reader of the file gets.
#[derive(Debug)]
pub(crate) struct TextLines {
    line_sep: String,
}

impl TextLines {
    pub(crate) fn new(options: &FileOptions) -> Self {
        TextLines { line_sep: options.text.line_sep.clone() }
    }
}

impl Lines for TextLines {
    fn each(&self, rows: &RecordBatch, act: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let Some(column) = rows.columns().first() else { return Ok(()) };
        let column = column.as_string::<i32>();
        for row in 0..column.len() {
            if column.is_null(row) {
                act(b"")?;
                continue;
            }
            for line in column.value(row).split(self.line_sep.as_str()) {
                act(line.as_bytes())?;
            }
        }
        Ok(())
    }
}
