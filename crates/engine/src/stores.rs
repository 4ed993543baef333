//! How checkpoints are opened.

use futures::future::BoxFuture;
use onefold_storage::Store;
use onefold_types::{OptionMap, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Opens a folder by URL or path, given the session's settings. The folder need not exist.
pub type StoreOpener = Arc<
    dyn Fn(String, BTreeMap<String, String>) -> BoxFuture<'static, Result<Arc<dyn Store>>>
        + Send
        + Sync,
>;

/// Beginnings of the settings that say how to reach an object store.
const STORAGE_SETTINGS: [&str; 5] = ["spark.hadoop.fs.", "fs.", "aws_", "google_", "azure_"];

/// The opener of `onefold-storage`.
pub(crate) fn default_opener() -> StoreOpener {
    Arc::new(|location, conf| {
        Box::pin(async move {
            let options: OptionMap = conf
                .into_iter()
                .filter(|(name, _)| STORAGE_SETTINGS.iter().any(|it| name.starts_with(it)))
                .collect();
            onefold_storage::open(&location, &options)
        })
    })
}
