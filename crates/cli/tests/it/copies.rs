//! `checkpoint fork`, `export` and `import`.

use crate::support::{Case, onefold, snapshot};
use serde_json::Value;
use std::fs;
use std::path::Path;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Hidden files are not carried.
fn visible(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut files = snapshot(folder);
    files.retain(|(path, _)| {
        !path.components().any(|it| it.as_os_str().as_encoded_bytes()[0] == b'.')
    });
    files
}

#[test]
fn an_export_imported_elsewhere_is_the_same_checkpoint() {
    let case = Case::copy("h2_named_sources");
    let file = case.dir.path().join("export.json");
    onefold(&["checkpoint", "export", text(&case.checkpoint()), text(&file)]).code(0);
    let copy = case.dir.path().join("copy");
    let said = onefold(&["checkpoint", "import", text(&file), text(&copy)]).code(0);
    assert!(said.out.contains("to go on into a new one, use `onefold checkpoint fork`"));
    assert_eq!(visible(&case.checkpoint()), visible(&copy));
    // Neither overwrites.
    onefold(&["checkpoint", "import", text(&file), text(&copy)]).code(2);
    onefold(&["checkpoint", "export", text(&case.checkpoint()), text(&file)]).code(2);
}

#[test]
fn an_import_moves_addresses_where_it_is_told_to() {
    let case = Case::copy("a_file_to_parquet");
    let file = case.dir.path().join("export.json");
    onefold(&["checkpoint", "export", text(&case.checkpoint()), text(&file)]).code(0);
    let copy = case.dir.path().join("copy");
    let moved = format!("{}=/elsewhere/é x", case.dir.path().join("input").display());
    onefold(&["checkpoint", "import", text(&file), text(&copy), "--relocate", &moved]).code(0);
    let entry = fs::read_to_string(copy.join("sources/0/12")).unwrap();
    assert!(entry.contains("\"file:///elsewhere/é%20x/f012.json\""), "{entry}");
    onefold(&["checkpoint", "verify", text(&copy)]).code(0);
}

#[test]
fn a_fork_has_an_identity_of_its_own_and_leaves_the_open_batch_behind() {
    let case = Case::copy("e1_crash");
    let before = snapshot(&case.checkpoint());
    let (copy, output) = (case.dir.path().join("copy"), case.dir.path().join("new-output"));
    let checkpoint = case.checkpoint();
    let args = ["checkpoint", "fork", text(&checkpoint), text(&copy), "--json"];
    let fork = onefold(&[&args[..], &["--sink", text(&output)]].concat()).code(0).json();
    assert_eq!(fork["atBatch"], 2);
    assert_ne!(fork["query"], fork["forkedFrom"]);
    assert!(before == snapshot(&case.checkpoint()));
    let metadata = fs::read_to_string(copy.join("metadata")).unwrap();
    assert!(metadata.contains(fork["query"].as_str().unwrap()));
    assert!(!copy.join("offsets/3").exists());

    let show = ["checkpoint", "show", text(&copy), "--json"];
    let shown: Value = onefold(&[&show[..], &["--sink", text(&output)]].concat()).code(0).json();
    assert_eq!(shown["restart"]["act"], "plan");
    assert_eq!(shown["restart"]["batch"], 3);
    onefold(&args).code(2);
}

#[test]
fn a_file_that_is_no_export_is_refused_and_makes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.json");
    fs::write(&file, "{}").unwrap();
    let refused =
        onefold(&["checkpoint", "import", text(&file), text(&dir.path().join("new"))]).code(2);
    assert!(refused.err.contains("no exported checkpoint"), "{refused:?}");
    assert!(!dir.path().join("new").exists());
}
