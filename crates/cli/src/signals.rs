//! Ctrl-C and SIGTERM.

use onefold::types::{Error, Result};
use tokio::signal::unix::{SignalKind, signal};

/// Calls `on_signal` with each SIGINT or SIGTERM, on a thread of its own.
///
/// # Errors
/// Unavailable, when the thread or the handlers cannot be made.
pub fn watch(on_signal: impl Fn() + Send + 'static) -> Result<()> {
    let unavailable =
        |error: std::io::Error| Error::unavailable("signals cannot be waited for").because(error);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(unavailable)?;
    // Registered before this returns, so that no signal is missed.
    let (mut interrupt, mut terminate) = {
        let _guard = runtime.enter();
        (
            signal(SignalKind::interrupt()).map_err(unavailable)?,
            signal(SignalKind::terminate()).map_err(unavailable)?,
        )
    };
    let wait = move || {
        runtime.block_on(async move {
            loop {
                let received = tokio::select! {
                    received = interrupt.recv() => received,
                    received = terminate.recv() => received,
                };
                if received.is_none() {
                    return;
                }
                on_signal();
            }
        });
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(unavailable)?;
    Ok(())
}
