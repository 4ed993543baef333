//! Each record once, in order, through restarts.

use super::rig::{Rig, offsets, read, values};
use crate::kafka::broker::{Topic, broker, unique};
use onefold_connector::Source;
use std::sync::Arc;

#[tokio::test]
async fn each_record_comes_once_through_restarts_at_every_step() {
    let Some(topic) = Topic::new(3).await else { return };
    let mut rig = Rig::of(&topic);
    let mut seen = Vec::new();
    for round in 0..6_i64 {
        for partition in 0..3 {
            topic.values(partition, (0..=round).map(|n| round * 10 + n));
        }
        let source = rig.open().await.unwrap();
        let range = rig.plan(source.as_ref()).await.unwrap().unwrap();
        // A crash after the intent: another process reads the same rows.
        let rows = read(source.as_ref(), &range).await.unwrap();
        let again = rig.open().await.unwrap();
        assert_eq!(read(again.as_ref(), &range).await.unwrap(), rows);
        // The same process again, and a batch after it.
        assert_eq!(read(again.as_ref(), &range).await.unwrap(), rows);
        seen.extend(rows);
        assert!(rig.plan(again.as_ref()).await.unwrap().is_none());
    }
    seen.sort();
    let expected: Vec<_> = (0..3)
        .flat_map(|partition| {
            let values = (0..6_i64).flat_map(|round| (0..=round).map(move |n| round * 10 + n));
            values.enumerate().map(move |(offset, value)| {
                (partition, i64::try_from(offset).unwrap(), value.to_string())
            })
        })
        .collect();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_warm_consumer_goes_on_where_it_was() {
    let Some(topic) = Topic::new(2).await else { return };
    let mut rig = Rig::of(&topic);
    let source = rig.open().await.unwrap();
    assert!(rig.plan(source.as_ref()).await.unwrap().is_none());
    for round in 0..20 {
        topic.values(0, [round]);
        if round % 3 == 0 {
            topic.values(1, [round]);
        }
        let rows = rig.batch(source.as_ref()).await.unwrap().unwrap();
        assert_eq!(rows.len(), if round % 3 == 0 { 2 } else { 1 });
        assert!(values(&rows).iter().all(|value| *value == round.to_string()), "{rows:?}");
    }
}

#[tokio::test]
async fn a_range_is_read_twice_at_once() {
    let Some(topic) = Topic::new(2).await else { return };
    topic.values(0, 0..2_000);
    topic.values(1, 0..10);
    let mut rig = Rig::of(&topic);
    let source = rig.open().await.unwrap();
    let range = rig.plan(source.as_ref()).await.unwrap().unwrap();
    let (one, two) = tokio::join!(read(source.as_ref(), &range), read(source.as_ref(), &range));
    let one = one.unwrap();
    assert_eq!(one.len(), 2_010);
    assert_eq!(one, two.unwrap());
}

#[tokio::test]
async fn a_plan_that_is_dropped_leaves_the_source_usable() {
    let Some(topic) = Topic::new(1).await else { return };
    topic.values(0, 0..50_000);
    let mut rig = Rig::of(&topic);
    let source = rig.open().await.unwrap();
    let range = rig.plan(source.as_ref()).await.unwrap().unwrap();
    let context = datafusion::prelude::SessionContext::new();
    let state = context.state();
    let scan = onefold_connector::ScanRequest { projection: None, filters: &[], session: &state };
    let plan = source.read(&range, scan).await.unwrap();
    let mut stream = datafusion::physical_plan::execute_stream(plan, context.task_ctx()).unwrap();
    let first = futures::StreamExt::next(&mut stream).await.unwrap().unwrap();
    assert!(first.num_rows() > 0);
    drop(stream);
    assert_eq!(read(source.as_ref(), &range).await.unwrap().len(), 50_000);
}

#[tokio::test]
async fn partitions_of_one_lane_are_read_one_after_the_other() {
    let Some(topic) = Topic::new(7).await else { return };
    for partition in 0..7 {
        topic.values(partition, 0..100);
    }
    // The rig has one lane.
    let rows = Rig::of(&topic).drain().await.unwrap().concat();
    assert_eq!(rows.len(), 700);
    for partition in 0..7 {
        let own: Vec<_> = rows.iter().filter(|row| row.0 == partition).cloned().collect();
        assert_eq!(offsets(&own), (0..100).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn brokers_that_do_not_answer_are_named() {
    let rig = Rig::bare("127.0.0.1:1")
        .with("subscribe", "t")
        .with("kafka.default.api.timeout.ms", "1000")
        .with("fetchOffset.numRetries", "0");
    let source: Arc<dyn Source> = rig.open().await.unwrap();
    let error =
        source.latest_offset(None, onefold_connector::ReadLimit::Options).await.unwrap_err();
    assert_eq!(error.kind(), onefold_types::ErrorKind::Unavailable, "{error:?}");
    assert!(error.chain().contains("the Kafka brokers at 127.0.0.1:1 do not tell"), "{error:?}");
}

#[tokio::test]
async fn the_offsets_are_told_to_a_group_after_the_commit() {
    let Some(topic) = Topic::new(2).await else { return };
    topic.values(0, 0..5);
    topic.values(1, 0..3);
    let group = unique("group");
    let mut rig = Rig::of(&topic).with("onefold.kafka.reportGroup", &group);
    rig.drain().await.unwrap();
    let servers = broker().unwrap();
    let told = tokio::task::spawn_blocking(move || committed(servers, &group, &topic.name));
    assert_eq!(told.await.unwrap(), [Some(5), Some(3)]);
}

/// What a consumer of the group would find.
fn committed(servers: &str, group: &str, topic: &str) -> Vec<Option<i64>> {
    use rdkafka::consumer::{BaseConsumer, Consumer};
    let consumer: BaseConsumer = rdkafka::ClientConfig::new()
        .set("bootstrap.servers", servers)
        .set("group.id", group)
        .create()
        .unwrap();
    let mut list = rdkafka::TopicPartitionList::new();
    list.add_partition_range(topic, 0, 1);
    let found = consumer.committed_offsets(list, std::time::Duration::from_secs(30)).unwrap();
    found.elements().iter().map(|element| element.offset().to_raw()).collect()
}

#[tokio::test]
async fn who_waits_hears_of_what_comes_to_any_partition() {
    let Some(topic) = Topic::new(2).await else { return };
    let mut rig = Rig::of(&topic);
    let source = rig.open().await.unwrap();
    topic.values(0, [1]);
    // There is something to read: nobody should wait.
    assert!(!source.notices_arrivals());
    rig.batch(source.as_ref()).await.unwrap().unwrap();
    // One partition was read before, the other one never.
    for partition in [0, 1, 1, 0] {
        assert!(rig.plan(source.as_ref()).await.unwrap().is_none());
        assert!(source.notices_arrivals());
        let mut arrival = source.arrival();
        assert!(futures::poll!(&mut arrival).is_pending());
        topic.values(partition, [2]);
        arrival.await;
        let rows = rig.batch(source.as_ref()).await.unwrap().unwrap();
        assert_eq!(rows.len(), 1, "{rows:?}");
    }
}

#[tokio::test]
async fn the_leader_s_epoch_is_noted_with_where_a_batch_begins_and_holds_nothing_up() {
    let Some(topic) = Topic::new(1).await else { return };
    let mut rig = Rig::of(&topic);
    for round in 0..3 {
        topic.values(0, [round]);
        // A new process the second time: it asks the broker whether the record before is there.
        let source = rig.open().await.unwrap();
        rig.batch(source.as_ref()).await.unwrap().unwrap();
        topic.values(0, [round]);
        let rows = rig.batch(source.as_ref()).await.unwrap().unwrap();
        assert_eq!(rows.len(), 1, "{rows:?}");
        let note = rig.intents.last().unwrap().1.note.clone().unwrap();
        let wanted = format!("\"epochs\":{{\"{}\":{{\"0\":0}}}}", topic.name);
        assert!(note.contains(&wanted), "{note}");
    }
}
