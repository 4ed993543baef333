//! What a sink remembers of a batch.

use crate::{BatchId, Generation, QueryId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// `(query, batch, generation)` as the sink stores it in the same atomic act as the rows.
///
/// `query` and `generation` are absent where another engine (Spark) published the batch: its file
/// manifest holds only the batch number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mark {
    /// The query that published.
    pub query: Option<QueryId>,
    /// The batch that was published.
    pub batch: BatchId,
    /// The driver that published it.
    pub generation: Option<Generation>,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "batch {}", self.batch)?;
        match self.query {
            Some(query) => write!(f, " of query {query}")?,
            None => write!(f, " of an unnamed query")?,
        }
        match self.generation {
            Some(generation) => write!(f, ", generation {generation}"),
            None => Ok(()),
        }
    }
}

/// A sum over the contents of a batch that does not depend on the order of rows or files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ContentHash(pub u128);

impl ContentHash {
    /// Adds the hash of one more item; order does not matter.
    #[must_use]
    pub fn with(self, item: u128) -> Self {
        ContentHash(self.0.wrapping_add(item))
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Serialize for ContentHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ContentHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16).map(ContentHash).map_err(serde::de::Error::custom)
    }
}

/// How much a batch put into its sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Rows published.
    pub rows: u64,
    /// Order-free hash of what was published, as the sink defines it. The same sink computes it
    /// again from what it stores, for `onefold verify`.
    pub hash: ContentHash,
}

impl Totals {
    /// The totals of both together.
    #[must_use]
    pub fn plus(self, other: Totals) -> Totals {
        Totals { rows: self.rows.saturating_add(other.rows), hash: self.hash.with(other.hash.0) }
    }
}

/// A batch as the sink holds it: its mark and, where the sink can tell, its totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// Who published which batch.
    pub mark: Mark,
    /// What it holds; `None` where the sink or the engine that published cannot tell.
    pub totals: Option<Totals>,
}
