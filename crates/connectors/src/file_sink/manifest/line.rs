//! One line of the manifest.

use super::super::names::DataFile;
use onefold_storage::location;
use onefold_types::{BatchId, ContentHash, Error, Generation, QueryId, Result, Totals};
use serde::{Deserialize, Serialize};

/// The first line of every file.
pub(super) const VERSION: &str = "v1";

/// One data file, as Spark's `SinkFileStatus` writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Line {
    /// The file's URI.
    pub(crate) path: String,
    /// Length in bytes.
    pub(crate) size: u64,
    /// Always false.
    pub(crate) is_dir: bool,
    /// Milliseconds since 1970.
    pub(crate) modification_time: i64,
    /// Always 1.
    pub(crate) block_replication: u32,
    /// What Hadoop's local file system tells.
    pub(crate) block_size: u64,
    /// Always `add`.
    pub(crate) action: String,
    /// Ours, on the first line of a batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) onefold: Option<Note>,
}

/// What Onefold adds to the first line of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// The query that published.
    pub(crate) query: QueryId,
    /// The batch.
    pub(crate) batch: BatchId,
    /// The driver.
    pub(crate) generation: Generation,
    /// Data files of the batch: lines that belong together.
    pub(crate) files: u64,
    /// Rows of the batch.
    pub(crate) rows: u64,
    /// Order-free hash of its rows.
    pub(crate) hash: ContentHash,
}

impl Note {
    /// Rows and hash.
    pub(crate) fn totals(&self) -> Totals {
        Totals { rows: self.rows, hash: self.hash }
    }
}

impl Line {
    /// The line of a data file.
    pub(crate) fn add(root: &str, path: &str, size: u64, modified_ms: i64) -> Line {
        Line {
            path: format!("{root}/{}", location::encode_path(path)),
            size,
            is_dir: false,
            modification_time: modified_ms,
            block_replication: 1,
            block_size: 33_554_432,
            action: "add".to_owned(),
            onefold: None,
        }
    }

    /// Reads a line.
    ///
    /// # Errors
    /// Corrupt, naming the file.
    pub(crate) fn parse(root: &str, path: &str, text: &str) -> Result<Line> {
        serde_json::from_str(text).map_err(|e| {
            Error::corrupt(format!(
                "{root}/{path} holds a line that is not an entry of a file sink's manifest; \
                 restore it from a backup"
            ))
            .because(e)
        })
    }

    /// The path below the output's root; `None` if the file lies elsewhere.
    pub(crate) fn relative(&self, root: &str) -> Option<String> {
        location::below(root, &self.path)
    }

    /// What the name of the data file tells.
    pub(crate) fn data_file(&self, _root: &str) -> Option<DataFile> {
        DataFile::parse(&self.path)
    }
}

/// The text of a manifest file.
pub(super) fn render(lines: &[Line]) -> Result<String> {
    let mut text = VERSION.to_owned();
    for line in lines {
        push(&mut text, line)?;
    }
    Ok(text)
}

/// Adds a line: a newline stands before each, none after the last, as Spark writes it.
pub(super) fn push(text: &mut String, line: &Line) -> Result<()> {
    let line = serde_json::to_string(line)
        .map_err(|e| Error::internal("a manifest line cannot be written").because(e))?;
    text.push('\n');
    text.push_str(&line);
    Ok(())
}

/// Reads a whole file of the manifest.
pub(super) fn parse_lines(root: &str, path: &str, bytes: &[u8]) -> Result<Vec<Line>> {
    let text = std::str::from_utf8(bytes).map_err(|e| {
        Error::corrupt(format!("{root}/{path} is not UTF-8 text; restore it from a backup"))
            .because(e)
    })?;
    let mut lines = text.split('\n');
    check_version(root, path, lines.next().unwrap_or_default())?;
    lines.filter(|line| !line.is_empty()).map(|line| Line::parse(root, path, line)).collect()
}

fn check_version(root: &str, path: &str, found: &str) -> Result<()> {
    if found.trim_end() == VERSION {
        return Ok(());
    }
    let start: String = found.chars().take(20).collect();
    Err(Error::corrupt(format!(
        "{root}/{path} starts with `{start}` where a manifest has `{VERSION}`: it is damaged or \
         another version wrote it; restore it from a backup"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPARK: &str = r#"{"path":"file:///golden/l/output/k=k%200%252Fx/part-00000-f5b7e470-200f-4a42-9325-ee602d0aac24.c000.snappy.parquet","size":747,"isDir":false,"modificationTime":1795961837884,"blockReplication":1,"blockSize":33554432,"action":"add"}"#;

    #[test]
    fn a_line_of_spark_is_read_and_written_byte_for_byte() {
        let line = Line::parse("file:///golden/l/output", "0", SPARK).unwrap();
        assert_eq!(
            line.relative("file:///golden/l/output").as_deref(),
            Some("k=k 0%2Fx/part-00000-f5b7e470-200f-4a42-9325-ee602d0aac24.c000.snappy.parquet")
        );
        let again = Line::add(
            "file:///golden/l/output",
            &line.relative("file:///golden/l/output").unwrap(),
            line.size,
            line.modification_time,
        );
        assert_eq!(render(&[again]).unwrap(), format!("v1\n{SPARK}"));
    }

    #[test]
    fn damaged_files_are_named() {
        for bytes in [&b"v2\n"[..], b"", b"v1\n{\"path\":", b"v1\nxx", b"\xff\xfe"] {
            let error = parse_lines("file:///out", "_spark_metadata/3", bytes).unwrap_err();
            assert!(error.to_string().contains("file:///out/_spark_metadata/3"), "{error}");
        }
        assert_eq!(parse_lines("", "", b"v1").unwrap(), vec![]);
        assert_eq!(parse_lines("", "", b"v1\n").unwrap(), vec![]);
    }
}
