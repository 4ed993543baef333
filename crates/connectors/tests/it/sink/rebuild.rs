//! Lost entries of the manifest: they are named, and made again from what proves them.

use super::rig::{Rig, listed, rows};
use onefold_connector::{LostMark, Rebuilt, Sink};
use onefold_types::{BatchId, ErrorKind, Generation, Totals};
use std::fs;
use std::path::Path;

const DRIVER: Generation = Generation(1);

/// Runs batches of two partitions; their totals.
async fn run(rig: &Rig, batches: u64) -> Vec<Totals> {
    let sink = rig.open(DRIVER.0, None, None).await.unwrap();
    let mut totals = Vec::new();
    for batch in 0..batches {
        let id = i64::try_from(batch).unwrap() * 10;
        let partitions = vec![vec![rows(&[id, id + 1])], vec![rows(&[id + 2])]];
        let published = rig.run(&*sink, DRIVER.0, batch, partitions).await.unwrap();
        totals.push(published.totals.unwrap());
    }
    totals
}

/// As a command that looks at a finished query.
async fn opened(rig: &Rig) -> std::sync::Arc<dyn Sink> {
    rig.open(2, None, Some(u64::MAX)).await.unwrap()
}

fn lost(batch: u64, totals: Option<Totals>) -> LostMark {
    LostMark { batch: BatchId(batch), committed: totals.map(|totals| (DRIVER, totals)) }
}

fn entry(out: &Path, name: &str) -> std::path::PathBuf {
    out.join("_spark_metadata").join(name)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_entry_is_named_and_made_again_byte_for_byte() {
    let out = tempfile::tempdir().unwrap();
    let rig = Rig::local(out.path());
    let totals = run(&rig, 5).await;
    let before = fs::read(entry(out.path(), "2")).unwrap();
    fs::remove_file(entry(out.path(), "2")).unwrap();
    let sink = opened(&rig).await;
    let error = sink.audit(BatchId(2)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let text = error.to_string();
    assert!(text.contains("_spark_metadata/2") && text.contains("checkpoint repair"), "{text}");
    let told = sink.rebuild(&lost(2, Some(totals[2])), false).await.unwrap();
    assert_eq!(told, Some(Rebuilt { files: 2, totals: totals[2] }));
    assert!(!entry(out.path(), "2").exists(), "only told");
    sink.rebuild(&lost(2, Some(totals[2])), true).await.unwrap();
    assert_eq!(fs::read(entry(out.path(), "2")).unwrap(), before);
    assert_eq!(sink.rebuild(&lost(2, Some(totals[2])), true).await.unwrap(), None);
    assert_eq!(opened(&rig).await.audit(BatchId(2)).await.unwrap(), Some(totals[2]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_entry_before_the_newest_stops_a_start_at_once() {
    let out = tempfile::tempdir().unwrap();
    let mut rig = Rig::local(out.path());
    let name = "spark.sql.streaming.fileSink.log.compactInterval";
    rig.conf.insert(name.to_owned(), "3".to_owned());
    let totals = run(&rig, 5).await;
    rig.open(2, Some(4), Some(4)).await.unwrap();
    // Files that a compact one replaces may be gone.
    for name in ["0", "1"] {
        fs::remove_file(entry(out.path(), name)).unwrap();
    }
    rig.open(3, Some(4), Some(5)).await.unwrap();
    fs::remove_file(entry(out.path(), "3")).unwrap();
    let error = rig.open(4, Some(4), Some(5)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let text = error.to_string();
    assert!(text.contains("_spark_metadata/3") && text.contains("checkpoint repair"), "{text}");
    opened(&rig).await.rebuild(&lost(3, Some(totals[3])), true).await.unwrap().unwrap();
    rig.open(5, Some(4), Some(5)).await.unwrap();
    fs::remove_file(entry(out.path(), "2.compact")).unwrap();
    let error = rig.open(6, Some(4), Some(5)).await.unwrap_err().to_string();
    assert!(error.contains("_spark_metadata/0") && error.contains("checkpoint repair"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_is_gone_is_made_again_compact_files_and_all() {
    let out = tempfile::tempdir().unwrap();
    let mut rig = Rig::local(out.path());
    let name = "spark.sql.streaming.fileSink.log.compactInterval";
    rig.conf.insert(name.to_owned(), "3".to_owned());
    let totals = run(&rig, 7).await;
    for file in fs::read_dir(out.path().join("_spark_metadata")).unwrap() {
        // The file that is prepared ahead may go by itself meanwhile.
        let _ = fs::remove_file(file.unwrap().path());
    }
    let sink = opened(&rig).await;
    for (batch, totals) in (0..).zip(&totals) {
        // Of the older ones the commits were purged.
        let known = (batch > 2).then_some(*totals);
        sink.rebuild(&lost(batch, known), true).await.unwrap().unwrap();
    }
    for name in ["2.compact", "5.compact", "6"] {
        assert!(entry(out.path(), name).exists(), "{name}");
    }
    let sink = rig.open(3, Some(6), Some(6)).await.unwrap();
    assert_eq!(sink.last_mark().await.unwrap().unwrap().totals, Some(totals[6]));
    for (batch, totals) in (0..).zip(&totals) {
        assert_eq!(sink.audit(BatchId(batch)).await.unwrap(), Some(*totals), "batch {batch}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_what_was_committed_is_not_made_an_entry() {
    let out = tempfile::tempdir().unwrap();
    let rig = Rig::local(out.path());
    let totals = run(&rig, 2).await;
    fs::remove_file(entry(out.path(), "1")).unwrap();
    let files = listed(out.path());
    let of_batch: Vec<_> =
        files.iter().filter(|file| file.to_str().unwrap().contains("-b1-")).collect();
    fs::remove_file(of_batch[0]).unwrap();
    let sink = opened(&rig).await;
    let error = sink.rebuild(&lost(1, Some(totals[1])), true).await.unwrap_err();
    assert!(error.to_string().contains("not the 3 that were committed"), "{error}");
    // Files of two drivers, and nothing tells which counts.
    let other = of_batch[1].to_str().unwrap().replace("-g1-", "-g4-");
    fs::copy(of_batch[1], other).unwrap();
    let error = sink.rebuild(&lost(1, None), true).await.unwrap_err();
    assert!(error.to_string().contains("2 drivers"), "{error}");
    for file in listed(out.path()).iter().filter(|it| it.to_str().unwrap().contains("-b1-")) {
        fs::remove_file(file).unwrap();
    }
    let error = sink.rebuild(&lost(1, None), true).await.unwrap_err();
    assert!(error.to_string().contains("no file of batch 1"), "{error}");
    assert!(!entry(out.path(), "1").exists());
}
