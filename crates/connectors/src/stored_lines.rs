//! Lines of a text file in a store, read a piece at a time: compacted logs grow with their query.

use bytes::Bytes;
use onefold_storage::{StagedWriter, Store};
use onefold_types::Result;

/// Bytes read at a time: so few that a long log leaves no holes of its size in the allocator's
/// memory each time it is copied.
const CHUNK: u64 = 64 << 10;

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

    /// The next line, without its end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        while !self.ended && memchr::memchr(b'\n', self.rest()).is_none() {
            self.read().await?;
        }
        let rest = self.rest();
        if rest.is_empty() {
            return Ok(None);
        }
        let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = rest.get(..length).unwrap_or_default().to_vec();
        self.at = self.held.len().min(self.at + length + 1);
        Ok(Some(line))
    }

    /// The next lines, as many as are at hand; without the end of the last one.
    pub(crate) async fn block(&mut self) -> Result<Option<&[u8]>> {
        while !self.ended && memchr::memchr(b'\n', self.rest()).is_none() {
            self.read().await?;
        }
        if self.rest().is_empty() {
            return Ok(None);
        }
        let (at, whole) = (self.at, self.held.len());
        let end = match memchr::memrchr(b'\n', self.rest()) {
            Some(last) if !self.ended || at + last + 1 == whole => at + last,
            _ => whole,
        };
        self.at = whole.min(end + 1);
        Ok(Some(self.held.get(at..end).unwrap_or_default()))
    }

    fn rest(&self) -> &[u8] {
        self.held.get(self.at..).unwrap_or_default()
    }

    async fn read(&mut self) -> Result<()> {
        self.held.drain(..self.at);
        self.at = 0;
        let bytes = self.store.read_range(self.path, self.start, CHUNK).await?;
        let length = bytes.len() as u64;
        self.ended = length < CHUNK;
        self.start += length;
        self.held.extend_from_slice(&bytes);
        Ok(())
    }
}

/// Appends the lines that are left in `lines` and that `keeps` wants, each with a line end before
/// it. Lines without a letter are left out.
pub(crate) async fn append_lines(
    lines: &mut LineReader<'_>,
    writer: &mut dyn StagedWriter,
    mut keeps: Option<impl FnMut(&[u8]) -> Result<bool>>,
    unreadable: impl Fn(onefold_types::Error) -> onefold_types::Error,
) -> Result<()> {
    while let Some(block) = lines.block().await.map_err(&unreadable)? {
        let mut copied = Vec::with_capacity(block.len() + 1);
        let blank = block.starts_with(b"\n")
            || block.ends_with(b"\n")
            || memchr::memmem::find(block, b"\n\n").is_some();
        if keeps.is_none() && !blank {
            copied.push(b'\n');
            copied.extend_from_slice(block);
        } else {
            for line in block.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let kept = match &mut keeps {
                    Some(keeps) => keeps(line)?,
                    None => true,
                };
                if kept {
                    copied.push(b'\n');
                    copied.extend_from_slice(line);
                }
            }
        }
        if !copied.is_empty() {
            writer.write(Bytes::from(copied)).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_storage::{Durability, LocalStore};

    async fn both(text: String) -> (Vec<String>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let store = LocalStore::new(folder.path()).unwrap();
        store.create("f", Bytes::from(text), Durability::Later).await.unwrap();
        let utf8 = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let (mut lines, mut blocks) = (Vec::new(), Vec::new());
        let mut reader = LineReader::new(&store, "f");
        while let Some(line) = reader.next().await.unwrap() {
            lines.push(utf8(&line));
        }
        let mut reader = LineReader::new(&store, "f");
        while let Some(block) = reader.block().await.unwrap() {
            blocks.extend(utf8(block).split('\n').map(str::to_owned));
        }
        (lines, blocks)
    }

    #[tokio::test]
    async fn blocks_hold_the_lines_that_are_read_one_by_one() {
        let chunk = usize::try_from(CHUNK).unwrap();
        for length in [0, 1, 7, chunk - 1, chunk, chunk + 1, 3 * chunk] {
            for end in ["", "\n"] {
                let line = "x".repeat(13);
                let mut text = vec![line.as_str(); length / 14 + 1].join("\n");
                text.truncate(length);
                text.push_str(end);
                let wanted: Vec<&str> =
                    text.strip_suffix('\n').unwrap_or(&text).split('\n').collect();
                let (lines, blocks) = both(text.clone()).await;
                if !text.is_empty() {
                    assert_eq!(lines, wanted, "length {length}, end {end:?}");
                    assert_eq!(blocks, wanted, "length {length}, end {end:?}");
                }
            }
        }
    }

    #[tokio::test]
    async fn appending_leaves_out_blank_lines_and_those_not_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let store = LocalStore::new(folder.path()).unwrap();
        let text = Bytes::from_static(b"v1\na\n\nb\nc\n\n");
        store.create("from", text, Durability::Later).await.unwrap();
        for (keeps, wanted) in [
            (None, "\na\nb\nc"),
            (Some((|line: &[u8]| Ok(line != b"b")) as fn(&[u8]) -> Result<bool>), "\na\nc"),
        ] {
            let mut lines = LineReader::new(&store, "from");
            assert_eq!(lines.next().await.unwrap().as_deref(), Some(&b"v1"[..]));
            let mut writer = store.stage("to", "t").await.unwrap();
            append_lines(&mut lines, writer.as_mut(), keeps, |error| error).await.unwrap();
            let staged = writer.finish().await.unwrap();
            let written = store.read(&staged.held_as).await.unwrap().unwrap();
            assert_eq!(written, wanted.as_bytes());
            store.delete(&staged.held_as).await.unwrap();
        }
    }
}
