//! Tables as another implementation reads and writes them.

use super::rig::{Rig, ids};
use crate::sink::rig::rows;
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use datafusion::prelude::SessionContext;
use deltalake_core::{DeltaTable, DeltaTableBuilder};
use std::path::Path;
use url::Url;

async fn opened(folder: &Path) -> DeltaTable {
    let url = Url::from_directory_path(folder).unwrap();
    DeltaTableBuilder::from_url(url).unwrap().load().await.unwrap()
}

async fn read(table: &DeltaTable, query: &str) -> Vec<RecordBatch> {
    let context = SessionContext::new();
    let provider = table.table_provider().await.unwrap();
    context.register_table("t", provider).unwrap();
    context.sql(query).await.unwrap().collect().await.unwrap()
}

fn numbers(rows: &[RecordBatch]) -> Vec<i64> {
    rows.iter().flat_map(|it| it.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_is_read_by_others_with_filters_and_checkpoints() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = Rig::local(folder.path());
    rig.partition_by = vec!["k".to_owned()];
    let sink = rig.open(1, None, None).await.unwrap();
    for batch in 0..12 {
        let id = i64::try_from(batch).unwrap();
        rig.run(&*sink, 1, batch, vec![rows(&[id])]).await.unwrap();
    }
    let checkpoint = folder.path().join("_delta_log/00000000000000000010.checkpoint.parquet");
    assert!(checkpoint.is_file());
    let table = opened(folder.path()).await;
    assert_eq!(table.version(), Some(11));
    let all = read(&table, "SELECT id FROM t ORDER BY id").await;
    assert_eq!(numbers(&all), (0..12).collect::<Vec<_>>());
    let some = read(&table, "SELECT id FROM t WHERE k = 'k 1/x' AND id > 4 ORDER BY id").await;
    assert_eq!(numbers(&some), [7, 10]);
}

/// Rows that others delete or compact are none of an append's business.
#[tokio::test(flavor = "multi_thread")]
async fn an_append_goes_behind_a_delete_and_a_compaction() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::local(folder.path());
    let sink = rig.open(1, None, None).await.unwrap();
    rig.run(&*sink, 1, 0, vec![rows(&[1]), rows(&[2])]).await.unwrap();
    rig.run(&*sink, 1, 1, vec![rows(&[3])]).await.unwrap();
    opened(folder.path()).await.optimize().await.unwrap();
    rig.run(&*sink, 1, 2, vec![rows(&[4])]).await.unwrap();
    opened(folder.path()).await.delete().with_predicate("id = 2").await.unwrap();
    rig.run(&*sink, 1, 3, vec![rows(&[5])]).await.unwrap();
    assert_eq!(ids(rig.store.as_ref()).await, [1, 3, 4, 5]);
    let sink = rig.open(2, Some(2), Some(3)).await.unwrap();
    assert_eq!(sink.last_mark().await.unwrap().unwrap().mark.batch.0, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_others_made_takes_rows() {
    let folder = tempfile::tempdir().unwrap();
    let url = Url::from_directory_path(folder.path()).unwrap();
    let made = DeltaTableBuilder::from_url(url).unwrap().build().unwrap();
    made.write(vec![rows(&[1, 2])]).with_partition_columns(["k"]).await.unwrap();
    let rig = Rig::local(folder.path());
    let sink = rig.open(1, None, None).await.unwrap();
    rig.run(&*sink, 1, 0, vec![rows(&[3])]).await.unwrap();
    let table = opened(folder.path()).await;
    let all = read(&table, "SELECT id FROM t ORDER BY id").await;
    assert_eq!(numbers(&all), [1, 2, 3]);
    assert_eq!(table.snapshot().unwrap().metadata().partition_columns(), &["k".to_owned()]);
}
