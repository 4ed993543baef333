//! Reads a folder that a file sink wrote through the sink's manifest instead of by listing.

use super::input::unreadable;
use super::listing::{Found, Places, has_glob};
use super::seen::SeenFiles;
use crate::java_uri;
use onefold_types::{Error, Result};
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

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

/// Where the manifest would be: only for one path that is no pattern.
pub(crate) fn folder(places: &Places) -> Option<PathBuf> {
    match places.patterns.as_slice() {
        [one] if !has_glob(one) => Some(Path::new(one).join("_spark_metadata")),
        _ => None,
    }
}

/// The files that the manifest names and `seen` does not hold.
pub(crate) fn list(folder: &Path, places: &Places, seen: &SeenFiles) -> Result<Vec<Found>> {
    let uri = java_uri::file_uri(folder);
    let failed = |error| unreadable(&uri, error);
    let mut compact: Option<u64> = None;
    let mut plain = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
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
        let text = fs::read_to_string(folder.join(&name)).map_err(failed)?;
        for line in text.split('\n').skip(1).filter(|line| !line.is_empty()) {
            let line: Line = serde_json::from_str(line).map_err(|error| {
                Error::corrupt(format!("{uri}/{name} is damaged; is the sink's query in order?"))
                    .because(error)
            })?;
            let wanted = line.action == "add"
                && !line.is_dir
                && places
                    .name_filter
                    .as_ref()
                    .is_none_or(|filter| filter.is_match(java_uri::file_name(&line.path)));
            let Some(path) = java_uri::local_path(&line.path).filter(|_| wanted) else { continue };
            let path = java_uri::file_uri(&path);
            if seen.contains(&path) {
                continue;
            }
            // The file's own time: what a replay compares.
            let modified_ms = fs::metadata(java_uri::local_path(&path).unwrap_or_default())
                .map_or(line.modification_time, |metadata| super::input::modified_ms(&metadata));
            if seen.is_new(&path, modified_ms) {
                found.push(Found { path, size: line.size, modified_ms });
            }
        }
    }
    Ok(found)
}
