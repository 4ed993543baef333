//! `metadata`: the identity of the query.

use onefold_types::QueryId;

/// The content of `metadata`: `{"id":"…"}`, written once, no newline at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// The query.
    pub id: QueryId,
}
