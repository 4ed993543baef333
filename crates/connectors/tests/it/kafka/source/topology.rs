//! Partitions and topics that come, go, and come again.

use super::rig::{Rig, read};
use crate::kafka::broker::{Topic, broker, unique};
use onefold_connectors::kafka::{Rewind, RewindTo, ask_rewind, rewind_path};
use onefold_types::{ErrorKind, Generation};

#[tokio::test]
async fn a_new_partition_is_read_from_its_beginning_in_a_new_intent() {
    let Some(topic) = Topic::new(1).await else { return };
    topic.values(0, [1]);
    let mut rig = Rig::of(&topic);
    let source = rig.open().await.unwrap();
    rig.batch(source.as_ref()).await.unwrap().unwrap();
    topic.grow(2).await;
    topic.values(1, [2, 3]);
    let mut rows = Vec::new();
    while rows.len() < 2 {
        rows.extend(rig.batch(source.as_ref()).await.unwrap().unwrap_or_default());
    }
    assert_eq!(rows, [(1, 0, "2".to_owned()), (1, 1, "3".to_owned())]);
    // A batch that runs again knows where the partition began.
    let (_, range) = rig.intents.last().unwrap();
    let again = rig.open().await.unwrap();
    assert_eq!(read(again.as_ref(), range).await.unwrap(), rows);
}

#[tokio::test]
async fn what_the_consumers_hold_is_the_next_batch_and_brokers_are_asked_once_a_second() {
    let Some(topic) = Topic::new(1).await else { return };
    topic.values(0, [1]);
    let mut rig = Rig::of(&topic);
    let source = rig.open().await.unwrap();
    rig.batch(source.as_ref()).await.unwrap().unwrap();
    assert!(rig.batch(source.as_ref()).await.unwrap().is_none());
    topic.values(0, [2]);
    source.arrival().await;
    topic.grow(2).await;
    topic.values(1, [3]);
    assert_eq!(rig.batch(source.as_ref()).await.unwrap().unwrap(), [(0, 1, "2".to_owned())]);
    rig.clock.advance(1_000);
    let mut rows = Vec::new();
    while rows.is_empty() {
        rows = rig.batch(source.as_ref()).await.unwrap().unwrap_or_default();
    }
    assert_eq!(rows, [(1, 0, "3".to_owned())]);
}

#[tokio::test]
async fn an_available_now_run_finishes_its_batch_and_then_takes_new_partitions() {
    let Some(topic) = Topic::new(1).await else { return };
    topic.values(0, 1..8);
    let mut rig = Rig::of(&topic);
    let source = rig.open().await.unwrap();
    source.pin_available().await.unwrap();
    let range = rig.plan(source.as_ref()).await.unwrap().unwrap();
    // The batch fails, and the run ends.
    drop(source);
    topic.grow(2).await;
    topic.values(1, [8]);
    let source = rig.open().await.unwrap();
    let first = read(source.as_ref(), &range).await.unwrap();
    assert_eq!(first.len(), 7);
    source.pin_available().await.unwrap();
    let second = rig.batch(source.as_ref()).await.unwrap().unwrap();
    assert_eq!(second, [(1, 0, "8".to_owned())]);
    assert!(rig.batch(source.as_ref()).await.unwrap().is_none());
}

#[tokio::test]
async fn an_available_now_run_ends_where_it_was_pinned() {
    let Some(topic) = Topic::new(1).await else { return };
    topic.values(0, 0..5);
    let mut rig = Rig::of(&topic).with("maxOffsetsPerTrigger", "2");
    let source = rig.open().await.unwrap();
    source.pin_available().await.unwrap();
    topic.values(0, 5..9);
    topic.grow(2).await;
    topic.values(1, [99]);
    let mut rows = Vec::new();
    while let Some(more) = rig.batch(source.as_ref()).await.unwrap() {
        assert!(more.len() <= 2);
        rows.extend(more);
    }
    assert_eq!(rows.len(), 5);
    assert_eq!(rig.drain().await.unwrap().concat().len(), 5);
}

#[tokio::test]
async fn new_topics_of_a_pattern_are_taken() {
    let prefix = unique("Pat.tern");
    let Some(servers) = broker() else { return };
    let mut rig = Rig::bare(servers)
        .with("subscribePattern", &format!("{}.*", prefix.replace('.', "\\.")))
        .with("startingOffsets", "earliest");
    let source = rig.open().await.unwrap();
    assert!(rig.batch(source.as_ref()).await.unwrap().is_none());
    let one = Topic::with(&format!("{prefix}-A"), 1, &[]).await.unwrap();
    one.values(0, [1]);
    assert_eq!(rig.batch(source.as_ref()).await.unwrap().unwrap().len(), 1);
    let two = Topic::with(&format!("{prefix}-B"), 2, &[]).await.unwrap();
    two.values(1, [2]);
    one.values(0, [3]);
    rig.clock.advance(1_000);
    assert_eq!(rig.batch(source.as_ref()).await.unwrap().unwrap().len(), 2);
    // Another topic whose name only begins like one.
    let other = Topic::with(&format!("x{prefix}-A"), 1, &[]).await.unwrap();
    other.values(0, [4]);
    rig.clock.advance(1_000);
    assert!(rig.batch(source.as_ref()).await.unwrap().is_none());
}

#[tokio::test]
async fn only_partitions_that_were_assigned_are_read() {
    let Some(topic) = Topic::new(3).await else { return };
    for partition in 0..3 {
        topic.values(partition, [partition.into()]);
    }
    let assign = format!("{{\"{}\":[0,2]}}", topic.name);
    let mut rig =
        Rig::bare(topic.servers()).with("assign", &assign).with("startingOffsets", "earliest");
    let rows = rig.drain().await.unwrap().concat();
    assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<_>>(), [0, 2]);
}

