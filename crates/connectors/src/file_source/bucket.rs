//! Input in an object store: finds objects, tells their facts, reads and deletes them.
//!
//! An object is one version of its bytes, named by its ETag; that is what a replay compares. Times
//! are not compared where there is an ETag: a listing tells them finer than a look at one object.

mod choice;

use super::input::Facts;
use super::listing::{Found, Places};
use super::seen::SeenFiles;
use crate::file_sink::stored_file::StoredFile;
use choice::Chooser;
use onefold_storage::{Entry, Store, location};
use onefold_types::{Error, OptionMap, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Beginnings of the settings that say how to reach an object store.
const SETTINGS: [&str; 5] = ["spark.hadoop.fs.", "fs.", "aws_", "google_", "azure_"];

/// A bucket that files are read from. Its calls block: only for threads that may.
#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    /// The whole bucket.
    store: Arc<dyn Store>,
    /// Its URL as the user wrote it, without a slash at the end: `s3a://bucket`.
    start: String,
    runtime: Handle,
}

/// The settings of a session that are for object stores.
fn settings(conf: &BTreeMap<String, String>) -> OptionMap {
    conf.iter()
        .filter(|(name, _)| SETTINGS.iter().any(|start| name.starts_with(start)))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

impl Bucket {
    /// The bucket of a URL's start, `s3://bucket`.
    ///
    /// # Errors
    /// Invalid, when the scheme is not known or a setting does not fit.
    pub(crate) fn open(
        start: &str,
        conf: &BTreeMap<String, String>,
        runtime: Handle,
    ) -> Result<Bucket> {
        let store = onefold_storage::open(start, &settings(conf))?;
        Ok(Bucket { store, start: start.to_owned(), runtime })
    }

    /// The same bucket reached as a query's settings say.
    ///
    /// # Errors
    /// As [`Bucket::open`].
    pub(crate) fn with_settings(&self, conf: &BTreeMap<String, String>) -> Result<Bucket> {
        if settings(conf).is_empty() {
            return Ok(self.clone());
        }
        Bucket::open(&self.start, conf, self.runtime.clone())
    }

    /// `s3a://bucket`.
    pub(crate) fn start(&self) -> &str {
        &self.start
    }

    /// The URI of a path `/folder/name`.
    pub(crate) fn uri(&self, path: &str) -> String {
        format!("{}{}", self.start, location::encode_path(path))
    }

    /// The key of a URI.
    ///
    /// # Errors
    /// Invalid, when it is not in this bucket.
    pub(crate) fn key(&self, uri: &str) -> Result<String> {
        location::below(&self.start, uri).ok_or_else(|| {
            Error::invalid(format!(
                "{uri} is not in {}; a source cannot move to another store, so start the query \
                 with a new checkpoint",
                self.start
            ))
        })
    }

    /// What there is to know of a file; `None` if it is gone.
    pub(crate) fn facts(&self, uri: &str) -> Result<Option<Facts>> {
        let key = self.key(uri)?;
        Ok(self.runtime.block_on(self.store.stat(&key))?.map(|entry| facts(&entry)))
    }

    /// A file to be read.
    pub(crate) fn file(&self, uri: &str, size: u64) -> Result<StoredFile> {
        let key = self.key(uri)?;
        Ok(StoredFile::known(Arc::clone(&self.store), key, size, self.runtime.clone()))
    }

    /// Deletes a file; one that is gone is fine.
    pub(crate) fn delete(&self, uri: &str) -> Result<()> {
        let key = self.key(uri)?;
        self.runtime.block_on(self.store.delete(&key))
    }

    /// Names of the files directly in a folder.
    pub(crate) fn names(&self, folder: &str) -> Result<Vec<String>> {
        let found = self.runtime.block_on(self.store.list(folder.trim_matches('/')))?;
        let name = |entry: Entry| entry.path.rsplit('/').next().map(str::to_owned);
        Ok(found.into_iter().filter_map(name).collect())
    }

    /// The text of a file; `None` if it is gone.
    pub(crate) fn text(&self, path: &str) -> Result<Option<String>> {
        let bytes = self.runtime.block_on(self.store.read(path.trim_matches('/')))?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// All files of these places that `seen` does not hold.
    pub(crate) fn list(&self, places: &Places, seen: &SeenFiles) -> Result<Vec<Found>> {
        let mut found = Vec::new();
        for pattern in &places.patterns {
            let chooser = Chooser::new(pattern, places)?;
            let mut entries =
                self.runtime.block_on(self.store.list_deep(chooser.folder(), true))?;
            if entries.is_empty()
                && !chooser.folder().is_empty()
                && let Some(only) = self.runtime.block_on(self.store.stat(chooser.folder()))?
            {
                entries.push(only);
            }
            entries.sort_by(|a, b| a.path.cmp(&b.path));
            for (at, entry) in entries.iter().enumerate() {
                // Tools mark folders with empty objects of their names.
                let marker = entry.size == 0
                    && (chooser.is_itself(&entry.path)
                        || entries.get(at + 1..).unwrap_or_default().iter().any(|next| {
                            next.path.strip_prefix(&entry.path).is_some_and(|p| p.starts_with('/'))
                        }));
                if marker || !chooser.takes(&entry.path) {
                    continue;
                }
                let path = self.uri(&format!("/{}", entry.path));
                if seen.is_new(&path, entry.modified_ms) {
                    found.push(Found {
                        path,
                        size: entry.size,
                        modified_ms: entry.modified_ms,
                        etag: entry.etag.clone(),
                    });
                }
            }
        }
        Ok(found)
    }
}

fn facts(entry: &Entry) -> Facts {
    Facts { size: entry.size, modified_ms: entry.modified_ms, etag: entry.etag.clone() }
}
