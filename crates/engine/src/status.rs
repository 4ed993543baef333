//! What a query is doing now, and why it ended.

use onefold_types::{Error, ErrorKind, QueryId, RunId};
use serde::Serialize;
use std::fmt;

/// What a query is doing now, as Spark's `status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamingQueryStatus {
    /// In words.
    pub message: String,
    /// Whether the last look found data.
    pub is_data_available: bool,
    /// Whether a batch is being chosen or run now.
    pub is_trigger_active: bool,
}

/// Why a query ended by itself before its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamingQueryException {
    /// The query.
    pub id: QueryId,
    /// The run.
    pub run_id: RunId,
    /// The query's name.
    pub name: Option<String>,
    /// What to do about it.
    pub kind: ErrorKind,
    /// What happened, with causes, in one line.
    pub message: String,
}

impl StreamingQueryException {
    /// The same as the error that crosses borders between crates.
    #[must_use]
    pub fn to_error(&self) -> Error {
        Error::new(self.kind, self.to_string())
    }
}

impl fmt::Display for StreamingQueryException {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "query `{name}` ended: {}", self.message),
            None => write!(f, "query {} ended: {}", self.id, self.message),
        }
    }
}

impl std::error::Error for StreamingQueryException {}
