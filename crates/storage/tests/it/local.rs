//! A local disk with what people do to it: links, closed folders, old times, races.

use crate::contract::{create, deep};
use bytes::Bytes;
use onefold_storage::{Created, Durability, LocalStore, Store};
use onefold_types::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

#[test]
fn two_creators_in_two_threads_have_one_winner_every_time() {
    let temp = tempfile::tempdir().unwrap();
    let stores = [(); 2].map(|()| LocalStore::new(temp.path()).unwrap());
    let barrier = Arc::new(std::sync::Barrier::new(2));
    let rounds = 1_000;
    let threads = stores.map(|store| {
        let barrier = Arc::clone(&barrier);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let mut won = vec![false; rounds];
            for (round, won) in won.iter_mut().enumerate() {
                barrier.wait();
                let bytes = Bytes::from(format!("{:?}", std::thread::current().id()));
                let path = format!("offsets/{round}");
                let outcome =
                    runtime.block_on(store.create(&path, bytes.clone(), Durability::Later));
                *won = match outcome.unwrap() {
                    Created::New => true,
                    Created::Exists(found) => {
                        assert!(!found.is_empty() && found != bytes);
                        false
                    }
                };
            }
            won
        })
    });
    let [one, two] = threads.map(|thread| thread.join().unwrap());
    assert!(one.iter().zip(&two).all(|(one, two)| one != two));
}

#[tokio::test]
async fn links_are_followed_and_circles_end() {
    let temp = tempfile::tempdir().unwrap();
    let store = LocalStore::new(temp.path()).unwrap();
    create(&store, "in/a", "123").await;
    create(&store, "elsewhere/b", "1").await;
    symlink("a", temp.path().join("in/link")).unwrap();
    symlink("../elsewhere", temp.path().join("in/folder")).unwrap();
    symlink("..", temp.path().join("in/circle")).unwrap();
    symlink("itself", temp.path().join("in/itself")).unwrap();
    symlink("nowhere", temp.path().join("in/broken")).unwrap();
    let mut names: Vec<(String, u64)> =
        store.list("in").await.unwrap().into_iter().map(|entry| (entry.path, entry.size)).collect();
    names.sort();
    assert_eq!(names, [("in/a".to_owned(), 3), ("in/link".to_owned(), 3)]);
    let paths = deep(&store, "in", false).await;
    assert!(paths.contains(&"in/folder/b".to_owned()), "{paths:?}");
    assert!(paths.len() < 10, "{paths:?}");
}

#[tokio::test]
async fn times_before_1970_round_down() {
    let temp = tempfile::tempdir().unwrap();
    let store = LocalStore::new(temp.path()).unwrap();
    create(&store, "old", "1").await;
    let file = std::fs::File::options().write(true).open(temp.path().join("old")).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH - Duration::from_micros(1_500)).unwrap();
    assert_eq!(store.stat("old").await.unwrap().unwrap().modified_ms, -2);
}

#[tokio::test]
async fn a_closed_folder_is_an_error_that_names_it() {
    let temp = tempfile::tempdir().unwrap();
    let store = LocalStore::new(temp.path()).unwrap();
    create(&store, "in/shut/a", "1").await;
    let shut = temp.path().join("in/shut");
    std::fs::set_permissions(&shut, std::fs::Permissions::from_mode(0o000)).unwrap();
    // The superuser may read everything: then there is nothing to see here.
    let refused = std::fs::read_dir(&shut).is_err();
    let outcome = store.list_deep("in", false).await;
    std::fs::set_permissions(&shut, std::fs::Permissions::from_mode(0o755)).unwrap();
    match outcome {
        Ok(found) => assert!(!refused && found.len() == 1),
        Err(error) => {
            assert!(refused);
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains("in/shut"), "{error}");
        }
    }
}

#[tokio::test]
async fn the_checksum_that_hadoop_left_goes_with_its_file() {
    let temp = tempfile::tempdir().unwrap();
    let store = LocalStore::new(temp.path()).unwrap();
    create(&store, "offsets/0", "1").await;
    create(&store, "offsets/.0.crc", "1").await;
    store.delete("offsets/0").await.unwrap();
    assert_eq!(deep(&store, "", true).await, [""; 0]);
}

#[tokio::test]
async fn a_dropped_writer_leaves_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let store = LocalStore::new(temp.path()).unwrap();
    let mut writer = store.stage("out/a", "t").await.unwrap();
    writer.write(Bytes::from(vec![0; 2 << 20])).await.unwrap();
    assert_eq!(deep(&store, "out", true).await, ["out/.a.t.staged"]);
    drop(writer);
    assert_eq!(deep(&store, "out", true).await, [""; 0]);
}

#[test]
fn a_relative_path_is_made_absolute_and_loses_its_dots() {
    let here = std::env::current_dir().unwrap();
    let store = LocalStore::new("a/../b").unwrap();
    assert_eq!(store.root(), here.join("b"));
    assert!(store.url().starts_with("file:///"));
}
