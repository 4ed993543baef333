//! Times by partition, as options have them.

use super::super::offsets::{self, Positions};

/// Reads `{"topic":{"0":1000}}`, milliseconds since 1970; `None` when the text is something else.
pub(crate) fn parse_times(json: &str) -> Option<Positions> {
    offsets::parse(json.trim()).filter(|all| all.values().all(|time| *time >= 0))
}
