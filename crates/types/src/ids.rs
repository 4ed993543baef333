//! Names of queries, runs, batches and drivers.

use serde::{Deserialize, Serialize};
use std::fmt;
use uuid::Uuid;

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self)
            }
        }
    };
}

uuid_id! {
    /// The identity of a query. It lives as long as the checkpoint (file `metadata`).
    QueryId
}
uuid_id! {
    /// The identity of one run of a query. It lives as long as the process and is never stored.
    RunId
}
uuid_id! {
    /// A value that only one writer has, so that it can recognise its own file after an unknown
    /// outcome.
    Nonce
}

/// The number of a batch: 0, 1, 2 …
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default,
)]
#[serde(transparent)]
pub struct BatchId(pub u64);

impl BatchId {
    /// The first batch of every query.
    pub const FIRST: BatchId = BatchId(0);

    /// The batch after this one. Saturates at the end of the range, which no query reaches.
    #[must_use]
    pub fn next(self) -> BatchId {
        BatchId(self.0.saturating_add(1))
    }

    /// The batch before this one; `None` for batch 0.
    #[must_use]
    pub fn previous(self) -> Option<BatchId> {
        self.0.checked_sub(1).map(BatchId)
    }
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The number of the driver that owns a checkpoint; a larger one fences all smaller ones. The first
/// driver is generation 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub u64);

impl Generation {
    /// The generation of a checkpoint's first driver.
    pub const FIRST: Generation = Generation(1);

    /// The generation that fences this one.
    #[must_use]
    pub fn next(self) -> Generation {
        Generation(self.0.saturating_add(1))
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
