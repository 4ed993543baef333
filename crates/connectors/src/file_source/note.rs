//! What the source remembers of the files of a batch: in its log, and with the intent.

use onefold_types::{Error, Result};
use serde::{Deserialize, Serialize};

/// A line of `sources/I/N`, in Spark's form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogEntry {
    pub(crate) path: String,
    pub(crate) timestamp: i64,
    #[serde(rename = "batchId")]
    pub(crate) batch_id: u64,
}

/// A file of a batch, as it was when the batch was planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChosenFile {
    pub(crate) path: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) mtime: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) etag: Option<String>,
    /// The time in the log's entry, where it is not `mtime`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) timestamp: Option<i64>,
    /// The number of the log entry that holds it.
    #[serde(rename = "batchId")]
    pub(crate) batch_id: u64,
}

impl ChosenFile {
    /// The line of the log.
    pub(crate) fn entry(&self) -> LogEntry {
        LogEntry {
            path: self.path.clone(),
            timestamp: self.timestamp.or(self.mtime).unwrap_or(0),
            batch_id: self.batch_id,
        }
    }
}

impl From<LogEntry> for ChosenFile {
    /// All that Spark's log tells of a file.
    fn from(entry: LogEntry) -> Self {
        ChosenFile {
            path: entry.path,
            size: None,
            mtime: Some(entry.timestamp),
            etag: None,
            timestamp: None,
            batch_id: entry.batch_id,
        }
    }
}

/// The note of a range: the files themselves, or the name of a file that holds them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Note {
    Files(Vec<ChosenFile>),
    See { see: String },
}

impl Note {
    pub(crate) fn parse(text: &str) -> Result<Note> {
        serde_json::from_str(text).map_err(|error| {
            Error::corrupt(
                "the intent's note of the file source is damaged; run `onefold checkpoint verify`",
            )
            .because(error)
        })
    }

    pub(crate) fn text(&self) -> Result<String> {
        serde_json::to_string(self)
            .map_err(|error| Error::internal("a note could not be written").because(error))
    }
}

/// The text of a log file.
pub(crate) fn encode(entries: &[LogEntry]) -> Result<String> {
    let mut text = "v1".to_owned();
    entries.iter().try_for_each(|entry| encode_line(&mut text, entry))?;
    Ok(text)
}

/// Adds a line: a newline stands before each, none after the last, as Spark writes it.
pub(crate) fn encode_line(text: &mut String, entry: &LogEntry) -> Result<()> {
    let line = serde_json::to_string(entry)
        .map_err(|error| Error::internal("a log line could not be written").because(error))?;
    text.push('\n');
    text.push_str(&line);
    Ok(())
}

/// The entry of a line; `None` if the line is torn.
pub(crate) fn decode_line(line: &[u8]) -> Option<LogEntry> {
    serde_json::from_slice(line).ok()
}

/// The log number of an offset: `{"logOffset":5}`, or a bare `5`.
pub(crate) fn parse_offset(json: &str) -> Result<u64> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Bare(i64),
        Object {
            #[serde(rename = "logOffset")]
            log_offset: i64,
        },
    }
    let number = match serde_json::from_str(json) {
        Ok(Form::Bare(number) | Form::Object { log_offset: number }) => u64::try_from(number).ok(),
        Err(_) => None,
    };
    number.ok_or_else(|| {
        Error::corrupt(format!(
            "`{json}` is not an offset of a file source; was the order of the sources changed?"
        ))
    })
}
