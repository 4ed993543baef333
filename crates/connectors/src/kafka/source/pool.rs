//! The consumers of a query, kept between batches.

use super::epochs::KnownEpochs;
use super::offsets::Positions;
use super::reader::Reader;
use super::split::Lane;
use crate::kafka::aside::drop_aside;
use crate::kafka::client::Listener;
use onefold_connector::Options;
use onefold_types::Result;
use rdkafka::ClientConfig;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Readers that a lane keeps: two, since a query may read a source twice in one batch.
const KEPT_MAX: usize = 2;

/// Idle readers, by lane.
pub(crate) struct Pool {
    config: ClientConfig,
    options: Options,
    timeout: Duration,
    idle: Mutex<HashMap<usize, Vec<Reader>>>,
    /// Told when something comes to a reader.
    arrival: Arc<Notify>,
    epochs: KnownEpochs,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl Pool {
    pub(crate) fn new(config: ClientConfig, options: Options, timeout: Duration) -> Pool {
        let (idle, arrival, epochs) = (Mutex::default(), Arc::default(), KnownEpochs::default());
        Pool { config, options, timeout, idle, arrival, epochs }
    }

    /// What its readers know of leaders.
    pub(crate) fn epochs(&self) -> &KnownEpochs {
        &self.epochs
    }

    /// A reader that is ready for the splits of a lane; a warm one where it can be used. Blocks.
    ///
    /// # Errors
    /// Those of the library.
    pub(crate) fn lease(&self, lane: &Lane) -> Result<Reader> {
        let idle = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.get_mut(&lane.number).and_then(Vec::pop)
        };
        if let Some(mut reader) = idle {
            match reader.prepare(&lane.splits, self.timeout) {
                Ok(()) => return Ok(reader),
                Err(error) => tracing::debug!(error = %error.chain(), "a consumer is replaced"),
            }
        }
        let mut reader =
            Reader::new(&self.config, Listener::new(&self.options), &self.arrival, &self.epochs)?;
        reader.prepare(&lane.splits, self.timeout)?;
        Ok(reader)
    }

    /// Whether idle readers hear of every record at or after these offsets.
    pub(crate) fn hears(&self, stand: &Positions) -> bool {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let all = || idle.values().flatten();
        stand.iter().all(|(at, offset)| all().any(|reader| reader.stands_at(at, *offset)))
    }

    /// Where what idle readers hold ends, from these offsets on; `None` unless all that came is held,
    /// of each partition, and there is something.
    pub(crate) fn held(&self, stand: &Positions) -> Option<Positions> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ends = Positions::new();
        for (at, offset) in stand {
            let mut readers = idle.values_mut().flatten();
            let reader = readers.find(|reader| reader.stands_at(at, *offset))?;
            ends.insert(at.clone(), reader.held(at)?);
        }
        (ends != *stand).then_some(ends)
    }

    /// Assigns idle readers what they are to hear of. Blocks.
    ///
    /// # Errors
    /// Those of the library.
    pub(crate) fn listen(&self, lanes: &[Lane]) -> Result<()> {
        for lane in lanes {
            self.give(lane.number, self.lease(lane)?);
        }
        Ok(())
    }

    /// Waits until a record is there at or after these offsets.
    pub(crate) async fn arrival(&self, stand: &Positions) {
        while !self.has(stand) {
            self.arrival.notified().await;
        }
    }

    fn has(&self, stand: &Positions) -> bool {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.values_mut().flatten().any(|reader| {
            stand
                .iter()
                .any(|(at, offset)| reader.stands_at(at, *offset) && reader.has(at, *offset))
        })
    }

    /// Takes a reader back.
    pub(crate) fn give(&self, lane: usize, reader: Reader) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.entry(lane).or_default();
        if kept.len() < KEPT_MAX {
            kept.push(reader);
        }
    }
}

impl Drop for Pool {
    /// Consumers take a moment to close, which nobody should wait for.
    fn drop(&mut self) {
        let idle = std::mem::take(self.idle.get_mut().unwrap_or_else(PoisonError::into_inner));
        if !idle.is_empty() {
            drop_aside(idle);
        }
    }
}
