//! Records that are gone before they were read: whether a query goes on without them, and what is
//! told of them.

use super::offsets::TopicPartition;
use onefold_types::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Records `from..to` of a partition will never be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Loss {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    /// The first offset that was due.
    pub(crate) from: i64,
    /// The offset at which reading goes on; absent where the partition is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<i64>,
    /// Why, in one clause.
    pub(crate) reason: String,
}

impl Loss {
    pub(crate) fn new(
        at: &TopicPartition,
        from: i64,
        to: Option<i64>,
        reason: impl Into<String>,
    ) -> Self {
        Loss {
            topic: at.topic.to_string(),
            partition: at.partition,
            from,
            to,
            reason: reason.into(),
        }
    }
}

/// `failOnDataLoss`: `true`, `false`, or by topic as `{"topic": false}`, where topics that are not
/// named fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LossPolicy {
    fails: bool,
    by_topic: BTreeMap<String, bool>,
}

impl LossPolicy {
    /// Reads the option.
    ///
    /// # Errors
    /// Invalid, when it is neither.
    pub(crate) fn parse(text: &str) -> Result<LossPolicy> {
        let text = text.trim();
        if let Ok(fails) = text.to_lowercase().parse() {
            return Ok(LossPolicy { fails, by_topic: BTreeMap::new() });
        }
        let by_topic = serde_json::from_str(text).map_err(|_| {
            Error::invalid(format!(
                "option `failOnDataLoss` is `{text}`, but takes true, false, or a JSON object by \
                 topic such as {{\"clicks\": false}}"
            ))
        })?;
        Ok(LossPolicy { fails: true, by_topic })
    }

    /// Whether the query stops rather than go on without records of this topic.
    pub(crate) fn fails(&self, topic: &str) -> bool {
        self.by_topic.get(topic).copied().unwrap_or(self.fails)
    }

    /// The losses, where the query may go on with all of them.
    ///
    /// # Errors
    /// Corrupt, where one of a topic that may not lose anything is among them.
    pub(crate) fn allow(&self, losses: Vec<Loss>) -> Result<Vec<Loss>> {
        let refused: Vec<&Loss> = losses.iter().filter(|loss| self.fails(&loss.topic)).collect();
        let Some(first) = refused.first() else { return Ok(losses) };
        let more = match refused.len() {
            1 => String::new(),
            count => format!(" (and {} more partitions)", count - 1),
        };
        let (topic, partition) = (&first.topic, first.partition);
        let lost = match first.to {
            Some(to) if to >= first.from => format!("offsets {}..{to}", first.from),
            _ => format!("offsets from {}", first.from),
        };
        Err(Error::corrupt(format!(
            "{topic}-{partition}{more}: {lost} cannot be read, since {}; to go on without them, set \
             the option failOnDataLoss to {{\"{topic}\": false}}, or to false for all topics",
            first.reason
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_may_lose_what_others_may_not() {
        let policy = LossPolicy::parse("{\"clicks\": false}").unwrap();
        let loss = |topic: &str| {
            Loss::new(&TopicPartition::new(topic, 1), 5, Some(9), "its records expired")
        };
        assert_eq!(policy.allow(vec![loss("clicks")]).unwrap().len(), 1);
        let error = policy.allow(vec![loss("clicks"), loss("orders")]).unwrap_err().to_string();
        assert!(error.contains("orders-1: offsets 5..9 cannot be read"), "{error}");
        assert!(error.contains("{\"orders\": false}"), "{error}");
    }

    #[test]
    fn the_option_takes_true_false_or_topics() {
        assert!(LossPolicy::parse("TRUE").unwrap().fails("t"));
        assert!(!LossPolicy::parse("false").unwrap().fails("t"));
        let error = LossPolicy::parse("maybe").unwrap_err().to_string();
        assert!(error.contains("true, false, or a JSON object"), "{error}");
    }
}
