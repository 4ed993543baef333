//! The runtime of a session, and how blocking callers wait for it.

use onefold_types::{Error, Result};
use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

/// Stack of a thread that plans or runs queries, in bytes: plans and expressions are walked by calls
/// of calls, a few KiB for each level. Only what is used is taken of the machine's memory.
pub const THREAD_STACK: usize = 64 << 20;

/// The threads that run a session's queries. Cheap to clone; the threads end with the last clone.
#[derive(Clone)]
pub(crate) struct Tasks {
    runtime: Arc<OwnedRuntime>,
}

struct OwnedRuntime {
    runtime: Option<Runtime>,
    handle: Handle,
}

impl Drop for OwnedRuntime {
    /// Never blocks: the last clone may go inside a task of this very runtime.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Tasks {
    pub(crate) fn new(threads: usize) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_name("onefold")
            .thread_stack_size(THREAD_STACK)
            .enable_all()
            .build()
            .map_err(|error| {
                Error::unavailable("no threads for a session can be started").because(error)
            })?;
        let handle = runtime.handle().clone();
        Ok(Tasks { runtime: Arc::new(OwnedRuntime { runtime: Some(runtime), handle }) })
    }

    pub(crate) fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.runtime.handle.spawn(future)
    }

    /// Runs a future and blocks this thread until it is done. Unlike `Runtime::block_on` it may be
    /// called from a thread of another runtime.
    pub(crate) fn wait<T, F>(&self, future: F) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send + 'static,
        T: Send + 'static,
    {
        let (send, receive) = sync_channel(1);
        self.spawn(async move {
            let _ = send.send(future.await);
        });
        receive.recv().unwrap_or_else(|_| Err(Error::internal("a task of the session panicked")))
    }

    /// As [`Tasks::wait`], for at most this long; `None` when that was not enough. The future is
    /// dropped then.
    pub(crate) fn wait_for<T, F>(&self, future: F, limit: Option<Duration>) -> Result<Option<T>>
    where
        F: Future<Output = Result<T>> + Send + 'static,
        T: Send + 'static,
    {
        let Some(limit) = limit else { return self.wait(future).map(Some) };
        self.wait(async move {
            match tokio::time::timeout(limit, future).await {
                Ok(done) => done.map(Some),
                Err(_) => Ok(None),
            }
        })
    }
}
