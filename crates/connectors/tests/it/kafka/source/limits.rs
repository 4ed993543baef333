//! How much a batch takes, and into how many parts.

use super::rig::{Rig, offsets};
use crate::kafka::broker::Topic;
use datafusion::physical_plan::ExecutionPlanProperties;
use datafusion::prelude::SessionContext;
use onefold_connector::ScanRequest;

#[tokio::test]
async fn batches_keep_to_the_limit_by_the_size_of_partitions() {
    let Some(topic) = Topic::new(2).await else { return };
    topic.values(0, 0..90);
    topic.values(1, 0..10);
    let mut rig = Rig::of(&topic).with("maxOffsetsPerTrigger", "10");
    let batches = rig.drain().await.unwrap();
    let of = |partition, batch: &[super::rig::Row]| {
        batch.iter().filter(|row| row.0 == partition).count()
    };
    assert_eq!((of(0, &batches[0]), of(1, &batches[0])), (9, 1));
    assert!(batches.iter().all(|batch| batch.len() <= 11));
    assert_eq!(batches.concat().len(), 100);
}

#[tokio::test]
async fn a_batch_waits_until_it_is_worth_it() {
    let Some(topic) = Topic::new(1).await else { return };
    let mut rig = Rig::of(&topic).with("minOffsetsPerTrigger", "3").with("maxTriggerDelay", "10s");
    topic.values(0, [0]);
    let source = rig.open().await.unwrap();
    // The first does not wait.
    assert_eq!(rig.batch(source.as_ref()).await.unwrap().unwrap().len(), 1);
    topic.values(0, [1, 2]);
    assert!(rig.batch(source.as_ref()).await.unwrap().is_none());
    topic.values(0, [3]);
    assert_eq!(offsets(&rig.batch(source.as_ref()).await.unwrap().unwrap()), [1, 2, 3]);
    topic.values(0, [4]);
    assert!(rig.batch(source.as_ref()).await.unwrap().is_none());
    rig.clock.advance(10_000);
    assert_eq!(offsets(&rig.batch(source.as_ref()).await.unwrap().unwrap()), [4]);
    // A run that ends leaves nothing behind.
    topic.values(0, [5]);
    source.pin_available().await.unwrap();
    assert_eq!(offsets(&rig.batch(source.as_ref()).await.unwrap().unwrap()), [5]);
}

#[tokio::test]
async fn a_hot_partition_is_divided_and_read_whole() {
    let Some(topic) = Topic::new(2).await else { return };
    topic.values(0, 0..1_000);
    topic.values(1, 0..10);
    for (option, value, parts) in [("minPartitions", "5", 5), ("maxRecordsPerPartition", "300", 5)]
    {
        let mut rig = Rig::of(&topic).with(option, value);
        let source = rig.open().await.unwrap();
        let range = rig.plan(source.as_ref()).await.unwrap().unwrap();
        let context = SessionContext::new();
        let state = context.state();
        for _ in 0..2 {
            let scan = ScanRequest { projection: Some(&vec![4]), filters: &[], session: &state };
            let plan = source.read(&range, scan).await.unwrap();
            assert_eq!(plan.output_partitioning().partition_count(), parts, "{option}");
            let batches =
                datafusion::physical_plan::collect(plan, context.task_ctx()).await.unwrap();
            assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1_010);
        }
    }
}

#[tokio::test]
async fn progress_tells_how_far_behind_the_query_is() {
    let Some(topic) = Topic::new(2).await else { return };
    topic.values(0, 0..10);
    topic.values(1, 0..10);
    let mut rig = Rig::of(&topic).with("maxOffsetsPerTrigger", "10");
    let source = rig.open().await.unwrap();
    rig.batch(source.as_ref()).await.unwrap();
    let (_, range) = rig.intents.last().unwrap();
    let metrics = source.metrics(range);
    assert_eq!(metrics["minOffsetsBehindLatest"], "5");
    assert_eq!(metrics["avgOffsetsBehindLatest"], "5.0");
    assert_eq!(metrics["estimatedTotalBytesBehindLatest"], "10");
    assert!(metrics.contains_key("secondsBehindLatest"), "{metrics:?}");
}
