//! Settings of the brokers that would break the promise: found at the start, told with what to do.

use onefold_types::{Error, Result};

/// Longest transaction where nobody says otherwise: as long as brokers of today allow.
const LONGEST_MS: u64 = 900_000;

/// How long a transaction may take: what the user says, or as long as the brokers allow.
///
/// # Errors
/// Invalid: longer than the brokers allow.
pub(crate) fn transaction_timeout(given: Option<u64>, maximum: Option<u64>) -> Result<u64> {
    match (given, maximum) {
        (Some(given), Some(maximum)) if given > maximum => Err(Error::invalid(format!(
            "kafka.transaction.timeout.ms is {given}, but the brokers allow {maximum} at most \
             (their transaction.max.timeout.ms); lower the one or raise the other"
        ))),
        (Some(given), _) => Ok(given),
        (None, maximum) => Ok(maximum.unwrap_or(60_000).min(LONGEST_MS)),
    }
}

/// Whether a topic keeps the newest mark of each query for ever.
///
/// # Errors
/// Invalid: marks would be deleted with time.
pub(crate) fn keeps_marks(topic: &str, cleanup_policy: &str) -> Result<()> {
    let policies: Vec<&str> = cleanup_policy.split(',').map(str::trim).collect();
    let trouble = match (policies.contains(&"compact"), policies.contains(&"delete")) {
        (true, false) => return Ok(()),
        (true, true) => "is deleted from as well as compacted",
        (false, _) => "is not compacted",
    };
    Err(Error::invalid(format!(
        "topic {topic} {trouble} (cleanup.policy={cleanup_policy}), so that the marks by which each \
         row counts once would be lost after its retention; set cleanup.policy=compact on it, or \
         name another topic with onefold.kafka.progressTopic"
    )))
}

/// What to do about a topic of marks that cannot be made.
pub(crate) fn make_progress_topic(topic: &str) -> String {
    format!(
        "make topic {topic} with cleanup.policy=compact, or name one that is there with \
         onefold.kafka.progressTopic"
    )
}

/// A partition with fewer replicas in sync than a write needs.
pub(crate) fn short_of_replicas(in_sync: usize, min_in_sync: Option<&str>) -> bool {
    min_in_sync
        .and_then(|text| text.trim().parse().ok())
        .is_some_and(|least: usize| in_sync < least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_takes_as_long_as_the_brokers_allow_and_no_longer() {
        assert_eq!(transaction_timeout(None, Some(900_000)).unwrap(), 900_000);
        assert_eq!(transaction_timeout(None, Some(3_600_000)).unwrap(), 900_000);
        assert_eq!(transaction_timeout(None, Some(30_000)).unwrap(), 30_000);
        assert_eq!(transaction_timeout(None, None).unwrap(), 60_000);
        assert_eq!(transaction_timeout(Some(5_000), Some(30_000)).unwrap(), 5_000);
        let error = transaction_timeout(Some(30_001), Some(30_000)).unwrap_err();
        assert!(error.to_string().contains("30000 at most"), "{error}");
    }

    #[test]
    fn only_a_topic_that_is_compacted_alone_keeps_marks() {
        assert!(keeps_marks("marks", "compact").is_ok());
        for policy in ["delete", "compact,delete", "delete, compact", ""] {
            let error = keeps_marks("marks", policy).unwrap_err();
            assert!(error.to_string().contains("cleanup.policy=compact on it"), "{error}");
        }
    }

    #[test]
    fn too_few_replicas_in_sync_are_seen() {
        assert!(short_of_replicas(1, Some("2")));
        assert!(!short_of_replicas(2, Some("2")));
        assert!(!short_of_replicas(0, None));
    }
}
