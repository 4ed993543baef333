//! Every text log that Spark itself wrote, in the project's test data.

use onefold_protocol::record::{Commit, Intent, Metadata};
use std::path::{Path, PathBuf};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests")
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let hidden = path.file_name().unwrap().to_string_lossy().starts_with('.');
        match path.is_dir() {
            _ if hidden => {}
            true => files_below(&path, found),
            false => found.push(path),
        }
    }
}

/// Files named by a number whose folder has this name, and their text.
fn logs(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    files_below(&data().join("golden"), &mut found);
    files_below(&data().join("old-checkpoints"), &mut found);
    found.sort();
    found
        .into_iter()
        .filter(|path| path.parent().unwrap().file_name().unwrap().to_string_lossy() == folder)
        .filter(|path| path.file_name().unwrap().to_string_lossy().parse::<u64>().is_ok())
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            (path, text)
        })
        .collect()
}

/// The same JSON, whatever the order of keys.
fn json(line: Option<&str>) -> serde_json::Value {
    serde_json::from_str(line.filter(|line| !line.is_empty()).unwrap_or("{}")).unwrap()
}

#[test]
fn every_offsets_entry_is_read_and_written_back_as_it_was() {
    let logs = logs("offsets");
    assert!(logs.len() > 80, "{}", logs.len());
    for (path, text) in logs {
        let intent = Intent::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(!intent.sources.is_empty(), "{}", path.display());
        let written = intent.encode();
        let (mut old, mut new) = (text.trim_end().split('\n'), written.split('\n'));
        assert_eq!(old.next(), new.next(), "{}", path.display());
        let (old_line, new_line) = (json(old.next()), json(new.next()));
        for (key, value) in old_line.as_object().unwrap() {
            assert_eq!(new_line.get(key), Some(value), "{}: {key}", path.display());
        }
        assert!(old.eq(new), "{}", path.display());
        assert_eq!(Intent::parse(&written).unwrap(), intent);
    }
}

#[test]
fn every_commit_is_read_and_written_back_as_it_was() {
    let logs = logs("commits");
    assert!(logs.len() > 70, "{}", logs.len());
    for (path, text) in logs {
        let commit = Commit::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        if !text.trim_end().ends_with("{}") || text.contains("stateUniqueIds") {
            assert_eq!(commit.encode(), text.trim_end(), "{}", path.display());
        }
        assert_eq!(Commit::parse(&commit.encode()).unwrap(), commit);
    }
}

#[test]
fn every_metadata_file_is_read() {
    let mut found = Vec::new();
    files_below(&data(), &mut found);
    let mut read = 0;
    for path in found.iter().filter(|path| path.ends_with("metadata") && path.is_file()) {
        let beside = path.parent().unwrap();
        if !beside.join("offsets").is_dir() {
            continue;
        }
        let text = std::fs::read_to_string(path).unwrap();
        let metadata = Metadata::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!(metadata.encode(), text.trim_end(), "{}", path.display());
        read += 1;
    }
    assert!(read > 20, "{read}");
}
