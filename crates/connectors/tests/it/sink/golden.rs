//! Outputs that Spark 4.2 wrote: gone on with.

use super::rig::{Rig, listed, rows};
use onefold_types::{BatchId, QueryId};
use std::path::{Path, PathBuf};

fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

/// Copies an output and rewrites the addresses in its manifest.
fn copy(name: &str, to: &Path) {
    std::fs::create_dir_all(to.join("_spark_metadata")).unwrap();
    let from = case(name).join("output");
    let old = format!("file:///golden/{name}/output/");
    let new = format!("file://{}/", to.display());
    for file in listed(&from) {
        std::fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
    }
    for entry in std::fs::read_dir(from.join("_spark_metadata")).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().to_str().unwrap().starts_with('.') {
            continue;
        }
        let text = std::fs::read_to_string(entry.path()).unwrap().replace(&old, &new);
        std::fs::write(to.join("_spark_metadata").join(entry.file_name()), text).unwrap();
    }
}

fn query_of(name: &str) -> QueryId {
    let text = std::fs::read_to_string(case(name).join("checkpoint/metadata")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["id"].as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_of_spark_is_gone_on_with_through_the_next_compaction() {
    let out = tempfile::tempdir().unwrap();
    copy("a_file_to_parquet", out.path());
    let mut rig = Rig::local(out.path());
    rig.query = query_of("a_file_to_parquet");
    let sink = rig.open(1, Some(12), Some(12)).await.unwrap();
    let mark = sink.last_mark().await.unwrap().unwrap();
    assert_eq!((mark.mark.batch, mark.mark.query, mark.totals), (BatchId(12), None, None));
    assert_eq!(sink.audit(BatchId(12)).await.unwrap().unwrap().rows, 3);
    let mut totals = Vec::new();
    for batch in 13..21 {
        let id = i64::try_from(batch).unwrap();
        let published = rig.run(&*sink, 1, batch, vec![vec![rows(&[id])]]).await.unwrap();
        totals.push((batch, published.totals));
    }
    let metadata = out.path().join("_spark_metadata");
    let old = std::fs::read_to_string(metadata.join("9.compact")).unwrap();
    let new = std::fs::read_to_string(metadata.join("19.compact")).unwrap();
    assert!(new.starts_with(&format!("{old}\n")), "Spark's lines stay as they are");
    assert_eq!(new.lines().count(), 21);
    assert!(!new.ends_with('\n'));
    let keys: Vec<String> = new
        .lines()
        .last()
        .map(|line| serde_json::from_str::<serde_json::Map<_, _>>(line).unwrap())
        .unwrap()
        .keys()
        .cloned()
        .collect();
    assert_eq!(
        keys.join(" "),
        "path size isDir modificationTime blockReplication blockSize action onefold"
    );
    for (batch, totals) in totals {
        assert_eq!(sink.audit(BatchId(batch)).await.unwrap(), totals, "batch {batch}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compact_file_as_spark_rewrites_it_is_read() {
    let out = tempfile::tempdir().unwrap();
    let rig = Rig::local(out.path());
    let sink = rig.open(1, None, None).await.unwrap();
    let mut last = None;
    for batch in 0..10 {
        let id = i64::try_from(batch).unwrap();
        last = Some(rig.run(&*sink, 1, batch, vec![vec![rows(&[id])]]).await.unwrap());
    }
    // Spark drops fields that it does not know when it compacts.
    let path = out.path().join("_spark_metadata/9.compact");
    let text = std::fs::read_to_string(&path).unwrap();
    let plain: Vec<String> = text
        .lines()
        .map(|line| match line.split_once(",\"onefold\"") {
            Some((head, _)) => format!("{head}}}"),
            None => line.to_owned(),
        })
        .collect();
    std::fs::write(&path, plain.join("\n")).unwrap();
    let sink = rig.open(2, Some(9), Some(9)).await.unwrap();
    let mark = sink.last_mark().await.unwrap().unwrap();
    assert_eq!((mark.mark.batch, mark.mark.query), (BatchId(9), None));
    assert_eq!(sink.audit(BatchId(9)).await.unwrap(), last.unwrap().totals);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leftover_of_spark_stays_out_of_the_manifest() {
    let out = tempfile::tempdir().unwrap();
    copy("e2_crash", out.path());
    let mut rig = Rig::local(out.path());
    rig.query = query_of("e2_crash");
    let sink = rig.open(1, Some(2), Some(3)).await.unwrap();
    assert_eq!(sink.last_mark().await.unwrap().unwrap().mark.batch, BatchId(2));
    sink.conceal(BatchId(3)).await.unwrap();
    rig.run(&*sink, 1, 3, vec![vec![rows(&[9])]]).await.unwrap();
    assert_eq!(listed(out.path()).len(), 5);
    let manifest = std::fs::read_to_string(out.path().join("_spark_metadata/3")).unwrap();
    assert_eq!(manifest.lines().count(), 2);
}
