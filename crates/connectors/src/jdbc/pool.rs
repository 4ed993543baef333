//! Sessions of one sink: a bounded number, taken and given back.

use super::database::{Database, Session};
use super::failure::Failure;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, SemaphorePermit};

/// The sessions.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) database: Arc<dyn Database>,
    idle: Mutex<Vec<Box<dyn Session>>>,
    permits: Semaphore,
}

/// A session that is in use. One that is dropped instead of given back is closed: nobody knows what
/// state it is in.
#[derive(Debug)]
pub(crate) struct Lent<'a> {
    session: Box<dyn Session>,
    pool: &'a Pool,
    _permit: SemaphorePermit<'a>,
}

impl Pool {
    pub(crate) fn new(database: Arc<dyn Database>, most: usize) -> Pool {
        Pool { database, idle: Mutex::default(), permits: Semaphore::new(most.max(1)) }
    }

    /// A session, when there is room.
    pub(crate) async fn take(&self) -> Result<Lent<'_>, Failure> {
        let permit = self.permits.acquire().await;
        let permit = permit.map_err(|_| Failure::lost("the sink is closed"))?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let session = match idle {
            Some(session) => session,
            None => self.database.connect().await?,
        };
        Ok(Lent { session, pool: self, _permit: permit })
    }
}

impl Lent<'_> {
    /// The session.
    pub(crate) fn session(&mut self) -> &mut dyn Session {
        self.session.as_mut()
    }

    /// Gives it back: no transaction is open, and nothing is under way.
    pub(crate) fn give_back(self) {
        let Lent { session, pool, .. } = self;
        pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(session);
    }
}
