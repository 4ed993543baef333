//! `commits/N`: batch N is over for ever, in Spark's format.

use onefold_types::{Generation, Totals};

/// The content of `commits/N`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Format version, 1 or 2.
    pub version: u32,
    /// The watermark of the next batch, milliseconds since 1970.
    pub next_batch_watermark_ms: i64,
    /// JSON text of `stateUniqueIds` (version 2), carried unchanged.
    pub state_unique_ids: Option<String>,
    /// The driver that committed (field `onefold.generation`); absent where Spark committed.
    pub generation: Option<Generation>,
    /// What the batch put into the sink (field `onefold.rows` and `onefold.hash`).
    pub totals: Option<Totals>,
}
