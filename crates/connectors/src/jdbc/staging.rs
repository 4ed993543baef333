//! Names of staging tables: whose they are can be told from them.

use onefold_connector::Attempt;
use onefold_types::QueryId;
use xxhash_rust::xxh3::xxh3_64;

const PREFIX: &str = "onefold_s_";

/// What the names of a query's staging tables begin with.
pub(crate) fn prefix(query: QueryId, table: &str) -> String {
    let own = xxh3_64(format!("{query} {table}").as_bytes());
    format!("{PREFIX}{own:016x}_")
}

/// A staging table of an attempt; `nonce` tells two calls for one partition apart.
pub(crate) fn name(attempt: &Attempt, table: &str, partition: u32, nonce: u16) -> String {
    let Attempt { query, batch, generation } = attempt;
    format!("{}{:x}_{:x}_{partition:x}_{nonce:04x}", prefix(*query, table), batch.0, generation.0)
}

/// A new table that will take the place of another one.
pub(crate) fn new_table(query: QueryId, table: &str) -> String {
    format!("{}new", prefix(query, table))
}

/// The batch and the generation of a staging table of a query.
pub(crate) fn parse(name: &str, query: QueryId, table: &str) -> Option<(u64, u64)> {
    let rest = name.strip_prefix(prefix(query, table).as_str())?;
    let mut parts = rest.split('_');
    let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
    Some((number()?, number()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_types::{BatchId, Generation};

    #[test]
    fn a_staging_table_tells_whose_it_is_and_fits_every_database() {
        let query = QueryId(uuid::Uuid::from_u128(7));
        let attempt = Attempt { query, batch: BatchId(1_000_000), generation: Generation(70_000) };
        let name = name(&attempt, "s.t", 4_095, 65_535);
        assert!(name.len() < 64, "{name}");
        assert_eq!(parse(&name, query, "s.t"), Some((1_000_000, 70_000)));
        assert_eq!(parse(&name, query, "s.u"), None);
        assert_eq!(parse(&name, QueryId(uuid::Uuid::from_u128(8)), "s.t"), None);
        assert_eq!(parse("onefold_s_x", query, "s.t"), None);
    }
}
