//! The folder in which the demonstration works.

use crate::exit::Failure;
use onefold::types::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// The pipeline's table, and so the name of its folders.
const TABLE: &str = "orders";

/// The folder and what is in it. Unless it is to be kept, it is removed when this is dropped.
pub struct Place {
    root: PathBuf,
    keep: bool,
    /// Whether the folder itself is ours.
    made: bool,
    /// Where the orders come in.
    pub input: PathBuf,
    /// Where the stream writes.
    pub output: PathBuf,
    /// The stream's checkpoint.
    pub checkpoint: PathBuf,
    /// The pipeline file.
    pub pipeline: PathBuf,
    /// What the runs said on standard error.
    pub log: PathBuf,
}

impl Place {
    /// Makes the folder and writes the pipeline.
    ///
    /// # Errors
    /// Usage, when the folder holds something; failed, when it cannot be made.
    pub fn make(dir: Option<&Path>, keep: bool) -> Result<Place, Failure> {
        let root = match dir {
            Some(dir) => {
                std::path::absolute(dir).map_err(|error| cannot("be found", dir, error))?
            }
            None => std::env::temp_dir().join(format!("onefold-demo-{}", std::process::id())),
        };
        let made = !root.exists();
        if !made && fs::read_dir(&root).map_or(true, |mut entries| entries.next().is_some()) {
            return Err(Failure::usage(format!(
                "{} is not an empty folder: name a new one with --dir",
                root.display()
            )));
        }
        let place = Place {
            input: root.join("in"),
            output: root.join("out"),
            checkpoint: root.join("checkpoint").join(TABLE),
            pipeline: root.join("pipeline.sql"),
            log: root.join("runs.log"),
            root,
            keep,
            made,
        };
        fs::create_dir_all(&place.input).map_err(|error| cannot("be made", &place.input, error))?;
        write(&place.pipeline, &place.pipeline_text())?;
        Ok(place)
    }

    /// The folder of all checkpoints, as `--checkpoint` wants it.
    pub fn checkpoints(&self) -> &Path {
        self.checkpoint.parent().unwrap_or(&self.checkpoint)
    }

    fn pipeline_text(&self) -> String {
        let quoted = |path: &Path| path.display().to_string().replace('\'', "\\'");
        format!(
            "CREATE STREAMING TABLE {TABLE}\n\
             USING parquet\n\
             LOCATION '{}'\n\
             AS SELECT id, customer, amount, ts\n\
             FROM STREAM read_files('{}',\n  \
               format => 'json',\n  \
               schema => 'id BIGINT, customer STRING, amount DOUBLE, ts TIMESTAMP',\n  \
               maxFilesPerTrigger => 2);\n",
            quoted(&self.output),
            quoted(&self.input)
        )
    }

    /// How many batches were committed.
    pub fn batches(&self) -> u64 {
        newest(&self.checkpoint.join("commits")).map_or(0, |batch| batch + 1)
    }

    /// Where a process died, from what it left on disk.
    pub fn where_it_died(&self) -> String {
        let intent = newest(&self.checkpoint.join("offsets"));
        let commit = newest(&self.checkpoint.join("commits"));
        let mark = newest(&self.output.join("_spark_metadata"));
        let open = intent.filter(|_| intent != commit);
        let text = match open {
            None => "between two batches",
            Some(_) if mark == intent => "published, not committed",
            Some(_) if self.something_staged() => "while output was staged",
            Some(_) => "intended, not published",
        };
        text.to_owned()
    }

    fn something_staged(&self) -> bool {
        fs::read_dir(&self.output).is_ok_and(|entries| {
            entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with(".part-"))
        })
    }
}

/// The largest number among the names of a folder, `.compact` aside.
fn newest(folder: &Path) -> Option<u64> {
    let names = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.trim_end_matches(".compact").parse::<u64>().ok()).max()
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        // Nothing can be done about what cannot be removed.
        let _ = if self.made {
            fs::remove_dir_all(&self.root)
        } else {
            let parts = [self.input.as_path(), &self.output, self.checkpoints()];
            for part in parts {
                let _ = fs::remove_dir_all(part);
            }
            let _ = fs::remove_file(&self.pipeline);
            fs::remove_file(&self.log)
        };
    }
}

/// Writes a file of the demonstration.
#[expect(clippy::disallowed_methods, reason = "the demonstration's own file, no durable data")]
pub fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| cannot("be written", path, error))
}

/// What could not be done with a path.
pub fn cannot(what: &str, path: &Path, error: std::io::Error) -> Failure {
    Error::unavailable(format!("{} cannot {what}", path.display())).because(error).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_is_named_by_what_it_left() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::make(Some(dir.path()), true).unwrap();
        let touch = |path: PathBuf| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        };
        touch(place.checkpoint.join("offsets/0"));
        assert_eq!(place.where_it_died(), "intended, not published");
        touch(place.output.join(".part-0.tmp"));
        assert_eq!(place.where_it_died(), "while output was staged");
        touch(place.output.join("_spark_metadata/0"));
        assert_eq!(place.where_it_died(), "published, not committed");
        touch(place.checkpoint.join("commits/0"));
        assert_eq!(place.where_it_died(), "between two batches");
        assert_eq!(place.batches(), 1);
    }

    #[test]
    fn a_folder_with_something_in_it_is_refused_and_untouched() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("mine"), "x").unwrap();
        assert!(Place::make(Some(dir.path()), false).is_err());
        assert!(dir.path().join("mine").exists());
    }
}
