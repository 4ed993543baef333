//! An S3 server that answers wrongly: refusals, lost replies, uploads that are gone.

use crate::contract::{create, deep, stage};
use bytes::Bytes;
use onefold_storage::{CreateError, Created, Durability, Recorded, Store, create_record, open};
use onefold_testkit::{Operation, S3Fault, S3Server};
use onefold_types::ErrorKind;
use std::sync::Arc;

fn server() -> (S3Server, Arc<dyn Store>) {
    let server = S3Server::start().unwrap();
    let store = open(&server.url("box"), &server.options()).unwrap();
    (server, store)
}

async fn record(store: &dyn Store, path: &str) -> onefold_types::Result<Recorded> {
    create_record(store, path, Bytes::from("mine"), Durability::Now).await
}

#[tokio::test]
async fn a_create_that_loses_to_its_own_retry_is_ours() {
    for fault in [S3Fault::ErrorAfter, S3Fault::CutAfter] {
        let (server, store) = server();
        server.plan(Operation::Put, fault);
        assert_eq!(record(&*store, "offsets/0").await.unwrap(), Recorded::Mine, "{fault:?}");
        assert_eq!(server.keys(), ["box/offsets/0"]);
        assert_eq!(server.unmet(), 0);
    }
}

#[tokio::test]
async fn a_refused_create_is_tried_until_it_lands() {
    for fault in [S3Fault::SlowDown, S3Fault::Conflict, S3Fault::CutBefore] {
        let (server, store) = server();
        server.plan(Operation::Put, fault);
        assert_eq!(record(&*store, "offsets/0").await.unwrap(), Recorded::Mine, "{fault:?}");
        assert_eq!(server.unmet(), 0);
    }
}

