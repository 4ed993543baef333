//! Where a new query begins.

use super::rig::{Rig, offsets, read};
use crate::kafka::broker::{KEPT, Sent, Topic, unique, value};
use onefold_storage::Store;
use onefold_types::{BatchId, Offset, OffsetRange};

#[tokio::test]
async fn a_new_query_starts_at_the_end_and_remembers_where_that_was() {
    let Some(topic) = Topic::new(1).await else { return };
    topic.values(0, 0..3);
    let mut rig = Rig::of(&topic).with("startingOffsets", "latest");
    let source = rig.open().await.unwrap();
    assert!(rig.plan(source.as_ref()).await.unwrap().is_none());
    // It ends before its first batch; what came meanwhile is not forgotten.
    drop(source);
    topic.values(0, 3..5);
    assert_eq!(offsets(&rig.drain().await.unwrap().concat()), [3, 4]);
    let file = rig.checkpoint.read("sources/0/0").await.unwrap().unwrap();
    let wanted = format!("\0v1\n{{\"{}\":{{\"0\":3}}}}", topic.name);
    assert_eq!(file, wanted.as_bytes());
}

#[tokio::test]
async fn offsets_by_partition_with_sparks_special_numbers() {
    let Some(topic) = Topic::new(3).await else { return };
    for partition in 0..3 {
        topic.values(partition, 0..4);
    }
    let json = |inner: &str| format!("{{\"{}\":{{{inner}}}}}", topic.name);
    let starting = json("\"0\":2,\"1\":-2,\"2\":-1");
    let mut rig = Rig::of(&topic).with("startingOffsets", &starting);
    let rows = rig.drain().await.unwrap().concat();
    assert_eq!(offsets(&rows), [2, 3, 0, 1, 2, 3]);
    let some = json("\"0\":2");
    let error = Rig::of(&topic).with("startingOffsets", &some).drain().await.unwrap_err();
    assert!(error.to_string().contains("must name all of them"), "{error}");
}

#[tokio::test]
async fn a_start_behind_the_end_of_the_log_is_an_error() {
    let Some(topic) = Topic::new(1).await else { return };
    topic.values(0, 0..4);
    let starting = format!("{{\"{}\":{{\"0\":9}}}}", topic.name);
    let error = Rig::of(&topic).with("startingOffsets", &starting).drain().await.unwrap_err();
    assert!(error.to_string().contains("its log ends at 4"), "{error}");
}

#[tokio::test]
async fn a_query_may_start_at_a_time() {
    let Some(topic) = Topic::with(&unique("t"), 2, &[KEPT]).await else { return };
    let at = |ms| Sent { timestamp: Some(ms), ..value("v") };
    topic.send(0, &[at(1_000), at(2_000), at(3_000)]);
    topic.send(1, &[at(500)]);
    let with = |name: &str, value: &str| {
        let mut rig = Rig::bare(topic.servers()).with("subscribe", &topic.name);
        rig.options.set(name, value);
        rig
    };
    let error = with("startingTimestamp", "2000").drain().await.unwrap_err();
    let wanted = format!("no offset matched from request of topic-partition {}-1", topic.name);
    assert!(error.to_string().contains(&wanted), "{error}");
    let mut late =
        with("startingTimestamp", "2000").with("startingOffsetsByTimestampStrategy", "latest");
    assert_eq!(offsets(&late.drain().await.unwrap().concat()), [1, 2]);
    let times = format!("{{\"{}\":{{\"0\":2500,\"1\":0}}}}", topic.name);
    let mut rig = with("startingOffsetsByTimestamp", &times);
    assert_eq!(offsets(&rig.drain().await.unwrap().concat()), [2, 0]);
}

#[tokio::test]
async fn a_checkpoint_of_spark_is_taken_over() {
    let Some(topic) = Topic::new(2).await else { return };
    topic.values(0, 0..5);
    topic.values(1, 0..5);
    let mut rig = Rig::of(&topic).with("startingOffsets", "latest");
    let name = &topic.name;
    // Spark orders topics and partitions as it likes, and knows no notes.
    let offset = |one: i64, two: i64| {
        Some(Offset::new(format!("{{\"{name}\":{{\"1\":{two},\"0\":{one}}}}}")))
    };
    let first = OffsetRange { start: None, end: offset(3, 2), note: None };
    let second = OffsetRange { start: offset(3, 2), end: offset(4, 2), note: None };
    let initial = format!("\0v1\n{{\"{name}\":{{\"1\":1,\"0\":1}}}}");
    let create =
        rig.checkpoint.create("sources/0/0", initial.into(), onefold_storage::Durability::Now);
    assert!(create.await.is_ok());
    rig.intents = vec![(BatchId(0), first.clone()), (BatchId(1), second.clone())];
    let source = rig.open().await.unwrap();
    assert_eq!(offsets(&read(source.as_ref(), &first).await.unwrap()), [1, 2, 1]);
    assert_eq!(offsets(&read(source.as_ref(), &second).await.unwrap()), [3]);
    assert_eq!(offsets(&rig.batch(source.as_ref()).await.unwrap().unwrap()), [4, 2, 3, 4]);
    assert!(rig.batch(source.as_ref()).await.unwrap().is_none());
}

#[tokio::test]
async fn a_beginning_that_is_missing_is_told() {
    let Some(topic) = Topic::new(1).await else { return };
    topic.values(0, 0..5);
    let mut rig = Rig::of(&topic);
    let end = Some(Offset::new(format!("{{\"{}\":{{\"0\":3}}}}", topic.name)));
    rig.intents = vec![(BatchId(0), OffsetRange { start: None, end, note: None })];
    let source = rig.open().await.unwrap();
    let error = read(source.as_ref(), &rig.intents[0].1).await.unwrap_err();
    assert!(error.to_string().contains("sources/0/0"), "{error}");
}
