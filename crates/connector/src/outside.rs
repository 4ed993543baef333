//! Calls to the outside world, as functions of a query make them.

use crate::CallContent;
use async_trait::async_trait;
use onefold_types::{CallKey, Reply, Result};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

/// Makes the calls of `http_call` for a session.
pub trait OutsideCalls: Debug + Send + Sync {
    /// What calls with these options of the function, under the session's settings of now.
    ///
    /// # Errors
    /// Invalid: an option or a setting has a wrong value.
    fn caller(&self, options: &BTreeMap<String, String>) -> Result<Arc<dyn OutsideCaller>>;
}

/// Makes calls with the same options.
#[async_trait]
pub trait OutsideCaller: Debug + Send + Sync {
    /// What a call with this address and body says.
    fn content(&self, url: &str, body: Option<&str>) -> CallContent;

    /// Calls, maybe several times, and waits for its turn before. `None` when nobody answers and the
    /// options ask for that rather than an error. Without a key each call gets a random one.
    ///
    /// # Errors
    /// Invalid: the address is none, or may not be called. Unavailable: nobody answers, after all tries.
    async fn call(
        &self,
        url: &str,
        body: Option<&str>,
        key: Option<CallKey>,
    ) -> Result<Option<Reply>>;

    /// How many calls may be under way at the same time.
    fn at_once(&self) -> usize;
}
