//! The mark of a batch as a record of the progress topic.
//!
//! Its key is the query's id, so that compaction keeps the newest of each query.

use onefold_types::{
    BatchId, ContentHash, Error, Generation, Mark, Published, QueryId, Result, Totals,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The form of records that this version writes; it reads this one and older ones.
const VERSION: u32 = 1;

/// Where records of a batch lie: by topic and partition, the first offset and the one after the
/// last.
pub(crate) type Written = BTreeMap<String, BTreeMap<i32, (i64, i64)>>;

/// The value of a mark's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MarkRecord {
    version: u32,
    /// The query.
    pub(crate) query: QueryId,
    /// The batch.
    pub(crate) batch: BatchId,
    /// The driver that published it.
    pub(crate) generation: Generation,
    /// Rows of the batch.
    pub(crate) rows: u64,
    /// Their hash.
    pub(crate) hash: ContentHash,
    /// Where they lie.
    #[serde(default)]
    pub(crate) written: Written,
    /// Where the batch ends in each source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) offsets: Option<serde_json::Value>,
}

impl MarkRecord {
    /// The mark of a batch.
    pub(crate) fn new(
        mark: (QueryId, BatchId, Generation),
        totals: Totals,
        written: Written,
        offsets: Option<serde_json::Value>,
    ) -> Self {
        let (query, batch, generation) = mark;
        let Totals { rows, hash } = totals;
        MarkRecord { version: VERSION, query, batch, generation, rows, hash, written, offsets }
    }

    /// What it says.
    pub(crate) fn published(&self) -> Published {
        let mark =
            Mark { query: Some(self.query), batch: self.batch, generation: Some(self.generation) };
        Published { mark, totals: Some(self.totals()) }
    }

    /// How much the batch holds.
    pub(crate) fn totals(&self) -> Totals {
        Totals { rows: self.rows, hash: self.hash }
    }

    /// Its bytes.
    ///
    /// # Errors
    /// Internal: it cannot be written as JSON.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|e| Error::internal("a mark cannot be written").because(e))
    }

    /// Reads one from its bytes. `place` names the record for messages.
    ///
    /// # Errors
    /// Corrupt: it is no mark, or one of a newer form.
    pub(crate) fn from_bytes(bytes: &[u8], place: &str) -> Result<MarkRecord> {
        #[derive(Deserialize)]
        struct Form {
            version: u32,
        }
        let damaged = |e: serde_json::Error| {
            Error::corrupt(format!(
                "the record at {place} is no mark of a batch; name a topic that only Onefold writes \
                 to with onefold.kafka.progressTopic"
            ))
            .because(e)
        };
        let form: Form = serde_json::from_slice(bytes).map_err(damaged)?;
        if form.version > VERSION {
            return Err(Error::corrupt(format!(
                "the mark at {place} has form {}, but this version reads up to {VERSION}; use a \
                 newer Onefold",
                form.version
            )));
        }
        serde_json::from_slice(bytes).map_err(damaged)
    }
}

/// The newer of two marks of one query. Batches only go up, whatever partition a mark is in.
pub(crate) fn newer(one: Option<MarkRecord>, other: MarkRecord) -> MarkRecord {
    match one {
        Some(one) if (one.batch, one.generation) >= (other.batch, other.generation) => one,
        _ => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(batch: u64, generation: u64) -> MarkRecord {
        let query = QueryId(uuid::Uuid::from_u128(7));
        let written = BTreeMap::from([("out".to_owned(), BTreeMap::from([(0, (5, 9))]))]);
        let totals = Totals { rows: 4, hash: ContentHash(99) };
        let offsets = Some(serde_json::json!({"0": {"in": {"0": 7}}}));
        MarkRecord::new((query, BatchId(batch), Generation(generation)), totals, written, offsets)
    }

    #[test]
    fn a_mark_of_before_there_were_offsets_is_read() {
        let mut older = serde_json::to_value(mark(3, 2)).unwrap();
        older.as_object_mut().unwrap().remove("offsets");
        let bytes = serde_json::to_vec(&older).unwrap();
        assert_eq!(MarkRecord::from_bytes(&bytes, "here").unwrap().offsets, None);
    }

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let bytes = mark(3, 2).to_bytes().unwrap();
        assert_eq!(MarkRecord::from_bytes(&bytes, "here").unwrap(), mark(3, 2));
    }

    #[test]
    fn a_mark_of_a_newer_form_and_a_record_of_others_are_told_apart() {
        let mut newer = serde_json::to_value(mark(3, 2)).unwrap();
        newer["version"] = 2.into();
        let bytes = serde_json::to_vec(&newer).unwrap();
        let error = MarkRecord::from_bytes(&bytes, "marks-0@7").unwrap_err();
        assert!(error.to_string().contains("newer Onefold"), "{error}");
        let error = MarkRecord::from_bytes(b"hello", "marks-0@7").unwrap_err();
        assert!(error.to_string().contains("marks-0@7"), "{error}");
    }

    #[test]
    fn the_newer_mark_wins_in_any_order() {
        let newest = newer(Some(newer(None, mark(4, 1))), mark(3, 9));
        assert_eq!(newest, mark(4, 1));
        assert_eq!(newer(Some(mark(3, 9)), mark(4, 1)), mark(4, 1));
    }
}
