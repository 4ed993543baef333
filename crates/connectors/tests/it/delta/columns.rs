//! Columns: what fits a table, what changes it, and how values of partitions are spelled.

use super::rig::{Rig, all, files};
use crate::sink::rig::rows;
use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use onefold_connector::OutputMode;
use onefold_types::OptionMap;
use serde_json::Value;
use std::sync::Arc;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let rows = RecordBatch::try_from_iter(columns).unwrap();
    let fields: Vec<_> = rows
        .schema()
        .fields()
        .iter()
        .map(|field| field.as_ref().clone().with_nullable(true))
        .collect();
    let schema = Arc::new(arrow::datatypes::Schema::new(fields));
    RecordBatch::try_new(schema, rows.columns().to_vec()).unwrap()
}

fn long(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

async fn names(rig: &Rig) -> Vec<String> {
    let newest = all(rig.store.as_ref(), "metaData").await.pop().unwrap();
    let schema: Value = serde_json::from_str(newest["schemaString"].as_str().unwrap()).unwrap();
    let fields = schema["fields"].as_array().unwrap();
    fields.iter().map(|field| field["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_added_or_replaced_only_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = Rig::local(folder.path());
    rig.write(rows(&[1])).await.unwrap();
    let wider = batch(vec![("v", long(&[5])), ("id", long(&[2]))]);
    let error = rig.write(wider.clone()).await.unwrap_err().to_string();
    assert!(error.contains("`v`") && error.contains("mergeSchema"), "{error}");
    rig.options = OptionMap::new().with("mergeSchema", "true");
    rig.write(wider.clone()).await.unwrap();
    assert_eq!(names(&rig).await, ["id", "k", "v"]);
    rig.options = OptionMap::new().with("overwriteSchema", "true");
    let error = rig.write(wider.clone()).await.unwrap_err().to_string();
    assert!(error.contains("mode overwrite"), "{error}");
    rig.output_mode = OutputMode::Complete;
    rig.write(wider).await.unwrap();
    assert_eq!(names(&rig).await, ["v", "id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_may_add_columns_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = Rig::local(folder.path());
    rig.write(batch(vec![("id", long(&[1]))])).await.unwrap();
    rig.options = OptionMap::new().with("mergeSchema", "true");
    let sink = rig.open(1, None, None).await.unwrap();
    rig.run(&*sink, 1, 0, vec![rows(&[2])]).await.unwrap();
    rig.run(&*sink, 1, 1, vec![rows(&[3])]).await.unwrap();
    assert_eq!(names(&rig).await, ["id", "k"]);
    assert_eq!(all(rig.store.as_ref(), "metaData").await.len(), 2);
    assert_eq!(super::rig::ids(rig.store.as_ref()).await, [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_partitions_are_spelled_so_that_each_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = Rig::local(folder.path());
    rig.partition_by = vec!["p".to_owned()];
    let values = [
        Some("a b"),
        Some("a:b%c"),
        Some("x=y/z"),
        Some("é"),
        Some("+"),
        Some(""),
        None,
        Some("__HIVE_DEFAULT_PARTITION__"),
    ];
    let p: ArrayRef = Arc::new(StringArray::from(values.to_vec()));
    let ids: Vec<i64> = (0..8).collect();
    rig.write(batch(vec![("id", long(&ids)), ("p", p)])).await.unwrap();
    let files = files(rig.store.as_ref()).await;
    let mut found: Vec<Option<String>> =
        files.values().map(|values| values["p"].as_str().map(str::to_owned)).collect();
    found.sort();
    // The empty text is null, as in every Delta table.
    let mut expected: Vec<Option<String>> = values
        .iter()
        .map(|value| value.filter(|text| !text.is_empty()).map(str::to_owned))
        .collect();
    expected.sort();
    expected.dedup();
    assert_eq!(found, expected);
    assert!(files.keys().all(|path| !path.contains(' ')), "{files:?}");
    assert_eq!(super::rig::ids(rig.store.as_ref()).await, ids);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_partitions_with_new_rows_are_replaced_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = Rig::local(folder.path());
    rig.partition_by = vec!["k".to_owned()];
    rig.write(rows(&[1, 2, 3])).await.unwrap();
    rig.output_mode = OutputMode::Complete;
    rig.options = OptionMap::new().with("partitionOverwriteMode", "dynamic");
    rig.write(rows(&[4])).await.unwrap();
    assert_eq!(super::rig::ids(rig.store.as_ref()).await, [2, 3, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_narrower_value_is_widened_and_null_is_refused_where_the_table_forbids_it() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::local(folder.path());
    rig.write(rows(&[1])).await.unwrap();
    let narrow: ArrayRef = Arc::new(Int32Array::from(vec![2]));
    rig.write(batch(vec![("ID", narrow)])).await.unwrap();
    assert_eq!(super::rig::ids(rig.store.as_ref()).await, [1, 2]);
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let error = rig.write(batch(vec![("id", text)])).await.unwrap_err().to_string();
    assert!(error.contains("`id`") && error.contains("cast it"), "{error}");
}
