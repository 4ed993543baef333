//! The sessions of all clients.

use crate::client_session::ClientSession;
use crate::failure::{Failure, Outcome};
use crate::operation::StreamLimits;
use crate::{LocalAddress, SessionFactory};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// How often idle sessions are looked for.
const SWEEP: Duration = Duration::from_secs(30);

/// Sessions by user and id.
pub(crate) struct Sessions {
    factory: SessionFactory,
    local: LocalAddress,
    pub(crate) limits: StreamLimits,
    idle: Duration,
    state: Mutex<State>,
}

type Key = (String, String);

#[derive(Default)]
struct State {
    live: HashMap<Key, Arc<ClientSession>>,
    closed: HashSet<Key>,
}

impl Sessions {
    pub(crate) fn new(
        factory: SessionFactory,
        local: LocalAddress,
        limits: StreamLimits,
        idle: Duration,
    ) -> Self {
        Sessions { factory, local, limits, idle, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
                let engine = (self.factory)()?;
                let session =
                    Arc::new(ClientSession::new(id.to_owned(), engine, self.local.url(user), now));
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

    /// The session of a request that does not begin one.
    pub(crate) fn existing(&self, user: &str, id: &str) -> Outcome<Arc<ClientSession>> {
        let key = (user.to_owned(), id.to_owned());
        let state = self.state();
        match state.live.get(&key) {
            Some(session) => Ok(Arc::clone(session)),
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
            state.closed.insert(key);
        }
        session
    }

    /// Closes sessions that nobody uses, for ever.
    pub(crate) async fn sweep(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(SWEEP);
        loop {
            ticks.tick().await;
            let now = Instant::now();
            let idle: Vec<(Key, Arc<ClientSession>)> = {
                let state = self.state();
                let idle = state.live.iter().filter(|(_, it)| it.idle(now, self.idle));
                idle.map(|(key, session)| (key.clone(), Arc::clone(session))).collect()
            };
            for ((user, id), session) in idle {
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
