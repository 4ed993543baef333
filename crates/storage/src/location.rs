//! Paths as the URLs that Spark writes into its logs, and back.
//!
//! Spark writes `Path.toUri.toString` of Hadoop, which is Java's `URI` built from parts. Of a path
//! it escapes, as UTF-8 bytes: every ASCII character that a path of RFC 2396 may not hold (space,
//! `"`, `%`, `<`, `>`, `#`, `?`, `[`, `]`, `\`, `^`, the grave accent, `{`, `|`, `}`), every control
//! character, and every space character beyond ASCII. Other letters beyond ASCII stay as they are:
//! `é` is written `é`, not `%C3%A9`.

use onefold_types::{Error, Result};
use percent_encoding::percent_decode_str;
use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Punctuation that Java leaves alone in the path of a URI.
const PLAIN: &str = "-_.!~*'():@&=+$,;/";

/// Escapes a path as Java's `URI` does.
#[must_use]
pub fn encode_path(path: &str) -> String {
    encode_bytes(path.as_bytes())
}

/// Escapes a path of any bytes: those that are no text are escaped one by one, so that
/// [`decode_bytes`] gives them back.
#[must_use]
pub fn encode_bytes(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len() + 8);
    for chunk in path.utf8_chunks() {
        for letter in chunk.valid().chars() {
            let plain = if letter.is_ascii() {
                letter.is_ascii_alphanumeric() || PLAIN.contains(letter)
            } else {
                !letter.is_control() && !space_in_java(letter)
            };
            if plain {
                text.push(letter);
            } else {
                escape(letter.encode_utf8(&mut [0; 4]).as_bytes(), &mut text);
            }
        }
        escape(chunk.invalid(), &mut text);
    }
    text
}

fn escape(bytes: &[u8], text: &mut String) {
    for byte in bytes {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "%{byte:02X}");
    }
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

/// Undoes [`encode_bytes`]. A `%` that starts no escape stands for itself.
#[must_use]
pub fn decode_bytes(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

/// The URI of an absolute local path of any bytes: `file:///a%20b`.
#[must_use]
pub fn file_uri(path: &Path) -> String {
    format!("file://{}", encode_bytes(path.as_os_str().as_bytes()))
}

/// The local path of a URI in a log, `file:///a%20b` or `file:/a%20b`, whatever bytes it has;
/// `None` for another scheme.
#[must_use]
pub fn log_path(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file:")?;
    let path = rest.strip_prefix("//").unwrap_or(rest);
    path.starts_with('/').then(|| PathBuf::from(OsString::from_vec(decode_bytes(path))))
}

/// The last part of a URI, without its escapes.
#[must_use]
pub fn file_name(uri: &str) -> String {
    let name = uri.rsplit('/').next().unwrap_or(uri);
    String::from_utf8_lossy(&decode_bytes(name)).into_owned()
}

/// The path below a root that a URI of a log names; `None` if it lies elsewhere. Spellings of one
/// place are one: `file:/a` and `file:///a`, `s3://`, `s3a://` and `s3n://`.
#[must_use]
pub fn below(root: &str, uri: &str) -> Option<String> {
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let path = decode(&plain_scheme(uri));
    let root = decode(&plain_scheme(root));
    path.strip_prefix(root.trim_end_matches('/'))?.strip_prefix('/').map(str::to_owned)
}

fn plain_scheme(uri: &str) -> String {
    if let Some(path) = uri.strip_prefix("file:") {
        return format!("file:///{}", path.trim_start_matches('/'));
    }
    for alias in ["s3a://", "s3n://"] {
        if let Some(path) = uri.strip_prefix(alias) {
            return format!("s3://{path}");
        }
    }
    uri.to_owned()
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
    use super::*;
    use proptest::prelude::*;

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
    fn bytes_that_are_not_text_come_back() {
        let path = PathBuf::from(OsString::from_vec(b"/in/\xff%41 \n".to_vec()));
        assert_eq!(file_uri(&path), "file:///in/%FF%2541%20%0A");
        assert_eq!(log_path(&file_uri(&path)).unwrap(), path);
        assert_eq!(log_path("file:/a%20b").unwrap(), Path::new("/a b"));
        assert_eq!(log_path("s3://b/a"), None);
        assert_eq!(file_name("file:///a/b%20c"), "b c");
    }

    #[test]
    fn other_spellings_of_one_place_are_found_and_other_places_are_not() {
        assert_eq!(below("s3://b/out", "s3a://b/out/x%20y").as_deref(), Some("x y"));
        assert_eq!(below("file:///a/b", "file:/a/b/c").as_deref(), Some("c"));
        assert_eq!(below("file:///a/b", "file:///a/bc/d"), None);
        let uri = format!("file:///o/{}", encode_path("k=k 0%2Fx/part-é[1].parquet"));
        assert_eq!(uri, "file:///o/k=k%200%252Fx/part-é%5B1%5D.parquet");
        assert_eq!(below("file:///o", &uri).as_deref(), Some("k=k 0%2Fx/part-é[1].parquet"));
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
