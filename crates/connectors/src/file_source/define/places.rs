//! The paths that a user gave, made into places to look.

use super::super::bucket::Bucket;
use super::super::listing::{Places, has_glob, matcher};
use onefold_connector::Options;
use onefold_storage::location::{decode_path, local_path};
use onefold_types::{Error, Result};
use std::collections::BTreeMap;
use std::path::Path;
use tokio::runtime::Handle;

/// A place of a path: the start of its URL unless it is local, and an absolute path or pattern.
type Place = (Option<String>, String);

/// Reads what a user gave. A plain path is taken as it is; of a URL the escapes are taken out.
pub(super) fn place(given: &str) -> Result<Place> {
    if given.is_empty() {
        return Err(Error::invalid("the path of the file source is empty; give load() a folder"));
    }
    if let Some(path) = local_path(given)? {
        return Ok((None, trimmed(&path.to_string_lossy())));
    }
    if let Some((scheme, rest)) = given.split_once("://") {
        let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
        return Ok((Some(format!("{scheme}://{bucket}")), trimmed(&decode_path(path)?)));
    }
    if given.starts_with('/') {
        return Ok((None, trimmed(given)));
    }
    let here = std::env::current_dir()
        .map_err(|error| Error::unavailable("the current folder is gone").because(error))?;
    Ok((None, trimmed(&format!("{}/{given}", here.display()))))
}

/// A path that must be on a local disk.
pub(super) fn local_place(given: &str, option: &str) -> Result<String> {
    match place(given)? {
        (None, path) => Ok(path),
        (Some(_), _) => Err(Error::invalid(format!(
            "{option} {given} is not on a local disk; give a local folder"
        ))),
    }
}

fn trimmed(path: &str) -> String {
    let parts: Vec<&str> =
        path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    format!("/{}", parts.join("/"))
}

/// All places of one source: on the local disk, or in one bucket.
pub(super) fn places(
    paths: &[String],
    options: &Options,
    conf: &BTreeMap<String, String>,
    runtime: Handle,
) -> Result<Places> {
    let given = paths.iter().map(|path| place(path)).collect::<Result<Vec<Place>>>()?;
    let Some((start, _)) = given.first() else {
        return Err(Error::invalid("the file source needs a path; give load() a folder"));
    };
    if given.iter().any(|(other, _)| other != start) {
        return Err(Error::invalid(
            "the paths of one file source must be in one place, on the local disk or in one \
             bucket; read them as several streams and join these with UNION ALL",
        ));
    }
    let bucket = start.as_ref().map(|start| Bucket::open(start, conf, runtime)).transpose()?;
    let places = Places {
        patterns: given.into_iter().map(|(_, path)| path).collect(),
        name_filter: options.text("pathGlobFilter").map(matcher).transpose()?,
        recursive: options.flag("recursiveFileLookup"),
        bucket,
    };
    if places.bucket.is_none() {
        let missing = places.patterns.iter().find(|p| !has_glob(p) && !Path::new(p).exists());
        if let Some(missing) = missing {
            return Err(Error::invalid(format!(
                "{} does not exist; make the folder or correct the path",
                places.uri(missing)
            )));
        }
    }
    Ok(places)
}

/// Where partition folders begin, as a URI: `basePath`, or the one path that is no pattern.
pub(super) fn base_of(options: &Options, places: &Places) -> Result<Option<String>> {
    if places.recursive {
        return Ok(None);
    }
    if let Some(base) = options.text("basePath") {
        return Ok(Some(places.uri(&place(base)?.1)));
    }
    Ok(match places.patterns.as_slice() {
        [one] if !has_glob(one) => Some(places.uri(one)),
        _ => None,
    })
}
