//! Input that vanishes, changes or cannot be what it says.

use super::rig::{Rig, ids, propose, rows, touch};
use onefold_connectors::{SOURCES, file_source};
use onefold_types::{ErrorKind, OptionMap};
use std::fs;

fn json() -> Rig {
    Rig::new(&file_source::JSON)
}

#[tokio::test]
async fn a_file_that_vanished_is_named_or_left_out() {
    for (ignored, wanted) in [("false", None), ("true", Some(vec![2]))] {
        let mut rig = json().with("ignoreMissingFiles", ignored);
        let gone = rig.row("a.json", 1, 1_000);
        rig.row("b.json", 2, 2_000);
        let source = rig.open().await.unwrap();
        let range = rig.plan(source.as_ref()).await.unwrap().unwrap();
        fs::remove_file(&gone).unwrap();
        match (rows(source.as_ref(), &range, &[0]).await, wanted) {
            (Ok(batches), Some(wanted)) => assert_eq!(ids(&batches), wanted),
            (Err(error), None) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt);
                let text = error.to_string();
                assert!(text.contains("a.json vanished") && text.contains("ignoreMissingFiles"));
            }
            (other, _) => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_file_that_changed_is_named_or_read_as_it_is() {
    for allowed in ["false", "true"] {
        for what in ["size", "modification time"] {
            let mut rig = json().with("onefold.source.allowChangedFiles", allowed);
            let path = rig.row("a.json", 1, 1_000);
            let source = rig.open().await.unwrap();
            let range = rig.plan(source.as_ref()).await.unwrap().unwrap();
            let text = if what == "size" { "{\"id\":77}\n" } else { "{\"id\":7}\n" };
            fs::write(&path, text).unwrap();
            touch(&path, if what == "size" { 1_000 } else { 1_001 });
            // A restart forgets nothing.
            let source = rig.open().await.unwrap();
            match rows(source.as_ref(), &range, &[0]).await {
                Ok(batches) => {
                    assert_eq!(allowed, "true", "{what}");
                    assert_eq!(ids(&batches), [if what == "size" { 77 } else { 7 }]);
                }
                Err(error) => {
                    assert_eq!((allowed, error.kind()), ("false", ErrorKind::Corrupt));
                    assert!(error.to_string().contains(&format!("{what} was")), "{error}");
                }
            }
        }
    }
}

#[tokio::test]
async fn links_to_nowhere_and_things_that_are_no_files_are_left_out() {
    let mut rig = json();
    rig.row("a.json", 1, 1_000);
    let at = |name: &str| rig.at(name);
    std::os::unix::fs::symlink(at("nowhere"), at("dead.json")).unwrap();
    std::os::unix::fs::symlink(at("a.json"), at("link.json")).unwrap();
    fs::create_dir(at("folder.json")).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(at("s.json")).unwrap();
    assert_eq!(rig.drain().await.unwrap(), [[1, 1]]);
}

#[tokio::test]
async fn a_symlink_loop_is_named() {
    for target in [".", ".."] {
        let rig = json().with("recursiveFileLookup", "true");
        rig.row("sub/a.json", 1, 1_000);
        let path = rig.at("sub").join(target);
        std::os::unix::fs::symlink(path, rig.at("sub/loop")).unwrap();
        let source = rig.open().await.unwrap();
        let error = propose(source.as_ref(), None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("sub/loop is a link to a folder above"), "{error}");
    }
}

#[tokio::test]
async fn an_empty_file_of_text_has_no_rows_and_one_of_parquet_is_damaged() {
    for name in ["a.json", "a.json.gz", "a.json.bz2", "a.json.zst", "a.json.deflate", "a.json.lz4"]
    {
        let mut rig = json();
        rig.file(name, "");
        rig.row("b.json", 1, 1_000);
        assert_eq!(rig.drain().await.unwrap(), [[1]], "{name}");
    }
    let mut rig = Rig::new(&file_source::CSV).with("header", "true");
    rig.file("a.csv", "");
    rig.file("b.csv", "id,text,at\n");
    assert_eq!(rig.drain().await.unwrap(), [[0_i64; 0]; 1]);
    let mut rig = Rig::new(&file_source::PARQUET);
    rig.file("a.parquet", "");
    let error = rig.drain().await.unwrap_err();
    assert!(error.to_string().contains("a.parquet"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[tokio::test]
async fn a_damaged_parquet_file_is_left_out_if_asked() {
    let mut rig = Rig::new(&file_source::PARQUET).with("ignoreCorruptFiles", "true");
    rig.file("a.parquet", "PAR1 nonsense PAR1");
    assert_eq!(rig.drain().await.unwrap(), [[0_i64; 0]; 1]);
}

#[tokio::test]
async fn times_before_1970_and_equal_times_are_in_order() {
    use std::time::{Duration, SystemTime};
    let mut rig = json().with("maxFilesPerTrigger", "1");
    let old = rig.row("old.json", 1, 0);
    let before = SystemTime::UNIX_EPOCH - Duration::from_millis(1_500);
    fs::File::options().append(true).open(&old).unwrap().set_modified(before).unwrap();
    rig.row("b.json", 3, 5);
    rig.row("a.json", 2, 5);
    assert_eq!(rig.drain().await.unwrap(), [[1], [2], [3]]);
    // One that comes late with a time that was read already.
    rig.row("0.json", 4, 5);
    assert_eq!(rig.drain().await.unwrap(), [[4]]);
}

#[tokio::test]
async fn a_path_that_is_not_there_or_not_local_is_named() {
    for (path, wanted) in [
        ("/nowhere/at/all", "does not exist"),
        ("ftp://host/x", "schemes"),
        ("", "empty"),
        ("file://host/x", "machine"),
    ] {
        let mut rig = json();
        rig.paths = vec![path.to_owned()];
        let error = rig.define().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{path}");
        assert!(error.to_string().contains(wanted), "{error}");
    }
    let none = onefold_connector::SourceRequest {
        options: onefold_connector::Options::check(
            "json",
            file_source::JSON.options,
            OptionMap::new(),
        )
        .unwrap(),
        schema: Some(super::rig::schema()),
        paths: Vec::new(),
        conf: std::collections::BTreeMap::new(),
        whole: false,
    };
    let error = (file_source::JSON.define)(none).await.unwrap_err();
    assert!(error.to_string().contains("needs a path"), "{error}");
}

#[tokio::test]
async fn every_spelling_of_a_local_path_is_one_folder() {
    let mut rig = json();
    rig.row("a b/f.json", 1, 1_000);
    let folder = rig.folder.path().display().to_string();
    for path in [
        format!("{folder}/a b"),
        format!("{folder}//a b/./"),
        format!("file:{folder}/a%20b"),
        format!("file://{folder}/a%20b/"),
        format!("FILE://localhost{folder}/a%20b"),
    ] {
        rig.paths = vec![path.clone()];
        let definition = rig.define().await.unwrap();
        assert_eq!(definition.folders(), [format!("file://{folder}/a%20b")], "{path}");
        let wanted = format!("FileStreamSource[file:{folder}/a b]");
        assert_eq!(definition.description(), wanted, "{path}");
    }
    assert_eq!(rig.drain().await.unwrap(), [[1]]);
}

#[test]
fn an_unknown_option_of_any_source_is_named_with_the_nearest() {
    for spec in SOURCES {
        let given = OptionMap::new().with("numPartition", "1").with("maxFilePerTrigger", "1");
        let error = onefold_connector::Options::check(spec.name, spec.options, given).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("has no option") && text.contains("the nearest is"), "{text}");
    }
}
