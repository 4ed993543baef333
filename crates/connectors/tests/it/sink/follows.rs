//! A sink that follows another one: what a driver staged is published by the next one, in its name.

use super::rig::{Gate, Rig, ids, listed, rows, stream};
use onefold_connector::StagedOutput;
use onefold_storage::{LocalStore, Store};
use onefold_testkit::S3Server;
use onefold_types::{BatchId, ErrorKind, Generation};

/// A driver stages a batch, is fenced before it publishes, and dies; the next one publishes it. Both
/// are asked twice.
async fn taken_over(rig: &Rig, numbers: &[i64]) {
    let first = rig.open(1, None, None).await.unwrap();
    let attempt = rig.attempt(0, 1);
    let batches = if numbers.is_empty() { Vec::new() } else { vec![rows(numbers)] };
    let staged = first.stage(&attempt, 0, stream(batches)).await.unwrap();
    let noted = serde_json::to_string(&vec![staged.clone()]).unwrap();
    let outputs = || -> Vec<StagedOutput> { serde_json::from_str(&noted).unwrap() };
    let fenced = Gate::default();
    fenced.0.store(true, std::sync::atomic::Ordering::SeqCst);
    let error = first.publish(&attempt, outputs(), &fenced).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced);

    let second = rig.open(2, None, Some(0)).await.unwrap();
    assert_eq!(second.last_mark().await.unwrap(), None);
    for _ in 0..2 {
        let published = second.publish(&attempt, outputs(), &Gate::default()).await.unwrap();
        assert_eq!(published.mark.generation, Some(Generation(1)));
        assert_eq!(published.totals, Some(staged.totals));
        second.settle(&published).await.unwrap();
    }
    // The older driver lives on and did not see the fence.
    first.publish(&attempt, outputs(), &Gate::default()).await.unwrap();
    assert_eq!(second.audit(BatchId(0)).await.unwrap(), Some(staged.totals));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_driver_staged_is_published_by_the_next_one() {
    for numbers in [&[1, 2, 3][..], &[]] {
        let out = tempfile::tempdir().unwrap();
        let rig = Rig { follows: true, ..Rig::local(out.path()) };
        taken_over(&rig, numbers).await;
        assert_eq!(ids(&listed(out.path())), numbers);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_dies_between_files_and_mark_leaves_both_to_the_next_one() {
    for numbers in [&[1, 2, 3][..], &[]] {
        let out = tempfile::tempdir().unwrap();
        let rig = Rig { follows: true, ..Rig::local(out.path()) };
        let first = rig.open(1, None, None).await.unwrap();
        let attempt = rig.attempt(0, 1);
        let batches = if numbers.is_empty() { Vec::new() } else { vec![rows(numbers)] };
        let staged = first.stage(&attempt, 0, stream(batches)).await.unwrap();
        // Its files have their names, its mark is not written.
        let files = serde_json::from_value(staged.detail["files"].clone()).unwrap();
        let files: Vec<onefold_storage::Staged> = files;
        LocalStore::new(out.path()).unwrap().reveal(&files).await.unwrap();
        let second = rig.open(2, None, Some(0)).await.unwrap();
        let published =
            second.publish(&attempt, vec![staged.clone()], &Gate::default()).await.unwrap();
        second.settle(&published).await.unwrap();
        assert_eq!(second.audit(BatchId(0)).await.unwrap(), Some(staged.totals));
        assert_eq!(ids(&listed(out.path())), numbers);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_may_count_outlives_the_driver_that_began_it() {
    let server = S3Server::start().unwrap();
    let store = onefold_storage::open(&server.url("late"), &server.options()).unwrap();
    taken_over(&Rig { follows: true, ..Rig::over(store) }, &[1, 2, 3]).await;
}
