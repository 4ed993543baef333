//! Clients that end beside the work: that takes a moment, which nobody should wait for. Only a process
//! that ends must: threads of a client that still lives would use what its end takes away.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How many are ending.
static ENDING: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// Drops a client on a thread of its own.
pub(crate) fn drop_aside<T: Send + 'static>(client: T) {
    *ENDING.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    std::thread::spawn(move || {
        drop(client);
        *ENDING.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ENDING.1.notify_all();
    });
}

/// Waits until no client of Kafka is ending any more, but not longer than told. For the end of a
/// process, once all queries have ended.
pub fn wait_for_clients(limit: Duration) {
    let ending = ENDING.0.lock().unwrap_or_else(PoisonError::into_inner);
    // Who waited long enough goes.
    let _ = ENDING.1.wait_timeout_while(ending, limit, |ending| *ending > 0);
}
