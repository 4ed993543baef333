//! Moving a query within a topic: asked for by a file in the checkpoint, done by the next batch.
//!
//! The file names the batch after which it holds, so that it is followed once: the intent of the
//! next batch notes where it begins, and from then on the file says nothing any more.

use super::offsets::{self, Positions};
use onefold_storage::{CreateError, Created, Durability, Store};
use onefold_types::{BatchId, Error, Generation, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where to go within a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RewindTo {
    /// The first record that each partition still has.
    Earliest,
    /// The end of each partition: what waits is left out.
    Latest,
    /// The first record of this time or later, in milliseconds since 1970; the end where there is
    /// none.
    Timestamp(i64),
    /// The next offset to read, by partition; other partitions stay where they are.
    Offsets(BTreeMap<i32, i64>),
}

impl RewindTo {
    /// Reads `earliest`, `latest`, a time (milliseconds since 1970, or as `2026-11-30T10:00:00Z`), or
    /// offsets by partition (`{"0":23}`).
    ///
    /// # Errors
    /// Invalid, when it is none of these.
    pub fn parse(text: &str) -> Result<RewindTo> {
        let text = text.trim();
        match text.to_lowercase().as_str() {
            "earliest" => return Ok(RewindTo::Earliest),
            "latest" => return Ok(RewindTo::Latest),
            _ => (),
        }
        if let Some(ms) = text.parse().ok().filter(|ms: &i64| *ms >= 0) {
            return Ok(RewindTo::Timestamp(ms));
        }
        if let Ok(time) = chrono::DateTime::parse_from_rfc3339(text) {
            return Ok(RewindTo::Timestamp(time.timestamp_millis()));
        }
        let by_partition: Option<BTreeMap<i32, i64>> = serde_json::from_str(text).ok();
        let fits = |all: &BTreeMap<i32, i64>| {
            !all.is_empty() && all.iter().all(|(partition, offset)| *partition >= 0 && *offset >= 0)
        };
        by_partition.filter(fits).map(RewindTo::Offsets).ok_or_else(|| {
            Error::invalid(format!(
                "`{text}` is no place in a topic: give earliest, latest, a time such as \
                 2026-11-30T10:00:00Z or milliseconds since 1970, or offsets by partition such as \
                 {{\"0\":23}}"
            ))
        })
    }
}

/// One wish.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewind {
    /// The topic.
    pub topic: String,
    /// Where to go in it.
    pub to: RewindTo,
}

/// Whether the offset of a source, as its line in an intent has it, is one of Kafka that names this
/// topic: then the next offsets to read there, by partition.
#[must_use]
pub fn stands_in(offset: &str, topic: &str) -> Option<BTreeMap<i32, i64>> {
    let positions = offsets::parse(offset)?;
    let own: BTreeMap<i32, i64> = positions
        .iter()
        .filter(|(at, _)| *at.topic == *topic)
        .map(|(at, offset)| (at.partition, *offset))
        .collect();
    (!own.is_empty()).then_some(own)
}

fn folder(source: &str) -> String {
    format!("_onefold/sources/{source}")
}

/// The file of a wish that holds after a batch, made under a generation.
#[must_use]
pub fn rewind_path(source: &str, batch: BatchId, generation: Generation) -> String {
    format!("{}/rewind-{batch}-{generation}", folder(source))
}

/// Writes a wish down.
///
/// # Errors
/// Those of the checkpoint.
pub async fn ask_rewind(store: &dyn Store, path: &str, rewind: &Rewind) -> Result<()> {
    let text = serde_json::to_string(rewind)
        .map_err(|error| Error::internal("a rewind could not be written").because(error))?;
    match store.create(path, text.into(), Durability::Now).await {
        Ok(Created::New) => Ok(()),
        Ok(Created::Exists(_)) => {
            Err(Error::fenced(format!("{path} in {} is taken; do it again", store.url())))
        }
        Err(CreateError::NotDone(error) | CreateError::MaybeDone(error)) => Err(error),
    }
}

/// The wishes that hold after a batch, in the order in which they were made; without those of a topic
/// of which a later one says where all its partitions go.
///
/// # Errors
/// Corrupt, when one cannot be read.
pub(crate) async fn wishes(store: &dyn Store, source: &str, batch: BatchId) -> Result<Vec<Rewind>> {
    let prefix = format!("{}/rewind-{batch}-", folder(source));
    let mut found: Vec<(u64, String)> = store
        .list(&folder(source))
        .await?
        .into_iter()
        .filter_map(|entry| {
            let generation = entry.path.strip_prefix(&prefix)?.parse().ok()?;
            Some((generation, entry.path))
        })
        .collect();
    found.sort_unstable();
    let mut wishes = Vec::new();
    for (_, path) in found {
        let damaged = || {
            Error::corrupt(format!(
                "{path} in {} is not a rewind of a topic; delete it, and ask for it again",
                store.url()
            ))
        };
        let bytes = store.read(&path).await?.ok_or_else(damaged)?;
        let wish: Rewind = serde_json::from_slice(&bytes).map_err(|_| damaged())?;
        if !matches!(wish.to, RewindTo::Offsets(_)) {
            wishes.retain(|earlier: &Rewind| earlier.topic != wish.topic);
        }
        wishes.push(wish);
    }
    Ok(wishes)
}

