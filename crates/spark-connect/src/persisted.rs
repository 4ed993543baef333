//! Which frames a client wants to be kept.

use spark_connect_proto::{Relation, StorageLevel};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Frames that are remembered: the newest.
const FRAMES_MAX: usize = 1_000;

/// What a client asked for, by the message of the frame.
#[derive(Debug, Default)]
pub(crate) struct Persisted {
    levels: Mutex<Vec<(Relation, StorageLevel)>>,
}

impl Persisted {
    fn levels(&self) -> MutexGuard<'_, Vec<(Relation, StorageLevel)>> {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a frame is to be kept; without a level as Spark does it then, in memory and on
    /// disk.
    pub(crate) fn keep(&self, relation: &Relation, level: Option<StorageLevel>) {
        let level = level.unwrap_or(StorageLevel {
            use_disk: true,
            use_memory: true,
            use_off_heap: false,
            deserialized: true,
            replication: 1,
        });
        let mut levels = self.levels();
        levels.retain(|(known, _)| known != relation);
        if levels.len() >= FRAMES_MAX {
            levels.remove(0);
        }
        levels.push((relation.clone(), level));
    }

    /// Notes that a frame is not to be kept any more.
    pub(crate) fn forget(&self, relation: &Relation) {
        self.levels().retain(|(known, _)| known != relation);
    }

    /// How a frame is to be kept.
    pub(crate) fn level(&self, relation: &Relation) -> StorageLevel {
        let levels = self.levels();
        let known = levels.iter().find(|(known, _)| known == relation);
        known.map(|(_, level)| *level).unwrap_or(StorageLevel {
            use_disk: false,
            use_memory: false,
            use_off_heap: false,
            deserialized: false,
            replication: 1,
        })
    }
}
