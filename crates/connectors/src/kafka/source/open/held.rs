//! A look at what the query's own consumers hold, in place of one at the brokers: where a query
//! follows its topics closely, the next records are here already, and the brokers need not be asked
//! with each batch.

use super::{KafkaSource, State};
use crate::kafka::source::offsets;
use crate::kafka::source::topology::Look;
use onefold_types::{Offset, Result};

/// How long it is taken that topics are as the brokers told, in milliseconds: as for a query that
/// waits.
const FRESH_MS: i64 = 1_000;

impl KafkaSource {
    /// What the brokers told last, with the ends of what has come since; `None` when they are to be
    /// asked.
    pub(super) fn held(&self, state: &State, start: Option<&Offset>) -> Result<Option<Look>> {
        let (Some(start), Some((looked_ms, look))) = (start, &state.looked) else {
            return Ok(None);
        };
        let fresh = (0..FRESH_MS).contains(&self.clock.now_ms().saturating_sub(*looked_ms));
        let elsewhere = state.pinned.is_some() || state.rewinds.is_some();
        if self.whole || self.divided() || elsewhere || !fresh {
            return Ok(None);
        }
        let stand = offsets::parse_logged(start.json())?;
        if !stand.keys().eq(look.latest.keys()) {
            return Ok(None);
        }
        let Some(ends) = self.reading.pool.held(&stand) else { return Ok(None) };
        let mut look = look.clone();
        for (at, end) in ends {
            let latest = look.latest.entry(at).or_insert(end);
            *latest = end.max(*latest);
        }
        Ok(Some(look))
    }
}
