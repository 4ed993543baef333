//! Running the command, and copies of what Spark wrote.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What a run of the command gave.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Said {
    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts the exit code.
    #[track_caller]
    pub fn code(self, code: i32) -> Said {
        assert_eq!(self.code, Some(code), "{self:#?}");
        assert!(!self.err.contains("panicked"), "{self:#?}");
        self
    }
}

/// A command that is not yet run.
pub fn command<A: AsRef<std::ffi::OsStr>>(args: &[A]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onefold"));
    command
        .args(args)
        .stdin(Stdio::null())
        .env_remove("ONEFOLD_CRASH_AT")
        .env_remove("ONEFOLD_LOG");
    command
}

/// Runs the command to its end.
pub fn onefold<A: AsRef<std::ffi::OsStr>>(args: &[A]) -> Said {
    said(command(args).output().unwrap())
}

pub fn said(output: Output) -> Said {
    Said {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The repository's tests folder.
pub fn tests_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests").canonicalize().unwrap()
}

/// Copies a folder with all in it.
pub fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A golden case in a folder of its own, its addresses moved there.
pub struct Case {
    pub dir: tempfile::TempDir,
}

impl Case {
    pub fn copy(name: &str) -> Case {
        let dir = tempfile::tempdir().unwrap();
        copy_folder(&tests_folder().join("golden").join(name), dir.path());
        let case = Case { dir };
        let old = format!("file:///golden/{name}/");
        let new = format!("file://{}/", case.dir.path().display());
        for folder in [case.checkpoint().join("sources"), case.sink().join("_spark_metadata")] {
            relocate(&folder, &old, &new);
        }
        case
    }

    pub fn checkpoint(&self) -> PathBuf {
        self.dir.path().join("checkpoint")
    }

    pub fn sink(&self) -> PathBuf {
        self.dir.path().join("output")
    }
}

fn relocate(folder: &Path, old: &str, new: &str) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            relocate(&path, old, new);
        } else if let Ok(text) = fs::read_to_string(&path) {
            fs::write(&path, text.replace(old, new)).unwrap();
        }
    }
}

/// Names and contents of all files below a folder.
pub fn snapshot(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push((
                    path.strip_prefix(folder).unwrap().to_owned(),
                    fs::read(&path).unwrap(),
                ));
            }
        }
    }
    files.sort();
    files
}

/// Names directly in a folder, sorted; hidden ones aside.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    names
}
