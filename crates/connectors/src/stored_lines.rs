//! Lines of a text file in a store, read a piece at a time: compacted logs grow with their query.

use onefold_storage::Store;
use onefold_types::Result;

/// Bytes read at a time.
pub(crate) const CHUNK: u64 = 1 << 20;

/// The lines of a file, holding one piece of it at a time.
pub(crate) struct LineReader<'a> {
    store: &'a dyn Store,
    path: &'a str,
    start: u64,
    held: Vec<u8>,
    /// Where the next line begins in `held`.
    at: usize,
    ended: bool,
}

impl<'a> LineReader<'a> {
    pub(crate) fn new(store: &'a dyn Store, path: &'a str) -> Self {
        LineReader { store, path, start: 0, held: Vec::new(), at: 0, ended: false }
    }

    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            let rest = self.held.get(self.at..).unwrap_or_default();
            if let Some(length) = rest.iter().position(|byte| *byte == b'\n') {
                let line = rest.get(..length).unwrap_or_default().to_vec();
                self.at += length + 1;
                return Ok(Some(line));
            }
            if self.ended {
                let line = rest.to_vec();
                self.at = self.held.len();
                return Ok((!line.is_empty()).then_some(line));
            }
            self.held.drain(..self.at);
            self.at = 0;
            let bytes = self.store.read_range(self.path, self.start, CHUNK).await?;
            self.ended = bytes.is_empty();
            self.start += bytes.len() as u64;
            self.held.extend_from_slice(&bytes);
        }
    }
}
