//! A plan of what goes wrong when.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::Notify;

/// How an outside call goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It fails and did nothing; the process goes on.
    NotDone,
    /// It is done, but its reply is lost.
    ReplyLost,
    /// The process dies before the call.
    DiesBefore,
    /// The process dies right after the call.
    DiesAfter,
}

impl Fault {
    /// Every way.
    pub const ALL: &'static [Fault] =
        &[Fault::NotDone, Fault::ReplyLost, Fault::DiesBefore, Fault::DiesAfter];
}

/// What the fixture does with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Do it.
    Go,
    /// Do nothing and report a failure that is certain.
    Fail,
    /// Do it and report that its outcome is not known.
    LoseReply,
    /// The process is dead: do nothing, report anything.
    Dead,
}

/// A plan for one driver's outside calls.
#[derive(Debug, Default)]
pub struct Faults {
    at: Option<u64>,
    fault: Option<Fault>,
    calls: AtomicU64,
    met: AtomicBool,
    dead: AtomicBool,
    ended: AtomicBool,
    held: AtomicBool,
    free: AtomicBool,
    changed: Notify,
    /// Names of the calls so far, for messages.
    names: Mutex<Vec<String>>,
}

impl Faults {
    /// Nothing goes wrong.
    #[must_use]
    pub fn none() -> Arc<Faults> {
        Arc::new(Faults { free: AtomicBool::new(true), ..Faults::default() })
    }

    /// One call, counted from 0, goes wrong.
    #[must_use]
    pub fn fail_at(call: u64, fault: Fault) -> Arc<Faults> {
        let free = AtomicBool::new(true);
        Arc::new(Faults { at: Some(call), fault: Some(fault), free, ..Faults::default() })
    }

    /// The driver stops before a call, counted from 0, until it is let go.
    #[must_use]
    pub fn hold_at(call: u64) -> Arc<Faults> {
        Arc::new(Faults { at: Some(call), ..Faults::default() })
    }

    /// Asked by the fixture before each outside call that changes something.
    pub async fn pass(&self, name: &str) -> Verdict {
        if self.dead.load(Ordering::SeqCst) {
            return Verdict::Dead;
        }
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        self.names.lock().unwrap_or_else(PoisonError::into_inner).push(name.to_owned());
        if self.at != Some(call) {
            return Verdict::Go;
        }
        self.met.store(true, Ordering::SeqCst);
        match self.fault {
            None => {
                self.held.store(true, Ordering::SeqCst);
                self.changed.notify_waiters();
                self.wait(|| self.free.load(Ordering::SeqCst)).await;
                Verdict::Go
            }
            Some(Fault::NotDone) => Verdict::Fail,
            Some(Fault::ReplyLost) => Verdict::LoseReply,
            Some(Fault::DiesBefore) => {
                self.dead.store(true, Ordering::SeqCst);
                Verdict::Dead
            }
            Some(Fault::DiesAfter) => {
                self.dead.store(true, Ordering::SeqCst);
                Verdict::LoseReply
            }
        }
    }

    /// Whether the fault was met.
    #[must_use]
    pub fn met(&self) -> bool {
        self.met.load(Ordering::SeqCst)
    }

    /// Calls so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// The names of the calls so far.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the process died.
    #[must_use]
    pub fn died(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// Waits until the driver is held (true) or has ended (false).
    pub async fn held(&self) -> bool {
        let reached = || self.held.load(Ordering::SeqCst) || self.ended.load(Ordering::SeqCst);
        self.wait(reached).await;
        self.held.load(Ordering::SeqCst)
    }

    /// Lets a held driver go on.
    pub fn let_go(&self) {
        self.free.store(true, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// The driver has ended.
    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    async fn wait(&self, reached: impl Fn() -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if reached() {
                return;
            }
            changed.await;
        }
    }
}
