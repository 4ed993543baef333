//! The contract of a store, run against each kind of store.

use bytes::Bytes;
use onefold_storage::{
    BucketStore, CreateError, Created, Durability, LocalStore, Recorded, Staged, Store,
    create_record, open,
};
use onefold_testkit::{MemoryStore, S3Server};
use onefold_types::OptionMap;
use std::sync::Arc;

/// Runs the whole contract on an empty store. `other` is the same folder through another client.
async fn holds(store: Arc<dyn Store>, other: Arc<dyn Store>) {
    names_are_taken_once(&*store, &*other).await;
    parts_are_read(&*store).await;
    listings_show_what_may_be_seen(&*store).await;
    staged_files_appear_when_revealed(&*store, &*other).await;
    discarded_files_are_gone(&*store).await;
    concealed_files_can_be_revealed_again(&*store, &*other).await;
    records_written_ahead_take_a_free_name_only(&*store, &*other).await;
    records_of_later_durability_take_a_free_name_only(&*store).await;
    paths_stay_inside(&*store).await;
}

async fn names_are_taken_once(store: &dyn Store, other: &dyn Store) {
    let create = |store, text: &'static str| create(store, "offsets/0", text);
    assert_eq!(create(store, "mine").await, Created::New);
    assert_eq!(create(store, "other").await, Created::Exists(Bytes::from("mine")));
    assert_eq!(create(other, "mine").await, Created::Exists(Bytes::from("mine")));
    let record = |bytes: &'static str| {
        create_record(store, "offsets/0", Bytes::from(bytes), Durability::Now)
    };
    assert_eq!(record("mine").await.unwrap(), Recorded::Mine);
    assert_eq!(record("other").await.unwrap(), Recorded::Theirs(Bytes::from("mine")));
    store.delete("offsets/0").await.unwrap();
    store.delete("offsets/0").await.unwrap();
    assert_eq!(store.read("offsets/0").await.unwrap(), None);
    assert_eq!(create(store, "other").await, Created::New);
    assert_eq!(store.read("offsets/0").await.unwrap(), Some(Bytes::from("other")));
    let paths = ["offsets/0".to_owned(), "offsets/absent".to_owned()];
    store.delete_all(&paths).await.unwrap();
    assert_eq!(other.stat("offsets/0").await.unwrap(), None);
}

async fn parts_are_read(store: &dyn Store) {
    create(store, "parts", "0123456789").await;
    let read = |start, length| store.read_range("parts", start, length);
    assert_eq!(read(2, 3).await.unwrap(), "234");
    assert_eq!(read(8, 100).await.unwrap(), "89");
    assert_eq!(read(10, 5).await.unwrap(), "");
    assert_eq!(read(99, 5).await.unwrap(), "");
    assert_eq!(read(0, 0).await.unwrap(), "");
    assert!(store.read_range("absent", 0, 1).await.is_err());
    let entry = store.stat("parts").await.unwrap().unwrap();
    assert_eq!((entry.path.as_str(), entry.size), ("parts", 10));
    assert!(entry.modified_ms > 1_000_000_000_000);
    store.delete("parts").await.unwrap();
}

async fn listings_show_what_may_be_seen(store: &dyn Store) {
    for path in ["l/a b%é+=", "l/.hidden", "l/sub/x", "l/.sub/y", "lx/z", "top"] {
        create(store, path, "1").await;
    }
    assert_eq!(listed(store, "l").await, ["l/a b%é+="]);
    assert_eq!(listed(store, "").await, ["top"]);
    assert_eq!(listed(store, "absent").await, [""; 0]);
    assert_eq!(deep(store, "l", false).await, ["l/a b%é+=", "l/sub/x"]);
    let all = ["l/.hidden", "l/.sub/y", "l/a b%é+=", "l/sub/x"];
    assert_eq!(deep(store, "l", true).await, all);
    assert_eq!(deep(store, "", false).await, ["l/a b%é+=", "l/sub/x", "lx/z", "top"]);
    let paths: Vec<String> = deep(store, "", true).await;
    store.delete_all(&paths).await.unwrap();
    assert_eq!(deep(store, "", true).await, [""; 0]);
}

