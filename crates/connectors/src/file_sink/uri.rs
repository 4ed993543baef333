//! Paths in the manifest: a URI as Java's `java.net.URI` writes it.

use onefold_storage::location::encode_path;
use percent_encoding::percent_decode_str;

/// The URI of a file: the root's URL, and the relative path quoted as Java quotes it.
pub(crate) fn of_file(root: &str, path: &str) -> String {
    format!("{root}/{}", encode_path(path))
}

/// The path below the root that a manifest's URI names; `None` if it lies elsewhere.
pub(crate) fn below(root: &str, uri: &str) -> Option<String> {
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let path = decode(&plain_scheme(uri));
    let root = decode(&plain_scheme(root));
    path.strip_prefix(root.trim_end_matches('/'))?.strip_prefix('/').map(str::to_owned)
}

/// `file:/x` and `file:///x` are one place, and so are `s3a://`, `s3n://` and `s3://`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escaped_folder_is_quoted_once_more_as_spark_does() {
        let uri = of_file("file:///golden/out", "k=k 0%2Fx/part-é[1].parquet");
        assert_eq!(uri, "file:///golden/out/k=k%200%252Fx/part-é%5B1%5D.parquet");
        assert_eq!(
            below("file:///golden/out", &uri).as_deref(),
            Some("k=k 0%2Fx/part-é[1].parquet")
        );
    }

    #[test]
    fn other_spellings_of_one_place_are_found_and_other_places_are_not() {
        assert_eq!(below("s3://b/out", "s3a://b/out/x").as_deref(), Some("x"));
        assert_eq!(below("file:///a/b", "file:/a/b/c").as_deref(), Some("c"));
        assert_eq!(below("file:///a/b", "file:///a/bc/d"), None);
    }
}
