//! Paths as the URLs that Spark writes into its logs, and back.
//!
//! Spark writes `Path.toUri.toString` of Hadoop, which is Java's `URI` built from parts. Of a path
//! it escapes, as UTF-8 bytes: every ASCII character that a path of RFC 2396 may not hold (space,
//! `"`, `%`, `<`, `>`, `#`, `?`, `[`, `]`, `\`, `^`, the grave accent, `{`, `|`, `}`), every control
//! character, and every space character beyond ASCII. Other letters beyond ASCII stay as they are:
//! `é` is written `é`, not `%C3%A9`.

use onefold_types::{Error, Result};
use percent_encoding::percent_decode_str;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Punctuation that Java leaves alone in the path of a URI.
const PLAIN: &str = "-_.!~*'():@&=+$,;/";

/// Escapes a path as Java's `URI` does.
#[must_use]
pub fn encode_path(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for letter in path.chars() {
        let plain = if letter.is_ascii() {
            letter.is_ascii_alphanumeric() || PLAIN.contains(letter)
        } else {
            !letter.is_control() && !space_in_java(letter)
        };
        if plain {
            text.push(letter);
            continue;
        }
        for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
            // Writing to a `String` cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// `Character.isSpaceChar` beyond ASCII: the categories Zs, Zl and Zp of Unicode.
fn space_in_java(letter: char) -> bool {
    matches!(
        letter,
        '\u{a0}' | '\u{1680}' | '\u{2000}'
            ..='\u{200a}' | '\u{2028}' | '\u{2029}' | '\u{202f}' | '\u{205f}' | '\u{3000}'
    )
}

/// Takes the escapes out of a path. A `%` that starts no escape stands for itself.
///
/// # Errors
/// Invalid, when the escaped bytes are not UTF-8.
pub fn decode_path(text: &str) -> Result<String> {
    match percent_decode_str(text).decode_utf8() {
        Ok(path) => Ok(path.into_owned()),
        Err(_) => Err(Error::invalid(format!(
            "the escapes in path {text} do not spell UTF-8 text; write the name as it is"
        ))),
    }
}

/// The URL of a local path: `file:///a%20b`, without a slash at the end.
///
/// # Errors
/// Invalid, when the path is relative or not UTF-8.
pub fn local_url(path: &Path) -> Result<String> {
    let text = match path.to_str() {
        Some(text) if path.is_absolute() => text,
        Some(text) => return Err(Error::invalid(format!("path {text} is not absolute"))),
        None => {
            return Err(Error::invalid(format!(
                "path {} is not UTF-8 text; rename it",
                path.display()
            )));
        }
    };
    Ok(format!("file://{}", encode_path(text.trim_end_matches('/'))))
}

/// The path behind a `file:` URL in any of its spellings, or `None` for another scheme or a path.
///
/// # Errors
/// Invalid, when the URL names another machine or its path is relative.
pub fn local_path(url: &str) -> Result<Option<PathBuf>> {
    let Some(rest) = strip_scheme(url, "file") else {
        return Ok(None);
    };
    let path = match rest.strip_prefix("//") {
        Some(rest) if rest.starts_with('/') => rest,
        Some(rest) => match rest.strip_prefix("localhost") {
            Some(path) if path.starts_with('/') => path,
            _ => {
                return Err(Error::invalid(format!(
                    "{url} names a machine where a path should start; write file:///path"
                )));
            }
        },
        None => rest,
    };
    if !path.starts_with('/') {
        return Err(Error::invalid(format!(
            "{url} is relative; write file:///path or a plain path"
        )));
    }
    Ok(Some(PathBuf::from(decode_path(path)?)))
}

/// What follows `scheme:`, the scheme compared without case.
fn strip_scheme<'a>(url: &'a str, scheme: &str) -> Option<&'a str> {
    let (found, rest) = url.split_once(':')?;
    found.eq_ignore_ascii_case(scheme).then_some(rest)
}

/// Checks a path inside a store: parts between `/`, none of them empty, `.` or `..`.
pub(crate) fn check_relative(path: &str) -> Result<()> {
    let sound = !path.contains('\0')
        && path.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    if sound {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{path:?} is no path inside a store: it must be relative, without empty parts, `.` and `..`"
    )))
}

/// As [`check_relative`] for a folder, where `""` is the root.
pub(crate) fn check_folder(folder: &str) -> Result<()> {
    if folder.is_empty() { Ok(()) } else { check_relative(folder) }
}

/// Folder and name of a path inside a store; the folder is `""` for the root.
pub(crate) fn split_path(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// Joins a folder (`""` is the root) and a name.
pub(crate) fn join_path(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::{check_relative, decode_path, encode_path, local_path, local_url};
    use proptest::prelude::*;
    use std::path::{Path, PathBuf};

    #[test]
    fn a_path_is_written_as_java_writes_it() {
        assert_eq!(encode_path("/out/k=k 0%2Fx/a.parquet"), "/out/k=k%200%252Fx/a.parquet");
        assert_eq!(encode_path("/a+b=c&d,e;f'(g)!~*:@$"), "/a+b=c&d,e;f'(g)!~*:@$");
        assert_eq!(encode_path("/é/日本"), "/é/日本");
        assert_eq!(encode_path("/\"#?[]<>\\^`{|}"), "/%22%23%3F%5B%5D%3C%3E%5C%5E%60%7B%7C%7D");
        assert_eq!(encode_path("/\u{a0}\u{3000}\n\u{7f}"), "/%C2%A0%E3%80%80%0A%7F");
        assert_eq!(local_url(Path::new("/a b/")).unwrap(), "file:///a%20b");
        assert_eq!(local_url(Path::new("/")).unwrap(), "file://");
    }

    #[test]
    fn every_spelling_of_a_file_url_is_read() {
        for url in ["file:///a%20b", "file:/a%20b", "FILE:///a b", "file://localhost/a%20b"] {
            assert_eq!(local_path(url).unwrap(), Some(PathBuf::from("/a b")), "{url}");
        }
        assert_eq!(local_path("file:///100%").unwrap(), Some(PathBuf::from("/100%")));
        assert_eq!(local_path("s3://a/b").unwrap(), None);
        assert!(local_path("file://host/a").is_err());
        assert!(local_path("file:a").is_err());
        assert!(decode_path("%ff").is_err());
    }

    #[test]
    fn a_path_cannot_leave_its_store() {
        for path in ["", "/a", "a/", "a//b", "..", "a/../b", "./a", "a\0"] {
            assert!(check_relative(path).is_err(), "{path:?}");
        }
        for path in ["a", "a/b.c", "...", "k=a b/é%"] {
            assert!(check_relative(path).is_ok(), "{path:?}");
        }
    }

    proptest! {
        #[test]
        fn any_path_survives_the_way_there_and_back(path in "(/[^/\0]{1,12}){1,4}") {
            prop_assert_eq!(decode_path(&encode_path(&path)).unwrap(), path);
        }

        #[test]
        fn an_encoded_path_holds_nothing_that_java_escapes(path in "\\PC{0,40}") {
            let text = encode_path(&path);
            // Named apart: the macro would take the braces of the escape for a place in its text.
            let escaped = [' ', '"', '#', '?', '[', '<', '\\', '\u{a0}'];
            prop_assert!(!text.contains(escaped));
        }
    }
}
