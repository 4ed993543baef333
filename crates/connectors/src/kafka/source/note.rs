//! What rides with an intent, so that a batch that runs again reads the same records: where reading
//! begins when that is not where the batch before ended, the topics' ids, and what was lost.

use super::epochs::Epochs;
use super::loss::Loss;
use super::offsets::{self, Positions};
use super::topology::TopicIds;
use onefold_storage::{CreateError, Created, Durability, Store};
use onefold_types::{Error, OffsetRange, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The note of a range.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Note {
    /// Where partitions begin that are new, or that lost records.
    pub(crate) starts: Positions,
    pub(crate) ids: TopicIds,
    pub(crate) losses: Vec<Loss>,
    /// The epochs of the leaders that took the records before the range.
    pub(crate) epochs: Epochs,
}

#[derive(Serialize, Deserialize)]
struct Written {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start: Option<serde_json::Value>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    topics: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    loss: Vec<Loss>,
    /// By topic and partition, as offsets are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epochs: Option<serde_json::Value>,
    /// A file that holds the note, which was too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    see: Option<String>,
}

fn internal(error: serde_json::Error) -> Error {
    Error::internal("a note could not be written").because(error)
}

fn damaged(text: &str) -> Error {
    let start: String = text.chars().take(80).collect();
    Error::corrupt(format!(
        "`{start}` is not a note of a Kafka source; run `onefold checkpoint verify`"
    ))
}

impl Note {
    fn text(&self) -> Result<String> {
        let by_partition = |all: &Positions| {
            (!all.is_empty())
                .then(|| serde_json::from_str(&offsets::text(all)).map_err(internal))
                .transpose()
        };
        let start = by_partition(&self.starts)?;
        let epochs = self.epochs.iter().map(|(at, epoch)| (at.clone(), i64::from(*epoch)));
        let epochs = by_partition(&epochs.collect())?;
        let topics = self.ids.iter().map(|(name, id)| (name.to_string(), id.clone())).collect();
        let loss = self.losses.clone();
        let written = Written { start, topics, loss, epochs, see: None };
        serde_json::to_string(&written).map_err(internal)
    }

    /// The text for the intent. A long one goes into a file of its own, named by its content, below
    /// `folder` of the checkpoint.
    ///
    /// # Errors
    /// Those of the checkpoint.
    pub(crate) async fn keep(&self, store: &dyn Store, folder: &str) -> Result<String> {
        let text = self.text()?;
        if text.len() <= OffsetRange::NOTE_BYTES_MAX {
            return Ok(text);
        }
        let hash = xxhash_rust::xxh3::xxh3_128(text.as_bytes());
        let path = format!("{folder}/note-{hash:032x}");
        match store.create(&path, text.into(), Durability::Now).await {
            // The same name is the same content.
            Ok(Created::New | Created::Exists(_)) => (),
            Err(CreateError::NotDone(error) | CreateError::MaybeDone(error)) => return Err(error),
        }
        let (topics, loss) = (BTreeMap::new(), Vec::new());
        let written = Written { start: None, topics, loss, epochs: None, see: Some(path) };
        serde_json::to_string(&written).map_err(internal)
    }

    /// Reads the note of a range; empty where Spark wrote the intent.
    ///
    /// # Errors
    /// Corrupt, when it is damaged or its file is missing.
    pub(crate) async fn of(range: &OffsetRange, store: &dyn Store) -> Result<Note> {
        let Some(text) = &range.note else { return Ok(Note::default()) };
        let written: Written = serde_json::from_str(text).map_err(|_| damaged(text))?;
        let Some(path) = written.see else { return Note::read(written, text) };
        let bytes = store.read(&path).await?.ok_or_else(|| {
            Error::corrupt(format!(
                "{path} in {} is missing, so the ranges of a batch are not known; run `onefold \
                 checkpoint verify`",
                store.url()
            ))
        })?;
        let text = String::from_utf8_lossy(&bytes);
        let written = serde_json::from_str(&text).map_err(|_| damaged(&text))?;
        Note::read(written, &text)
    }

    fn read(written: Written, text: &str) -> Result<Note> {
        let starts = match written.start {
            Some(start) => offsets::parse(&start.to_string()).ok_or_else(|| damaged(text))?,
            None => Positions::new(),
        };
        let epochs = match written.epochs {
            Some(epochs) => offsets::parse(&epochs.to_string()).ok_or_else(|| damaged(text))?,
            None => Positions::new(),
        };
        let epochs = epochs.into_iter().filter_map(|(at, it)| Some((at, i32::try_from(it).ok()?)));
        let ids = written.topics.into_iter().map(|(name, id)| (name.into(), id)).collect();
        Ok(Note { starts, ids, losses: written.loss, epochs: epochs.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::offsets::TopicPartition;
    use super::*;
    use onefold_testkit::MemoryStore;

    fn note(topics: usize) -> Note {
        let at = TopicPartition::new("t.A", 3);
        Note {
            starts: Positions::from([(at.clone(), 7)]),
            ids: (0..topics).map(|n| (format!("topic-{n}").into(), "x".repeat(22))).collect(),
            losses: vec![Loss::new(&at, 1, Some(7), "they expired")],
            epochs: Epochs::from([(at.clone(), 4)]),
        }
    }

    async fn there_and_back(note: &Note) -> String {
        let store = MemoryStore::default();
        let text = note.keep(&store, "_onefold/sources/0").await.unwrap();
        let range = OffsetRange { start: None, end: None, note: Some(text.clone()) };
        assert_eq!(&Note::of(&range, &store).await.unwrap(), note);
        text
    }

    #[tokio::test]
    async fn a_note_is_read_as_it_was_written() {
        let text = there_and_back(&note(1)).await;
        assert!(text.contains(r#""start":{"t.A":{"3":7}}"#), "{text}");
        there_and_back(&Note::default()).await;
    }

    #[tokio::test]
    async fn a_long_note_goes_into_a_file_of_its_own() {
        let text = there_and_back(&note(3_000)).await;
        assert!(text.contains("_onefold/sources/0/note-"), "{text}");
    }

    #[tokio::test]
    async fn a_damaged_note_is_told() {
        let store = MemoryStore::default();
        for text in ["x", "{\"start\":3}", "{\"see\":\"_onefold/sources/0/note-0\"}"] {
            let range = OffsetRange { start: None, end: None, note: Some(text.to_owned()) };
            assert!(Note::of(&range, &store).await.is_err(), "{text}");
        }
    }
}
