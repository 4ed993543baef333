//! Lists the files below the paths given to `load`, as Spark's file index does.

use super::bucket::Bucket;
use super::input::{modified_ms, unreadable};
use super::seen::SeenFiles;
use globset::{GlobBuilder, GlobMatcher};
use onefold_storage::location;
use onefold_types::{Error, Result};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) path: String,
    pub(crate) size: u64,
    pub(crate) modified_ms: i64,
    /// The store's version of the bytes, where it has one.
    pub(crate) etag: Option<String>,
}

/// Where to look, and for what.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// Absolute paths or patterns.
    pub(crate) patterns: Vec<String>,
    pub(crate) name_filter: Option<GlobMatcher>,
    pub(crate) recursive: bool,
    /// The bucket that all paths are in; `None` for the local disk.
    pub(crate) bucket: Option<Bucket>,
}

/// Whether a path holds a character that makes it a pattern.
pub(crate) fn has_glob(path: &str) -> bool {
    path.contains(['{', '}', '[', ']', '*', '?', '\\'])
}

/// A matcher for one part of a path.
pub(crate) fn matcher(pattern: &str) -> Result<GlobMatcher> {
    GlobBuilder::new(pattern)
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| {
            Error::invalid(format!("`{pattern}` is not a path pattern")).because(error)
        })
}

/// Whether a name is left out of listings.
pub(crate) fn hidden(name: &[u8]) -> bool {
    name.starts_with(b".")
        || (name.starts_with(b"_") && !name.contains(&b'='))
        || name.ends_with(b"._COPYING_")
}

fn failed(folder: &Path, error: io::Error) -> Error {
    unreadable(&location::file_uri(folder), error)
}

/// The paths that a pattern names.
pub(crate) fn expand(pattern: &str) -> Result<Vec<PathBuf>> {
    if !has_glob(pattern) {
        return Ok(vec![PathBuf::from(pattern)]);
    }
    let mut paths = vec![PathBuf::from("/")];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        if !has_glob(part) {
            paths.iter_mut().for_each(|path| path.push(part));
            continue;
        }
        let matcher = matcher(part)?;
        let mut next = Vec::new();
        for folder in paths {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                    ) =>
                {
                    continue;
                }
                Err(error) => return Err(failed(&folder, error)),
            };
            for entry in entries {
                let name = entry.map_err(|error| failed(&folder, error))?.file_name();
                if !hidden(name.as_bytes()) && matcher.is_match(Path::new(&name)) {
                    next.push(folder.join(&name));
                }
            }
        }
        next.sort();
        paths = next;
    }
    Ok(paths)
}

/// A listing under way.
struct Listing<'a> {
    seen: &'a SeenFiles,
    /// Whether one file stands for all of its folder.
    one_of_each: bool,
    found: Vec<Found>,
}

impl Listing<'_> {
    /// Whether a file need not be looked at; `sampled` says that its folder gave one already.
    fn has_enough(&self, path: &str, sampled: bool) -> bool {
        self.seen.contains(path) || (self.one_of_each && sampled)
    }

    fn take(&mut self, path: String, metadata: &fs::Metadata) {
        let modified_ms = modified_ms(metadata);
        if self.seen.is_new(&path, modified_ms) {
            self.found.push(Found { path, size: metadata.len(), modified_ms, etag: None });
        }
    }
}

impl Places {
    /// The URI of an absolute path.
    pub(crate) fn uri(&self, path: &str) -> String {
        match &self.bucket {
            Some(bucket) => bucket.uri(path),
            None => location::file_uri(Path::new(path)),
        }
    }

    /// All files that `seen` does not hold already.
    pub(crate) fn list(&self, seen: &SeenFiles) -> Result<Vec<Found>> {
        self.look(Listing { seen, one_of_each: false, found: Vec::new() })
    }

    /// The path of one file of each folder that has any, without a look at the file (in a bucket: of
    /// all files).
    pub(crate) fn samples(&self) -> Result<Vec<String>> {
        let seen = SeenFiles::new(i64::MAX, false);
        let found = self.look(Listing { seen: &seen, one_of_each: true, found: Vec::new() })?;
        Ok(found.into_iter().map(|file| file.path).collect())
    }

