//! Control records, aborted transactions and compaction leave gaps, which are neither a loss nor a
//! reason to wait.

use super::rig::{Rig, offsets, read};
use crate::kafka::broker::{Sent, Topic, producer, unique, value};
use rdkafka::producer::Producer;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(30);

/// Three records and a marker, two aborted and a marker, two and a marker: the log ends at 10.
fn mixed(topic: &Topic) {
    let producer = producer(topic.servers(), Some(&unique("id")));
    let texts = |from: i32, to: i32| (from..to).map(|n| n.to_string()).collect::<Vec<_>>();
    for (from, to, commits) in [(0, 3, true), (4, 6, false), (7, 9, true)] {
        producer.begin_transaction().unwrap();
        let texts = texts(from, to);
        let records: Vec<Sent<'_>> = texts.iter().map(|text| value(text)).collect();
        topic.send_by(&producer, 0, &records);
        if commits {
            producer.commit_transaction(SOON).unwrap();
        } else {
            producer.abort_transaction(SOON).unwrap();
        }
    }
}

#[tokio::test]
async fn a_batch_of_transactions_ends_where_the_log_ends() {
    let Some(topic) = Topic::new(1).await else { return };
    mixed(&topic);
    let mut committed = Rig::of(&topic).with("kafka.isolation.level", "read_committed");
    let batches = committed.drain().await.unwrap();
    assert_eq!(batches.len(), 1);
    assert_eq!(offsets(&batches[0]), [0, 1, 2, 7, 8]);
    assert!(committed.end().ends_with(":{\"0\":10}}"), "{}", committed.end());
    // Spark's default.
    let batches = Rig::of(&topic).drain().await.unwrap();
    assert_eq!(offsets(&batches[0]), [0, 1, 2, 4, 5, 7, 8]);
    topic.values(0, [10]);
    assert_eq!(offsets(&committed.drain().await.unwrap()[0]), [10]);
}

#[tokio::test]
async fn small_batches_may_hold_no_record_at_all() {
    let Some(topic) = Topic::new(1).await else { return };
    mixed(&topic);
    for limit in ["1", "2", "3"] {
        let rig = Rig::of(&topic).with("kafka.isolation.level", "read_committed");
        let mut rig = rig.with("maxOffsetsPerTrigger", limit);
        let began = Instant::now();
        let batches = rig.drain().await.unwrap();
        assert_eq!(batches.len(), 10_usize.div_ceil(limit.parse().unwrap()), "limit {limit}");
        assert_eq!(offsets(&batches.concat()), [0, 1, 2, 7, 8], "limit {limit}");
        // No batch waits for a record that does not come.
        assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
        // Each range gives the same rows in a process that knows nothing of the others.
        for (index, (_, range)) in rig.intents.iter().enumerate() {
            let source = rig.open().await.unwrap();
            assert_eq!(read(source.as_ref(), range).await.unwrap(), batches[index]);
        }
    }
}

#[tokio::test]
async fn an_open_transaction_is_not_read_before_it_ends() {
    let Some(topic) = Topic::new(1).await else { return };
    topic.values(0, [0, 1]);
    let open = producer(topic.servers(), Some(&unique("id")));
    open.begin_transaction().unwrap();
    topic.send_by(&open, 0, &[value("2")]);
    topic.values(0, [3]);
    let mut rig = Rig::of(&topic).with("kafka.isolation.level", "read_committed");
    let source = rig.open().await.unwrap();
    assert_eq!(offsets(&rig.batch(source.as_ref()).await.unwrap().unwrap()), [0, 1]);
    assert!(rig.batch(source.as_ref()).await.unwrap().is_none());
    open.commit_transaction(SOON).unwrap();
    let mut rows = Vec::new();
    while rows.len() < 2 {
        rows.extend(rig.batch(source.as_ref()).await.unwrap().unwrap_or_default());
    }
    assert_eq!(offsets(&rows), [2, 3]);
}

#[tokio::test]
async fn an_aborted_transaction_without_records_hides_nothing() {
    let Some(topic) = Topic::new(1).await else { return };
    let empty = producer(topic.servers(), Some(&unique("a")));
    let full = producer(topic.servers(), Some(&unique("b")));
    for round in 0..3 {
        empty.begin_transaction().unwrap();
        empty.abort_transaction(SOON).unwrap();
        full.begin_transaction().unwrap();
        topic.send_by(&full, 0, &[value("x"), value("y")]);
        full.commit_transaction(SOON).unwrap();
        empty.begin_transaction().unwrap();
        topic.send_by(&empty, 0, &[value("aborted")]);
        empty.abort_transaction(SOON).unwrap();
        let mut rig = Rig::of(&topic).with("kafka.isolation.level", "read_committed");
        let rows = rig.drain().await.unwrap().concat();
        assert_eq!(rows.len(), 2 * (round + 1));
    }
}

#[tokio::test]
async fn gaps_of_a_compacted_topic_are_no_loss() {
    let settings = [
        ("cleanup.policy", "compact"),
        ("min.cleanable.dirty.ratio", "0.001"),
        ("segment.ms", "100"),
        ("max.compaction.lag.ms", "100"),
    ];
    let Some(topic) = Topic::with(&unique("t"), 1, &settings).await else { return };
    let keyed = |key: &'static str| Sent { key: Some(key.as_bytes()), ..value("v") };
    topic.send(0, &[keyed("a"), keyed("b"), keyed("a"), keyed("b"), keyed("a")]);
    let all = Rig::of(&topic).drain().await.unwrap().concat().len();
    assert!(all >= 2);
    // Records end the segment, so that it is compacted, until it is.
    let (began, mut count) = (Instant::now(), 0);
    let rows = loop {
        topic.send(0, &[keyed("c")]);
        count += 1;
        let mut rig = Rig::of(&topic).with("maxOffsetsPerTrigger", "1");
        let batches = rig.drain().await.unwrap();
        let rows = batches.concat();
        if rows.len() < 5 + count && !offsets(&rows).contains(&0) {
            assert_eq!(batches.len(), 5 + count);
            break rows;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "the broker does not compact");
    };
    assert!(offsets(&rows).contains(&3) && offsets(&rows).contains(&4), "{rows:?}");
}
