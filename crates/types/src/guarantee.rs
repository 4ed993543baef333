//! What a source or a sink promises, with the reason, as values that a user can read.

use serde::Serialize;

/// Whether a source gives the same rows for the same range again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "replay", rename_all = "camelCase")]
pub enum Replay {
    /// Any recorded range can be read again with the same rows.
    Exact {
        /// How that is so, in one clause.
        how: String,
    },
    /// A range cannot be read again.
    None {
        /// Why not, in one clause.
        why: String,
    },
}

/// How often a row of a batch reaches the sink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "delivery", rename_all = "camelCase")]
pub enum Delivery {
    /// Exactly once, through any crash.
    ExactlyOnce {
        /// How that is so, in one clause.
        how: String,
    },
    /// At least once: a batch that runs again may deliver again.
    AtLeastOnce {
        /// Why not exactly once, in one clause.
        why: String,
    },
}

impl Replay {
    /// Whether the source can be read again.
    #[must_use]
    pub fn exact(&self) -> bool {
        matches!(self, Replay::Exact { .. })
    }
}

impl Delivery {
    /// Whether the sink delivers exactly once.
    #[must_use]
    pub fn exactly_once(&self) -> bool {
        matches!(self, Delivery::ExactlyOnce { .. })
    }
}
