//! Offsets as Spark writes them: `{"topic":{"0":23,"1":7}}`, topic, partition, next offset to read.

use onefold_types::{Error, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Stands for the first offset that a partition still has, where a user gives offsets.
pub(crate) const EARLIEST: i64 = -2;
/// Stands for the offset after the last one, where a user gives offsets.
pub(crate) const LATEST: i64 = -1;

/// One partition of one topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TopicPartition {
    pub(crate) topic: Arc<str>,
    pub(crate) partition: i32,
}

impl TopicPartition {
    pub(crate) fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        TopicPartition { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// A number for each partition: an offset, or a time.
pub(crate) type Positions = BTreeMap<TopicPartition, i64>;

type ByTopic<T> = BTreeMap<String, BTreeMap<String, T>>;

/// Reads `{"topic":{"0":23}}`; `None` when the text is something else.
pub(crate) fn parse(json: &str) -> Option<Positions> {
    let by_topic: ByTopic<i64> = serde_json::from_str(json).ok()?;
    let mut positions = Positions::new();
    for (topic, partitions) in by_topic {
        let topic: Arc<str> = topic.into();
        for (partition, position) in partitions {
            let partition = partition.parse().ok().filter(|number| *number >= 0)?;
            positions.insert(TopicPartition { topic: Arc::clone(&topic), partition }, position);
        }
    }
    Some(positions)
}

/// Reads an offset of the checkpoint.
///
/// # Errors
/// Corrupt, when it is none of a Kafka source.
pub(crate) fn parse_logged(json: &str) -> Result<Positions> {
    parse(json).filter(|all| all.values().all(|offset| *offset >= 0)).ok_or_else(|| {
        Error::corrupt(format!(
            "`{json}` is not an offset of a Kafka source; was the order of the sources changed?"
        ))
    })
}

/// The text of an offset, by topic and by number of the partition.
pub(crate) fn text(positions: &Positions) -> String {
    let mut topics = serde_json::Map::new();
    for (at, offset) in positions {
        let partitions = topics
            .entry(at.topic.to_string())
            .or_insert_with(|| serde_json::Value::Object(serde_json::Map::new()));
        if let serde_json::Value::Object(partitions) = partitions {
            partitions.insert(at.partition.to_string(), (*offset).into());
        }
    }
    serde_json::Value::Object(topics).to_string()
}

/// Reads `{"topic":[0,1]}`; `None` when the text is something else.
pub(crate) fn parse_partitions(json: &str) -> Option<Vec<TopicPartition>> {
    let by_topic: BTreeMap<String, Vec<i32>> = serde_json::from_str(json).ok()?;
    let mut all = Vec::new();
    for (topic, partitions) in by_topic {
        let topic: Arc<str> = topic.into();
        for partition in partitions {
            if partition < 0 {
                return None;
            }
            all.push(TopicPartition { topic: Arc::clone(&topic), partition });
        }
    }
    Some(all)
}

/// Names of partitions for a message.
pub(crate) fn names<'a>(all: impl IntoIterator<Item = &'a TopicPartition>) -> String {
    let names: Vec<String> = all.into_iter().map(TopicPartition::to_string).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_offset_is_written_as_spark_writes_it_with_partitions_by_number() {
        let json = r#"{"b.C":{"10":5,"2":9223372036854775807},"a":{"0":0}}"#;
        let positions = parse(json).unwrap();
        let sorted = r#"{"a":{"0":0},"b.C":{"2":9223372036854775807,"10":5}}"#;
        assert_eq!(text(&positions), sorted);
    }

    #[test]
    fn texts_that_are_no_offsets_are_refused() {
        for json in ["", "3", "{\"t\":3}", "{\"t\":{\"x\":3}}", "{\"t\":{\"-1\":3}}", "[]"] {
            assert!(parse(json).is_none(), "{json}");
        }
        assert!(parse_logged("{\"t\":{\"0\":-1}}").is_err());
        assert!(parse_partitions("{\"t\":[-1]}").is_none());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            all in proptest::collection::btree_map(("\\PC{1,9}", 0..i32::MAX), 0..i64::MAX, 0..9)
        ) {
            let all: Positions =
                all.into_iter().map(|((t, p), o)| (TopicPartition::new(t, p), o)).collect();
            prop_assert_eq!(parse(&text(&all)), Some(all));
        }

        #[test]
        fn no_text_makes_it_panic(json in "\\PC{0,40}") {
            parse(&json);
        }
    }
}
