//! How a folder lies to what a file source reads.

use super::super::listing::{Places, expand, has_glob, hidden, matcher};
use onefold_connector::Overlap;
use onefold_storage::{Place, location};
use onefold_types::Result;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The first of the source's paths and patterns that has something in common with a folder. A
/// pattern has if it takes the folder, one above it, or one that may come to be below it. That is
/// asked whether or not folders in folders are read: an option must not turn an output into input.
///
/// # Errors
/// As [`Place::find`]; Invalid, when a pattern is none.
pub(super) fn find(places: &Places, place: &Place) -> Result<Option<Overlap>> {
    for pattern in &places.patterns {
        let found = match has_glob(pattern) {
            false => with_folder(&Place::find(&places.uri(pattern))?, place),
            true => with_pattern(places, pattern, place)?,
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn with_folder(input: &Place, place: &Place) -> Option<Overlap> {
    let input_text = || input.to_string();
    match place.below(input) {
        Some(names) => Some(Overlap { input: input_text(), hidden: leaves_out(names) }),
        None => input.below(place).map(|_| Overlap { input: input_text(), hidden: false }),
    }
}

fn with_pattern(places: &Places, pattern: &str, place: &Place) -> Result<Option<Overlap>> {
    let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
    let plain = parts.iter().take_while(|part| !has_glob(part)).count();
    let (plain, wild) = parts.split_at(plain);
    let start = Place::find(&places.uri(&format!("/{}", plain.join("/"))))?;
    let found = match place.below(&start) {
        Some(names) => reached(wild, names)?.map(leaves_out),
        None => start.below(place).map(|_| false),
    };
    if let Some(hidden) = found {
        return Ok(Some(Overlap { input: places.uri(pattern), hidden }));
    }
    if places.bucket.is_some() {
        return Ok(None);
    }
    // A name that the pattern takes may be a link. What cannot be listed now fails when it is read.
    for path in expand(pattern).unwrap_or_default() {
        let found = with_folder(&Place::find(&location::file_uri(&path))?, place);
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// The names below what a pattern takes of a path: none, if the path ends before the pattern does.
/// `None` when the pattern takes neither the path nor anything above or below it.
fn reached<'a>(wild: &[&str], names: &'a [OsString]) -> Result<Option<&'a [OsString]>> {
    for (part, name) in wild.iter().zip(names) {
        let fits = if has_glob(part) {
            !hidden(name.as_bytes()) && matcher(part)?.is_match(Path::new(name))
        } else {
            name.as_bytes() == part.as_bytes()
        };
        if !fits {
            return Ok(None);
        }
    }
    Ok(Some(names.get(wild.len()..).unwrap_or_default()))
}

fn leaves_out(names: &[OsString]) -> bool {
    names.iter().any(|name| hidden(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn places(patterns: &[String]) -> Places {
        Places { patterns: patterns.to_vec(), name_filter: None, recursive: false, bucket: None }
    }

    /// `Some(hidden)` where they overlap.
    fn found(pattern: &str, place: &str) -> Option<bool> {
        let place = Place::find(place).unwrap();
        find(&places(&[pattern.to_owned()]), &place).unwrap().map(|found| found.hidden)
    }

    #[test]
    fn a_folder_has_itself_and_what_is_above_and_below_in_common() {
        for (pattern, place, wanted) in [
            ("/no/in", "/no/in", Some(false)),
            ("/no/in", "/no/in/out", Some(false)),
            ("/no/in", "/no/in/k=1/out", Some(false)),
            ("/no/in", "/no/in/_out", Some(true)),
            ("/no/in", "/no/in/a/.out/b", Some(true)),
            ("/no/in", "/no/in/_k=1", Some(false)),
            ("/no/in", "/no", Some(false)),
            ("/no/in", "/no/inner", None),
            ("/no/in", "/no/out", None),
            ("/no/in", "s3://no/in", None),
        ] {
            assert_eq!(found(pattern, place), wanted, "{pattern} {place}");
        }
    }

    #[test]
    fn a_pattern_has_in_common_what_it_may_take() {
        for (pattern, place, wanted) in [
            ("/no/in/*", "/no/in/out", Some(false)),
            ("/no/in/*", "/no/in/out/deep", Some(false)),
            ("/no/in/*", "/no/in/_out", None),
            ("/no/in/*", "/no/in/out/_checkpoint", Some(true)),
            ("/no/in/*", "/no/in", Some(false)),
            ("/no/in/*", "/no", Some(false)),
            ("/no/in/*", "/no/out", None),
            ("/no/in/*.json", "/no/in/out", None),
            ("/no/in-*", "/no/out", None),
            ("/no/in-*", "/no/in-2", Some(false)),
            ("/no/*/raw", "/no/a/raw/x", Some(false)),
            ("/no/*/raw", "/no/a", Some(false)),
            ("/no/*/raw", "/no/a/done", None),
            ("/no/{a,b}/[cd]", "/no/b/d", Some(false)),
            ("/no/{a,b}/[cd]", "/no/c/d", None),
        ] {
            assert_eq!(found(pattern, place), wanted, "{pattern} {place}");
        }
    }

    #[test]
    fn links_are_followed_on_both_sides() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
        for folder in ["in", "elsewhere", "days"] {
            fs::create_dir(at(folder)).unwrap();
        }
        symlink("in", at("out")).unwrap();
        symlink(at("elsewhere"), at("days/1")).unwrap();
        assert_eq!(found(&at("in"), &at("out")), Some(false));
        assert_eq!(found(&at("in"), &at("out/below")), Some(false));
        assert_eq!(found(&at("out"), &at("in/below")), Some(false));
        assert_eq!(found(&at("days/*"), &at("elsewhere/x")), Some(false));
        assert_eq!(found(&at("days/*"), &at("in")), None);
    }

    #[test]
    fn the_path_that_is_meant_is_named() {
        let patterns = ["/no/a".to_owned(), "/no/b*".to_owned()];
        let place = Place::find("/no/b1").unwrap();
        let found = find(&places(&patterns), &place).unwrap().unwrap();
        assert_eq!(found.input, "file:///no/b*");
    }
}