#[tokio::test]
async fn a_topic_that_there_never_was_is_named() {
    let Some(servers) = broker() else { return };
    let name = unique("nowhere");
    let rig = Rig::bare(servers).with("subscribe", &name);
    let source = rig.open().await.unwrap();
    let error = rig_error(&source).await;
    assert!(error.to_string().contains(&format!("do not know {name}")), "{error}");
    assert!(rig.checkpoint.paths().is_empty(), "nothing was decided");
}

async fn rig_error(source: &std::sync::Arc<dyn onefold_connector::Source>) -> onefold_types::Error {
    source.latest_offset(None, onefold_connector::ReadLimit::Options).await.unwrap_err()
}

#[tokio::test]
async fn a_topic_that_was_deleted_is_an_error_by_name() {
    let Some(topic) = Topic::new(1).await else { return };
    topic.values(0, [1]);
    let mut rig = Rig::of(&topic);
    rig.drain().await.unwrap();
    topic.delete().await;
    let error = rig.drain().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains(&format!("{}-0", topic.name)), "{error}");
    assert!(error.to_string().contains("topic was deleted"), "{error}");
}

#[tokio::test]
async fn a_topic_made_again_is_recognised_though_its_offsets_fit() {
    let Some(topic) = Topic::new(1).await else { return };
    topic.values(0, 0..3);
    let mut rig = Rig::of(&topic);
    rig.drain().await.unwrap();
    topic.delete().await;
    topic.create(1, &[]).await;
    topic.values(0, 10..20);
    let error = rig.drain().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("deleted and made again"), "{error}");
    // Going on without what is lost: the new topic from its beginning.
    let mut rig = rig.with("failOnDataLoss", &format!("{{\"{}\":false}}", topic.name));
    let rows = rig.drain().await.unwrap().concat();
    assert_eq!(rows.len(), 10);
    // And again without an error, since the new id is known now.
    topic.values(0, [20]);
    let mut rig = rig.with("failOnDataLoss", "true");
    assert_eq!(rig.drain().await.unwrap().concat().len(), 1);
}

#[tokio::test]
async fn a_batch_of_a_topic_made_again_is_not_read_from_the_new_one() {
    let Some(topic) = Topic::new(1).await else { return };
    topic.values(0, 0..3);
    let mut rig = Rig::of(&topic);
    let source = rig.open().await.unwrap();
    let range = rig.plan(source.as_ref()).await.unwrap().unwrap();
    drop(source);
    topic.delete().await;
    topic.create(1, &[]).await;
    topic.values(0, 10..20);
    let source = rig.open().await.unwrap();
    let error = read(source.as_ref(), &range).await.unwrap_err();
    assert!(error.to_string().contains("deleted and made again"), "{error}");
    let rig = rig.with("failOnDataLoss", "false");
    let source = rig.open().await.unwrap();
    assert!(read(source.as_ref(), &range).await.unwrap().is_empty());
    assert!(source.metrics(&range)["dataLoss"].contains("made again"));
}

/// Asks for a rewind after the newest batch.
async fn rewind(rig: &Rig, topic: &Topic, to: &str, generation: u64) {
    let wish = Rewind { topic: topic.name.clone(), to: RewindTo::parse(to).unwrap() };
    let (batch, _) = rig.intents.last().unwrap();
    let path = rewind_path("0", *batch, Generation(generation));
    ask_rewind(&rig.checkpoint, &path, &wish).await.unwrap();
}

#[tokio::test]
async fn a_topic_is_rewound_once_and_the_batch_runs_again_the_same() {
    let Some(topic) = Topic::new(2).await else { return };
    topic.values(0, 0..4);
    topic.values(1, 0..2);
    let mut rig = Rig::of(&topic);
    assert_eq!(rig.drain().await.unwrap().concat().len(), 6);
    rewind(&rig, &topic, "earliest", 1).await;
    let rows = rig.drain().await.unwrap();
    assert_eq!(rows.concat().len(), 6, "all come again, though the end is the same: {rows:?}");
    for (index, (_, range)) in rig.intents.iter().enumerate().skip(1) {
        let source = rig.open().await.unwrap();
        assert_eq!(read(source.as_ref(), range).await.unwrap(), rows[index - 1]);
    }
    assert!(rig.drain().await.unwrap().is_empty(), "once");
    rewind(&rig, &topic, "{\"0\":3}", 2).await;
    assert_eq!(rig.drain().await.unwrap().concat(), [(0, 3, "3".to_owned())]);
    topic.values(1, [2, 3]);
    rewind(&rig, &topic, "latest", 3).await;
    assert!(rig.drain().await.unwrap().concat().is_empty());
    topic.values(1, [4]);
    assert_eq!(rig.drain().await.unwrap().concat(), [(1, 4, "4".to_owned())]);
    rewind(&rig, &topic, "{\"7\":0}", 4).await;
    let error = rig.drain().await.unwrap_err();
    assert!(error.to_string().contains("partition 7"), "{error}");
}

#[tokio::test]
async fn a_topic_made_again_is_read_once_a_rewind_says_from_where() {
    let Some(topic) = Topic::new(1).await else { return };
    topic.values(0, 0..3);
    let mut rig = Rig::of(&topic);
    rig.drain().await.unwrap();
    topic.delete().await;
    topic.create(1, &[]).await;
    topic.values(0, 10..13);
    assert!(rig.drain().await.unwrap_err().to_string().contains("made again"));
    rewind(&rig, &topic, "earliest", 1).await;
    assert_eq!(rig.drain().await.unwrap().concat().len(), 3);
    topic.values(0, [13]);
    assert_eq!(rig.drain().await.unwrap().concat().len(), 1);
}
