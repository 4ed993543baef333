//! One aligned line a batch, for people.

use crate::table::grouped;
use onefold::StreamingQueryProgress;

/// Batches between two headings.
const HEADING_EVERY: u64 = 40;

/// Keeps count of the lines, so that the heading comes again.
#[derive(Default)]
pub struct ProgressTable {
    printed: u64,
}

impl ProgressTable {
    /// The lines for one batch: its own, and now and then the heading before it.
    pub fn lines(&mut self, progress: &StreamingQueryProgress) -> Vec<String> {
        let mut lines = Vec::with_capacity(2);
        if self.printed.is_multiple_of(HEADING_EVERY) {
            lines.push(heading());
        }
        self.printed += 1;
        lines.push(line(progress));
        lines
    }
}

fn heading() -> String {
    format!(
        "{:<16}  {:>8}  {:>12}  {:>12}  {:>7}  what took longest, what waits",
        "table", "batch", "rows", "rows/s", "ms"
    )
}

fn line(progress: &StreamingQueryProgress) -> String {
    let rate = if progress.processed_rows_per_second.is_finite() {
        grouped(rounded(progress.processed_rows_per_second))
    } else {
        "-".to_owned()
    };
    format!(
        "{:<16}  {:>8}  {:>12}  {rate:>12}  {:>7}  {}, {}",
        progress.name.as_deref().unwrap_or("-"),
        progress.batch_id.0,
        grouped(progress.num_input_rows),
        progress.batch_duration,
        longest(progress),
        waiting(progress),
    )
}

/// The longest phase of the batch.
fn longest(progress: &StreamingQueryProgress) -> String {
    let phases = progress.duration_ms.iter().filter(|(name, _)| *name != "triggerExecution");
    match phases.max_by_key(|(_, ms)| **ms) {
        Some((name, ms)) => format!("{name} {ms} ms"),
        None => "-".to_owned(),
    }
}

/// Whether a source had more than the batch took.
fn waiting(progress: &StreamingQueryProgress) -> &'static str {
    let more = progress
        .sources
        .iter()
        .any(|source| source.latest_offset.is_some() && source.latest_offset != source.end_offset);
    if more { "more waits" } else { "nothing waits" }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate for people; the cast saturates"
)]
fn rounded(rate: f64) -> u64 {
    rate.max(0.0).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn progress(batch: u64, end: u64, latest: u64) -> StreamingQueryProgress {
        serde_json::from_value(json!({
            "id": "4863bb32-0053-474b-86ed-8207fb7a4c07",
            "runId": "4863bb32-0053-474b-86ed-8207fb7a4c08",
            "name": "orders",
            "timestamp": "2026-11-29T13:45:47.591Z",
            "batchId": batch,
            "batchDuration": 41,
            "numInputRows": 12_345,
            "processedRowsPerSecond": 301_097.56,
            "durationMs": { "addBatch": 30, "walCommit": 6, "triggerExecution": 41 },
            "sources": [{
                "description": "FileStreamSource[file:/in]",
                "startOffset": null,
                "endOffset": { "logOffset": end },
                "latestOffset": { "logOffset": latest },
                "numInputRows": 12_345
            }],
            "sink": { "description": "FileSink[file:/out]", "numOutputRows": -1 }
        }))
        .unwrap()
    }

    #[test]
    fn lines_stand_under_their_heading() {
        let mut table = ProgressTable::default();
        let lines = table.lines(&progress(7, 7, 9));
        assert_eq!(
            lines,
            [
                "table                batch          rows        rows/s       ms  what took \
                 longest, what waits",
                "orders                   7        12 345       301 098       41  addBatch 30 ms, \
                 more waits",
            ]
        );
        assert_eq!(table.lines(&progress(8, 9, 9)).len(), 1);
    }
}
