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

/// The opener of `onefold-storage`. Settings under `onefold.storage.` are its options.
pub(crate) fn default_opener() -> StoreOpener {
    Arc::new(|location, conf| {
        Box::pin(async move {
            let options: OptionMap = conf
                .iter()
                .filter_map(|(name, value)| Some((name.strip_prefix("onefold.storage.")?, value)))
                .map(|(name, value)| (name.to_owned(), value.clone()))
                .collect();
            onefold_storage::open(&location, &options)
        })
    })
}
