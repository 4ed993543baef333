//! What the brokers hold, compared with where the query stands: new partitions, topics that are
//! gone or were made again, records that expired, a log whose end went back.

use super::loss::Loss;
use super::offsets::{Positions, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A topic as the brokers describe it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Topic {
    /// Its id, which a topic of the same name made later does not have; brokers before 2.8 give
    /// none.
    pub(crate) id: Option<String>,
    pub(crate) partitions: BTreeSet<i32>,
}

/// Ids of topics, by name.
pub(crate) type TopicIds = BTreeMap<Arc<str>, String>;

/// What the brokers told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// Those of the query's topics that there are.
    pub(crate) topics: BTreeMap<Arc<str>, Topic>,
    /// The first offset that each partition still has.
    pub(crate) earliest: Positions,
    /// The offset after the last one.
    pub(crate) latest: Positions,
}

impl Look {
    /// All ids that are known.
    pub(crate) fn ids(&self) -> TopicIds {
        let id = |(name, topic): (&Arc<str>, &Topic)| Some((Arc::clone(name), topic.id.clone()?));
        self.topics.iter().filter_map(id).collect()
    }
}

/// Where the query stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stand<'a> {
    /// Where each partition is to be read on.
    pub(crate) next: &'a Positions,
    /// The topics' ids when they were read last.
    pub(crate) ids: &'a TopicIds,
    /// The partitions that the user named one by one, where so: no others are looked for.
    pub(crate) assigned: bool,
}

/// What came of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Compared {
    /// Where reading begins, for each partition that there is.
    pub(crate) starts: Positions,
    /// What cannot be read any more.
    pub(crate) losses: Vec<Loss>,
    /// Partitions whose log ends before the query's position, with that end. A broker that has just
    /// become a leader may say so for a moment.
    pub(crate) behind: Vec<(TopicPartition, i64)>,
}

/// Compares. With `settled` a log that ends too early is taken as it is.
pub(crate) fn compare(stand: Stand<'_>, look: &Look, settled: bool) -> Compared {
    let mut compared = Compared::default();
    for (at, next) in stand.next {
        match look.topics.get(&at.topic) {
            None => {
                gone(&mut compared, at, *next, "its topic was deleted, or is no longer asked for")
            }
            Some(topic) if !topic.partitions.contains(&at.partition) => {
                gone(
                    &mut compared,
                    at,
                    *next,
                    "the partition was deleted, or is no longer asked for",
                );
            }
            Some(topic) => known(&mut compared, stand, look, (at, *next, topic), settled),
        }
    }
    for at in look.latest.keys().filter(|at| !stand.next.contains_key(at)) {
        let start = look.earliest.get(at).copied().unwrap_or(0);
        if start > 0 && !stand.assigned {
            let reason = "the partition is new, but its first records expired already";
            compared.losses.push(Loss::new(at, 0, Some(start), reason));
        }
        compared.starts.insert(at.clone(), start);
    }
    compared
}

fn gone(compared: &mut Compared, at: &TopicPartition, next: i64, reason: &str) {
    compared.losses.push(Loss::new(at, next, None, reason));
}

