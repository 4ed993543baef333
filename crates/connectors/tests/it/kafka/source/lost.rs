//! Records that expired before they were read.

use super::rig::{Rig, offsets, read};
use crate::kafka::broker::Topic;
use onefold_connectors::kafka::LOSSES_FOLDER;
use onefold_storage::Store;
use onefold_types::ErrorKind;

#[tokio::test]
async fn expired_records_are_an_error_that_names_them() {
    let Some(topic) = Topic::new(1).await else { return };
    topic.values(0, 0..3);
    let mut rig = Rig::of(&topic);
    rig.drain().await.unwrap();
    topic.values(0, 3..10);
    topic.cut(0, 6).await;
    let error = rig.drain().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("offsets 3..6 cannot be read"), "{error}");
    assert!(error.to_string().contains("failOnDataLoss"), "{error}");
}

#[tokio::test]
async fn a_loss_that_is_allowed_is_a_row_and_the_batch_runs_again_the_same() {
    let Some(topic) = Topic::new(2).await else { return };
    topic.values(0, 0..3);
    let mut rig = Rig::of(&topic).with("failOnDataLoss", "false");
    rig.drain().await.unwrap();
    topic.values(0, 3..10);
    topic.cut(0, 6).await;
    let source = rig.open().await.unwrap();
    let rows = rig.batch(source.as_ref()).await.unwrap().unwrap();
    assert_eq!(offsets(&rows), [6, 7, 8, 9]);
    let (_, range) = rig.intents.last().unwrap();
    let told = &source.metrics(range)["dataLoss"];
    let wanted = format!("[{{\"topic\":\"{}\",\"partition\":0,\"from\":3,\"to\":6,", topic.name);
    assert!(told.starts_with(&wanted), "{told}");
    // More expires, and the batch runs again: what is left of it.
    topic.cut(0, 7).await;
    let again = rig.open().await.unwrap();
    assert_eq!(offsets(&read(again.as_ref(), range).await.unwrap()), [7, 8, 9]);
    assert!(again.metrics(range)["dataLoss"].contains("\"from\":6,\"to\":7"));
    // Without leave it does not.
    let strict = rig.with("failOnDataLoss", "true");
    let (_, range) = strict.intents.last().unwrap();
    let source = strict.open().await.unwrap();
    let error = read(source.as_ref(), range).await.unwrap_err();
    assert!(error.to_string().contains("offsets 6..7 cannot be read"), "{error}");
}

#[tokio::test]
async fn records_that_expire_between_plan_and_reading_are_told() {
    let Some(topic) = Topic::new(1).await else { return };
    topic.values(0, 0..10);
    let mut strict = Rig::of(&topic);
    let source = strict.open().await.unwrap();
    let range = strict.plan(source.as_ref()).await.unwrap().unwrap();
    let loose = Rig::of(&topic).with("failOnDataLoss", "false");
    let loose_source = loose.open().await.unwrap();
    let mut loose = loose;
    let loose_range = loose.plan(loose_source.as_ref()).await.unwrap().unwrap();
    topic.cut(0, 4).await;
    let error = read(source.as_ref(), &range).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("offsets 0..4 cannot be read"), "{error}");
    let rows = read(loose_source.as_ref(), &loose_range).await.unwrap();
    assert_eq!(offsets(&rows), [4, 5, 6, 7, 8, 9]);
    assert!(loose_source.metrics(&loose_range)["dataLoss"].contains("while the batch was read"));
}

#[tokio::test]
async fn a_partition_whose_records_all_expired_is_gone_past() {
    let Some(topic) = Topic::new(1).await else { return };
    topic.values(0, 0..3);
    let mut rig = Rig::of(&topic).with("failOnDataLoss", "false");
    rig.drain().await.unwrap();
    topic.values(0, 3..6);
    topic.cut(0, 6).await;
    assert_eq!(rig.drain().await.unwrap(), [Vec::new()]);
    topic.values(0, [6]);
    assert_eq!(offsets(&rig.drain().await.unwrap().concat()), [6]);
}

#[tokio::test]
async fn losses_stay_in_the_checkpoint_each_once_however_often_they_are_released() {
    let Some(topic) = Topic::new(1).await else { return };
    topic.values(0, 0..3);
    let mut rig = Rig::of(&topic).with("failOnDataLoss", "false");
    rig.drain().await.unwrap();
    assert!(rig.checkpoint.list(LOSSES_FOLDER).await.unwrap().is_empty());
    topic.values(0, 3..10);
    topic.cut(0, 6).await;
    let source = rig.open().await.unwrap();
    rig.batch(source.as_ref()).await.unwrap().unwrap();
    // A driver that died before the release: the next one releases again.
    let (_, range) = rig.intents.last().unwrap();
    rig.open().await.unwrap().release(range).await.unwrap();
    let files = rig.checkpoint.list(LOSSES_FOLDER).await.unwrap();
    assert_eq!(files.len(), 1, "{files:?}");
    let text = rig.checkpoint.read(&files[0].path).await.unwrap().unwrap();
    let row: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!((&row["source"], &row["topic"]), (&"0".into(), &topic.name.as_str().into()));
    assert_eq!((&row["from"], &row["to"]), (&3.into(), &6.into()));
    assert_eq!(row["time"], "1970-01-01T00:16:40.000Z");
}
