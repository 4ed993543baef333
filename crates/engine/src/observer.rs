//! What a query tells of the rows of each batch beside its progress: Spark's `observe`.

use async_trait::async_trait;
use onefold_types::Result;
use serde_json::Value;
use std::fmt::Debug;

/// Sees the rows of a batch where it stands in the plan, and tells of them in the progress.
#[async_trait]
pub trait BatchObserver: Debug + Send + Sync {
    /// The name under which progress has it.
    fn name(&self) -> &str;
    /// Forgets what was seen: a batch begins, or begins again.
    fn begin(&self);
    /// What was seen since it began.
    ///
    /// # Errors
    /// It cannot be computed; the batch is not harmed.
    async fn tell(&self) -> Result<Value>;
}
