//! `_onefold/prepared/N-G`: what a batch computed, before it is published.

use onefold_types::{BatchId, Generation, Totals};
use serde::{Deserialize, Serialize};

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
    /// What was staged.
    pub totals: Totals,
    /// State files by operator and partition, as the state store names them.
    pub state: serde_json::Value,
}
