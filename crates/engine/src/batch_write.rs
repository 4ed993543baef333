//! Writing a table once, as files: Spark's `DataFrame.write`.
//!
//! Rows go to a hidden folder first and are moved into place when all are written, so that a write
//! that fails leaves nothing that readers see.

use crate::fault::from_datafusion;
use crate::frame::DataFrame;
use datafusion::dataframe::DataFrameWriteOptions;
use onefold_types::{Error, OptionMap, Result};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// What to do when there is something at the path already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SaveMode {
    /// Refuse.
    #[default]
    ErrorIfExists,
    /// Add the rows.
    Append,
    /// Put the rows in place of what is there.
    Overwrite,
    /// Write nothing.
    Ignore,
}

/// Describes where a table goes, as Spark's `DataFrameWriter`.
#[derive(Debug, Clone)]
pub struct DataFrameWriter {
    frame: DataFrame,
    format: String,
    mode: SaveMode,
    options: OptionMap,
    partition_by: Vec<String>,
}

impl DataFrameWriter {
    pub(crate) fn new(frame: DataFrame) -> Self {
        DataFrameWriter {
            frame,
            format: "parquet".to_owned(),
            mode: SaveMode::default(),
            options: OptionMap::new(),
            partition_by: Vec::new(),
        }
    }

    /// The format: `parquet`, `json`, `csv`, or `noop`, which only computes.
    #[must_use]
    pub fn format(mut self, name: &str) -> Self {
        self.format = name.to_lowercase();
        self
    }

    /// What to do when there is something at the path already.
    #[must_use]
    pub fn mode(mut self, mode: SaveMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets options: `header` for CSV.
    #[must_use]
    pub fn options<N: Into<String>, V: Into<String>>(
        mut self,
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        for (name, value) in pairs {
            self.options.set(name, value);
        }
        self
    }

    /// Columns whose values become folders.
    #[must_use]
    pub fn partition_by(mut self, columns: &[&str]) -> Self {
        self.partition_by = columns.iter().map(|&name| name.to_owned()).collect();
        self
    }

    /// Computes the rows and writes them under a local path.
    ///
    /// # Errors
    /// Invalid: an unknown format, something is there already, a path that is not local.
    /// Unavailable: the disk does not take the files.
    pub fn save(self, path: &str) -> Result<()> {
        if self.format == "noop" {
            return self.frame.collect().map(|_| ());
        }
        let target = local(path)?;
        let there = fs::read_dir(&target).is_ok_and(|mut entries| entries.next().is_some());
        match self.mode {
            SaveMode::ErrorIfExists if there => {
                return Err(Error::invalid(format!(
                    "path {} already exists; use the mode append or overwrite",
                    target.display()
                )));
            }
            SaveMode::Ignore if there => return Ok(()),
            _ => {}
        }
        let staging = Staging::beside(&target)?;
        self.compute(&staging.folder)?;
        if self.mode == SaveMode::Overwrite {
            clear(&target)?;
        }
        adopt(&staging.folder, &target, Path::new(""))?;
        fs::write(target.join("_SUCCESS"), b"").map_err(|error| failed(&target, error))
    }

    fn compute(&self, folder: &Path) -> Result<()> {
        let session = self.frame.session().clone();
        let (context, plan) = (session.inner.context.clone(), self.frame.logical_plan().clone());
        let format = self.format.clone();
        let header = self.options.get("header").is_some_and(|it| it.eq_ignore_ascii_case("true"));
        let options = DataFrameWriteOptions::new().with_partition_by(self.partition_by.clone());
        let folder = format!("{}/", folder.to_string_lossy());
        session.inner.tasks.wait(async move {
            let frame = datafusion::dataframe::DataFrame::new(context.state(), plan);
            let written = match format.as_str() {
                "parquet" => frame.write_parquet(&folder, options, None).await,
                "json" => frame.write_json(&folder, options, None).await,
                "csv" => {
                    let csv =
                        datafusion::common::config::CsvOptions::default().with_has_header(header);
                    frame.write_csv(&folder, options, Some(csv)).await
                }
                other => {
                    return Err(Error::invalid(format!(
                        "a batch cannot be written as `{other}`; there are csv, json, noop, parquet"
                    )));
                }
            };
            written.map(|_| ()).map_err(from_datafusion)
        })
    }
}

fn failed(path: &Path, error: io::Error) -> Error {
    Error::unavailable(format!("cannot write {}", path.display())).because(error)
}

/// The local folder that a path means.
fn local(path: &str) -> Result<PathBuf> {
    if path.is_empty() {
        return Err(Error::invalid("'path' is not specified: give one to save()"));
    }
    if let Some(rest) = path.strip_prefix("file://") {
        return Ok(PathBuf::from(rest));
    }
    if path.contains("://") {
        return Err(Error::invalid(format!(
            "a batch can be written to local paths only, not to {path}; a stream can"
        )));
    }
    std::path::absolute(path.strip_prefix("file:").unwrap_or(path))
        .map_err(|error| failed(Path::new(path), error))
}

/// A hidden folder in the target that goes away whatever happens.
struct Staging {
    folder: PathBuf,
}

impl Staging {
    fn beside(target: &Path) -> Result<Staging> {
        let folder = target.join(format!("_temporary-{}", Uuid::new_v4()));
        fs::create_dir_all(&folder).map_err(|error| failed(&folder, error))?;
        Ok(Staging { folder })
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Readers pass over names that begin with `_`.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Removes what readers see.
fn clear(target: &Path) -> Result<()> {
    for entry in fs::read_dir(target).map_err(|error| failed(target, error))? {
        let entry = entry.map_err(|error| failed(target, error))?;
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with("_temporary-") {
            continue;
        }
        let removed =
            if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

/// Moves files into place, each under a name of its own.
fn adopt(staging: &Path, target: &Path, below: &Path) -> Result<()> {
    let from = staging.join(below);
    let to = target.join(below);
    fs::create_dir_all(&to).map_err(|error| failed(&to, error))?;
    for entry in fs::read_dir(&from).map_err(|error| failed(&from, error))? {
        let entry = entry.map_err(|error| failed(&from, error))?;
        let name = entry.file_name();
        if entry.path().is_dir() {
            adopt(staging, target, &below.join(&name))?;
            continue;
        }
        let name = format!("part-{}-{}", Uuid::new_v4(), name.to_string_lossy());
        let path = to.join(name);
        fs::rename(entry.path(), &path).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}
