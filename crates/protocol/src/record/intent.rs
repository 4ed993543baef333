//! `offsets/N`: the intent of batch N, in Spark's format.

use super::text::{not_json, shortened, versioned};
use onefold_types::{Error, Generation, Nonce, Offset, OffsetRange, QueryId, Result};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
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

const QUERY_KEY: &str = "onefold.query";
const GENERATION_KEY: &str = "onefold.generation";
const NONCE_KEY: &str = "onefold.nonce";
const NOTE_PREFIX: &str = "onefold.source.";
const NOTE_SUFFIX: &str = ".note";

/// What stands for "this source has no offset yet".
const NO_OFFSET: &str = "-";

/// The metadata line, fields in Spark's order.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(default)]
    batch_watermark_ms: i64,
    #[serde(default)]
    batch_timestamp_ms: i64,
    #[serde(default)]
    conf: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source_metadata_info: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    control_batch_info: Option<Box<RawValue>>,
}

impl Intent {
    const NEWEST_VERSION: u32 = 2;

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

    /// Reads the file's text.
    ///
    /// # Errors
    /// Corrupt: an unknown version, a line that is not JSON, an offset line without a source id
    /// (V2) or twice the same id, no offset line at all; the text names the line.
    pub fn parse(text: &str) -> Result<Self> {
        let (version, rest) = versioned("offsets entry", text, Self::NEWEST_VERSION)?;
        let version = if version == 1 { IntentVersion::V1 } else { IntentVersion::V2 };
        let mut lines = rest.split('\n').map(|line| line.trim_end_matches('\r'));
        // Continuous processing and very old releases leave the metadata line empty.
        let line: Line = match lines.next().map(str::trim) {
            None | Some("") => Line::default(),
            Some(json) => {
                serde_json::from_str(json).map_err(|error| not_json("offsets entry", 2, error))?
            }
        };
        let sources = sources(version, lines)?;
        if sources.is_empty() {
            return Err(Error::corrupt(
                "the offsets entry has no line for any source, so it was cut short",
            ));
        }
        let mut intent = Intent {
            version,
            batch_watermark_ms: line.batch_watermark_ms,
            batch_timestamp_ms: line.batch_timestamp_ms,
            conf: line.conf,
            sources,
            notes: BTreeMap::new(),
            query: None,
            generation: None,
            nonce: None,
            source_metadata_info: line.source_metadata_info.map(|raw| raw.get().to_owned()),
            control_batch_info: line.control_batch_info.map(|raw| raw.get().to_owned()),
        };
        intent.take_own_keys()?;
        Ok(intent)
    }

    /// Moves the `onefold.*` keys of the settings into the fields that they stand for.
    fn take_own_keys(&mut self) -> Result<()> {
        self.query = own_key(&mut self.conf, QUERY_KEY, |text| text.parse().ok())?;
        self.generation =
            own_key(&mut self.conf, GENERATION_KEY, |text| text.parse().ok().map(Generation))?;
        self.nonce = own_key(&mut self.conf, NONCE_KEY, |text| text.parse().ok())?;
        let conf = std::mem::take(&mut self.conf);
        for (key, value) in conf {
            match key.strip_prefix(NOTE_PREFIX).and_then(|rest| rest.strip_suffix(NOTE_SUFFIX)) {
                Some(id) => self.notes.insert(id.to_owned(), value),
                None => self.conf.insert(key, value),
            };
        }
        Ok(())
    }

    /// The file's text.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut conf = self.conf.clone();
        let own = [
            (QUERY_KEY, self.query.map(|id| id.to_string())),
            (GENERATION_KEY, self.generation.map(|generation| generation.to_string())),
            (NONCE_KEY, self.nonce.map(|nonce| nonce.to_string())),
        ];
        for (key, value) in own {
            if let Some(value) = value {
                conf.insert(key.to_owned(), value);
            }
        }
        for (id, note) in &self.notes {
            conf.insert(format!("{NOTE_PREFIX}{id}{NOTE_SUFFIX}"), note.clone());
        }
        let raw = |text: &Option<String>| {
            text.as_ref().and_then(|text| RawValue::from_string(text.clone()).ok())
        };
        let line = Line {
            batch_watermark_ms: self.batch_watermark_ms,
            batch_timestamp_ms: self.batch_timestamp_ms,
            conf,
            source_metadata_info: match (self.version, raw(&self.source_metadata_info)) {
                (IntentVersion::V1, _) => None,
                (IntentVersion::V2, None) => RawValue::from_string("{}".to_owned()).ok(),
                (IntentVersion::V2, found) => found,
            },
            control_batch_info: raw(&self.control_batch_info),
        };
        let number = match self.version {
            IntentVersion::V1 => 1,
            IntentVersion::V2 => 2,
        };
        // Numbers, text and checked raw JSON always have a JSON text.
        let mut text = format!("v{number}\n{}", serde_json::to_string(&line).unwrap_or_default());
        for (id, offset) in &self.sources {
            let offset = offset.as_ref().map_or(NO_OFFSET, Offset::json);
            text.push('\n');
            if self.version == IntentVersion::V2 {
                text.push_str(id);
                text.push(':');
            }
            text.push_str(offset);
        }
        text
    }
}

