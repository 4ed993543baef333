//! Calls of a query's functions that are under way, so that they can be ended with the query.

use super::pool::PythonPool;
use super::wire::lost;
use onefold_types::{Error, Result};
use std::hash::{Hash, Hasher};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The calls of all functions of a plan. Clones share them. They are no part of what a function is:
/// two of them are always equal.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    ended: bool,
    begun: u64,
    running: Vec<(u64, TcpStream)>,
}

impl PartialEq for Calls {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Calls {}

impl Hash for Calls {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// A call that is under way, until it is dropped.
#[derive(Debug)]
pub(super) struct Running<'a> {
    calls: &'a Calls,
    number: u64,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.calls.state().running.retain(|(number, _)| *number != self.number);
    }
}

impl Calls {
    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one call: a panic leaves it usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a worker is called.
    ///
    /// # Errors
    /// Unavailable: the query is ending.
    pub(super) fn begin(&self, worker: &TcpStream) -> Result<Running<'_>> {
        let worker = worker.try_clone().map_err(lost)?;
        let mut state = self.state();
        if state.ended {
            return Err(Error::unavailable("the query of this function is ending"));
        }
        state.begun += 1;
        let number = state.begun;
        state.running.push((number, worker));
        drop(state);
        Ok(Running { calls: self, number })
    }

    /// Ends the workers of all calls that are under way, and every later call.
    pub(crate) fn end(&self, pool: &PythonPool) {
        let mut state = self.state();
        state.ended = true;
        for (_, worker) in &state.running {
            pool.kill(worker);
        }
    }
}
