//! What progress tells of a source: how far behind it is, and what is lost.

use super::loss::Loss;
use super::offsets::Positions;
use super::scan::Counts;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Spark's metrics, and ours: `secondsBehindLatest` is the age of the newest record that was read,
/// while others wait.
#[expect(clippy::cast_precision_loss, reason = "averages are for people")]
pub(crate) fn metrics(
    latest: &Positions,
    consumed: &Positions,
    counts: &Counts,
    losses: &[Loss],
    now_ms: i64,
) -> BTreeMap<String, String> {
    let mut metrics = BTreeMap::new();
    let behind: Vec<i64> = latest
        .iter()
        .filter_map(|(at, latest)| Some(latest.saturating_sub(*consumed.get(at)?).max(0)))
        .collect();
    if let (Some(min), Some(max)) = (behind.iter().min(), behind.iter().max()) {
        let sum = behind.iter().fold(0_i64, |sum, one| sum.saturating_add(*one));
        let average = sum as f64 / behind.len() as f64;
        metrics.insert("minOffsetsBehindLatest".to_owned(), min.to_string());
        metrics.insert("maxOffsetsBehindLatest".to_owned(), max.to_string());
        metrics.insert("avgOffsetsBehindLatest".to_owned(), format!("{average:.1}"));
        let rows = counts.rows.load(Ordering::Relaxed);
        if rows > 0 {
            let bytes = counts.bytes.load(Ordering::Relaxed) as f64 / rows as f64 * sum as f64;
            metrics.insert("estimatedTotalBytesBehindLatest".to_owned(), format!("{bytes:.0}"));
        }
        let newest_ms = counts.newest_ms.load(Ordering::Relaxed);
        if sum == 0 {
            metrics.insert("secondsBehindLatest".to_owned(), "0.0".to_owned());
        } else if newest_ms > 0 {
            let seconds = now_ms.saturating_sub(newest_ms).max(0) as f64 / 1_000.0;
            metrics.insert("secondsBehindLatest".to_owned(), format!("{seconds:.1}"));
        }
    }
    if let Some(text) = (!losses.is_empty()).then(|| serde_json::to_string(losses).ok()).flatten() {
        metrics.insert("dataLoss".to_owned(), text);
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::super::offsets::TopicPartition;
    use super::*;

    fn at(offsets: &[i64]) -> Positions {
        let numbered = (0..).zip(offsets);
        numbered.map(|(partition, offset)| (TopicPartition::new("t", partition), *offset)).collect()
    }

    #[test]
    fn lag_is_told_as_spark_tells_it_and_in_seconds() {
        let counts = Counts::default();
        counts.rows.store(10, Ordering::Relaxed);
        counts.bytes.store(1_000, Ordering::Relaxed);
        counts.newest_ms.store(5_000, Ordering::Relaxed);
        let told = metrics(&at(&[10, 5, 7]), &at(&[3, 5, 7]), &counts, &[], 8_500);
        let told: Vec<_> = told.iter().map(|(name, it)| (name.as_str(), it.as_str())).collect();
        assert_eq!(
            told,
            [
                ("avgOffsetsBehindLatest", "2.3"),
                ("estimatedTotalBytesBehindLatest", "700"),
                ("maxOffsetsBehindLatest", "7"),
                ("minOffsetsBehindLatest", "0"),
                ("secondsBehindLatest", "3.5"),
            ]
        );
        let told = metrics(&at(&[3]), &at(&[3]), &counts, &[], 8_500);
        assert_eq!(told["secondsBehindLatest"], "0.0");
    }

    #[test]
    fn each_loss_is_a_row() {
        let loss = Loss::new(&TopicPartition::new("t", 1), 5, Some(9), "they expired");
        let told = metrics(&at(&[]), &at(&[]), &Counts::default(), &[loss], 0);
        assert_eq!(
            told["dataLoss"],
            r#"[{"topic":"t","partition":1,"from":5,"to":9,"reason":"they expired"}]"#
        );
    }
}
