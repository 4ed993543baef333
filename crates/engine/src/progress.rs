//! What a batch did, in Spark's JSON.

use onefold_types::{BatchId, Offset, QueryId, RunId};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;

/// What one batch did. Serialises to Spark's progress JSON, field by field and in its key order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamingQueryProgress {
    /// The query.
    pub id: QueryId,
    /// The run.
    pub run_id: RunId,
    /// The query's name.
    pub name: Option<String>,
    /// When the look for data began, ISO 8601 with milliseconds, UTC.
    pub timestamp: String,
    /// The batch.
    pub batch_id: BatchId,
    /// The batch's wall time in milliseconds.
    pub batch_duration: i64,
    /// Rows read.
    pub num_input_rows: u64,
    /// Rows that came in a second since the look before. The JSON has it with one decimal, as
    /// Spark's, and leaves it out when it is not a number.
    #[serde(
        default = "not_a_number",
        skip_serializing_if = "not_finite",
        serialize_with = "one_decimal"
    )]
    pub input_rows_per_second: f64,
    /// Rows read per second of work; in the JSON as the rate before.
    #[serde(
        default = "not_a_number",
        skip_serializing_if = "not_finite",
        serialize_with = "one_decimal"
    )]
    pub processed_rows_per_second: f64,
    /// Milliseconds by phase. `triggerExecution` is the sum of the others.
    pub duration_ms: BTreeMap<String, i64>,
    /// `avg`, `max`, `min`, `watermark`; absent without a watermark.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub event_time: BTreeMap<String, String>,
    /// One entry a stateful operator.
    #[serde(default)]
    pub state_operators: Vec<StateOperatorProgress>,
    /// One entry a source, in plan order.
    pub sources: Vec<SourceProgress>,
    /// The sink.
    pub sink: SinkProgress,
    /// What sinks beside the main one got, such as that of late rows. Not in Spark's progress.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further_sinks: Vec<FurtherSinkProgress>,
    /// Values of `observe`, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub observed_metrics: BTreeMap<String, Value>,
    /// Where each `withWatermark` of the query stands. Not in Spark's progress.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watermarks: Vec<WatermarkProgress>,
}

/// What one stateful operator did in a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StateOperatorProgress {
    /// Spark's name of its kind: `stateStoreSave`, `dedupe`, `symmetricHashJoin` …
    pub operator_name: String,
    /// Rows of state after the batch.
    pub num_rows_total: u64,
    /// Rows of state written.
    pub num_rows_updated: u64,
    /// Time spent on taking rows into the state, milliseconds, summed over partitions.
    pub all_updates_time_ms: i64,
    /// Rows of state removed.
    pub num_rows_removed: u64,
    /// Time spent on removing state, milliseconds, summed over partitions.
    pub all_removals_time_ms: i64,
    /// Time spent on making the batch's state durable, milliseconds, of all operators.
    pub commit_time_ms: i64,
    /// Bytes of keys and values.
    pub memory_used_bytes: u64,
    /// What came after the watermark as Spark counts it: an aggregation counts groups, another
    /// operator rows. Each late row is counted in `numLateRows` of
    /// [`StateOperatorProgress::custom_metrics`].
    pub num_rows_dropped_by_watermark: u64,
    /// Partitions of keyed state in this run.
    pub num_shuffle_partitions: u32,
    /// Partitions of this operator, times the stores that Spark would keep in each.
    pub num_state_store_instances: u32,
    /// Further counts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub custom_metrics: BTreeMap<String, u64>,
}

/// Where one `withWatermark` stands after a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WatermarkProgress {
    /// Its name in the query.
    pub node: String,
    /// The event-time column.
    pub column: String,
    /// Ids of the sources whose rows pass it.
    pub sources: Vec<String>,
    /// Its newest event time less its delay, ISO 8601.
    pub watermark: String,
    /// The time of the last batch that had rows for it, ISO 8601.
    pub last_rows: String,
    /// Whether it is left out since `onefold.watermark.idleTimeout` passed.
    pub idle: bool,
    /// Whether the query's watermark would be later without it.
    pub holds_back: bool,
}

