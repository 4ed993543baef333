//! `_onefold/effects/`: what calls to the outside world answered, before their batch is published.

use super::text::{not_json, sealed, unsealed};
use onefold_types::{BatchId, CallKey, Generation, Published, Reply, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The name of one file of replies: `N-G-S`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EffectsName {
    /// The batch.
    pub batch: BatchId,
    /// The driver that heard the replies.
    pub generation: Generation,
    /// The number of the file among those of this driver and batch, from 0.
    pub sequence: u64,
}

impl fmt::Display for EffectsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.batch, self.generation, self.sequence)
    }
}

/// A text that names no file of replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoEffectsName;

impl FromStr for EffectsName {
    type Err = NoEffectsName;

    fn from_str(text: &str) -> Result<Self, NoEffectsName> {
        let mut parts = text
            .split('-')
            .map(|part| part.parse::<u64>().ok().filter(|number| number.to_string() == part));
        let mut next = || parts.next().flatten().ok_or(NoEffectsName);
        let name = EffectsName {
            batch: BatchId(next()?),
            generation: Generation(next()?),
            sequence: next()?,
        };
        if name.to_string() == text { Ok(name) } else { Err(NoEffectsName) }
    }
}

/// One reply with the call that it answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedReply {
    /// The call.
    pub key: CallKey,
    /// What was answered.
    #[serde(flatten)]
    pub reply: Reply,
}

/// The content of a file of replies: a JSON object behind a checksum line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EffectsRecord {
    /// The batch.
    pub batch: BatchId,
    /// The driver.
    pub generation: Generation,
    /// As in the name.
    pub sequence: u64,
    /// The replies, in the order in which they came.
    pub replies: Vec<RecordedReply>,
}

impl EffectsRecord {
    /// Reads the file's text.
    ///
    /// # Errors
    /// Corrupt, when the checksum does not fit or the JSON is not this record.
    pub fn parse(text: &str) -> Result<Self> {
        let json = unsealed("record of replies", text)?;
        serde_json::from_str(json).map_err(|error| not_json("record of replies", 2, error))
    }

    /// The file's text.
    #[must_use]
    pub fn encode(&self) -> String {
        // Plain fields, texts and numbers always have a JSON text.
        sealed(&serde_json::to_string(self).unwrap_or_default())
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> EffectsName {
        EffectsName { batch: self.batch, generation: self.generation, sequence: self.sequence }
    }
}

/// The content of `_onefold/effects/N-mark`: the mark of a sink that keeps none outside. A JSON object
/// behind a checksum line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectsMark {
    /// Who published which batch, and what.
    pub published: Published,
}

impl EffectsMark {
    /// What a mark's name ends with, after the batch.
    pub const SUFFIX: &'static str = "-mark";

    /// Reads the file's text.
    ///
    /// # Errors
    /// Corrupt, when the checksum does not fit or the JSON is not this record.
    pub fn parse(text: &str) -> Result<Self> {
        let json = unsealed("mark of effects", text)?;
        serde_json::from_str(json).map_err(|error| not_json("mark of effects", 2, error))
    }

    /// The file's text.
    #[must_use]
    pub fn encode(&self) -> String {
        // As above.
        sealed(&serde_json::to_string(self).unwrap_or_default())
    }

    /// The batch in the name of a mark; `None` for other names.
    #[must_use]
    pub fn batch_in(name: &str) -> Option<BatchId> {
        let digits = name.strip_suffix(Self::SUFFIX)?;
        digits.parse::<u64>().ok().filter(|number| number.to_string() == digits).map(BatchId)
    }
}

/// All replies of a batch by their calls. Where two drivers heard different ones, the older driver's
/// counts, and of one driver the first: nothing was published on either, so that any choice is right as
/// long as all later drivers make the same one.
#[must_use]
pub fn merged(mut records: Vec<EffectsRecord>) -> BTreeMap<CallKey, Reply> {
    records.sort_by_key(EffectsRecord::name);
    let mut replies = BTreeMap::new();
    for recorded in records.into_iter().flat_map(|record| record.replies) {
        replies.entry(recorded.key).or_insert(recorded.reply);
    }
    replies
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_types::ErrorKind;
    use proptest::prelude::*;

    fn reply(status: u16, body: &str) -> Reply {
        let headers = [("content-type".to_owned(), "text/plain".to_owned())];
        Reply { status, headers: headers.into(), body: body.to_owned(), at_ms: 7 }
    }

    fn record(generation: u64, sequence: u64, replies: &[(u128, &str)]) -> EffectsRecord {
        let replies = replies.iter();
        let replies = replies
            .map(|(key, body)| RecordedReply { key: CallKey(*key), reply: reply(200, body) });
        EffectsRecord {
            batch: BatchId(12),
            generation: Generation(generation),
            sequence,
            replies: replies.collect(),
        }
    }

    #[test]
    fn the_bytes_of_a_record_are_these() {
        let text = record(3, 1, &[(0xa1, "ok\n")]).encode();
        assert_eq!(
            text,
            "v1 REPLACE\n{\"batch\":12,\"generation\":3,\"sequence\":1,\"replies\":[{\"key\":\
             \"000000000000000000000000000000a1\",\"status\":200,\"headers\":{\"content-type\":\
             \"text/plain\"},\"body\":\"ok\\n\",\"atMs\":7}]}"
                .replace("REPLACE", &text[3..11])
        );
        assert_eq!(EffectsRecord::parse(&text).unwrap(), record(3, 1, &[(0xa1, "ok\n")]));
    }

    #[test]
    fn a_changed_byte_is_found_anywhere() {
        let text = record(3, 1, &[(1, "charged")]).encode();
        for place in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[place] ^= 1;
            let Ok(changed) = String::from_utf8(bytes) else { continue };
            let error = EffectsRecord::parse(&changed).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {place}");
        }
    }

    #[test]
    fn the_first_driver_s_first_reply_counts_whatever_the_order_of_the_files() {
        let records = [
            record(4, 0, &[(1, "later driver"), (3, "only there")]),
            record(2, 10, &[(1, "second file")]),
            record(2, 9, &[(1, "first"), (2, "b")]),
        ];
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let replies = merged(order.map(|at: usize| records[at].clone()).to_vec());
            let bodies: Vec<&str> = replies.values().map(|reply| reply.body.as_str()).collect();
            assert_eq!(bodies, ["first", "b", "only there"]);
        }
    }

    #[test]
    fn names_read_back_and_others_are_no_names() {
        let name: EffectsName = "12-3-0".parse().unwrap();
        assert_eq!((name.batch, name.generation, name.sequence), (BatchId(12), Generation(3), 0));
        for other in ["12-3", "12-3-0-1", "12-03-0", "12-mark", "a-1-0", "", "12-3-"] {
            assert_eq!(other.parse::<EffectsName>(), Err(NoEffectsName), "{other}");
        }
        assert_eq!(EffectsMark::batch_in("12-mark"), Some(BatchId(12)));
        for other in ["12-3-0", "012-mark", "-mark", "12-mark-1"] {
            assert_eq!(EffectsMark::batch_in(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn any_reply_reads_back(status in 0_u16.., body in ".*", value in ".*", key: u128) {
            let headers = [("x".to_owned(), value)].into();
            let reply = Reply { status, headers, body, at_ms: i64::MIN };
            let record = EffectsRecord {
                batch: BatchId(u64::MAX),
                generation: Generation(1),
                sequence: 0,
                replies: vec![RecordedReply { key: CallKey(key), reply }],
            };
            prop_assert_eq!(EffectsRecord::parse(&record.encode()).unwrap(), record);
        }
    }
}