    fn look(&self, mut listing: Listing<'_>) -> Result<Vec<Found>> {
        if let Some(bucket) = &self.bucket {
            return bucket.list(self, listing.seen);
        }
        for pattern in &self.patterns {
            for root in expand(pattern)? {
                let metadata = match fs::metadata(&root) {
                    Ok(metadata) => metadata,
                    Err(error) if error.kind() == io::ErrorKind::NotFound && has_glob(pattern) => {
                        continue;
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        return Err(Error::unavailable(format!(
                            "{} does not exist; make the folder or correct the path",
                            location::file_uri(&root)
                        )));
                    }
                    Err(error) => return Err(failed(&root, error)),
                };
                if metadata.is_dir() {
                    let mut above = vec![(metadata.dev(), metadata.ino())];
                    self.walk(&root, false, &mut above, &mut listing)?;
                } else {
                    listing.take(location::file_uri(&root), &metadata);
                }
            }
        }
        Ok(listing.found)
    }

    fn walk(
        &self,
        folder: &Path,
        in_partition: bool,
        above: &mut Vec<(u64, u64)>,
        listing: &mut Listing<'_>,
    ) -> Result<()> {
        let prefix = format!("{}/", location::file_uri(folder).trim_end_matches('/'));
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            // Removed while we were listing.
            Err(error) if error.kind() == io::ErrorKind::NotFound && above.len() > 1 => {
                return Ok(());
            }
            Err(error) => return Err(failed(folder, error)),
        };
        let mut sampled = false;
        for entry in entries {
            let entry = entry.map_err(|error| failed(folder, error))?;
            let name = entry.file_name();
            let bytes = name.as_bytes();
            if hidden(bytes) {
                continue;
            }
            let kind = entry.file_type().map_err(|error| failed(folder, error))?;
            let path = format!("{prefix}{}", location::encode_bytes(bytes));
            if kind.is_file() && (listing.has_enough(&path, sampled) || !self.wanted(&name)) {
                continue;
            }
            if kind.is_file() && listing.one_of_each {
                listing.found.push(Found { path, size: 0, modified_ms: 0, etag: None });
                sampled = true;
                continue;
            }
            let metadata = match fs::metadata(entry.path()) {
                Ok(metadata) => metadata,
                // Removed since, or a link to nowhere.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(&entry.path(), error)),
            };
            if !metadata.is_dir() {
                if metadata.is_file() && self.wanted(&name) {
                    listing.take(path, &metadata);
                }
                continue;
            }
            let partition = in_partition || bytes.iter().position(|b| *b == b'=') > Some(0);
            if !(self.recursive || partition) {
                continue;
            }
            let identity = (metadata.dev(), metadata.ino());
            if above.contains(&identity) {
                return Err(Error::invalid(format!(
                    "{path} is a link to a folder above it; remove the link, or give a path \
                     pattern that leaves it out"
                )));
            }
            above.push(identity);
            self.walk(&entry.path(), partition, above, listing)?;
            above.pop();
        }
        Ok(())
    }

    fn wanted(&self, name: &std::ffi::OsStr) -> bool {
        self.name_filter.as_ref().is_none_or(|filter| filter.is_match(Path::new(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_stands_for_each_folder() {
        let root = tempfile::tempdir().unwrap();
        for path in ["k=1/a", "k=1/b", "k=2/_hidden", "k=2/c", "k=3/_hidden", "plain/d", "e", "f"] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "1").unwrap();
        }
        let places = Places {
            patterns: vec![root.path().to_str().unwrap().to_owned()],
            name_filter: None,
            recursive: false,
            bucket: None,
        };
        let mut samples = places.samples().unwrap();
        samples.iter_mut().for_each(|path| {
            path.truncate(path.rfind('/').unwrap());
            *path = path.rsplit('/').next().unwrap().to_owned();
        });
        samples.sort();
        let top = root.path().file_name().unwrap().to_str().unwrap();
        let mut wanted = vec![top, "k=1", "k=2"];
        wanted.sort_unstable();
        assert_eq!(samples, wanted);
        assert_eq!(places.list(&SeenFiles::new(i64::MAX, false)).unwrap().len(), 5);
    }
}
