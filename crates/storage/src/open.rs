//! From a URL or a path to a store.

use crate::location::local_path;
use crate::object::connect;
use crate::{LocalStore, Store};
use onefold_types::{Error, OptionMap, Result};
use std::sync::Arc;

/// Opens the folder that a URL or a path names. Nothing is read or made yet; the folder need not
/// exist.
///
/// - a path, absolute or relative to the current folder, is taken as it is: `%` means itself;
/// - `s3://`, `s3a://`, `gs://` and `abfss://` open an object store, with credentials from the
///   options or the environment; the scheme stays as it was given;
/// - `file:/a`, `file:///a`: escapes such as `%20` are taken out, so that a URL from a log opens
///   what it names.
///
/// # Errors
/// Invalid, when the scheme is not known, or the options do not suffice.
pub fn open(location: &str, options: &OptionMap) -> Result<Arc<dyn Store>> {
    if location.is_empty() {
        return Err(Error::invalid("the path is empty; name a folder"));
    }
    if let Some(path) = local_path(location)? {
        return Ok(Arc::new(LocalStore::new(path)?));
    }
    if location.contains("://") {
        return Ok(Arc::new(connect(location, options)?));
    }
    Ok(Arc::new(LocalStore::new(location)?))
}
