//! The sessions of all clients.

use crate::catalog::GLOBAL;
use crate::client_session::ClientSession;
use crate::failure::{CLONE_CLOSED, CLONE_EXISTS, CLONE_FORMAT, Failure, Outcome};
use crate::limits::{self, Limits};
use crate::{LocalAddress, SessionFactory};
use datafusion::catalog::MemorySchemaProvider;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// How often idle sessions are looked for.
const SWEEP: Duration = Duration::from_secs(30);
/// Closed sessions that are remembered, so that a late call gets the right answer.
const CLOSED_MAX: usize = 100_000;
/// Longest name of a user, in bytes.
const USER_MAX: usize = 1_024;

/// Sessions by user and id.
pub(crate) struct Sessions {
    factory: SessionFactory,
    local: LocalAddress,
    pub(crate) limits: Limits,
    /// The views that all sessions see.
    views: Arc<MemorySchemaProvider>,
    state: Mutex<State>,
}

type Key = (String, String);

#[derive(Default)]
struct State {
    live: HashMap<Key, Arc<ClientSession>>,
    closed: HashSet<Key>,
    /// The same, oldest first.
    closed_in_order: VecDeque<Key>,
}

impl State {
    fn close(&mut self, key: Key) {
        if self.closed.insert(key.clone()) {
            self.closed_in_order.push_back(key);
        }
        if self.closed_in_order.len() > CLOSED_MAX
            && let Some(oldest) = self.closed_in_order.pop_front()
        {
            self.closed.remove(&oldest);
        }
    }
}

impl Sessions {
    pub(crate) fn new(factory: SessionFactory, local: LocalAddress, limits: Limits) -> Self {
        let views = Arc::new(MemorySchemaProvider::new());
        Sessions { factory, local, limits, views, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session of a request if it is there and nobody has to be waited for; never blocks.
    pub(crate) fn known(
        &self,
        user: &str,
        id: &str,
        observed: Option<&str>,
    ) -> Option<Arc<ClientSession>> {
        let state = self.state.try_lock().ok()?;
        let session = Arc::clone(state.live.get(&(user.to_owned(), id.to_owned()))?);
        drop(state);
        // What is wrong with the request is told by the longer way.
        let same = observed.is_none_or(|it| it.is_empty() || it == session.server_id);
        session.touch(Instant::now());
        same.then_some(session)
    }

    /// The session of a request; it begins with the first one.
    ///
    /// # Errors
    /// The id is no UUID, the session was closed, or the client knows another server's session.
    pub(crate) fn get(
        &self,
        user: &str,
        id: &str,
        observed: Option<&str>,
    ) -> Outcome<Arc<ClientSession>> {
        if Uuid::parse_str(id).is_err() {
            return Err(Failure::handle("FORMAT", id));
        }
        let key = (user.to_owned(), id.to_owned());
        let now = Instant::now();
        let mut state = self.state();
        if state.closed.contains(&key) {
            return Err(Failure::handle("SESSION_CLOSED", id));
        }
        let session = match state.live.get(&key) {
            Some(session) => Arc::clone(session),
            None => {
                let session = self.begun(&state, user, id, now)?;
                state.live.insert(key, Arc::clone(&session));
                session
            }
        };
        drop(state);
        if observed.is_some_and(|observed| !observed.is_empty() && observed != session.server_id) {
            return Err(Failure::handle("SESSION_CHANGED", id));
        }
        session.touch(now);
        Ok(session)
    }

    /// A session that begins now.
    fn begun(
        &self,
        state: &State,
        user: &str,
        id: &str,
        now: Instant,
    ) -> Outcome<Arc<ClientSession>> {
        if user.len() > USER_MAX {
            return Err(Failure::invalid(format!(
                "the name of a user may have {USER_MAX} bytes, this has {}",
                user.len()
            )));
        }
        if state.live.len() >= self.limits.sessions {
            return Err(Failure::limit(
                &format!("the server may have {} sessions", self.limits.sessions),
                limits::SESSIONS,
            ));
        }
        let (engine, url) = ((self.factory)()?, self.local.url(user));
        if let Some(catalog) = engine.context().catalog("datafusion") {
            catalog.register_schema(GLOBAL, Arc::clone(&self.views) as _)?;
        }
        Ok(Arc::new(ClientSession::new(id.to_owned(), engine, url, self.limits, now)))
    }

    /// A new session that is as this one is now: settings, views, functions and uploads. Blocks.
    ///
    /// # Errors
    /// The id is no UUID, or there is or was a session of it.
    pub(crate) fn clone_of(
        &self,
        user: &str,
        original: &ClientSession,
        id: &str,
    ) -> Outcome<Arc<ClientSession>> {
        if Uuid::parse_str(id).is_err() {
            return Err(Failure::clone_target(CLONE_FORMAT, id));
        }
        let key = (user.to_owned(), id.to_owned());
        let free = |state: &State| {
            if state.closed.contains(&key) {
                return Err(Failure::clone_target(CLONE_CLOSED, id));
            }
            if state.live.contains_key(&key) {
                return Err(Failure::clone_target(CLONE_EXISTS, id));
            }
            Ok(())
        };
        let session = {
            let state = self.state();
            free(&state)?;
            self.begun(&state, user, id, Instant::now())?
        };
        // Filled before anyone can use it.
        session.take_from(original)?;
        let mut state = self.state();
        free(&state)?;
        state.live.insert(key.clone(), Arc::clone(&session));
        Ok(session)
    }

    /// The session of a request that does not begin one.
    pub(crate) fn existing(&self, user: &str, id: &str) -> Outcome<Arc<ClientSession>> {
        let key = (user.to_owned(), id.to_owned());
        let state = self.state();
        match state.live.get(&key) {
            Some(session) => {
                session.touch(Instant::now());
                Ok(Arc::clone(session))
            }
            None if state.closed.contains(&key) => Err(Failure::handle("SESSION_CLOSED", id)),
            None => Err(Failure::handle("SESSION_NOT_FOUND", id)),
        }
    }

    /// Takes a session out; its id is never used again unless `reconnect`.
    pub(crate) fn remove(
        &self,
        user: &str,
        id: &str,
        reconnect: bool,
    ) -> Option<Arc<ClientSession>> {
        let key = (user.to_owned(), id.to_owned());
        let mut state = self.state();
        let session = state.live.remove(&key);
        if !reconnect {
            state.close(key);
        }
        session
    }

    /// Closes sessions that nobody uses, for ever.
    pub(crate) async fn sweep(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(SWEEP);
        loop {
            ticks.tick().await;
            let now = Instant::now();
            let all: Vec<(Key, Arc<ClientSession>)> = {
                let state = self.state();
                let all = state.live.iter();
                all.map(|(key, session)| (key.clone(), Arc::clone(session))).collect()
            };
            for ((user, id), session) in all {
                session.forget_operations(now);
                if !session.idle(now) {
                    continue;
                }
                self.remove(&user, &id, false);
                let _ = tokio::task::spawn_blocking(move || session.close()).await;
            }
        }
    }

    /// Closes all sessions. Blocks.
    pub(crate) fn close_all(&self) {
        let all: Vec<Arc<ClientSession>> =
            self.state().live.drain().map(|(_, session)| session).collect();
        for session in all {
            session.close();
        }
    }
}