#[tokio::test]
async fn a_conflict_without_end_is_certainly_not_done() {
    let (server, store) = server();
    (0..20).for_each(|_| server.plan(Operation::Put, S3Fault::Conflict));
    let outcome = store.create("offsets/0", Bytes::from("1"), Durability::Now).await;
    let Err(CreateError::NotDone(error)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(server.keys(), [""; 0]);
}

#[tokio::test]
async fn a_denial_is_definite_at_once_but_not_after_a_retry() {
    let (server, store) = server();
    server.plan(Operation::Put, S3Fault::Forbidden);
    let outcome = store.create("a", Bytes::from("1"), Durability::Now).await;
    let Err(CreateError::NotDone(error)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("s3://onefold-test/box/a: AccessDenied"), "{error}");

    // The first try lands, its reply is a 500, the second is denied: it may be there.
    server.plan(Operation::Put, S3Fault::ErrorAfter);
    server.plan(Operation::Put, S3Fault::Forbidden);
    let outcome = store.create("b", Bytes::from("1"), Durability::Now).await;
    assert!(matches!(outcome, Err(CreateError::MaybeDone(_))), "{outcome:?}");
    assert_eq!(server.keys(), ["box/b"]);
}

#[tokio::test]
async fn a_record_of_someone_else_is_theirs_whatever_the_replies() {
    let (server, store) = server();
    create(&*store, "offsets/0", "theirs").await;
    server.plan(Operation::Put, S3Fault::SlowDown);
    server.plan(Operation::Get, S3Fault::SlowDown);
    let outcome = record(&*store, "offsets/0").await.unwrap();
    assert_eq!(outcome, Recorded::Theirs(Bytes::from("theirs")));
}

#[tokio::test]
async fn two_creators_at_once_have_one_winner() {
    let (_server, store) = server();
    for round in 0..50 {
        let path = format!("offsets/{round}");
        let one = store.create(&path, Bytes::from("1"), Durability::Now);
        let two = store.create(&path, Bytes::from("2"), Durability::Now);
        let (one, two) = futures::join!(one, two);
        let outcomes = [one.unwrap(), two.unwrap()];
        let new = outcomes.iter().filter(|outcome| **outcome == Created::New).count();
        assert_eq!(new, 1, "{outcomes:?}");
    }
}

#[tokio::test]
async fn nothing_is_seen_before_reveal_and_a_lost_reply_to_it_is_resolved() {
    for fault in [S3Fault::ErrorAfter, S3Fault::CutAfter, S3Fault::SlowDown, S3Fault::CutBefore] {
        let (server, store) = server();
        let staged = stage(&*store, "out/a", "t", &["123"]).await;
        assert_eq!(server.keys(), [""; 0]);
        assert_eq!(server.open_uploads(), 1);
        server.plan(Operation::CompleteUpload, fault);
        store.reveal(&[staged]).await.unwrap();
        assert_eq!(server.keys(), ["box/out/a"], "{fault:?}");
        assert_eq!((server.open_uploads(), server.unmet()), (0, 0), "{fault:?}");
    }
}

#[tokio::test]
async fn a_large_file_is_sent_in_parts_and_read_back_whole() {
    let (server, store) = server();
    let piece = Bytes::from(vec![7_u8; 3 << 20]);
    let mut writer = store.stage("big", "t").await.unwrap();
    for _ in 0..6 {
        writer.write(piece.clone()).await.unwrap();
    }
    let staged = writer.finish().await.unwrap();
    assert_eq!(staged.parts.len(), 3);
    store.reveal(&[staged]).await.unwrap();
    assert_eq!(store.stat("big").await.unwrap().unwrap().size, 18 << 20);
    assert_eq!(server.open_uploads(), 0);
}

#[tokio::test]
async fn a_record_written_ahead_gets_its_name_once_whatever_the_replies() {
    for fault in [S3Fault::ErrorAfter, S3Fault::CutAfter, S3Fault::SlowDown] {
        let (server, store) = server();
        let mut writer = store.stage_record("log/9.compact", "t").await.unwrap();
        writer.write(Bytes::from("v1")).await.unwrap();
        let staged = writer.finish().await.unwrap();
        server.plan(Operation::CompleteUpload, fault);
        let outcome = match store.create_staged(&staged).await {
            Err(CreateError::MaybeDone(_)) => store.create_staged(&staged).await,
            outcome => outcome,
        };
        let ours = match outcome.unwrap() {
            Created::New => true,
            Created::Exists(bytes) => bytes == "v1",
        };
        assert!(ours, "{fault:?}");
        assert_eq!(deep(&*store, "log", false).await, ["log/9.compact"]);
    }
}

#[tokio::test]
async fn unfinished_uploads_of_anyone_are_ended_and_nothing_else() {
    let (server, store) = server();
    let elsewhere = open(&server.url("boxes"), &server.options()).unwrap();
    let _kept = stage(&*elsewhere, "out/k=1/old 1", "t", &["1"]).await;
    let mut old = Vec::new();
    for number in 0..12 {
        old.push(stage(&*store, &format!("out/k=é+%/old {number}"), "t", &["1"]).await);
    }
    let new = stage(&*store, "out/new", "t", &["1"]).await;
    store.reveal(&old[..1]).await.unwrap();
    // Another process, after a busy server.
    let other = open(&server.url("box"), &server.options()).unwrap();
    server.plan(Operation::ListUploads, S3Fault::SlowDown);
    server.plan(Operation::ListUploads, S3Fault::CutAfter);
    let wanted = |path: &str| path.starts_with("out/k=é+%/old ");
    assert_eq!(other.abort_uploads(&wanted).await.unwrap(), 11);
    assert_eq!((server.open_uploads(), server.unmet()), (2, 0));
    let error = store.reveal(&old[1..2]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    store.reveal(&[new]).await.unwrap();
    assert_eq!(deep(&*store, "out", false).await, ["out/k=é+%/old 0", "out/new"]);
    assert_eq!(other.abort_uploads(&wanted).await.unwrap(), 0);
}

#[tokio::test]
async fn a_store_that_may_not_list_uploads_works_without() {
    let (server, store) = server();
    let staged = stage(&*store, "out/a", "t", &["1"]).await;
    server.plan(Operation::ListUploads, S3Fault::Forbidden);
    assert_eq!(store.abort_uploads(&|_| true).await.unwrap(), 0);
    store.reveal(&[staged]).await.unwrap();
}

#[tokio::test]
async fn listings_go_on_past_the_first_page() {
    let (_server, store) = server();
    for number in 0..230 {
        create(&*store, &format!("offsets/{number}"), "1").await;
    }
    assert_eq!(store.list("offsets").await.unwrap().len(), 230);
    assert_eq!(store.list_deep("", false).await.unwrap().len(), 230);
}

#[tokio::test]
async fn a_bucket_that_is_not_there_and_a_wrong_key_are_named_without_secrets() {
    let (server, _) = server();
    let store = open("s3://no-such-bucket/a", &server.options()).unwrap();
    let outcome = store.create("x", Bytes::from("1"), Durability::Now).await;
    let Err(CreateError::NotDone(error)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("NoSuchBucket"), "{error}");

    let options = server.options().with("aws_secret_access_key", "hunter2-wrong");
    let store = open(&server.url("a"), &options).unwrap();
    let error = store.list("").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(!error.chain().contains("hunter2"), "{}", error.chain());
}
