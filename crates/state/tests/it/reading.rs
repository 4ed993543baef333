//! Reading a version as record batches.

use crate::specs::family;
use crate::world::World;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema};
use arrow::row::{RowConverter, SortField};
use onefold_state::{Access, OperatorSpec, StateReader, StateStore, partition_of};
use onefold_types::BatchId;
use std::sync::Arc;

fn counting() -> Vec<OperatorSpec> {
    let mut family = family("counts", Access::Point);
    family.key = Arc::new(Schema::new(vec![Field::new("user", DataType::Utf8, true)]));
    family.value = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let (kind, label) = ("stateStoreSave".into(), "count by user".into());
    vec![OperatorSpec { id: 0, kind, label, families: vec![family], single: false }]
}

fn row(column: ArrayRef) -> Vec<u8> {
    let converter = RowConverter::new(vec![SortField::new(column.data_type().clone())]).unwrap();
    converter.convert_columns(&[column]).unwrap().row(0).as_ref().to_vec()
}

fn user(name: Option<&str>) -> Vec<u8> {
    row(Arc::new(StringArray::from(vec![name])))
}

fn count(n: i64) -> Vec<u8> {
    row(Arc::new(Int64Array::from(vec![n])))
}

async fn world() -> World {
    let mut world = World::new().await;
    world.config.operators = counting();
    world.state = StateStore::open(world.config.clone(), None).await.unwrap();
    world.batch(&[((0, 0, 3, user(Some("ann"))), Some(&*count(1)))]).await;
    world
        .batch(&[
            ((0, 0, 3, user(Some("ann"))), Some(&*count(2))),
            ((0, 0, 200, user(None)), Some(&*count(7))),
        ])
        .await;
    world.batch(&[((0, 0, 3, user(Some("ann"))), None)]).await;
    world
}

#[tokio::test]
async fn any_version_and_the_changes_of_any_batch_are_read_as_columns() {
    let world = world().await;
    let reader = StateReader::open(Arc::new(world.store.clone()), &world.refs[1]).await.unwrap();
    assert_eq!((reader.version(), reader.report()[0].rows), (2, 2));
    let mut rows = reader.rows(0, 0).unwrap();
    let read = rows.next().await.unwrap().unwrap();
    assert!(rows.next().await.unwrap().is_none());
    assert_eq!(read.schema(), rows.schema());
    let users =
        read.column_by_name("key").unwrap().as_struct().column(0).as_string::<i32>().clone();
    assert_eq!(users.iter().collect::<Vec<_>>(), [Some("ann"), None]);
    let counts = read.column_by_name("value").unwrap().as_struct();
    assert_eq!(counts.column(0).as_primitive::<Int64Type>().values(), &[2, 7]);
    let partitions = read.column_by_name("partition_id").unwrap();
    let expected = [3, 200].map(|group| i32::try_from(partition_of(group, 2)).unwrap());
    assert_eq!(partitions.as_primitive::<Int32Type>().values(), &expected);

    let newest = StateReader::open(Arc::new(world.store.clone()), &world.refs[2]).await.unwrap();
    let mut changes = newest.changes(0, 0, BatchId(2)).unwrap();
    let read = changes.next().await.unwrap().unwrap();
    assert_eq!(read.column_by_name("change_type").unwrap().as_string::<i32>().value(0), "delete");
    assert!(read.column_by_name("value").unwrap().is_null(0));
    assert_eq!(read.num_rows(), 1);
    let mut changes = newest.changes(0, 0, BatchId(1)).unwrap();
    assert_eq!(changes.next().await.unwrap().unwrap().num_rows(), 2);
    assert!(newest.changes(0, 0, BatchId(3)).is_err());
    assert!(newest.rows(4, 0).is_err());
}

#[tokio::test]
async fn changes_merged_into_a_snapshot_are_read_from_its_parts_or_refused_by_name() {
    let mut world = world().await;
    world.state.finish_snapshot().await;
    world.batch(&[((0, 0, 5, user(Some("bob"))), Some(&*count(1)))]).await;
    let store = Arc::new(world.store.clone());
    let reader = StateReader::open(store.clone(), world.refs.last().unwrap()).await.unwrap();
    let read = reader.changes(0, 0, BatchId(0)).unwrap().next().await.unwrap().unwrap();
    assert_eq!(read.num_rows(), 1);
    for number in 0..6 {
        world.batch(&[((0, 0, 5, user(Some("bob"))), Some(&*count(number)))]).await;
        world.state.finish_snapshot().await;
    }
    let reader = StateReader::open(store, world.refs.last().unwrap()).await.unwrap();
    let error = reader.changes(0, 0, BatchId(0)).unwrap_err().to_string();
    assert!(error.contains("merged"), "{error}");
}

#[tokio::test]
async fn many_rows_come_in_batches_and_a_snapshot_lost_meanwhile_changes_nothing() {
    let mut world = World::new().await;
    world.config.operators = counting();
    world.state = StateStore::open(world.config.clone(), None).await.unwrap();
    for batch in 0..4 {
        let changes: Vec<_> = (0..6_000_i64)
            .map(|number| {
                let number = batch * 5_000 + number;
                let group = u8::try_from(number % 256).unwrap();
                ((0, 0, group, user(Some(&format!("user {number}")))), count(number))
            })
            .collect();
        let changes: Vec<_> =
            changes.iter().map(|(row, value)| (row.clone(), Some(&**value))).collect();
        world.batch(&changes).await;
    }
    world.state.finish_snapshot().await;
    world.batch(&[]).await;
    let at = world.refs.last().unwrap();
    let reader = StateReader::open(Arc::new(world.store.clone()), at).await.unwrap();
    let mut rows = reader.rows(0, 0).unwrap();
    let mut read = rows.next().await.unwrap().unwrap().num_rows();
    assert!(at.paths().iter().any(|path| path.contains("snapshots/")));
    for path in at.paths().iter().filter(|path| path.contains("snapshots/")) {
        onefold_storage::Store::delete(&world.store, path).await.unwrap();
    }
    let mut sum = 0;
    let mut add = |batch: &arrow::array::RecordBatch| {
        let values = batch.column_by_name("value").unwrap().as_struct();
        sum += values.column(0).as_primitive::<Int64Type>().values().iter().sum::<i64>();
    };
    while let Some(batch) = rows.next().await.unwrap() {
        read += batch.num_rows();
        add(&batch);
    }
    assert_eq!(read, 21_000);
    assert!(sum > 0);
}
