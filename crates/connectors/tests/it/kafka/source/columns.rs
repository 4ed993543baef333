//! Spark's columns, with every NULL.

use super::rig::Rig;
use crate::kafka::broker::{KEPT, Sent, Topic, unique, value};
use crate::source::rig::rows;
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int32Type, TimestampMicrosecondType};

async fn all(rig: &mut Rig) -> RecordBatch {
    let source = rig.open().await.unwrap();
    let range = rig.plan(source.as_ref()).await.unwrap().unwrap();
    let columns: Vec<usize> = (0..rig.define().await.unwrap().schema().fields().len()).collect();
    let batches = rows(source.as_ref(), &range, &columns).await.unwrap();
    arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap()
}

#[tokio::test]
async fn null_and_empty_are_told_apart_in_keys_values_and_headers() {
    let Some(topic) = Topic::new(1).await else { return };
    let headers =
        vec![("h", None), ("h", Some(&b""[..])), ("h", Some(&b"x"[..])), ("", Some(&b"\0"[..]))];
    topic.send(
        0,
        &[
            Sent { headers, ..Sent::default() },
            Sent { key: Some(b""), value: Some(b""), ..Sent::default() },
            Sent { key: Some(b"gone"), value: None, ..Sent::default() },
        ],
    );
    let batch = all(&mut Rig::of(&topic).with("includeHeaders", "true")).await;
    let (keys, values) = (batch.column(0).as_binary::<i32>(), batch.column(1).as_binary::<i32>());
    let present = |column: &dyn Array| (0..3).map(|row| column.is_valid(row)).collect::<Vec<_>>();
    assert_eq!(present(keys), [false, true, true]);
    assert_eq!(present(values), [false, true, false]);
    assert_eq!((keys.value(1), keys.value(2)), (&b""[..], &b"gone"[..]));
    let lists = batch.column(7).as_list::<i32>();
    assert_eq!(present(lists), [true, false, false]);
    let list = lists.value(0);
    let pairs = list.as_struct();
    let names: Vec<_> = pairs.column(0).as_string::<i32>().iter().collect();
    assert_eq!(names, [Some("h"), Some("h"), Some("h"), Some("")]);
    let values: Vec<_> = pairs.column(1).as_binary::<i32>().iter().collect();
    assert_eq!(values, [None, Some(&b""[..]), Some(&b"x"[..]), Some(&b"\0"[..])]);
}

#[tokio::test]
async fn rows_have_sparks_columns_and_times() {
    let name = unique("Shop.ORDERS_v2-x");
    let settings = [KEPT, ("message.timestamp.after.max.ms", "9223372036854775807")];
    let Some(topic) = Topic::with(&name, 2, &settings).await else { return };
    let at = |ms| Sent { timestamp: Some(ms), ..value("v") };
    topic.send(1, &[at(1_700_000_000_123), at(1), at(i64::MAX / 1_000 + 1)]);
    let batch = all(&mut Rig::of(&topic)).await;
    let schema = batch.schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let spark = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"];
    assert_eq!(names, spark);
    assert_eq!(schema.field(0).data_type(), &DataType::Binary);
    let topics: Vec<_> = batch.column(2).as_string::<i32>().iter().flatten().collect();
    assert_eq!(topics, [name.as_str(); 3]);
    assert_eq!(batch.column(3).as_primitive::<Int32Type>().values().to_vec(), [1; 3]);
    let times: Vec<_> = batch.column(5).as_primitive::<TimestampMicrosecondType>().iter().collect();
    // The last is a time that no timestamp of Spark can be: the row stays, and its time is NULL.
    assert_eq!(times, [Some(1_700_000_000_123_000), Some(1_000), None]);
    assert_eq!(batch.column(6).as_primitive::<Int32Type>().values().to_vec(), [0; 3]);
}

#[tokio::test]
async fn the_brokers_time_is_told_as_such() {
    let settings = [("message.timestamp.type", "LogAppendTime")];
    let Some(topic) = Topic::with(&unique("t"), 1, &settings).await else { return };
    topic.values(0, [1]);
    let batch = all(&mut Rig::of(&topic)).await;
    assert_eq!(batch.column(6).as_primitive::<Int32Type>().values().to_vec(), [1]);
}

#[tokio::test]
async fn rows_without_columns_are_counted() {
    let Some(topic) = Topic::new(2).await else { return };
    topic.values(0, 0..10);
    topic.values(1, 0..5);
    let mut rig = Rig::of(&topic);
    let source = rig.open().await.unwrap();
    let range = rig.plan(source.as_ref()).await.unwrap().unwrap();
    let batches = rows(source.as_ref(), &range, &[]).await.unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 15);
}

#[tokio::test]
async fn large_records_come_whole() {
    let settings = [("max.message.bytes", "5000000")];
    let Some(topic) = Topic::with(&unique("t"), 1, &settings).await else { return };
    let large = "x".repeat(900_000);
    topic.send(0, &[value(&large), value("small"), value(&large)]);
    let rig = Rig::of(&topic).with("kafka.max.partition.fetch.bytes", "1000");
    let batch = all(&mut { rig }).await;
    let lengths: Vec<usize> =
        batch.column(1).as_binary::<i32>().iter().flatten().map(<[u8]>::len).collect();
    assert_eq!(lengths, [900_000, 5, 900_000]);
}
