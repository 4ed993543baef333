//! Parquet files on a local disk.

use super::rig::{Gate, Rig, hidden, ids, listed, rows, stream};
use onefold_types::{BatchId, ErrorKind, Generation};
use std::sync::atomic::Ordering;

#[tokio::test(flavor = "multi_thread")]
async fn batches_are_published_marked_and_audited_and_a_restart_finds_them() {
    let out = tempfile::tempdir().unwrap();
    let rig = Rig::local(out.path());
    let sink = rig.open(1, None, None).await.unwrap();
    assert_eq!(sink.last_mark().await.unwrap(), None);
    let first = rig.run(&*sink, 1, 0, vec![vec![rows(&[1, 2])], vec![rows(&[3])]]).await.unwrap();
    let second = rig.run(&*sink, 1, 1, vec![vec![], vec![]]).await.unwrap();
    assert_eq!(first.totals.unwrap().rows, 3);
    assert_eq!(ids(&listed(out.path())), vec![1, 2, 3]);
    assert_eq!(listed(out.path()).len(), 3, "two files, and an empty one for the empty batch");

    let sink = rig.open(2, Some(1), Some(1)).await.unwrap();
    let mark = sink.last_mark().await.unwrap().unwrap();
    assert_eq!(mark, second);
    assert_eq!(mark.mark.query, Some(rig.query));
    assert_eq!(mark.mark.generation, Some(Generation(1)));
    assert_eq!(sink.audit(BatchId(0)).await.unwrap(), first.totals);
    assert_eq!(sink.audit(BatchId(1)).await.unwrap(), second.totals);
    assert_eq!(sink.audit(BatchId(2)).await.unwrap(), None);
    assert_eq!(hidden(out.path()), Vec::<std::path::PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_older_driver_revealed_is_concealed_and_then_destroyed() {
    let out = tempfile::tempdir().unwrap();
    let rig = Rig::local(out.path());
    let old = rig.open(1, None, None).await.unwrap();
    let attempt = rig.attempt(0, 1);
    let staged = old.stage(&attempt, 0, stream(vec![rows(&[1, 2])])).await.unwrap();
    // The old driver dies after its files have their final names, before the mark.
    let files: Vec<onefold_storage::Staged> =
        serde_json::from_value(staged.detail["files"].clone()).unwrap();
    rig.store.reveal(&files).await.unwrap();
    assert_eq!(ids(&listed(out.path())), vec![1, 2]);

    let new = rig.open(2, None, Some(0)).await.unwrap();
    assert_eq!(new.last_mark().await.unwrap(), None);
    new.conceal(BatchId(0)).await.unwrap();
    assert!(listed(out.path()).is_empty());
    rig.run(&*new, 2, 0, vec![vec![rows(&[2, 1])]]).await.unwrap();
    assert_eq!(ids(&listed(out.path())), vec![1, 2]);
    assert!(hidden(out.path()).is_empty(), "{:?}", hidden(out.path()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_driver_that_wins_after_all_is_shown_and_ours_is_discarded() {
    let out = tempfile::tempdir().unwrap();
    let rig = Rig::local(out.path());
    let old = rig.open(1, None, None).await.unwrap();
    let new = rig.open(2, None, Some(0)).await.unwrap();
    let mine = rig.attempt(0, 2);
    let staged = new.stage(&mine, 0, stream(vec![rows(&[5])])).await.unwrap();
    new.conceal(BatchId(0)).await.unwrap();
    let theirs = rig.run(&*old, 1, 0, vec![vec![rows(&[4])]]).await.unwrap();
    let found = new.publish(&mine, vec![staged], &Gate::default()).await.unwrap();
    assert_eq!(found, theirs);
    new.settle(&found).await.unwrap();
    assert_eq!(ids(&listed(out.path())), vec![4]);
    assert!(hidden(out.path()).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fenced_driver_publishes_nothing() {
    let out = tempfile::tempdir().unwrap();
    let rig = Rig::local(out.path());
    let sink = rig.open(1, None, None).await.unwrap();
    let attempt = rig.attempt(0, 1);
    let staged = sink.stage(&attempt, 0, stream(vec![rows(&[1])])).await.unwrap();
    let gate = Gate::default();
    gate.0.store(true, Ordering::SeqCst);
    let error = sink.publish(&attempt, vec![staged], &gate).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced);
    assert!(listed(out.path()).is_empty());
    assert!(hidden(out.path()).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_of_partition_by_are_named_as_spark_names_them() {
    let out = tempfile::tempdir().unwrap();
    let mut rig = Rig::local(out.path());
    rig.partition_by = vec!["k".to_owned()];
    let sink = rig.open(1, None, None).await.unwrap();
    let published = rig.run(&*sink, 1, 0, vec![vec![rows(&[0, 1, 2, 3])]]).await.unwrap();
    let empty = rig.run(&*sink, 1, 1, vec![vec![]]).await.unwrap();
    assert_eq!(ids(&listed(&out.path().join("k=k 0%2Fx"))), vec![0, 3]);
    let manifest = std::fs::read_to_string(out.path().join("_spark_metadata/0")).unwrap();
    assert!(manifest.contains("/k=k%200%252Fx/part-00000-"), "{manifest}");
    assert_eq!(sink.audit(BatchId(0)).await.unwrap(), published.totals);
    assert_eq!(sink.audit(BatchId(1)).await.unwrap(), empty.totals);
    assert_eq!(listed(&out.path().join("k=__HIVE_DEFAULT_PARTITION__")).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_folders_than_open_files_are_written_one_after_another() {
    let out = tempfile::tempdir().unwrap();
    let mut rig = Rig::local(out.path());
    rig.partition_by = vec!["id".to_owned()];
    let sink = rig.open(1, None, None).await.unwrap();
    let batches = (0..5).map(|_| rows(&(0..100).collect::<Vec<i64>>())).collect();
    let published = rig.run(&*sink, 1, 0, vec![batches]).await.unwrap();
    assert_eq!(published.totals.unwrap().rows, 500);
    assert_eq!(listed(out.path()).len(), 100, "one file a folder");
    assert_eq!(sink.audit(BatchId(0)).await.unwrap(), published.totals);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_cut_at_the_row_limit_and_a_damaged_one_is_named() {
    let out = tempfile::tempdir().unwrap();
    let mut rig = Rig::local(out.path());
    rig.options.set("maxRecordsPerFile", "2");
    let sink = rig.open(1, None, None).await.unwrap();
    let published = rig.run(&*sink, 1, 0, vec![vec![rows(&[1, 2, 3, 4, 5])]]).await.unwrap();
    let files = listed(out.path());
    assert_eq!(files.len(), 3);
    assert_eq!(sink.audit(BatchId(0)).await.unwrap(), published.totals);
    std::fs::remove_file(&files[1]).unwrap();
    let error = sink.audit(BatchId(0)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains(files[1].file_name().unwrap().to_str().unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manifest_is_compacted_at_the_tenth_batch_and_totals_stay() {
    let out = tempfile::tempdir().unwrap();
    let rig = Rig::local(out.path());
    let sink = rig.open(1, None, None).await.unwrap();
    let mut totals = Vec::new();
    for batch in 0..25_u64 {
        let id = i64::try_from(batch).unwrap();
        let published = rig.run(&*sink, 1, batch, vec![vec![rows(&[id])]]).await.unwrap();
        totals.push(published.totals);
    }
    let metadata = out.path().join("_spark_metadata");
    assert!(!metadata.join("9").exists() && !metadata.join("19").exists());
    let compact = std::fs::read_to_string(metadata.join("19.compact")).unwrap();
    assert_eq!(compact.lines().count(), 21);
    assert_eq!(compact.matches("\"onefold\"").count(), 20);
    rig.clock.0.store(i64::MAX, Ordering::SeqCst);
    sink.retain(BatchId(24)).await.unwrap();
    assert!(!metadata.join("9.compact").exists() && !metadata.join("3").exists());
    drop(sink);
    let sink = rig.open(2, Some(24), Some(24)).await.unwrap();
    for (batch, totals) in (0..).zip(totals) {
        assert_eq!(sink.audit(BatchId(batch)).await.unwrap(), totals, "batch {batch}");
    }
}
