//! Reads a folder that a file sink wrote through the sink's manifest instead of by listing.

use super::input::{Facts, facts_of, unreadable};
use super::listing::{Found, Places, has_glob};
use super::seen::SeenFiles;
use onefold_storage::location;
use onefold_types::{Error, Result};
use serde::Deserialize;
use std::fs;
use std::path::Path;

#[derive(Deserialize)]
struct Line {
    path: String,
    size: u64,
    #[serde(rename = "isDir")]
    is_dir: bool,
    #[serde(rename = "modificationTime")]
    modification_time: i64,
    action: String,
}

/// A sink's manifest.
pub(crate) struct Manifest<'a> {
    places: &'a Places,
    folder: String,
}

impl<'a> Manifest<'a> {
    /// Where the manifest would be: only for one path that is no pattern.
    pub(crate) fn of(places: &'a Places) -> Option<Manifest<'a>> {
        match places.patterns.as_slice() {
            [one] if !has_glob(one) => {
                let folder = format!("{}/_spark_metadata", one.trim_end_matches('/'));
                Some(Manifest { places, folder })
            }
            _ => None,
        }
    }

    /// Whether it is there.
    pub(crate) fn exists(&self) -> Result<bool> {
        match &self.places.bucket {
            Some(bucket) => Ok(!bucket.names(&self.folder)?.is_empty()),
            None => Ok(Path::new(&self.folder).is_dir()),
        }
    }

    fn names(&self) -> Result<Vec<String>> {
        if let Some(bucket) = &self.places.bucket {
            return bucket.names(&self.folder);
        }
        let failed = |error| unreadable(&self.places.uri(&self.folder), error);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }

    fn text(&self, name: &str) -> Result<String> {
        let path = format!("{}/{name}", self.folder);
        let uri = self.places.uri(&path);
        match &self.places.bucket {
            Some(bucket) => bucket.text(&path)?.ok_or_else(|| {
                Error::unavailable(format!("{uri} was removed while it was read; try again"))
            }),
            None => fs::read_to_string(&path).map_err(|error| unreadable(&uri, error)),
        }
    }

    /// The files that it names and `seen` does not hold.
    pub(crate) fn list(&self, seen: &SeenFiles) -> Result<Vec<Found>> {
        let mut compact: Option<u64> = None;
        let mut plain = Vec::new();
        for name in self.names()? {
            match name.strip_suffix(".compact") {
                Some(number) => compact = compact.max(number.parse().ok()),
                None => plain.extend(name.parse::<u64>().ok()),
            }
        }
        plain.retain(|number| compact.is_none_or(|compact| *number > compact));
        plain.sort_unstable();
        let names = compact
            .map(|number| format!("{number}.compact"))
            .into_iter()
            .chain(plain.iter().map(u64::to_string));
        let mut found = Vec::new();
        for name in names {
            for line in self.text(&name)?.split('\n').skip(1).filter(|line| !line.is_empty()) {
                let line: Line = serde_json::from_str(line).map_err(|error| {
                    let uri = self.places.uri(&self.folder);
                    Error::corrupt(format!(
                        "{uri}/{name} is damaged; is the sink's query in order?"
                    ))
                    .because(error)
                })?;
                found.extend(self.found(&line, seen)?);
            }
        }
        Ok(found)
    }

    fn found(&self, line: &Line, seen: &SeenFiles) -> Result<Option<Found>> {
        let filter = self.places.name_filter.as_ref();
        let wanted = line.action == "add"
            && !line.is_dir
            && filter.is_none_or(|filter| filter.is_match(location::file_name(&line.path)));
        if !wanted {
            return Ok(None);
        }
        let bucket = self.places.bucket.as_ref();
        let path = match bucket {
            Some(bucket) => bucket.uri(&format!("/{}", bucket.key(&line.path)?)),
            None => match location::log_path(&line.path) {
                Some(path) => location::file_uri(&path),
                None => return Ok(None),
            },
        };
        if seen.contains(&path) {
            return Ok(None);
        }
        // The file's own facts: what a replay compares.
        let told = Facts { size: line.size, modified_ms: line.modification_time, etag: None };
        let facts = facts_of(&path, bucket)?.unwrap_or(told);
        let Facts { modified_ms, etag, .. } = facts;
        let new = seen.is_new(&path, modified_ms);
        Ok(new.then_some(Found { path, size: line.size, modified_ms, etag }))
    }
}
