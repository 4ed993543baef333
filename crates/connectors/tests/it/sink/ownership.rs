//! Whose output it is: what opening a sink refuses, and with which words.

use super::rig::{Rig, rows};
use onefold_types::ErrorKind;

async fn two_batches() -> (tempfile::TempDir, Rig) {
    let out = tempfile::tempdir().unwrap();
    let rig = Rig::local(out.path());
    let sink = rig.open(1, None, None).await.unwrap();
    rig.run(&*sink, 1, 0, vec![vec![rows(&[1])]]).await.unwrap();
    rig.run(&*sink, 1, 1, vec![vec![rows(&[2])]]).await.unwrap();
    (out, rig)
}

async fn refused(rig: &Rig, last_commit: Option<u64>, last_intent: Option<u64>) -> String {
    let error = rig.open(2, last_commit, last_intent).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains(rig.store.url()), "{error}");
    error.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_of_another_query_is_refused_with_the_choices() {
    let (_out, mut rig) = two_batches().await;
    let owner = rig.query.to_string();
    rig.query = "11111111-0d2c-4b1e-9d5c-1f2d3c4b5a69".parse().unwrap();
    for (commit, intent) in [(None, None), (Some(1), Some(1)), (Some(7), Some(8))] {
        let error = refused(&rig, commit, intent).await;
        assert!(error.contains(&owner) && error.contains("new output folder"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_ahead_of_or_behind_the_checkpoint_is_refused() {
    let (_out, rig) = two_batches().await;
    assert!(refused(&rig, None, None).await.contains("no batch yet"));
    assert!(refused(&rig, None, Some(0)).await.contains("only reaches batch 0"));
    assert!(refused(&rig, Some(4), Some(4)).await.contains("committed batch 4"));
    let new = tempfile::tempdir().unwrap();
    let mut into_new = Rig::local(new.path());
    into_new.query = rig.query;
    let error = refused(&into_new, Some(4), Some(4)).await;
    let fork = format!("fork CHECKPOINT NEW --sink {}`", into_new.store.url());
    assert!(error.contains(&fork), "{error}");
    rig.open(2, Some(0), Some(1)).await.unwrap();
    rig.open(3, Some(1), Some(2)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_manifest_is_told_from_a_missing_output() {
    let (out, rig) = two_batches().await;
    std::fs::remove_dir_all(out.path().join("_spark_metadata")).unwrap();
    let error = refused(&rig, Some(1), Some(1)).await;
    assert!(error.contains("2 data files") && error.contains("_spark_metadata"), "{error}");
    for file in super::rig::listed(out.path()) {
        std::fs::remove_file(file).unwrap();
    }
    assert!(refused(&rig, Some(1), Some(1)).await.contains("emptied"));
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_are_refused_before_anything_is_written() {
    let out = tempfile::tempdir().unwrap();
    let mut rig = Rig::local(&out.path().join("not yet"));
    rig.options.set("compresion", "gzip");
    assert!(rig.definition().unwrap_err().to_string().contains("`compression`"));
    rig.options = onefold_types::OptionMap::new().with("timeZone", "Mars/Base");
    assert!(rig.open(1, None, None).await.unwrap_err().to_string().contains("Mars/Base"));
    rig.options = onefold_types::OptionMap::new();
    rig.partition_by = vec!["nope".to_owned()];
    assert!(rig.open(1, None, None).await.unwrap_err().to_string().contains("`nope`"));
    assert!(!out.path().join("not yet").exists());
    let definition = rig.definition().unwrap();
    assert!(definition.delivery().exactly_once());
    assert!(definition.folder().unwrap().ends_with("/not%20yet"));
}
