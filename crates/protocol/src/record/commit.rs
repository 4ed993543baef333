//! `commits/N`: batch N is over for ever, in Spark's format.

use super::text::{not_json, versioned};
use crate::watermark::NodeWatermark;
use onefold_types::{ContentHash, Generation, Result, Totals};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

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
    /// Where each watermark node stands after the batch (field `onefold.watermarks`).
    pub watermarks: BTreeMap<String, NodeWatermark>,
    /// What the batch put into the query's further sinks, by name (field `onefold.sinks`).
    pub sinks: BTreeMap<String, Totals>,
}

/// The JSON line. Spark ignores fields that it does not know, which is where `onefold` rides.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(default)]
    next_batch_watermark_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state_unique_ids: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    onefold: Option<Ours>,
}

#[derive(Serialize, Deserialize)]
struct Ours {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    generation: Option<Generation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rows: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hash: Option<ContentHash>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    watermarks: BTreeMap<String, NodeWatermark>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    sinks: BTreeMap<String, Totals>,
}

impl Commit {
    const NEWEST_VERSION: u32 = 2;

    /// Reads the file's text. A file with only the version line means `{}`.
    ///
    /// # Errors
    /// Corrupt: an unknown version, or a line that is not this record's JSON.
    pub fn parse(text: &str) -> Result<Self> {
        let (version, rest) = versioned("commit", text, Self::NEWEST_VERSION)?;
        let json = if rest.trim().is_empty() { "{}" } else { rest };
        let line: Line =
            serde_json::from_str(json).map_err(|error| not_json("commit", 2, error))?;
        let totals = line
            .onefold
            .as_ref()
            .and_then(|ours| ours.rows.zip(ours.hash).map(|(rows, hash)| Totals { rows, hash }));
        Ok(Commit {
            version,
            next_batch_watermark_ms: line.next_batch_watermark_ms,
            state_unique_ids: line.state_unique_ids.map(|raw| raw.get().to_owned()),
            generation: line.onefold.as_ref().and_then(|ours| ours.generation),
            totals,
            watermarks: line.onefold.as_ref().map(|it| it.watermarks.clone()).unwrap_or_default(),
            sinks: line.onefold.map(|ours| ours.sinks).unwrap_or_default(),
        })
    }

    /// The file's text. Without a generation and totals these are Spark's own bytes.
    #[must_use]
    pub fn encode(&self) -> String {
        let ours = self.generation.is_some() || self.totals.is_some();
        let ours = ours || !self.watermarks.is_empty() || !self.sinks.is_empty();
        let onefold = ours.then(|| Ours {
            generation: self.generation,
            rows: self.totals.map(|totals| totals.rows),
            hash: self.totals.map(|totals| totals.hash),
            watermarks: self.watermarks.clone(),
            sinks: self.sinks.clone(),
        });
        let line = Line {
            next_batch_watermark_ms: self.next_batch_watermark_ms,
            state_unique_ids: self
                .state_unique_ids
                .as_ref()
                .and_then(|text| RawValue::from_string(text.clone()).ok()),
            onefold,
        };
        // Numbers, text and checked raw JSON always have a JSON text.
        format!("v{}\n{}", self.version, serde_json::to_string(&line).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::Commit;
    use crate::watermark::NodeWatermark;
    use onefold_types::{ContentHash, Generation, Totals};

    #[test]
    fn a_plain_commit_has_sparks_own_bytes() {
        let text = "v1\n{\"nextBatchWatermarkMs\":0}";
        assert_eq!(text.len(), 29);
        assert_eq!(Commit::parse(text).unwrap().encode(), text);
    }

    #[test]
    fn totals_and_state_ids_come_back_as_they_were_written() {
        let commit = Commit {
            version: 2,
            next_batch_watermark_ms: -5,
            state_unique_ids: Some("{\"0\":[[\"a\"]]}".to_owned()),
            generation: Some(Generation(3)),
            totals: Some(Totals { rows: 7, hash: ContentHash(u128::MAX) }),
            watermarks: [("0".to_owned(), NodeWatermark { ms: -3, since: 9 })].into(),
            sinks: [("late rows".to_owned(), Totals { rows: 2, hash: ContentHash(8) })].into(),
        };
        assert_eq!(Commit::parse(&commit.encode()).unwrap(), commit);
    }

    #[test]
    fn damaged_and_newer_commits_are_refused_by_line() {
        assert_eq!(Commit::parse("v1").unwrap().next_batch_watermark_ms, 0);
        for (text, wanted) in [("", "line 1"), ("v3\n{}", "v3"), ("v1\n{\"next", "line 2")] {
            let error = Commit::parse(text).unwrap_err();
            assert!(error.to_string().contains(wanted), "{error}");
        }
    }
}
