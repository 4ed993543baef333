//! What dead and fenced drivers left: it goes, it stays bounded, and nothing published goes with it.

use super::rig::{Gate, Rig, hidden, ids, listed, rows, stream};
use onefold_connector::Sink;
use onefold_storage::LocalStore;
use onefold_testkit::S3Server;
use onefold_types::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// Stages a batch as a process does that dies then.
async fn stage_and_die(rig: &Rig, generation: u64, batch: u64) {
    let intent = Some(batch);
    let sink = rig.open(generation, batch.checked_sub(1), intent).await.unwrap();
    if let Some(published) = sink.last_mark().await.unwrap() {
        sink.settle(&published).await.unwrap();
    }
    sink.conceal(onefold_types::BatchId(batch)).await.unwrap();
    let attempt = rig.attempt(batch, generation);
    for partition in 0..3 {
        sink.stage(&attempt, partition, stream(vec![rows(&[1, 2])])).await.unwrap();
    }
}

async fn settle_newest(sink: &dyn Sink) {
    let mark = sink.last_mark().await.unwrap().unwrap();
    sink.settle(&mark).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_dies_again_and_again_keeps_one_attempt_at_most() {
    let out = tempfile::tempdir().unwrap();
    let rig = Rig::local(out.path());
    for generation in 1..6 {
        stage_and_die(&rig, generation, 0).await;
        assert_eq!(hidden(out.path()).len(), 3, "generation {generation}");
    }
    let sink = rig.open(6, None, Some(0)).await.unwrap();
    sink.conceal(onefold_types::BatchId(0)).await.unwrap();
    rig.run(&*sink, 6, 0, vec![vec![rows(&[1, 2])]]).await.unwrap();
    assert_eq!(hidden(out.path()), [""; 0].map(Path::new));
    assert_eq!(ids(&listed(out.path())), [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_of_a_query_that_dies_again_and_again_do_not_pile_up() {
    let server = S3Server::start().unwrap();
    let open = || onefold_storage::open(&server.url("out 1"), &server.options()).unwrap();
    for generation in 1..6 {
        stage_and_die(&Rig::over(open()), generation, 0).await;
        assert_eq!(server.open_uploads(), 3, "generation {generation}");
    }
    let rig = Rig::over(open());
    let sink = rig.open(6, None, Some(0)).await.unwrap();
    assert_eq!(server.open_uploads(), 0);
    rig.run(&*sink, 6, 0, vec![vec![rows(&[1, 2])]]).await.unwrap();
    assert_eq!((server.open_uploads(), server.keys().len()), (0, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fenced_driver_cannot_reveal_what_its_successor_took_away() {
    let server = S3Server::start().unwrap();
    let out = tempfile::tempdir().unwrap();
    let remote = onefold_storage::open(&server.url("out"), &server.options()).unwrap();
    for store in [Arc::new(LocalStore::new(out.path()).unwrap()) as _, remote] {
        let rig = Rig::over(store);
        let old = rig.open(1, None, None).await.unwrap();
        let attempt = rig.attempt(0, 1);
        let staged = old.stage(&attempt, 0, stream(vec![rows(&[1])])).await.unwrap();
        let new = rig.open(2, None, Some(0)).await.unwrap();
        new.conceal(onefold_types::BatchId(0)).await.unwrap();
        rig.run(&*new, 2, 0, vec![vec![rows(&[1])]]).await.unwrap();
        // Its look at the fence was before the new driver came.
        let outcome = old.publish(&attempt, vec![staged], &Gate::default()).await;
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Corrupt);
        let seen = rig.store.list_deep("", false).await.unwrap();
        assert_eq!(seen.len(), 2, "{seen:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_driver_that_died_while_it_concealed_a_committed_batch_loses_nothing() {
    for interval in ["10", "2"] {
        let out = tempfile::tempdir().unwrap();
        let mut rig = Rig::local(out.path());
        let name = "spark.sql.streaming.fileSink.log.compactInterval";
        rig.conf.insert(name.to_owned(), interval.to_owned());
        let sink = rig.open(1, None, None).await.unwrap();
        for batch in 0..3 {
            let id = i64::try_from(batch).unwrap();
            rig.run(&*sink, 1, batch, vec![vec![rows(&[id])]]).await.unwrap();
        }
        // It had listed the file before its driver published it.
        let entries = rig.store.list_deep("", false).await.unwrap();
        let seen = |batch: &str| {
            let of_batch = entries.iter().find(|entry| entry.path.contains(batch));
            of_batch.unwrap().path.clone()
        };
        rig.store.conceal(&[seen("-b0-"), seen("-b2-")]).await.unwrap();
        assert_eq!(ids(&listed(out.path())), [1]);
        let sink = rig.open(3, Some(2), Some(2)).await.unwrap();
        settle_newest(&*sink).await;
        assert_eq!(ids(&listed(out.path())), [0, 1, 2]);
        // The next compacted entry of the manifest is written beside the batches, at its own pace.
        let mut left = hidden(out.path());
        left.retain(|path| !path.starts_with(out.path().join("_spark_metadata")));
        assert_eq!(left, [""; 0].map(Path::new));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn temporary_files_of_dead_drivers_go_and_a_newer_drivers_stay() {
    let out = tempfile::tempdir().unwrap();
    let rig = Rig::local(out.path());
    let sink = rig.open(1, None, None).await.unwrap();
    rig.run(&*sink, 1, 0, vec![vec![rows(&[1])]]).await.unwrap();
    let manifest = out.path().join("_spark_metadata");
    let old = manifest.join(format!(".9.compact.{}-g1.staged", rig.query));
    let newer = manifest.join(format!(".9.compact.{}-g3.staged", rig.query));
    let temporary = manifest.join(".1.8b6a1f0e-0000-4000-8000-000000000000.tmp");
    let checksum = manifest.join(".0.crc");
    for file in [&old, &newer, &temporary, &checksum] {
        std::fs::write(file, "x").unwrap();
    }
    let mut looking = Rig::local(out.path());
    looking.conf.insert("onefold.readOnly".to_owned(), "true".to_owned());
    looking.open(2, Some(0), Some(0)).await.unwrap();
    assert!(old.exists() && temporary.exists());
    rig.open(2, Some(0), Some(0)).await.unwrap();
    let left = [&old, &newer, &temporary, &checksum].map(|file| file.exists());
    assert_eq!(left, [false, true, false, true]);
}
