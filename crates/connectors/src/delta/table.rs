//! A table's folder and the log in it, as the library reads them.

use super::bridge::Bridge;
use deltalake_core::DeltaTableError;
use deltalake_core::ObjectStore;
use deltalake_core::kernel::EagerSnapshot;
use deltalake_core::logstore::{LogStoreRef, StorageConfig, default_logstore};
use onefold_storage::Store;
use onefold_types::{Error, ErrorKind, OptionMap, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use url::Url;

/// The folder of the log below the table's.
pub(crate) const LOG: &str = "_delta_log";

/// The path of a version's commit below the table's folder.
pub(crate) fn commit_path(version: u64) -> String {
    format!("{LOG}/{version:020}.json")
}

/// The version of a commit's or a checkpoint's file, from its name, and whether it is a commit.
pub(crate) fn version_of(path: &str) -> Option<(u64, bool)> {
    let name = path.rsplit('/').next()?;
    let (digits, rest) = name.split_at_checked(20)?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let commit = rest == ".json";
    let checkpoint = rest.starts_with(".checkpoint.");
    (commit || checkpoint).then(|| digits.parse().ok().map(|version| (version, commit)))?
}

/// A table that may not be there yet.
#[derive(Clone)]
pub(crate) struct Table {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) log: LogStoreRef,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Table").field(&self.store.url()).finish()
    }
}

impl Table {
    /// The table in a folder.
    ///
    /// # Errors
    /// Internal: its place cannot be named to the library.
    pub(crate) fn over(store: Arc<dyn Store>) -> Result<Table> {
        // Paths in the library begin at the table's folder, whatever that is; the name in front only
        // tells tables of a session apart.
        let name = xxhash_rust::xxh3::xxh3_128(format!("{store:?}").as_bytes());
        let place = Url::parse(&format!("onefold://t{name:032x}/"))
            .map_err(|error| Error::internal("a table has no name").because(error))?;
        let bridge: Arc<dyn ObjectStore> = Arc::new(Bridge(Arc::clone(&store)));
        let log = default_logstore(Arc::clone(&bridge), bridge, &place, &StorageConfig::default());
        Ok(Table { store, log })
    }

    /// The table that a path or URL names, with the settings of a session that tell how to reach it.
    ///
    /// # Errors
    /// Invalid: the path names no place, or a setting does not fit.
    pub(crate) fn open(path: &str, conf: &BTreeMap<String, String>) -> Result<Table> {
        Table::over(open_store(path, conf)?)
    }

    /// Whether there is a log.
    ///
    /// # Errors
    /// As the store's.
    pub(crate) async fn exists(&self) -> Result<bool> {
        let files = self.store.list(LOG).await?;
        Ok(files.iter().any(|entry| version_of(&entry.path).is_some()))
    }

    /// The table as of a version, or the newest one.
    ///
    /// # Errors
    /// Corrupt: the log cannot be read. Invalid: there is no such version.
    pub(crate) async fn snapshot(&self, version: Option<u64>) -> Result<EagerSnapshot> {
        EagerSnapshot::try_new(self.log.as_ref(), version)
            .await
            .map_err(|error| failed(&format!("the table {} cannot be read", self.url()), error))
    }

    /// The folder, for messages.
    pub(crate) fn url(&self) -> &str {
        self.store.url()
    }
}

/// A folder, reached as the session's settings say.
///
/// # Errors
/// Invalid: the path names no place, or a setting does not fit.
pub(crate) fn open_store(path: &str, conf: &BTreeMap<String, String>) -> Result<Arc<dyn Store>> {
    let prefixes = ["spark.hadoop.fs.", "fs.", "aws_", "google_", "azure_"];
    let settings: OptionMap = conf
        .iter()
        .filter(|(name, _)| prefixes.iter().any(|prefix| name.starts_with(prefix)))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    onefold_storage::open(path, &settings)
}

/// An error of the library. One of ours that travelled through it keeps its kind.
pub(crate) fn failed(what: &str, error: DeltaTableError) -> Error {
    let kind = kind_of(&error);
    Error::new(kind, what.to_owned()).because(error)
}

fn kind_of(error: &DeltaTableError) -> ErrorKind {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(found) = cause {
        if let Some(ours) = found.downcast_ref::<Error>() {
            return ours.kind();
        }
        cause = found.source();
    }
    match error {
        DeltaTableError::InvalidVersion(_)
        | DeltaTableError::NotATable(_)
        | DeltaTableError::Transaction { .. }
        | DeltaTableError::SchemaMismatch { .. } => ErrorKind::Invalid,
        DeltaTableError::ObjectStore { .. } => ErrorKind::Unavailable,
        _ => ErrorKind::Corrupt,
    }
}

#[cfg(test)]
mod tests {
    use super::{commit_path, version_of};

    #[test]
    fn names_of_the_log_tell_their_version() {
        assert_eq!(version_of(&commit_path(7)), Some((7, true)));
        let checkpoint = "_delta_log/00000000000000000010.checkpoint.parquet";
        assert_eq!(version_of(checkpoint), Some((10, false)));
        for other in ["_delta_log/_last_checkpoint", "_delta_log/00000000000000000010.crc", "x"] {
            assert_eq!(version_of(other), None, "{other}");
        }
    }
}