async fn staged_files_appear_when_revealed(store: &dyn Store, other: &dyn Store) {
    let staged = [
        stage(store, "out/k=1/a", "t", &["12", "345"]).await,
        stage(store, "out/b", "t", &[]).await,
    ];
    assert_eq!(staged[0].size, 5);
    assert_eq!(deep(store, "out", false).await, [""; 0]);
    // Another process gets them as text.
    other.reveal(&staged).await.unwrap();
    store.reveal(&staged).await.unwrap();
    assert_eq!(deep(store, "out", true).await, ["out/b", "out/k=1/a"]);
    assert_eq!(store.read("out/k=1/a").await.unwrap().unwrap(), "12345");
    assert_eq!(store.read("out/b").await.unwrap().unwrap(), "");
    create(store, "out/taken", "someone else's").await;
    let late = stage(store, "out/taken", "t", &["1"]).await;
    assert!(store.reveal(std::slice::from_ref(&late)).await.is_err());
    assert_eq!(store.read("out/taken").await.unwrap().unwrap(), "someone else's");
    store.delete("out/taken").await.unwrap();
    store.reveal(&[late]).await.unwrap();
    store.delete_all(&["out/taken".into(), "out/b".into(), "out/k=1/a".into()]).await.unwrap();
}

async fn discarded_files_are_gone(store: &dyn Store) {
    let hidden = stage(store, "d/a", "t", &["1"]).await;
    let seen = stage(store, "d/b", "t", &["1"]).await;
    store.reveal(std::slice::from_ref(&seen)).await.unwrap();
    let staged = [hidden.clone(), seen];
    store.discard(&staged).await.unwrap();
    store.discard(&staged).await.unwrap();
    assert_eq!(deep(store, "d", true).await, [""; 0]);
    assert!(store.reveal(&[hidden]).await.is_err());
    let mut writer = store.stage("d/c", "t").await.unwrap();
    writer.write(Bytes::from("1")).await.unwrap();
    writer.abandon().await.unwrap();
    assert_eq!(deep(store, "d", true).await, [""; 0]);
}

async fn concealed_files_can_be_revealed_again(store: &dyn Store, other: &dyn Store) {
    let staged = stage(store, "c/a", "t", &["123"]).await;
    store.reveal(&[staged]).await.unwrap();
    let paths = ["c/a".to_owned(), "c/absent".to_owned()];
    store.conceal(&paths).await.unwrap();
    store.conceal(&paths).await.unwrap();
    if !store.url().starts_with("s3") {
        assert_eq!(listed(store, "c").await, [""; 0]);
    }
    let concealed = [other.concealed("c/a")];
    other.reveal(&concealed).await.unwrap();
    other.reveal(&concealed).await.unwrap();
    assert_eq!(listed(store, "c").await, ["c/a"]);
    store.conceal(&paths).await.unwrap();
    store.discard(&concealed).await.unwrap();
    assert_eq!(deep(store, "c", true).await, [""; 0]);
}

async fn records_written_ahead_take_a_free_name_only(store: &dyn Store, other: &dyn Store) {
    let mine = record_ahead(store, "r/9.compact", "mine", "v1\nmine").await;
    let theirs = record_ahead(other, "r/9.compact", "theirs", "v1\ntheirs").await;
    assert_eq!(deep(store, "r", false).await, [""; 0]);
    assert_eq!(store.create_staged(&mine).await.unwrap(), Created::New);
    let found = Created::Exists(Bytes::from("v1\nmine"));
    assert_eq!(other.create_staged(&theirs).await.unwrap(), found);
    assert_eq!(store.create_staged(&mine).await.unwrap(), found);
    // What lost is thrown away without harm to what won.
    other.discard(&[theirs]).await.unwrap();
    assert_eq!(deep(store, "r", true).await, ["r/9.compact"]);
    store.delete("r/9.compact").await.unwrap();
    assert!(matches!(store.create_staged(&mine).await, Err(CreateError::NotDone(_))));
}

