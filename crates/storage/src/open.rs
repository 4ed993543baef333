//! From a URL or a path to a store.

use crate::location::local_path;
use crate::{LocalStore, Store};
use onefold_types::{Error, OptionMap, Result};
use std::sync::Arc;

/// Opens the folder that a URL or a path names. Nothing is read or made yet; the folder need not
/// exist.
///
/// - a path, absolute or relative to the current folder, is taken as it is: `%` means itself;
/// - `file:/a`, `file:///a`: escapes such as `%20` are taken out, so that a URL from a log opens
///   what it names.
///
/// # Errors
/// Invalid, when the scheme is not known, or the options do not suffice.
pub fn open(location: &str, _options: &OptionMap) -> Result<Arc<dyn Store>> {
    if location.is_empty() {
        return Err(Error::invalid("the path is empty; name a folder"));
    }
    if let Some(path) = local_path(location)? {
        return Ok(Arc::new(LocalStore::new(path)?));
    }
    if location.contains("://") {
        return Err(Error::invalid(format!("cannot open {location}")));
    }
    Ok(Arc::new(LocalStore::new(location)?))
}