/// What one source did in a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceProgress {
    /// The source, as it describes itself.
    pub description: String,
    /// Where the batch began; null before the source's first batch.
    pub start_offset: Option<Value>,
    /// Where it ended.
    pub end_offset: Option<Value>,
    /// The newest offset there was; null where the source cannot tell.
    pub latest_offset: Option<Value>,
    /// Rows read.
    pub num_input_rows: u64,
    /// As [`StreamingQueryProgress::input_rows_per_second`], for this source.
    #[serde(
        default = "not_a_number",
        skip_serializing_if = "not_finite",
        serialize_with = "one_decimal"
    )]
    pub input_rows_per_second: f64,
    /// As [`StreamingQueryProgress::processed_rows_per_second`], for this source.
    #[serde(
        default = "not_a_number",
        skip_serializing_if = "not_finite",
        serialize_with = "one_decimal"
    )]
    pub processed_rows_per_second: f64,
    /// The source's own metrics.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, String>,
}

/// What the sink did in a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SinkProgress {
    /// The sink, as it describes itself.
    pub description: String,
    /// Rows written as Spark counts them: −1 for sinks of its first kind (files, memory). The real
    /// count is `rows` in [`SinkProgress::metrics`].
    pub num_output_rows: i64,
    /// The sink's own metrics: `rows` and `hash` of what was published.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, String>,
}

/// What a sink beside the main one got of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FurtherSinkProgress {
    /// Its name in the query: `late rows`, or `dead letters`, which may be in the main sink.
    pub name: String,
    /// The sink, as it describes itself.
    pub description: String,
    /// Rows published.
    pub rows: u64,
    /// Their content hash, in hexadecimal digits.
    pub hash: String,
}

impl StreamingQueryProgress {
    /// The JSON in one line.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The JSON over several lines.
    #[must_use]
    pub fn pretty_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Rows that the sink published, where it can tell.
    #[must_use]
    pub fn rows_published(&self) -> Option<u64> {
        self.sink.metrics.get("rows").and_then(|rows| rows.parse().ok())
    }
}

/// An offset as a JSON value; a text where it is not JSON.
#[must_use]
pub fn offset_json(offset: &Offset) -> Value {
    serde_json::from_str(offset.json()).unwrap_or_else(|_| Value::String(offset.json().to_owned()))
}

/// Milliseconds since 1970 as ISO 8601 with milliseconds, UTC: `2026-11-29T13:45:47.591Z`.
#[must_use]
pub fn iso_ms(ms: i64) -> String {
    match chrono::DateTime::from_timestamp_millis(ms) {
        Some(time) => time.to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
        None => format!("{ms} ms"),
    }
}

/// A rate as Spark prints it: with one decimal, halves upwards.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn one_decimal<S: Serializer>(rate: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(rounded(*rate))
}

fn rounded(rate: f64) -> f64 {
    let text = rate.to_string();
    let Some((whole, part)) = text.split_once('.') else { return rate };
    let up = part.as_bytes().get(1).is_some_and(|digit| *digit >= b'5');
    let down = text.get(..whole.len() + 2).and_then(|kept| kept.parse::<f64>().ok());
    down.map_or(rate, |down| ((down * 10.0).round() + f64::from(u8::from(up))) / 10.0)
}

fn not_a_number() -> f64 {
    f64::NAN
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn not_finite(rate: &f64) -> bool {
    !rate.is_finite()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_rounded_as_spark_rounds_them() {
        let pairs = [
            (0.0, 0.0),
            (0.04, 0.0),
            (0.05, 0.1),
            (0.15, 0.2),
            (0.35, 0.4),
            (1.005, 1.0),
            (1.25, 1.3),
            (1.349_999, 1.3),
            (2.45, 2.5),
            (9.95, 10.0),
            (1_620.370_370_370_37, 1_620.4),
            (1_234_567.85, 1_234_567.9),
            (333_333_333.33, 333_333_333.3),
            (1e7, 1e7),
            (1e20, 1e20),
        ];
        for (rate, printed) in pairs {
            assert_eq!(rounded(rate), printed, "{rate}");
        }
    }
}
