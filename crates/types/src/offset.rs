//! Positions in a source, and half-open ranges of them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A position in one source: the JSON text that stands on the source's line in `offsets/N`.
///
/// Only the source that wrote an offset understands it; everybody else carries the text
/// unchanged, byte for byte, since another engine must read it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Offset(String);

impl Offset {
    /// Takes the JSON text of an offset.
    pub fn new(json: impl Into<String>) -> Self {
        Offset(json.into())
    }

    /// The JSON text.
    #[must_use]
    pub fn json(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The part of one source that one batch reads: from `start` (or the source's beginning) up to but
/// not including `end`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffsetRange {
    /// Where the batch before ended; `None` before the source's first batch.
    pub start: Option<Offset>,
    /// Where this batch ends; `None` while the source has never had data.
    pub end: Option<Offset>,
    /// What the source asked to be remembered with the intent, so that a replay can check that it
    /// reads the same thing (sizes and times of files, a topic's id …). At most
    /// [`OffsetRange::NOTE_BYTES_MAX`] long. Absent in intents that Spark wrote.
    pub note: Option<String>,
}

impl OffsetRange {
    /// Longest note that an intent carries, in bytes. A source with more to remember keeps a file
    /// of its own and notes its name.
    pub const NOTE_BYTES_MAX: usize = 65_536;

    /// Whether the range holds no data by its own account.
    #[must_use]
    pub fn empty(&self) -> bool {
        self.start == self.end
    }
}
