//! `_onefold/prepared/N-G`: what a batch computed, before it is published.

use super::text::{not_json, sealed, unsealed};
use crate::watermark::NodeWatermark;
use onefold_types::{BatchId, Generation, Result, Totals};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The content of `_onefold/prepared/N-G`: a JSON object behind a checksum line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Prepared {
    /// The batch.
    pub batch: BatchId,
    /// The driver.
    pub generation: Generation,
    /// The watermark of the next batch.
    pub next_batch_watermark_ms: i64,
    /// Where each watermark node stands after the batch.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub watermarks: BTreeMap<String, NodeWatermark>,
    /// What was staged.
    pub totals: Totals,
    /// What was staged for the query's further sinks, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sinks: BTreeMap<String, SinkOutput>,
    /// The state after the batch, as the state store refers to it; null without state.
    pub state: serde_json::Value,
}

/// What a batch staged for one of the query's further sinks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkOutput {
    /// The sink, as it describes itself.
    pub sink: String,
    /// What was staged.
    pub totals: Totals,
    /// The staged output in the sink's own form, from which any driver can publish it; null where
    /// nobody will, since the sink is published before the batch is decided.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub outputs: serde_json::Value,
}

impl Prepared {
    /// Reads the file's text: `v1 CRC32C` (eight hex digits over the rest), a newline, JSON.
    ///
    /// # Errors
    /// Corrupt, when the checksum does not fit or the JSON is not this record.
    pub fn parse(text: &str) -> Result<Self> {
        let json = unsealed("prepared record", text)?;
        serde_json::from_str(json).map_err(|error| not_json("prepared record", 2, error))
    }

    /// The file's text.
    #[must_use]
    pub fn encode(&self) -> String {
        // A struct of plain fields and a JSON value always has a JSON text.
        sealed(&serde_json::to_string(self).unwrap_or_default())
    }
}
