//! Operations on threads of their own, so that one that computes for long holds up no other client.

use crate::failure::{Failure, Outcome};
use onefold_engine::THREAD_STACK;
use onefold_types::Error;
use std::future::Future;
use std::thread::available_parallelism;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

/// Does the work on threads of its own. What it leaves behind when it is done is given up: it ends where
/// it next waits for something.
pub(crate) async fn run<T: Send + 'static>(
    work: impl Future<Output = Outcome<T>> + Send + 'static,
) -> Outcome<T> {
    let (sender, done) = oneshot::channel();
    let thread = std::thread::Builder::new().name("onefold-operation".to_owned());
    let started = thread.stack_size(THREAD_STACK).spawn(move || {
        // Nobody waits any more when the server stops.
        let _ = sender.send(here(work));
    });
    started.map_err(no_threads)?;
    done.await.unwrap_or_else(|_| {
        Err(Failure::execution(&Error::internal(
            "the request met a bug in Onefold; please report it with the query",
        )))
    })
}

fn here<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(available_parallelism().map_or(2, std::num::NonZero::get))
        // Plans nest, and take stack.
        .thread_stack_size(THREAD_STACK)
        .enable_all()
        .build()
        .map_err(no_threads)?;
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    result
}

fn no_threads(error: std::io::Error) -> Failure {
    Failure::execution(&Error::unavailable("no threads can be started").because(error))
}

#[cfg(test)]
mod tests {
    use super::run;
    use crate::failure::Failure;

    #[tokio::test(flavor = "current_thread")]
    async fn work_that_never_waits_holds_nobody_up() {
        let (go_on, told) = std::sync::mpsc::channel();
        let busy = tokio::spawn(run(async move {
            // Blocks its thread until the other work is done.
            let _ = told.recv();
            Ok::<_, Failure>(())
        }));
        let other = run(async { Ok::<_, Failure>(7) }).await;
        assert_eq!(other.ok(), Some(7));
        go_on.send(()).unwrap();
        assert!(busy.await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn work_that_panics_is_an_error() {
        let panicked = run::<()>(async { panic!("planted") }).await;
        assert!(panicked.is_err());
    }
}
