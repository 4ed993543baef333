//! What watermarks and stateful operators did in a batch, as progress tells it.

use super::term::Term;
use crate::progress::{StateOperatorProgress, WatermarkProgress, iso_ms};
use onefold_operators::{EventTimeStats, OperatorMetrics};
use onefold_plan::stream::{OperatorInBatch, WatermarkNode};
use onefold_protocol::watermark::Sighting;
use onefold_state::OperatorReport;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a batch saw at each node.
pub(crate) fn sightings(nodes: &[WatermarkNode], seen: &[Arc<EventTimeStats>]) -> Vec<Sighting> {
    let sighting = |(node, seen): (&WatermarkNode, &Arc<EventTimeStats>)| Sighting {
        node: node.id.clone(),
        ms: seen.max_ms().map(|max| max.saturating_sub(node.delay_ms)),
    };
    nodes.iter().zip(seen).map(sighting).collect()
}

/// `eventTime` of the progress: times that the first node with rows saw, and the watermark of the
/// batch. Empty without a watermark in the query.
pub(crate) fn event_time(
    nodes: &[WatermarkNode],
    seen: &[Arc<EventTimeStats>],
    watermark_ms: i64,
) -> BTreeMap<String, String> {
    if nodes.is_empty() {
        return BTreeMap::new();
    }
    let mut times = BTreeMap::from([("watermark".to_owned(), iso_ms(watermark_ms))]);
    if let Some(seen) = seen.iter().find(|seen| seen.count() > 0) {
        let known = [("avg", seen.avg_ms()), ("max", seen.max_ms()), ("min", seen.min_ms())];
        for (name, ms) in known {
            times.extend(ms.map(|ms| (name.to_owned(), iso_ms(ms))));
        }
    }
    times
}

/// Where each node stands after the batch.
pub(crate) fn watermarks(
    nodes: &[WatermarkNode],
    term: &Term,
    now_ms: i64,
) -> Vec<WatermarkProgress> {
    let report = |node: &WatermarkNode| {
        let told = term.watermarks.report(now_ms).into_iter().find(|told| told.node == node.id)?;
        Some(WatermarkProgress {
            node: node.id.clone(),
            column: node.column.clone(),
            sources: node
                .sources
                .iter()
                .filter_map(|place| term.sources.get(*place))
                .map(|source| source.id.clone())
                .collect(),
            watermark: iso_ms(told.at.ms),
            last_rows: iso_ms(told.at.since),
            idle: told.idle,
            holds_back: told.holds_back,
        })
    };
    nodes.iter().filter_map(report).collect()
}

/// `stateOperators` of the progress.
pub(crate) fn state_operators(
    term: &Term,
    ran: &[OperatorInBatch],
    commit_ms: i64,
) -> Vec<StateOperatorProgress> {
    let Some(state) = &term.state else { return Vec::new() };
    let partitions = state.partitions;
    state
        .store
        .report()
        .iter()
        .map(|report| {
            let ran = ran.iter().find(|ran| ran.id == report.id).map(|ran| ran.metrics.as_ref());
            operator(term, report, ran, partitions, commit_ms)
        })
        .collect()
}

fn operator(
    term: &Term,
    report: &OperatorReport,
    ran: Option<&OperatorMetrics>,
    partitions: u32,
    commit_ms: i64,
) -> StateOperatorProgress {
    let spec = term.operators.iter().find(|spec| spec.id == report.id);
    let kind = spec.map(|spec| spec.kind.clone()).unwrap_or_default();
    let count = |of: fn(&OperatorMetrics) -> u64| ran.map_or(0, of);
    let ms = |nanos: usize| i64::try_from(nanos / 1_000_000).unwrap_or(i64::MAX);
    let mut custom = BTreeMap::from([
        ("numLateRows".to_owned(), count(OperatorMetrics::late_rows)),
        ("stateOnCurrentVersionSizeBytes".to_owned(), report.bytes),
    ]);
    if kind.starts_with("dedupe") {
        let dropped = count(OperatorMetrics::rows_dropped_as_duplicates);
        custom.insert("numDroppedDuplicateRows".to_owned(), dropped);
    }
    let variables = ran.into_iter().flat_map(OperatorMetrics::variables);
    custom.extend(variables.map(|(name, count)| (name.to_owned(), count)));
    // Spark keeps a join in four stores.
    let stores = if kind == "symmetricHashJoin" { 4 } else { 1 };
    StateOperatorProgress {
        operator_name: kind,
        num_rows_total: report.rows,
        num_rows_updated: count(OperatorMetrics::rows_updated),
        all_updates_time_ms: ran.map_or(0, |ran| ms(ran.update_time().value())),
        num_rows_removed: count(OperatorMetrics::rows_removed),
        all_removals_time_ms: ran.map_or(0, |ran| ms(ran.removal_time().value())),
        commit_time_ms: commit_ms,
        memory_used_bytes: report.bytes,
        num_rows_dropped_by_watermark: count(OperatorMetrics::rows_dropped_by_watermark),
        num_shuffle_partitions: partitions,
        num_state_store_instances: report.partitions * stores,
        custom_metrics: custom,
    }
}
