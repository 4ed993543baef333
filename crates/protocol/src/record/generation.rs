//! `_onefold/generations/G`: who drives the checkpoint.

use super::text::not_json;
use onefold_types::{Generation, Nonce, Result};
use serde::{Deserialize, Serialize};

/// The content of `_onefold/generations/G`: one JSON object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GenerationRecord {
    /// The number, equal to the file's name.
    pub generation: Generation,
    /// The driver's own mark.
    pub nonce: Nonce,
    /// The machine's name.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// When it took over, milliseconds since 1970.
    pub since_ms: i64,
    /// The version of Onefold.
    pub version: String,
    /// What the driver runs, for tools that have only the checkpoint (`verify`, `show`): query
    /// name, source descriptions, sink format, path, partition columns and options that are not
    /// secret.
    #[serde(default)]
    pub definition: serde_json::Value,
}

impl GenerationRecord {
    /// Reads the file's text.
    ///
    /// # Errors
    /// Corrupt, when it is not the JSON of this record.
    pub fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| not_json("generation record", 1, error))
    }

    /// The file's text.
    #[must_use]
    pub fn encode(&self) -> String {
        // A struct of plain fields and a JSON value always has a JSON text.
        serde_json::to_string(self).unwrap_or_default()
    }
}
