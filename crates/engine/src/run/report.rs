//! From what a batch did to its progress.

use super::phases::Phases;
use super::term::Term;
use crate::progress::{
    FurtherSinkProgress, SinkProgress, SourceProgress, StateOperatorProgress,
    StreamingQueryProgress, WatermarkProgress, iso_ms, offset_json,
};
use crate::query::QueryShared;
use onefold_connector::Source;
use onefold_types::{BatchId, Offset, OffsetRange, Published, Totals};
use std::collections::BTreeMap;

/// What a batch did.
pub(crate) struct Report<'a> {
    pub(crate) batch: BatchId,
    /// Ranges, in plan order.
    pub(crate) ranges: &'a [OffsetRange],
    /// The newest offsets there were, in plan order; empty when nobody asked.
    pub(crate) latest: &'a [Option<Offset>],
    /// Rows read, in plan order; empty when nothing was computed.
    pub(crate) input_rows: &'a [u64],
    pub(crate) published: Published,
    /// What further sinks got, by name.
    pub(crate) further: Vec<(String, Totals)>,
    /// What observers told.
    pub(crate) observed: BTreeMap<String, serde_json::Value>,
    pub(crate) event_time: BTreeMap<String, String>,
    pub(crate) state_operators: Vec<StateOperatorProgress>,
    pub(crate) watermarks: Vec<WatermarkProgress>,
    pub(crate) phases: &'a Phases,
    /// When the look before this one began.
    pub(crate) looked_before_ms: Option<i64>,
}

/// Sinks of which it is told how many rows they took: Spark's, and ours of the same kind.
const COUNTING: [&str; 6] = ["console", "foreach", "http", "kafka", "memory", "noop"];

/// Whether progress tells how many rows a sink of this name took.
pub(crate) fn counts_rows(format: Option<&str>) -> bool {
    format.is_some_and(|format| COUNTING.contains(&format))
}

/// What progress says of the main sink.
pub(crate) struct AboutSink {
    pub(crate) description: String,
    /// Where in it dead letters go, if it takes them.
    pub(crate) letters: Option<String>,
    /// Whether its rows are told.
    pub(crate) counts_rows: bool,
}

/// The progress of a batch.
pub(crate) fn progress(
    query: &QueryShared,
    term: &Term,
    sink: &AboutSink,
    report: Report<'_>,
) -> StreamingQueryProgress {
    // What went beside the rows and into no sink of its own is in the main one's totals too.
    let own = |name: &str| term.sinks.further().any(|(known, _)| known == name);
    let beside = report.further.iter().filter(|(name, _)| !own(name));
    let beside: u64 = beside.map(|(_, totals)| totals.rows).sum();
    let written = report.published.totals.map(|totals| totals.rows.saturating_sub(beside));
    let written = written.and_then(|rows| i64::try_from(rows).ok());
    let duration_ms = report.phases.durations();
    let work_ms = duration_ms.get("triggerExecution").copied().unwrap_or(0);
    let rates = Rates {
        since_ms: report.looked_before_ms.map(|before| report.phases.began_ms() - before),
        work_ms,
    };
    let sources = term.sources.iter().enumerate().map(|(place, source)| {
        let range = report.ranges.get(place);
        let rows = report.input_rows.get(place).copied().unwrap_or(0);
        SourceProgress {
            description: source.definition.description(),
            start_offset: range.and_then(|range| range.start.as_ref()).map(offset_json),
            end_offset: range.and_then(|range| range.end.as_ref()).map(offset_json),
            latest_offset: report.latest.get(place).and_then(Option::as_ref).map(offset_json),
            num_input_rows: rows,
            input_rows_per_second: rates.input(rows),
            processed_rows_per_second: rates.processed(rows),
            metrics: range.map(|range| source.source.metrics(range)).unwrap_or_default(),
        }
    });
    let rows = report.input_rows.iter().fold(0_u64, |sum, rows| sum.saturating_add(*rows));
    StreamingQueryProgress {
        id: query.id,
        run_id: query.run_id,
        name: query.name.clone(),
        timestamp: iso_ms(report.phases.began_ms()),
        batch_id: report.batch,
        batch_duration: work_ms,
        num_input_rows: rows,
        input_rows_per_second: rates.input(rows),
        processed_rows_per_second: rates.processed(rows),
        duration_ms,
        event_time: report.event_time,
        state_operators: report.state_operators,
        sources: sources.collect(),
        sink: SinkProgress {
            description: sink.description.clone(),
            num_output_rows: written.filter(|_| sink.counts_rows).unwrap_or(-1),
            metrics: sink_metrics(&report.published),
        },
        further_sinks: further_sinks(term, report.further, sink),
        observed_metrics: report.observed,
        watermarks: report.watermarks,
    }
}

fn further_sinks(
    term: &Term,
    got: Vec<(String, Totals)>,
    main: &AboutSink,
) -> Vec<FurtherSinkProgress> {
    let progress = |(name, totals): (String, Totals)| {
        let known = term.sinks.further().find(|(known, _)| *known == name);
        // What is not in a sink of its own is in the main one.
        let in_main = main.letters.as_deref().unwrap_or(&main.description);
        let description = known.map_or(in_main, |(_, description)| description).to_owned();
        FurtherSinkProgress { name, description, rows: totals.rows, hash: totals.hash.to_string() }
    };
    got.into_iter().map(progress).collect()
}

fn sink_metrics(published: &Published) -> BTreeMap<String, String> {
    let Some(totals) = published.totals else { return BTreeMap::new() };
    BTreeMap::from([
        ("hash".to_owned(), totals.hash.to_string()),
        ("rows".to_owned(), totals.rows.to_string()),
    ])
}

/// Rows in a second, as Spark reckons: the first look has no time before it, so its input rate is
/// zero; work of no time gives no rate.
struct Rates {
    since_ms: Option<i64>,
    work_ms: i64,
}

impl Rates {
    fn input(&self, rows: u64) -> f64 {
        self.since_ms.map_or(0.0, |ms| per_second(rows, ms))
    }

    fn processed(&self, rows: u64) -> f64 {
        per_second(rows, self.work_ms)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate is for people")]
fn per_second(rows: u64, ms: i64) -> f64 {
    if ms <= 0 { f64::NAN } else { rows as f64 * 1_000.0 / ms as f64 }
}
