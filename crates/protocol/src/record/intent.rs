//! `offsets/N`: the intent of batch N, in Spark's format.

use onefold_types::{Generation, Nonce, Offset, OffsetRange, QueryId};
use std::collections::BTreeMap;

/// The version of the text format; a log goes on in the version of its last entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntentVersion {
    /// One line per source in plan order.
    V1,
    /// Lines `ID:OFFSET`.
    V2,
}

/// The content of `offsets/N`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// The text format.
    pub version: IntentVersion,
    /// The watermark in force while the batch runs, milliseconds since 1970.
    pub batch_watermark_ms: i64,
    /// The batch's time, milliseconds since 1970: what `current_timestamp()` gives.
    pub batch_timestamp_ms: i64,
    /// Frozen settings, without the `onefold.*` keys that the fields below stand for.
    pub conf: BTreeMap<String, String>,
    /// End offsets: (source id, offset). In V1 the ids are `0`, `1`, … by position.
    pub sources: Vec<(String, Option<Offset>)>,
    /// Notes of sources, by source id (conf key `onefold.source.ID.note`).
    pub notes: BTreeMap<String, String>,
    /// The query (conf key `onefold.query`); absent where Spark wrote the intent.
    pub query: Option<QueryId>,
    /// The driver (conf key `onefold.generation`).
    pub generation: Option<Generation>,
    /// The driver's nonce (conf key `onefold.nonce`).
    pub nonce: Option<Nonce>,
    /// JSON text of `sourceMetadataInfo` (V2), carried unchanged.
    pub source_metadata_info: Option<String>,
    /// JSON text of `controlBatchInfo` (V2): a batch that is not a data batch.
    pub control_batch_info: Option<String>,
}

impl Intent {
    /// The range of one source, given the intent before this one.
    #[must_use]
    pub fn range(&self, id: &str, before: Option<&Intent>) -> OffsetRange {
        let end_of = |intent: &Intent| {
            intent
                .sources
                .iter()
                .find(|(name, _)| name == id)
                .and_then(|(_, offset)| offset.clone())
        };
        OffsetRange {
            start: before.and_then(end_of),
            end: end_of(self),
            note: self.notes.get(id).cloned(),
        }
    }
}
