//! Settings that are frozen when a query first starts (they stand in every intent).
//!
//! On restart they are read from the newest intent and override the session's. Values are those of
//! a fresh query under Spark 4.2, so that a checkpoint can change hands.

use std::collections::BTreeMap;

/// One frozen setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frozen {
    /// Its full name.
    pub key: &'static str,
    /// What a fresh query writes unless the session says otherwise.
    pub fresh: &'static str,
    /// What holds when an old intent does not have it; `None`: what the session says.
    pub when_absent: Option<&'static str>,
}

const fn frozen(
    key: &'static str,
    fresh: &'static str,
    when_absent: Option<&'static str>,
) -> Frozen {
    Frozen { key, fresh, when_absent }
}

/// All frozen settings of Spark 4.2.
pub const FROZEN: &[Frozen] = &[
    frozen("spark.sql.shuffle.partitions", "200", None),
    frozen(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
        None,
    ),
    frozen("spark.sql.streaming.multipleWatermarkPolicy", "min", Some("min")),
    frozen("spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion", "2", Some("1")),
    frozen("spark.sql.streaming.aggregation.stateFormatVersion", "2", Some("1")),
    frozen("spark.sql.streaming.join.stateFormatVersion", "2", Some("1")),
    frozen("spark.sql.streaming.stateStore.compression.codec", "lz4", Some("lz4")),
    frozen("spark.sql.streaming.stateStore.rocksdb.formatVersion", "5", None),
    frozen("spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion", "2", Some("1")),
    frozen("spark.sql.streaming.statefulOperator.useStrictDistribution", "true", Some("false")),
    frozen("spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan", "false", Some("true")),
    frozen("spark.sql.streaming.stateStore.encodingFormat", "unsaferow", Some("unsaferow")),
    frozen("spark.sql.streaming.stateStore.rowChecksum.enabled", "false", Some("false")),
    frozen("spark.sql.function.protobufExtensions.enabled", "false", Some("false")),
    frozen("spark.sql.streaming.queryEvolution.enableSourceEvolution", "false", Some("false")),
];

/// What a fresh query freezes, given the session's settings.
#[must_use]
pub fn fresh(session: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    FROZEN
        .iter()
        .map(|row| {
            let value = session.get(row.key).map_or(row.fresh, String::as_str);
            (row.key.to_owned(), value.to_owned())
        })
        .collect()
}

/// The value that holds for a query whose newest intent has these settings.
#[must_use]
pub fn in_force<'a>(
    key: &str,
    intent: &'a BTreeMap<String, String>,
    session: &'a BTreeMap<String, String>,
) -> Option<&'a str> {
    let row = FROZEN.iter().find(|row| row.key == key);
    intent
        .get(key)
        .map(String::as_str)
        .or_else(|| row.and_then(|row| row.when_absent))
        .or_else(|| session.get(key).map(String::as_str))
        .or_else(|| row.map(|row| row.fresh))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_query_takes_the_session_and_an_old_one_its_own_defaults() {
        let session = BTreeMap::from([("spark.sql.shuffle.partitions".into(), "2".into())]);
        let fresh = fresh(&session);
        assert_eq!(fresh.len(), 15);
        assert_eq!(fresh["spark.sql.shuffle.partitions"], "2");
        let key = "spark.sql.streaming.join.stateFormatVersion";
        assert_eq!(in_force(key, &BTreeMap::new(), &session), Some("1"));
        assert_eq!(in_force(key, &fresh, &session), Some("2"));
    }
}
