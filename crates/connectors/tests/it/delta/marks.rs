//! Whose rows a table holds: marks, other queries, other writers of the log.

use super::rig::{Rig, all, files, ids};
use crate::sink::rig::{Gate, rows, stream};
use bytes::Bytes;
use onefold_connector::OutputMode;
use onefold_storage::Durability;
use onefold_types::{BatchId, ErrorKind, Generation};
use std::sync::atomic::Ordering;

async fn two_batches() -> (tempfile::TempDir, Rig) {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::local(folder.path());
    let sink = rig.open(1, None, None).await.unwrap();
    rig.run(&*sink, 1, 0, vec![rows(&[1]), rows(&[2])]).await.unwrap();
    rig.run(&*sink, 1, 1, vec![rows(&[3])]).await.unwrap();
    (folder, rig)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mark_is_spark_s_and_says_who_published() {
    let (_folder, rig) = two_batches().await;
    let txns = all(rig.store.as_ref(), "txn").await;
    let of_query = |version: i64| {
        txns.iter().any(|txn| {
            txn["appId"] == rig.query.to_string()
                && txn["version"] == version
                && txn["lastUpdated"].is_i64()
        })
    };
    assert!(of_query(0) && of_query(1), "{txns:?}");
    let sink = rig.open(2, Some(0), Some(1)).await.unwrap();
    let published = sink.last_mark().await.unwrap().unwrap();
    assert_eq!(published.mark.batch, BatchId(1));
    assert_eq!(published.mark.generation, Some(Generation(1)));
    assert_eq!(published.totals.unwrap().rows, 1);
    assert_eq!(sink.audit(BatchId(1)).await.unwrap(), published.totals);
    assert_eq!(sink.audit(BatchId(0)).await.unwrap().unwrap().rows, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_without_rows_leaves_a_mark() {
    let (_folder, rig) = two_batches().await;
    let sink = rig.open(2, Some(1), Some(1)).await.unwrap();
    rig.run(&*sink, 2, 2, Vec::new()).await.unwrap();
    let sink = rig.open(3, Some(1), Some(2)).await.unwrap();
    assert_eq!(sink.last_mark().await.unwrap().unwrap().mark.batch, BatchId(2));
    assert_eq!(ids(rig.store.as_ref()).await, [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_queries_write_one_table_and_neither_hinders_the_other() {
    let (_folder, rig) = two_batches().await;
    let other = rig.other(8);
    let (one, two) =
        (rig.open(2, Some(1), Some(1)).await.unwrap(), other.open(1, None, None).await.unwrap());
    for batch in 0..3 {
        let number = i64::try_from(batch).unwrap();
        rig.run(&*one, 2, batch + 2, vec![rows(&[10 + number])]).await.unwrap();
        other.run(&*two, 1, batch, vec![rows(&[20 + number])]).await.unwrap();
    }
    assert_eq!(ids(rig.store.as_ref()).await, [1, 2, 3, 10, 11, 12, 20, 21, 22]);
    assert_eq!(one.last_mark().await.unwrap().unwrap().mark.batch, BatchId(4));
    let again = other.open(2, Some(2), Some(2)).await.unwrap();
    assert_eq!(again.last_mark().await.unwrap().unwrap().mark.batch, BatchId(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_driver_finds_the_mark_of_a_newer_one_behind_commits_of_others() {
    let (_folder, rig) = two_batches().await;
    let old = rig.open(2, Some(1), Some(1)).await.unwrap();
    let attempt = rig.attempt(2, 2);
    let staged = old.stage(&attempt, 0, stream(vec![rows(&[4])])).await.unwrap();
    let other = rig.other(9);
    let two = other.open(1, None, None).await.unwrap();
    other.run(&*two, 1, 0, vec![rows(&[50])]).await.unwrap();
    let new = rig.open(3, Some(1), Some(2)).await.unwrap();
    rig.run(&*new, 3, 2, vec![rows(&[4])]).await.unwrap();
    let published = old.publish(&attempt, vec![staged], &Gate::default()).await;
    // Its files were cleared away, or it finds that it lost.
    if let Ok(published) = published {
        assert_eq!(published.mark.generation, Some(Generation(3)));
    }
    assert_eq!(ids(rig.store.as_ref()).await, [1, 2, 3, 4, 50]);
    let error = rig.run(&*old, 2, 3, vec![rows(&[99])]).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Fenced | ErrorKind::Unknown), "{error}");
    assert_eq!(ids(rig.store.as_ref()).await, [1, 2, 3, 4, 50]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fenced_driver_commits_nothing() {
    let (_folder, rig) = two_batches().await;
    let sink = rig.open(2, Some(1), Some(1)).await.unwrap();
    let attempt = rig.attempt(2, 2);
    let staged = sink.stage(&attempt, 0, stream(vec![rows(&[4])])).await.unwrap();
    let gate = Gate::default();
    gate.0.store(true, Ordering::SeqCst);
    let error = sink.publish(&attempt, vec![staged], &gate).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced);
    sink.discard(&attempt).await.unwrap();
    assert_eq!(ids(rig.store.as_ref()).await, [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_ahead_of_or_behind_the_checkpoint_is_refused() {
    let (_folder, rig) = two_batches().await;
    let refused = |commit: Option<u64>, intent: Option<u64>| {
        let rig = rig.clone();
        async move {
            let error = rig.open(2, commit, intent).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            error.to_string()
        }
    };
    assert!(refused(None, None).await.contains("no batch yet"));
    assert!(refused(None, Some(0)).await.contains("only reaches batch 0"));
    assert!(refused(Some(4), Some(4)).await.contains("committed batch 4"));
    let empty = tempfile::tempdir().unwrap();
    let error = Rig::local(empty.path()).open(2, Some(4), Some(4)).await.unwrap_err();
    assert!(error.to_string().contains("nothing of this query"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn complete_replaces_all_rows_each_time_and_other_writers_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = Rig::local(folder.path());
    rig.output_mode = OutputMode::Complete;
    rig.partition_by = vec!["k".to_owned()];
    let sink = rig.open(1, None, None).await.unwrap();
    rig.run(&*sink, 1, 0, vec![rows(&[1, 2])]).await.unwrap();
    rig.run(&*sink, 1, 1, vec![rows(&[3, 4, 5])]).await.unwrap();
    assert_eq!(ids(rig.store.as_ref()).await, [3, 4, 5]);
    // The removals name files as the log spells them: spaces and `/` in folders are escaped.
    assert!(files(rig.store.as_ref()).await.keys().any(|path| path.contains("k=k%20")));
    let mut appends = rig.other(5);
    appends.output_mode = OutputMode::Append;
    let other = appends.open(1, None, None).await.unwrap();
    appends.run(&*other, 1, 0, vec![rows(&[60])]).await.unwrap();
    rig.run(&*sink, 1, 2, vec![rows(&[7])]).await.unwrap();
    assert_eq!(ids(rig.store.as_ref()).await, [7]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_numbered_write_is_made_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = Rig::local(folder.path());
    for (number, id) in [("0", 1), ("0", 1), ("1", 2), ("0", 9), ("1", 2)] {
        rig.options =
            onefold_types::OptionMap::new().with("txnAppId", "a").with("txnVersion", number);
        rig.write(rows(&[id])).await.unwrap();
    }
    assert_eq!(ids(rig.store.as_ref()).await, [1, 2]);
    rig.options = onefold_types::OptionMap::new().with("txnAppId", "a");
    assert!(rig.definition().unwrap_err().to_string().contains("txnVersion"));
}

/// A cleanup of the log frees names of old versions: they must not be taken for new ones.
#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_slept_through_a_cleanup_of_the_log_reads_it_anew() {
    let (_folder, rig) = two_batches().await;
    let sleeper = rig.open(2, Some(1), Some(1)).await.unwrap();
    let mut other = rig.other(4);
    let name = "spark.databricks.delta.properties.defaults.checkpointInterval";
    other.conf.insert(name.to_owned(), "1".to_owned());
    let busy = other.open(1, None, None).await.unwrap();
    for batch in 0..9 {
        other.run(&*busy, 1, batch, vec![rows(&[100])]).await.unwrap();
    }
    // Version 10 has a checkpoint: what is before it may go.
    for version in 0..9 {
        let path = format!("_delta_log/{version:020}.json");
        if version < 8 {
            rig.store.delete(&path).await.unwrap();
        }
    }
    let last = rig.store.list("_delta_log").await.unwrap();
    assert!(last.iter().any(|it| it.path.ends_with("10.checkpoint.parquet")), "{last:?}");
    rig.run(&*sleeper, 2, 2, vec![rows(&[4])]).await.unwrap();
    let newest = rig.store.list("_delta_log").await.unwrap();
    assert!(newest.iter().any(|it| it.path.ends_with("11.json")), "{newest:?}");
    assert!(!newest.iter().any(|it| it.path.ends_with("02.json")), "{newest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_damaged_or_not_known_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::local(folder.path());
    let protocol = serde_json::json!({"protocol": {
        "minReaderVersion": 3, "minWriterVersion": 7,
        "readerFeatures": ["timeTravelToTheMoon"], "writerFeatures": ["timeTravelToTheMoon"],
    }});
    let schema =
        r#"{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}"#;
    let metadata = serde_json::json!({"metaData": {
        "id": "x", "format": {"provider": "parquet", "options": {}}, "schemaString": schema,
        "partitionColumns": [], "configuration": {}, "createdTime": 1,
    }});
    let bytes = Bytes::from(format!("{protocol}\n{metadata}\n"));
    let path = format!("_delta_log/{:020}.json", 0);
    rig.store.create(&path, bytes, Durability::Now).await.unwrap();
    let error = rig.open(1, None, None).await.unwrap_err();
    assert!(error.chain().contains("timeTravelToTheMoon"), "{}", error.chain());
}
