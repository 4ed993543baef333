//! What leaves the manifest by age or by count, and what does not.

use super::rig::{Rig, ids, listed, rows};
use onefold_types::BatchId;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

const INTERVAL: &str = "spark.sql.streaming.fileSink.log.compactInterval";

fn rig(out: &Path) -> Rig {
    let mut rig = Rig::local(out);
    rig.conf.insert(INTERVAL.to_owned(), "2".to_owned());
    rig
}

async fn run(rig: &Rig, batches: std::ops::Range<u64>) {
    let last = batches.start.checked_sub(1);
    let sink = rig.open(1, last, last).await.unwrap();
    for batch in batches {
        let id = i64::try_from(batch).unwrap();
        rig.run(&*sink, 1, batch, vec![vec![rows(&[id])]]).await.unwrap();
    }
}

/// The batches that a file of the manifest names, in order.
fn named(out: &Path, file: &str) -> Vec<u64> {
    let text = fs::read_to_string(out.join("_spark_metadata").join(file)).unwrap();
    let batch = |line: &str| {
        let (_, rest) = line.split_once("-b").unwrap();
        rest.split_once('-').unwrap().0.parse().unwrap()
    };
    text.lines().skip(1).map(batch).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_batches_stay_in_the_manifest_as_asked_for() {
    for by_option in [true, false] {
        let out = tempfile::tempdir().unwrap();
        let mut rig = rig(out.path());
        if by_option {
            rig.options.set("onefold.sink.retainBatches", "3");
        } else {
            rig.conf.insert("onefold.sink.retainBatches".to_owned(), "3".to_owned());
        }
        run(&rig, 0..10).await;
        assert_eq!(named(out.path(), "9.compact"), [7, 8, 9]);
        assert_eq!(ids(&listed(out.path())).len(), 10, "no data is deleted");
        let sink = rig.open(2, Some(9), Some(9)).await.unwrap();
        assert_eq!(sink.last_mark().await.unwrap().unwrap().mark.batch, BatchId(9));
        assert_eq!(sink.audit(BatchId(8)).await.unwrap().unwrap().rows, 1);
        // What the compact file stands for goes once it is old enough.
        sink.retain(BatchId(10)).await.unwrap();
        assert_eq!(sink.audit(BatchId(2)).await.unwrap(), None, "it cannot tell any more");
        assert_eq!(sink.audit(BatchId(8)).await.unwrap().unwrap().rows, 1);
        drop(sink);
        run(&rig, 10..12).await;
        assert_eq!(named(out.path(), "11.compact"), [9, 10, 11]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_of_files_older_than_the_retention_leave_the_manifest() {
    let out = tempfile::tempdir().unwrap();
    let mut rig = rig(out.path());
    rig.options.set("retention", "1h");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    rig.clock.0.store(i64::try_from(now).unwrap(), Ordering::SeqCst);
    run(&rig, 0..4).await;
    assert_eq!(named(out.path(), "3.compact"), [0, 1, 2, 3]);
    rig.clock.0.fetch_add(2 * 3_600_000, Ordering::SeqCst);
    run(&rig, 4..6).await;
    // A batch's own entry is its mark and stays, however old its files are.
    assert_eq!(named(out.path(), "5.compact"), [5]);
    assert_eq!(ids(&listed(out.path())).len(), 6, "no data is deleted");
}