/// Whether a wish asks for partitions that there are not.
///
/// # Errors
/// Invalid, naming them.
pub(crate) fn check(rewind: &Rewind, there: &Positions) -> Result<()> {
    let RewindTo::Offsets(wanted) = &rewind.to else { return Ok(()) };
    let has = |partition: &i32| {
        there.keys().any(|at| *at.topic == *rewind.topic && at.partition == *partition)
    };
    match wanted.keys().find(|partition| !has(partition)) {
        Some(partition) => Err(Error::invalid(format!(
            "a rewind asks for partition {partition} of {}, which there is not; ask for earliest, \
             latest or a time with `onefold checkpoint rewind --topic`, which takes its place",
            rewind.topic
        ))),
        None => Ok(()),
    }
}

/// Ends that say something else than where the query stood, so that a batch which reads again what
/// was read before, up to the same end, is seen to hold something: one record is left for the next
/// batch.
pub(crate) fn distinct(stood: &Positions, starts: &Positions, mut ends: Positions) -> Positions {
    if ends == *stood {
        for (at, end) in &mut ends {
            if starts.get(at).is_some_and(|start| *start < *end) {
                *end -= 1;
                break;
            }
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::super::offsets::TopicPartition;
    use super::*;
    use onefold_testkit::MemoryStore;

    #[test]
    fn places_in_a_topic_are_read() {
        let parsed = |text| RewindTo::parse(text).unwrap();
        assert_eq!(parsed(" Earliest"), RewindTo::Earliest);
        assert_eq!(parsed("latest"), RewindTo::Latest);
        assert_eq!(parsed("1700000000000"), RewindTo::Timestamp(1_700_000_000_000));
        assert_eq!(parsed("1970-01-01T01:00:01+01:00"), RewindTo::Timestamp(1_000));
        assert_eq!(parsed("{\"3\":23}"), RewindTo::Offsets([(3, 23)].into()));
        for text in ["", "yesterday", "{}", "{\"0\":-2}", "-5"] {
            assert!(RewindTo::parse(text).is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn wishes_hold_after_their_batch_only_and_in_order() {
        let store = MemoryStore::default();
        let wish = |to| Rewind { topic: "t".to_owned(), to };
        for (batch, generation, to) in
            [(7, 10, RewindTo::Latest), (7, 9, RewindTo::Earliest), (6, 8, RewindTo::Timestamp(5))]
        {
            let path = rewind_path("0", BatchId(batch), Generation(generation));
            ask_rewind(&store, &path, &wish(to)).await.unwrap();
        }
        let found = wishes(&store, "0", BatchId(7)).await.unwrap();
        assert_eq!(found, [wish(RewindTo::Latest)], "it says of all partitions where they go");
        let of_one = |partition| wish(RewindTo::Offsets([(partition, 1)].into()));
        for partition in [0, 1] {
            let generation = Generation(11 + u64::try_from(partition).unwrap());
            let path = rewind_path("0", BatchId(7), generation);
            ask_rewind(&store, &path, &of_one(partition)).await.unwrap();
        }
        let found = wishes(&store, "0", BatchId(7)).await.unwrap();
        assert_eq!(found, [wish(RewindTo::Latest), of_one(0), of_one(1)]);
        assert!(wishes(&store, "0", BatchId(8)).await.unwrap().is_empty());
    }

    #[test]
    fn a_batch_that_ends_where_the_last_one_did_is_told_from_an_empty_one() {
        let at = |offset| Positions::from([(TopicPartition::new("t", 0), offset)]);
        assert_eq!(distinct(&at(9), &at(3), at(9)), at(8));
        assert_eq!(distinct(&at(9), &at(3), at(7)), at(7));
        assert_eq!(distinct(&at(9), &at(9), at(9)), at(9));
    }

    #[test]
    fn only_offsets_of_kafka_stand_in_a_topic() {
        assert_eq!(stands_in("{\"t\":{\"0\":5},\"u\":{\"0\":1}}", "t"), Some([(0, 5)].into()));
        assert_eq!(stands_in("{\"t\":{\"0\":5}}", "v"), None);
        assert_eq!(stands_in("{\"logOffset\":5}", "t"), None);
    }
}
