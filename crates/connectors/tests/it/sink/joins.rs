//! A sink that joins a query which has run before: its first batch is a later one.

use super::rig::{Rig, ids, listed, rows};
use onefold_types::BatchId;
use std::fs;
use std::path::Path;

fn manifest(out: &Path) -> Vec<String> {
    let entries = fs::read_dir(out.join("_spark_metadata")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| !name.starts_with('.'));
    names.sort_by_key(|name| name.trim_end_matches(".compact").parse::<u64>().unwrap());
    names
}

async fn run(rig: &Rig, generation: u64, first: bool, batches: std::ops::Range<u64>) {
    let last = batches.start.checked_sub(1);
    let sink = rig.open(generation, last.filter(|_| !first), last).await.unwrap();
    assert_eq!(sink.last_mark().await.unwrap().is_none(), first);
    for batch in batches {
        let id = i64::try_from(batch).unwrap();
        rig.run(&*sink, generation, batch, vec![vec![rows(&[id])]]).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_joins_later_goes_on_after_a_restart_and_is_compacted() {
    for first in [1, 7, 9, 10, 11, 25] {
        let out = tempfile::tempdir().unwrap();
        let rig = Rig { follows: true, ..Rig::local(out.path()) };
        run(&rig, 1, true, first..first + 3).await;
        for (generation, restarted) in (2..).zip((first + 3..first + 30).step_by(9)) {
            run(&rig, generation, false, restarted..restarted + 9).await;
        }
        let sink = rig.open(9, Some(first + 29), Some(first + 29)).await.unwrap();
        assert_eq!(sink.last_mark().await.unwrap().unwrap().mark.batch, BatchId(first + 29));
        assert_eq!(sink.audit(BatchId(first)).await.unwrap().unwrap().rows, 1);
        let wanted: Vec<i64> = (first..first + 30).map(|id| i64::try_from(id).unwrap()).collect();
        assert_eq!(ids(&listed(out.path())), wanted);
        let compact = manifest(out.path()).into_iter().rev().find(|it| it.ends_with(".compact"));
        let text = fs::read_to_string(out.path().join("_spark_metadata").join(compact.unwrap()));
        assert!(text.unwrap().contains(&format!("-b{first}-g")), "the compact file lacks lines");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_among_the_files_that_stand_for_older_batches_is_made_good() {
    let out = tempfile::tempdir().unwrap();
    let rig = Rig { follows: true, ..Rig::local(out.path()) };
    let folder = out.path().join("_spark_metadata");
    fs::create_dir(&folder).unwrap();
    for name in ["19.compact", "20"] {
        fs::write(folder.join(name), "v1").unwrap();
    }
    // Batch 23 is intended, batch 22 is the last that was committed, without this sink.
    let sink = rig.open(2, None, Some(23)).await.unwrap();
    assert_eq!(sink.last_mark().await.unwrap(), None);
    rig.run(&*sink, 2, 23, vec![vec![rows(&[23])]]).await.unwrap();
    assert_eq!(manifest(out.path()), ["19.compact", "20", "21", "22", "23"]);
    assert_eq!(sink.last_mark().await.unwrap().unwrap().mark.batch, BatchId(23));
}
