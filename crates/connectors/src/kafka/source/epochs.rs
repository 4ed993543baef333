//! The epochs of leaders that took the records before positions. A log that an unclean election cut off
//! before such a position, and that has grown past it since, is told by them.

use super::offsets::{Positions, TopicPartition};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Epochs by partition, as notes hold them.
pub(crate) type Epochs = BTreeMap<TopicPartition, i32>;

/// For each partition the last position whose epoch is known.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownEpochs(Arc<Mutex<BTreeMap<TopicPartition, (i64, i32)>>>);

impl KnownEpochs {
    pub(crate) fn learn(&self, at: &TopicPartition, position: i64, epoch: i32) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(at.clone(), (position, epoch));
    }

    /// The epoch before a position, where it is known of just that one.
    pub(crate) fn before(&self, at: &TopicPartition, position: i64) -> Option<i32> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(at).filter(|(of, _)| *of == position).map(|(_, epoch)| *epoch)
    }

    /// The epochs before these positions.
    pub(crate) fn of(&self, positions: &Positions) -> Epochs {
        let epoch = |(at, position): (&TopicPartition, &i64)| {
            Some((at.clone(), self.before(at, *position)?))
        };
        positions.iter().filter_map(epoch).collect()
    }

    /// Takes over what a note says of positions.
    pub(crate) fn learn_all(&self, positions: &Positions, epochs: &Epochs) {
        for (at, epoch) in epochs {
            if let Some(position) = positions.get(at) {
                self.learn(at, *position, *epoch);
            }
        }
    }
}
