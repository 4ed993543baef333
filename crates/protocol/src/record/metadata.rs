//! `metadata`: the identity of the query.

use super::text::not_json;
use onefold_types::{QueryId, Result};
use serde::{Deserialize, Serialize};

/// The content of `metadata`: `{"id":"…"}`, written once, no newline at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// The query.
    pub id: QueryId,
}

impl Metadata {
    /// Reads the file's text.
    ///
    /// # Errors
    /// Corrupt, when it is not a JSON object with an `id` that is a UUID.
    pub fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| not_json("metadata file", 1, error))
    }

    /// The file's text.
    #[must_use]
    pub fn encode(&self) -> String {
        format!("{{\"id\":\"{}\"}}", self.id)
    }
}
