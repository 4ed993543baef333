//! Listeners: code of the user that hears of queries.

use crate::progress::StreamingQueryProgress;
use onefold_types::{QueryId, RunId};
use serde::Serialize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Hears of the queries of a session. `on_query_started` is called before `start` returns; the others
/// come a little later, in order, on a thread of their own. A panic in a listener is logged and
/// harms nothing else.
pub trait StreamingQueryListener: Send + Sync {
    /// A query started.
    fn on_query_started(&self, _event: &QueryStarted) {}
    /// A batch is over.
    fn on_query_progress(&self, _progress: &StreamingQueryProgress) {}
    /// There was no data for a while.
    fn on_query_idle(&self, _event: &QueryIdle) {}
    /// A query ended.
    fn on_query_terminated(&self, _event: &QueryTerminated) {}
}

/// A query started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryStarted {
    /// The query.
    pub id: QueryId,
    /// The run.
    pub run_id: RunId,
    /// The query's name.
    pub name: Option<String>,
    /// When, ISO 8601.
    pub timestamp: String,
}

/// There was no data for `noDataProgressEventInterval`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryIdle {
    /// The query.
    pub id: QueryId,
    /// The run.
    pub run_id: RunId,
    /// When, ISO 8601.
    pub timestamp: String,
}

/// A query ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryTerminated {
    /// The query.
    pub id: QueryId,
    /// The run.
    pub run_id: RunId,
    /// Why, if it ended by an error.
    pub exception: Option<String>,
}

/// Names a listener, to remove it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListenerId(u64);

/// Events that may wait for slow listeners; further progress is dropped, with a warning.
const EVENTS_WAITING_MAX: usize = 10_000;

enum Event {
    Progress(Arc<StreamingQueryProgress>),
    Idle(QueryIdle),
    Terminated(QueryTerminated),
}

type Listeners = Arc<Mutex<Vec<(ListenerId, Arc<dyn StreamingQueryListener>)>>>;

/// Carries events to listeners.
pub(crate) struct ListenerBus {
    listeners: Listeners,
    next: AtomicU64,
    sender: Mutex<Option<SyncSender<Event>>>,
}

impl ListenerBus {
    pub(crate) fn new() -> Self {
        ListenerBus { listeners: Arc::default(), next: AtomicU64::new(0), sender: Mutex::new(None) }
    }

    pub(crate) fn add(&self, listener: Arc<dyn StreamingQueryListener>) -> ListenerId {
        let id = ListenerId(self.next.fetch_add(1, Ordering::Relaxed));
        self.start_thread();
        lock(&self.listeners).push((id, listener));
        id
    }

    pub(crate) fn remove(&self, id: ListenerId) {
        lock(&self.listeners).retain(|(known, _)| *known != id);
    }

    /// One thread for the session, from the first listener on.
    fn start_thread(&self) {
        let mut sender = lock(&self.sender);
        if sender.is_some() {
            return;
        }
        let (send, receive) = sync_channel(EVENTS_WAITING_MAX);
        let listeners = Arc::clone(&self.listeners);
        let thread = std::thread::Builder::new().name("onefold-listeners".to_owned());
        match thread.spawn(move || deliver_all(&receive, &listeners)) {
            Ok(_) => *sender = Some(send),
            Err(error) => tracing::error!(%error, "no thread for listeners: they hear nothing"),
        }
    }

    pub(crate) fn started(&self, event: &QueryStarted) {
        deliver(&self.listeners, |listener| listener.on_query_started(event));
    }

    pub(crate) fn progress(&self, progress: Arc<StreamingQueryProgress>) {
        self.post(Event::Progress(progress));
    }

    pub(crate) fn idle(&self, event: QueryIdle) {
        self.post(Event::Idle(event));
    }

    /// Waits for room rather than drop: an end is told once for every start.
    pub(crate) fn terminated(&self, event: QueryTerminated) {
        let sender = lock(&self.sender).clone();
        if let Some(sender) = sender {
            let _ = sender.send(Event::Terminated(event));
        }
    }

    fn post(&self, event: Event) {
        let sender = lock(&self.sender).clone();
        if let Some(sender) = sender
            && sender.try_send(event).is_err()
        {
            tracing::warn!("listeners are {EVENTS_WAITING_MAX} events behind: one was dropped");
        }
    }
}

fn deliver_all(receive: &Receiver<Event>, listeners: &Listeners) {
    while let Ok(event) = receive.recv() {
        deliver(listeners, |listener| match &event {
            Event::Progress(progress) => listener.on_query_progress(progress),
            Event::Idle(idle) => listener.on_query_idle(idle),
            Event::Terminated(terminated) => listener.on_query_terminated(terminated),
        });
    }
}

fn deliver(listeners: &Listeners, call: impl Fn(&dyn StreamingQueryListener)) {
    let now: Vec<_> = lock(listeners).iter().map(|(_, listener)| Arc::clone(listener)).collect();
    for listener in now {
        if catch_unwind(AssertUnwindSafe(|| call(listener.as_ref()))).is_err() {
            tracing::error!("a listener panicked; the query goes on");
        }
    }
}

/// A panic of another holder leaves these values usable: each change to them is one call.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
