//! Why a step did not go through.

use crate::query::QueryShared;
use onefold_types::{Error, Result};
use std::future::Future;

/// Why a step did not go through.
#[derive(Debug)]
pub(crate) enum Halt {
    /// The user asked to stop.
    Stopped,
    /// What was found is not what was decided on: gather the facts anew and decide again.
    DecideAgain,
    /// It failed.
    Failed(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Halt::Failed(error)
    }
}

/// Does something that may be given up at any time when the user asks to stop.
///
/// # Cancellation
/// The future is dropped then: only for steps whose half is harmless.
pub(crate) async fn unless_stopped<T>(
    query: &QueryShared,
    step: impl Future<Output = Result<T>>,
) -> Result<T, Halt> {
    tokio::select! {
        biased;
        () = query.until_stop() => Err(Halt::Stopped),
        done = step => done.map_err(Halt::Failed),
    }
}
