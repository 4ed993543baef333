//! Paths as Java's `URI` writes them, since Spark's logs and manifests hold them so.
//!
//! `new URI(scheme, authority, path, null, null).toString()` quotes `%` and every ASCII character
//! that a path may not hold, keeps letters of other scripts as they are, and quotes spaces and
//! control characters of any script.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Quotes a path. Bytes that are not UTF-8 are quoted one by one, so that decoding gives them back.
pub(crate) fn encode_path(path: &[u8]) -> String {
    let mut out = String::with_capacity(path.len() + 8);
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            if legal(c) {
                out.push(c);
            } else {
                let mut buffer = [0_u8; 4];
                quote(&mut out, c.encode_utf8(&mut buffer).as_bytes());
            }
        }
        quote(&mut out, chunk.invalid());
    }
    out
}

fn quote(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(out, "%{byte:02X}");
    }
}

fn legal(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_alphanumeric() || "_-!.~'()*/:@&=+$,;".contains(c)
    } else {
        !(c.is_whitespace() || c.is_control())
    }
}

/// Undoes [`encode_path`]. A `%` that is not followed by two hex digits stands for itself.
pub(crate) fn decode_path(text: &str) -> Vec<u8> {
    percent_encoding::percent_decode_str(text).collect()
}

/// `file:///a%20b` of a local path.
pub(crate) fn file_uri(path: &Path) -> String {
    format!("file://{}", encode_path(path.as_os_str().as_bytes()))
}

/// The local path of a URI `file:///a%20b` or `file:/a%20b`; `None` for other schemes.
pub(crate) fn local_path(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file:")?;
    let path = rest.strip_prefix("//").unwrap_or(rest);
    path.starts_with('/').then(|| PathBuf::from(OsString::from_vec(decode_path(path))))
}

/// The last part of a URI, decoded where it is text.
pub(crate) fn file_name(uri: &str) -> String {
    let name = uri.rsplit('/').next().unwrap_or(uri);
    String::from_utf8_lossy(&decode_path(name)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_are_quoted_as_java_does_and_come_back() {
        let names = "/in/a b%20c=1+é\"'[x]{y}#?\n\u{a0}^`|\\;,~.json";
        let uri = file_uri(Path::new(names));
        assert_eq!(
            uri,
            "file:///in/a%20b%2520c=1+é%22'%5Bx%5D%7By%7D%23%3F%0A%C2%A0%5E%60%7C%5C;,~.json"
        );
        assert_eq!(local_path(&uri).unwrap(), Path::new(names));
        assert_eq!(local_path("file:/a%20b").unwrap(), Path::new("/a b"));
        assert_eq!(local_path("s3://b/a"), None);
    }

    #[test]
    fn bytes_that_are_not_text_come_back() {
        let path = PathBuf::from(OsString::from_vec(b"/in/\xff%41".to_vec()));
        assert_eq!(file_uri(&path), "file:///in/%FF%2541");
        assert_eq!(local_path(&file_uri(&path)).unwrap(), path);
    }
}
