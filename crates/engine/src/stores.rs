//! How checkpoints are opened.

use futures::future::BoxFuture;
use onefold_storage::Store;
use onefold_types::Result;
use std::sync::Arc;

/// Opens a folder by URL or path, making it if need be.
pub type StoreOpener =
    Arc<dyn Fn(String) -> BoxFuture<'static, Result<Arc<dyn Store>>> + Send + Sync>;

/// The opener of `onefold-storage`: local paths, `file:`, `s3:`, `gs:`, `abfss:`.
pub(crate) fn default_opener() -> StoreOpener {
    Arc::new(|location| {
        Box::pin(async move {
            Err(onefold_types::Error::internal(format!("no store opens {location} yet")))
        })
    })
}
