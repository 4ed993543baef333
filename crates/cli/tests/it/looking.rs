//! `checkpoint show` and `checkpoint verify` on what old versions of Spark wrote.

use crate::support::{Case, onefold, snapshot, tests_folder};
use std::fs;
use std::path::{Path, PathBuf};

/// Every folder below `tests/old-checkpoints` that holds a log.
fn old_logs() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![tests_folder().join("old-checkpoints")];
    let number = |name: &str| name.trim_end_matches(".compact").parse::<u64>().is_ok();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if (number(&name) || name == "metadata") && !found.contains(&folder) {
                found.push(folder.clone());
            }
        }
    }
    found
}

#[test]
fn every_log_that_spark_ever_wrote_is_read() {
    let logs = old_logs();
    assert!(logs.len() > 80, "{}", logs.len());
    for folder in logs {
        let before = snapshot(&folder);
        let shown = onefold(&["checkpoint", "show", "--json", folder.to_str().unwrap()]);
        let json = shown.json();
        assert_ne!(json["layout"], "unknown", "{shown:#?}");
        assert_eq!(json["unreadable"], serde_json::json!([]), "{shown:#?}");
        if folder.join("metadata").exists() {
            let metadata = fs::read_to_string(folder.join("metadata")).unwrap();
            assert!(metadata.contains(json["query"].as_str().unwrap()), "{shown:#?}");
        }
        onefold(&["checkpoint", "show", folder.to_str().unwrap()]);
        assert!(before == snapshot(&folder), "show changed {}", folder.display());
    }
}

#[test]
fn a_hole_stops_a_restart_and_is_named() {
    let folder =
        tests_folder().join("old-checkpoints/checkpoint-test-offsetId-commitId-inconsistent");
    let path = folder.to_str().unwrap();
    let shown = onefold(&["checkpoint", "show", "--json", path]).code(1).json();
    assert_eq!(shown["intents"]["missing"], serde_json::json!([3]));
    assert_eq!(shown["restart"]["act"], "stop");
    let checked = onefold(&["checkpoint", "verify", path]).code(1);
    assert!(checked.out.contains("offsets/3 is missing between two others"), "{checked:?}");
}

#[test]
fn a_record_that_a_fenced_driver_left_of_a_purged_batch_is_a_remark() {
    let case = Case::copy("a_file_to_parquet");
    let checkpoint = case.checkpoint();
    for id in 0..4 {
        fs::remove_file(checkpoint.join(format!("commits/{id}"))).unwrap();
        if id != 1 {
            fs::remove_file(checkpoint.join(format!("offsets/{id}"))).unwrap();
        }
    }
    let path = checkpoint.to_str().unwrap();
    let json = onefold(&["checkpoint", "verify", "--json", path]).code(0).json();
    let findings = json["findings"].as_array().unwrap();
    let left = findings.iter().find(|finding| finding["path"] == "offsets/1").unwrap();
    assert_eq!(left["severity"], "remark");
    assert!(left["text"].as_str().unwrap().contains("fenced"), "{left}");
    let shown = onefold(&["checkpoint", "show", "--json", path]).code(0).json();
    assert_eq!(shown["intents"]["missing"], serde_json::json!([]));
    // A batch that is kept has lost its intent: that is another thing.
    fs::remove_file(checkpoint.join("offsets/7")).unwrap();
    onefold(&["checkpoint", "verify", path]).code(1);
}

#[test]
fn show_tells_what_a_restart_would_do_by_what_the_sink_holds() {
    let show = |case: &Case, sink: bool| {
        let (checkpoint, output) = (case.checkpoint(), case.sink());
        let mut args = vec!["checkpoint", "show", "--json", checkpoint.to_str().unwrap()];
        if sink {
            args.extend(["--sink", output.to_str().unwrap()]);
        }
        onefold(&args).code(0).json()["restart"].clone()
    };
    let done = Case::copy("a_file_to_parquet");
    assert_eq!(show(&done, true)["act"], "plan");
    assert_eq!(show(&done, true)["batch"], 13);
    let published = Case::copy("e1_crash");
    assert_eq!(show(&published, true)["act"], "adoptCommit");
    assert_eq!(show(&published, false)["act"], "askSink");
    let unpublished = Case::copy("e2_crash");
    assert_eq!(show(&unpublished, true)["act"], "runAgain");
    assert_eq!(show(&unpublished, true)["batch"], 3);
}

#[test]
fn a_whole_checkpoint_is_whole_and_its_checksum_files_fit() {
    let case = Case::copy("a_file_to_parquet");
    let path = case.checkpoint();
    let checked = onefold(&["checkpoint", "verify", "--json", path.to_str().unwrap()]).code(0);
    let json = checked.json();
    assert_eq!(json["ok"], true);
    assert!(json["records"].as_u64().unwrap() > 30, "{json}");
}

fn problems(case: &Case) -> Vec<String> {
    let path = case.checkpoint();
    let json = onefold(&["checkpoint", "verify", "--json", path.to_str().unwrap()]).code(1).json();
    let findings = json["findings"].as_array().unwrap().iter();
    findings
        .filter(|finding| finding["severity"] == "problem")
        .map(|finding| finding["path"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn each_kind_of_damage_is_found_and_named() {
    type Damage = fn(&Path);
    let damage: &[(&str, Damage)] = &[
        ("metadata", |root| fs::remove_file(root.join("metadata")).unwrap()),
        ("offsets/7", |root| fs::remove_file(root.join("offsets/7")).unwrap()),
        ("commits/5", |root| fs::remove_file(root.join("commits/5")).unwrap()),
        ("commits/3", |root| fs::write(root.join("commits/3"), "").unwrap()),
        ("offsets/12", |root| fs::write(root.join("offsets/12"), "v1\n{\"batch").unwrap()),
        ("commits/12", |root| fs::remove_file(root.join("offsets/12")).unwrap()),
        ("sources/0/11", |root| fs::remove_file(root.join("sources/0/11")).unwrap()),
        ("sources/0/12", |root| {
            fs::write(root.join("sources/0/12"), "v1\n{\"path\":\"file:///in").unwrap();
        }),
        ("commits/.4.crc", |root| {
            fs::write(root.join("commits/.4.crc"), b"crc\0\0\0\x02\0\0\0\0\0").unwrap();
        }),
    ];
    for (name, break_it) in damage {
        let case = Case::copy("a_file_to_parquet");
        break_it(&case.checkpoint());
        let found = problems(&case);
        assert!(found.iter().any(|path| path == name), "{name}: {found:?}");
    }
}

#[test]
fn a_folder_that_is_no_checkpoint_is_said_to_be_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    assert!(onefold(&["checkpoint", "show", path]).code(2).err.contains("holds no file"));
    fs::write(dir.path().join("notes.txt"), "hello").unwrap();
    let shown = onefold(&["checkpoint", "show", path]).code(1);
    assert!(shown.out.contains("notes.txt"), "{shown:?}");
}

#[test]
fn a_folder_named_as_a_batch_is_no_batch() {
    let case = Case::copy("a_file_to_parquet");
    fs::create_dir_all(case.checkpoint().join("offsets/99")).unwrap();
    fs::write(case.checkpoint().join("offsets/99/x"), "").unwrap();
    let path = case.checkpoint();
    let shown = onefold(&["checkpoint", "show", "--json", path.to_str().unwrap()]).code(0).json();
    assert_eq!(shown["intents"]["last"], 12);
    assert_eq!(shown["unknown"], serde_json::json!(["offsets/99/x"]));
}
