//! `cleanSource`: archives or deletes files whose batch is committed. Failures are warnings.

use super::bucket::Bucket;
use onefold_storage::location;
use std::fs;
use std::path::PathBuf;

/// What to do with files that are done.
#[derive(Debug, Clone)]
pub(crate) enum Cleaner {
    /// Deletes them, in the bucket if there is one.
    Delete(Option<Bucket>),
    /// Moves files below this folder, keeping their whole path.
    Archive(PathBuf),
}

impl Cleaner {
    /// Archives or deletes one file; one that is gone is fine.
    #[allow(
        clippy::disallowed_methods,
        reason = "input is moved aside, not made durable; the name was looked for just before"
    )]
    pub(crate) fn clean(&self, uri: &str) {
        if let Cleaner::Delete(Some(bucket)) = self {
            if let Err(error) = bucket.delete(uri) {
                tracing::warn!(path = %uri, error = %error.chain(), "a file that is done could not be deleted");
            }
            return;
        }
        let Some(path) = location::log_path(uri) else { return };
        if !path.exists() {
            return;
        }
        let outcome = match self {
            Cleaner::Delete(_) => fs::remove_file(&path),
            Cleaner::Archive(folder) => {
                let target = folder.join(path.strip_prefix("/").unwrap_or(&path));
                if target.exists() {
                    tracing::warn!(path = %uri, "a file of that name is in the archive; left");
                    return;
                }
                target
                    .parent()
                    .map_or(Ok(()), fs::create_dir_all)
                    .and_then(|()| fs::rename(&path, &target))
            }
        };
        if let Err(error) = outcome {
            tracing::warn!(path = %uri, %error, "a file that is done could not be cleaned away");
        }
    }
}
