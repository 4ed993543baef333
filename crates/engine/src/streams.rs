//! The queries of a session.

use crate::listener::{ListenerBus, ListenerId, StreamingQueryListener};
use crate::query::{QueryShared, StreamingQuery};
use crate::session::{Session, SessionInner};
use onefold_types::{Error, QueryId, Result};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::watch;

/// The queries of a session, as Spark's `StreamingQueryManager`.
#[derive(Debug, Clone)]
pub struct StreamingQueryManager {
    session: Session,
}

/// The queries that run in this process, of all its sessions: two drivers of one checkpoint are found
/// here before they meet there. All sessions share one, but those of tests that stand for several
/// processes.
#[derive(Clone, Default)]
pub struct Process {
    active: Arc<Mutex<Vec<Active>>>,
}

/// A query that runs, and its session.
struct Active {
    query: Arc<QueryShared>,
    session: Weak<SessionInner>,
}

impl Process {
    /// The one that this program is.
    #[must_use]
    pub fn this() -> Process {
        static THIS: LazyLock<Process> = LazyLock::new(Process::default);
        THIS.clone()
    }

    fn active(&self) -> MutexGuard<'_, Vec<Active>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a query in; the run that has its id, when there is one.
    fn register(&self, query: &Arc<QueryShared>, session: &Session) -> Result<(), StreamingQuery> {
        let mut active = self.active();
        // A session that is gone took its queries with it.
        active.retain(|it| it.session.strong_count() > 0);
        let other = active.iter().find(|it| it.query.id == query.id);
        let other = other.and_then(|it| Some((it.session.upgrade()?, Arc::clone(&it.query))));
        if let Some((inner, shared)) = other {
            return Err(StreamingQuery { session: Session { inner }, shared });
        }
        let session = Arc::downgrade(&session.inner);
        active.push(Active { query: Arc::clone(query), session });
        Ok(())
    }

    fn deregister(&self, query: &QueryShared) {
        self.active().retain(|it| it.query.run_id != query.run_id);
    }
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("queries", &self.active().len()).finish()
    }
}

/// The registry behind it.
pub(crate) struct Streams {
    process: Process,
    active: Mutex<Vec<Arc<QueryShared>>>,
    ended: watch::Sender<Ended>,
    pub(crate) listeners: ListenerBus,
}

/// Ends since the last reset.
#[derive(Debug, Clone, Default)]
struct Ended {
    count: u64,
    first_error: Option<(onefold_types::ErrorKind, String)>,
}

impl Streams {
    pub(crate) fn new(process: Process) -> Self {
        Streams {
            process,
            active: Mutex::default(),
            ended: watch::Sender::new(Ended::default()),
            listeners: ListenerBus::new(),
        }
    }

    fn active(&self) -> MutexGuard<'_, Vec<Arc<QueryShared>>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a query in.
    ///
    /// # Errors
    /// Invalid, when its name is taken; the run that has its id, in whatever session of the process,
    /// when there is one.
    pub(crate) fn register(
        &self,
        query: &Arc<QueryShared>,
        session: &Session,
    ) -> Result<(), Taken> {
        self.process.register(query, session).map_err(|other| Taken::Id(Box::new(other)))?;
        let mut active = self.active();
        if let Some(name) = &query.name
            && active.iter().any(|other| other.name.as_ref() == Some(name))
        {
            self.process.deregister(query);
            return Err(Taken::Name(Error::invalid(format!(
                "a query named `{name}` runs already in this session; stop it or choose another \
                 name"
            ))));
        }
        active.push(Arc::clone(query));
        Ok(())
    }

    /// Lets a query go that ended, or that never began.
    pub(crate) fn deregister(&self, query: &QueryShared, error: Option<&Error>, began: bool) {
        self.active().retain(|other| other.run_id != query.run_id);
        self.process.deregister(query);
        if !began {
            return;
        }
        self.ended.send_modify(|ended| {
            ended.count = ended.count.saturating_add(1);
            if let (None, Some(error)) = (&ended.first_error, error) {
                ended.first_error = Some((error.kind(), error.chain()));
            }
        });
    }
}

/// Why a query cannot be taken in.
pub(crate) enum Taken {
    /// Another run of the same query is active.
    Id(Box<StreamingQuery>),
    /// Another query has the name.
    Name(Error),
}

impl StreamingQueryManager {
    pub(crate) fn new(session: Session) -> Self {
        StreamingQueryManager { session }
    }

    fn streams(&self) -> &Streams {
        &self.session.inner.streams
    }

    fn handle(&self, shared: &Arc<QueryShared>) -> StreamingQuery {
        StreamingQuery { session: self.session.clone(), shared: Arc::clone(shared) }
    }

    /// The queries that run now.
    #[must_use]
    pub fn active(&self) -> Vec<StreamingQuery> {
        self.streams().active().iter().map(|shared| self.handle(shared)).collect()
    }

    /// The running query with this id.
    #[must_use]
    pub fn get(&self, id: QueryId) -> Option<StreamingQuery> {
        self.streams().active().iter().find(|shared| shared.id == id).map(|it| self.handle(it))
    }

    /// Waits until any query of the session has ended since the last
    /// [`StreamingQueryManager::reset_terminated`] (or since the session began), or for at most
    /// `limit`; true when one has.
    ///
    /// # Errors
    /// The first by which one of them ended.
    pub fn await_any_termination(&self, limit: Option<Duration>) -> Result<bool> {
        let mut ended = self.streams().ended.subscribe();
        let seen = self.session.inner.tasks.wait_for(
            async move {
                // The sender lives as long as the session, which `self` holds.
                match ended.wait_for(|ended| ended.count > 0).await {
                    Ok(ended) => Ok(ended.first_error.clone()),
                    Err(_) => Ok(None),
                }
            },
            limit,
        )?;
        match seen {
            None => Ok(false),
            Some(None) => Ok(true),
            Some(Some((kind, text))) => Err(Error::new(kind, text)),
        }
    }

    /// Forgets the queries that have ended.
    pub fn reset_terminated(&self) {
        self.streams().ended.send_modify(|ended| *ended = Ended::default());
    }

    /// Adds a listener.
    pub fn add_listener(&self, listener: Arc<dyn StreamingQueryListener>) -> ListenerId {
        self.streams().listeners.add(listener)
    }

    /// Removes a listener.
    pub fn remove_listener(&self, id: ListenerId) {
        self.streams().listeners.remove(id);
    }
}