fn own_key<T>(
    conf: &mut BTreeMap<String, String>,
    key: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>> {
    let Some(text) = conf.remove(key) else { return Ok(None) };
    parse(&text).map(Some).ok_or_else(|| {
        Error::corrupt(format!(
            "line 2 of the offsets entry has `{}` as {key}, which is none",
            shortened(&text)
        ))
    })
}

fn sources<'a>(
    version: IntentVersion,
    lines: impl Iterator<Item = &'a str>,
) -> Result<Vec<(String, Option<Offset>)>> {
    let mut sources: Vec<(String, Option<Offset>)> = Vec::new();
    // The version and the metadata are lines 1 and 2.
    for (place, line) in lines.enumerate() {
        if line.is_empty() {
            continue;
        }
        let (id, offset) = match version {
            IntentVersion::V1 => (sources.len().to_string(), line),
            IntentVersion::V2 => {
                let (id, offset) = line.split_once(':').ok_or_else(|| {
                    Error::corrupt(format!(
                        "line {} of the offsets entry should be SOURCE:OFFSET, but is `{}`",
                        place.saturating_add(3),
                        shortened(line)
                    ))
                })?;
                (id.to_owned(), offset)
            }
        };
        if sources.iter().any(|(known, _)| *known == id) {
            return Err(Error::corrupt(format!(
                "line {} of the offsets entry names source {id} for the second time",
                place.saturating_add(3)
            )));
        }
        if offset != NO_OFFSET
            && let Err(error) = serde_json::from_str::<IgnoredAny>(offset)
        {
            return Err(not_json("offsets entry", place.saturating_add(3), error));
        }
        sources.push((id, (offset != NO_OFFSET).then(|| Offset::new(offset))));
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intent(version: IntentVersion) -> Intent {
        Intent {
            version,
            batch_watermark_ms: 5,
            batch_timestamp_ms: 1_795_959_973_804,
            conf: BTreeMap::from([("spark.sql.shuffle.partitions".into(), "2".into())]),
            sources: vec![("0".into(), Some(Offset::new("{\"logOffset\":5}"))), ("1".into(), None)],
            notes: BTreeMap::from([("0".into(), "{\"files\":[]}".into())]),
            query: Some(QueryId("4863bb32-0053-474b-86ed-8207fb7a4c07".parse().unwrap())),
            generation: Some(Generation(2)),
            nonce: Some(Nonce("00000000-0000-0000-0000-000000000001".parse().unwrap())),
            source_metadata_info: (version == IntentVersion::V2).then(|| "{}".into()),
            control_batch_info: None,
        }
    }

    #[test]
    fn an_intent_comes_back_as_it_was_written() {
        for version in [IntentVersion::V1, IntentVersion::V2] {
            let intent = intent(version);
            assert_eq!(Intent::parse(&intent.encode()).unwrap(), intent);
        }
    }

    #[test]
    fn version_two_splits_at_the_first_colon_only() {
        let parsed = Intent::parse("v2\n{}\nalpha:{\"a\":1}\nbeta:-").unwrap();
        let alpha = ("alpha".to_owned(), Some(Offset::new("{\"a\":1}")));
        assert_eq!(parsed.sources, vec![alpha, ("beta".to_owned(), None)]);
    }

    #[test]
    fn old_entries_without_settings_or_metadata_are_read() {
        let old = "v1\n{\"batchWatermarkMs\":0,\"batchTimestampMs\":1489180207737}\n0";
        let old = Intent::parse(old).unwrap();
        assert_eq!(old.batch_timestamp_ms, 1_489_180_207_737);
        assert_eq!(old.sources, vec![("0".to_owned(), Some(Offset::new("0")))]);
        assert_eq!(Intent::parse("v1\n\n0\n-").unwrap().sources.len(), 2);
    }

    #[test]
    fn damage_is_named_by_line() {
        for (text, wanted) in [
            ("", "line 1"),
            ("v9\n{}", "v9"),
            ("v1\n{\"batchW", "line 2"),
            ("v2\n{}\nnothing", "line 3"),
            ("v2\n{}\na:1\na:2", "line 4"),
            ("v1\n{}\n0\n{\"logOffset\":3", "line 4"),
            ("v1\n{}", "cut short"),
            ("v1\n{\"conf\":{\"onefold.generation\":\"x\"}}\n0", "onefold.generation"),
        ] {
            let error = Intent::parse(text).unwrap_err();
            assert!(error.to_string().contains(wanted), "{text}: {error}");
        }
    }
}
