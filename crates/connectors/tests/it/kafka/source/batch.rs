//! What is there now, as a table.

use super::rig::{Rig, offsets};
use crate::kafka::broker::{KEPT, Sent, Topic, unique, value};

#[tokio::test]
async fn a_table_is_what_is_there_now() {
    let Some(topic) = Topic::new(2).await else { return };
    topic.values(0, 0..4);
    topic.values(1, 0..2);
    let rig = || Rig::bare(topic.servers()).with("subscribe", &topic.name);
    assert_eq!(offsets(&rig().table().await.unwrap()), [0, 1, 2, 3, 0, 1]);
    let json = |inner: &str| format!("{{\"{}\":{{{inner}}}}}", topic.name);
    let some = rig()
        .with("startingOffsets", &json("\"0\":1,\"1\":-2"))
        .with("endingOffsets", &json("\"0\":3,\"1\":-1"));
    assert_eq!(offsets(&some.table().await.unwrap()), [1, 2, 0, 1]);
    let past = rig().with("endingOffsets", &json("\"0\":9,\"1\":-1"));
    let error = past.table().await.unwrap_err();
    assert!(error.to_string().contains("its log ends at 4"), "{error}");
}

#[tokio::test]
async fn a_table_may_be_cut_by_time() {
    let Some(topic) = Topic::with(&unique("t"), 1, &[KEPT]).await else { return };
    let at = |ms| Sent { timestamp: Some(ms), ..value("v") };
    topic.send(0, &[at(1_000), at(2_000), at(3_000)]);
    let rig = Rig::bare(topic.servers())
        .with("subscribe", &topic.name)
        .with("startingTimestamp", "1500")
        .with("endingTimestamp", "3000");
    assert_eq!(offsets(&rig.table().await.unwrap()), [1]);
    let rig =
        Rig::bare(topic.servers()).with("subscribe", &topic.name).with("endingTimestamp", "9000");
    assert_eq!(offsets(&rig.table().await.unwrap()), [0, 1, 2]);
}

#[tokio::test]
async fn an_empty_topic_is_an_empty_table() {
    let Some(topic) = Topic::new(2).await else { return };
    let rig = Rig::bare(topic.servers()).with("subscribe", &topic.name);
    assert!(rig.table().await.unwrap().is_empty());
}