/// A partition that the query read before.
fn known(
    compared: &mut Compared,
    stand: Stand<'_>,
    look: &Look,
    (at, next, topic): (&TopicPartition, i64, &Topic),
    settled: bool,
) {
    let earliest = look.earliest.get(at).copied().unwrap_or(0);
    let latest = look.latest.get(at).copied().unwrap_or(next);
    let before = stand.ids.get(&at.topic);
    let mut lost = |to: i64, reason: String| {
        compared.losses.push(Loss::new(at, next, Some(to), reason));
        compared.starts.insert(at.clone(), to);
    };
    match (before, &topic.id) {
        (Some(before), Some(now)) if before != now => {
            lost(
                earliest,
                format!("its topic was deleted and made again (its id was {before} and is {now})"),
            );
        }
        _ if latest < next && !settled => compared.behind.push((at.clone(), latest)),
        _ if latest < next => {
            let reason = format!("its log ends at {latest}, so its last records were given up");
            lost(latest, reason);
        }
        _ if earliest > next => {
            lost(earliest, format!("records before {earliest} have expired or were deleted"));
        }
        _ => {
            compared.starts.insert(at.clone(), next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(partition: i32) -> TopicPartition {
        TopicPartition::new("t", partition)
    }

    fn look(id: Option<&str>, offsets: &[(i64, i64)]) -> Look {
        let mut look = Look::default();
        let mut topic = Topic { id: id.map(str::to_owned), partitions: BTreeSet::new() };
        for (partition, (earliest, latest)) in (0..).zip(offsets) {
            topic.partitions.insert(partition);
            look.earliest.insert(at(partition), *earliest);
            look.latest.insert(at(partition), *latest);
        }
        look.topics.insert("t".into(), topic);
        look
    }

    fn compared(next: &[i64], id: Option<&str>, look: &Look, settled: bool) -> Compared {
        let next: Positions = (0..).zip(next).map(|(p, offset)| (at(p), *offset)).collect();
        let ids: TopicIds = id.map(|id| ("t".into(), id.to_owned())).into_iter().collect();
        compare(Stand { next: &next, ids: &ids, assigned: false }, look, settled)
    }

    fn starts(compared: &Compared) -> Vec<i64> {
        compared.starts.values().copied().collect()
    }

    #[test]
    fn a_new_partition_is_read_from_its_first_record() {
        let found = compared(&[5], Some("a"), &look(Some("a"), &[(0, 9), (0, 3)]), false);
        assert_eq!(starts(&found), [5, 0]);
        assert!(found.losses.is_empty() && found.behind.is_empty());
    }

    #[test]
    fn a_new_partition_whose_first_records_expired_is_a_loss() {
        let found = compared(&[5], Some("a"), &look(Some("a"), &[(0, 9), (2, 3)]), false);
        assert_eq!(starts(&found), [5, 2]);
        assert_eq!((found.losses[0].from, found.losses[0].to), (0, Some(2)));
    }

    #[test]
    fn a_topic_made_again_is_told_by_its_id_though_its_offsets_would_fit() {
        let found = compared(&[5], Some("a"), &look(Some("b"), &[(0, 9)]), false);
        assert_eq!(starts(&found), [0]);
        assert!(found.losses[0].reason.contains("its id was a and is b"), "{found:?}");
        // Brokers that give no id.
        let found = compared(&[5], Some("a"), &look(None, &[(0, 9)]), false);
        assert_eq!(starts(&found), [5]);
    }

    #[test]
    fn an_end_that_went_back_is_looked_at_again_and_then_taken() {
        let found = compared(&[5], Some("a"), &look(Some("a"), &[(0, 4)]), false);
        assert_eq!(found.behind, [(at(0), 4)]);
        assert!(found.losses.is_empty());
        let found = compared(&[5], Some("a"), &look(Some("a"), &[(0, 4)]), true);
        assert!(found.behind.is_empty());
        assert_eq!(starts(&found), [4]);
        assert_eq!((found.losses[0].from, found.losses[0].to), (5, Some(4)));
    }

    #[test]
    fn expired_records_are_a_loss_and_reading_goes_on_after_them() {
        let found = compared(&[5], Some("a"), &look(Some("a"), &[(7, 9)]), false);
        assert_eq!(starts(&found), [7]);
        assert_eq!((found.losses[0].from, found.losses[0].to), (5, Some(7)));
    }

    #[test]
    fn a_topic_or_a_partition_that_is_gone_is_named() {
        let found = compared(&[5], Some("a"), &Look::default(), false);
        assert!(found.starts.is_empty());
        assert!(found.losses[0].reason.contains("topic was deleted"), "{found:?}");
        let found = compared(&[5, 6], Some("a"), &look(Some("a"), &[(0, 5)]), false);
        assert_eq!(starts(&found), [5]);
        assert_eq!((found.losses[0].partition, found.losses[0].to), (1, None));
    }
}