async fn records_of_later_durability_take_a_free_name_only(store: &dyn Store) {
    let path = ["later/9.compact".to_owned()];
    for (text, found) in [("mine", Created::New), ("theirs", Created::Exists("mine".into()))] {
        let mut writer = store.stage_record(&path[0], "later").await.unwrap();
        writer.write(Bytes::from(text)).await.unwrap();
        assert_eq!(writer.create_later().await.unwrap(), found);
        assert_eq!(deep(store, "later", true).await, path);
    }
    store.sync(&path).await.unwrap();
    assert_eq!(store.read(&path[0]).await.unwrap(), Some(Bytes::from("mine")));
    store.delete(&path[0]).await.unwrap();
}

async fn paths_stay_inside(store: &dyn Store) {
    for path in ["", "/etc/x", "../x", "a/../../x", "a//b"] {
        let outcome = store.create(path, Bytes::new(), Durability::Now).await;
        if !store.url().starts_with("memory") {
            assert!(matches!(outcome, Err(CreateError::NotDone(_))), "{path:?}");
            assert!(store.read(path).await.is_err(), "{path:?}");
        }
    }
}

pub(crate) async fn create(store: &dyn Store, path: &str, text: &str) -> Created {
    let bytes = Bytes::copy_from_slice(text.as_bytes());
    store.create(path, bytes, Durability::Now).await.unwrap()
}

pub(crate) async fn stage(store: &dyn Store, path: &str, tag: &str, parts: &[&str]) -> Staged {
    let mut writer = store.stage(path, tag).await.unwrap();
    for part in parts {
        writer.write(Bytes::copy_from_slice(part.as_bytes())).await.unwrap();
    }
    writer.finish().await.unwrap()
}

async fn record_ahead(store: &dyn Store, path: &str, tag: &str, text: &str) -> Staged {
    let mut writer = store.stage_record(path, tag).await.unwrap();
    writer.write(Bytes::copy_from_slice(text.as_bytes())).await.unwrap();
    writer.finish().await.unwrap()
}

async fn listed(store: &dyn Store, folder: &str) -> Vec<String> {
    sorted(store.list(folder).await.unwrap())
}

pub(crate) async fn deep(store: &dyn Store, folder: &str, hidden: bool) -> Vec<String> {
    let paths = sorted(store.list_deep(folder, hidden).await.unwrap());
    let mut names = store.names_deep(folder, hidden).await.unwrap();
    names.sort();
    assert_eq!(names, paths, "names alone are those of the listing");
    paths
}

fn sorted(entries: Vec<onefold_storage::Entry>) -> Vec<String> {
    let mut paths: Vec<String> = entries.into_iter().map(|entry| entry.path).collect();
    paths.sort();
    paths
}

#[tokio::test]
async fn a_local_folder_keeps_the_contract() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("a b/100%");
    let store = Arc::new(LocalStore::new(&root).unwrap());
    assert!(store.url().ends_with("/a%20b/100%25"));
    let other = open(store.url(), &OptionMap::new()).unwrap();
    assert_eq!(other.url(), store.url());
    holds(store, other).await;
}

#[tokio::test]
async fn a_store_in_memory_keeps_the_contract() {
    let store = MemoryStore::default();
    holds(Arc::new(store.clone()), Arc::new(store)).await;
}

#[tokio::test]
async fn an_s3_bucket_keeps_the_contract() {
    let server = S3Server::start().unwrap();
    let open = || open(&server.url("a b/c"), &server.options()).unwrap();
    assert_eq!(open().url(), "s3://onefold-test/a%20b/c");
    holds(open(), open()).await;
    assert_eq!(server.keys(), [""; 0]);
    assert_eq!(server.open_uploads(), 0);
}

#[test]
fn a_bucket_is_a_store() {
    fn check<T: Store>() {}
    check::<BucketStore>();
}
