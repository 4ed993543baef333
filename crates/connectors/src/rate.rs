//! `rate` and `rate-micro-batch`: rows made at a steady pace. Replayable: a row is a function of
//! its offset.

use arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use onefold_connector::{
    Clock, LatestOffset, OptionKind, OptionSpec, Options, ReadLimit, ScanRequest, Source,
    SourceContext, SourceDefinition, SourceRequest, SourceSpec,
};
use onefold_storage::{CreateError, Created, Durability};
use onefold_types::{Error, Offset, OffsetRange, Replay, Result};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};

const COUNT: OptionKind = OptionKind::Count { min: 1, max: i64::MAX as u64 };
const ROWS_OF_A_BATCH: i64 = 8_192;

static OPTIONS: &[OptionSpec] = &[
    OptionSpec::new("rowsPerSecond", COUNT, "rows made in a second").default("1"),
    OptionSpec::new("rampUpTime", OptionKind::Duration, "time until the full rate").default("0s"),
    OptionSpec::new("numPartitions", COUNT, "partitions of the rows").default("1"),
];
static BATCH_OPTIONS: &[OptionSpec] = &[
    OptionSpec::new("rowsPerBatch", COUNT, "rows of a batch; required"),
    OptionSpec::new("numPartitions", COUNT, "partitions of the rows").default("1"),
    OptionSpec::new(
        "startTimestamp",
        OptionKind::Count { min: 0, max: i64::MAX as u64 },
        "time of the first batch, milliseconds since 1970",
    )
    .default("0"),
    OptionSpec::new(
        "advanceMillisPerBatch",
        OptionKind::Count { min: 0, max: i64::MAX as u64 },
        "milliseconds between batches",
    )
    .default("1000"),
];

/// Rows at a rate by the clock.
pub static RATE: SourceSpec = SourceSpec {
    name: "rate",
    summary: "Makes rows (timestamp, value) at a rate by the clock.",
    options: &[OPTIONS],
    define: |request| Box::pin(async { define(request, false) }),
};

/// The same number of rows in each batch.
pub static RATE_MICRO_BATCH: SourceSpec = SourceSpec {
    name: "rate-micro-batch",
    summary: "Makes the same number of rows (timestamp, value) in each batch.",
    options: &[BATCH_OPTIONS],
    define: |request| Box::pin(async { define(request, true) }),
};

#[derive(Debug, Clone, Copy)]
enum Pace {
    Clock { per_second: i64, ramp_seconds: i64 },
    Batch { rows: i64, start_ms: i64, advance_ms: i64 },
}

#[derive(Debug, Clone)]
struct Definition {
    pace: Pace,
    partitions: i64,
    schema: SchemaRef,
}

fn number(options: &Options, name: &str) -> Option<i64> {
    options.count(name).and_then(|count| i64::try_from(count).ok())
}

fn define(request: SourceRequest, by_batch: bool) -> Result<Arc<dyn SourceDefinition>> {
    if request.schema.is_some() {
        return Err(Error::invalid("the rate sources have a fixed schema; leave schema() out"));
    }
    let options = &request.options;
    let pace = if by_batch {
        let rows = number(options, "rowsPerBatch").ok_or_else(|| {
            Error::invalid("rate-micro-batch needs rowsPerBatch; give it a number of rows")
        })?;
        Pace::Batch {
            rows,
            start_ms: number(options, "startTimestamp").unwrap_or(0),
            advance_ms: number(options, "advanceMillisPerBatch").unwrap_or(1_000),
        }
    } else {
        let ramp = options.duration_ms("rampUpTime").unwrap_or(0) / 1_000;
        Pace::Clock {
            per_second: number(options, "rowsPerSecond").unwrap_or(1),
            ramp_seconds: i64::try_from(ramp).unwrap_or(i64::MAX),
        }
    };
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let schema = Schema::new(vec![
        Field::new("timestamp", time, true),
        Field::new("value", DataType::Int64, true),
    ]);
    let partitions = number(options, "numPartitions").unwrap_or(1);
    Ok(Arc::new(Definition { pace, partitions, schema: Arc::new(schema) }))
}

/// Rows made before a second begins (Spark's formula, ramp included: a rate that is no more than
/// the ramp has seconds makes nothing before the ramp is over).
fn value_at(second: i64, per_second: i64, ramp: i64) -> i64 {
    let step = per_second / ramp.saturating_add(1);
    if second <= ramp {
        let half = if second % 2 == 1 {
            ((second + 1) / 2).saturating_mul(second)
        } else {
            (second / 2).saturating_mul(second + 1)
        };
        return half.saturating_mul(step);
    }
    value_at(ramp, per_second, ramp).saturating_add((second - ramp).saturating_mul(per_second))
}

#[async_trait]
impl SourceDefinition for Definition {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn replay(&self) -> Replay {
        Replay::Exact { how: "a row is a function of its offset".to_owned() }
    }

    fn description(&self) -> String {
        match self.pace {
            Pace::Clock { per_second, ramp_seconds } => format!(
                "RateStreamV2[rowsPerSecond={per_second}, rampUpTimeSeconds={ramp_seconds}, \
                 numPartitions={}]",
                self.partitions
            ),
            Pace::Batch { rows, start_ms, advance_ms } => format!(
                "RatePerMicroBatchStream[rowsPerBatch={rows}, numPartitions={}, \
                 startTimestamp={start_ms}, advanceMsPerBatch={advance_ms}]",
                self.partitions
            ),
        }
    }

    async fn open(&self, context: SourceContext) -> Result<Arc<dyn Source>> {
        let created_ms = match self.pace {
            Pace::Clock { .. } => created(&context).await?,
            Pace::Batch { .. } => 0,
        };
        Ok(Arc::new(Rate {
            definition: self.clone(),
            created_ms,
            clock: context.clock,
            pinned: Mutex::new(None),
            available: Mutex::new(None),
        }))
    }
}

/// The time of creation, from `sources/I/0`; written there by the first run.
async fn created(context: &SourceContext) -> Result<i64> {
    let path = format!("{}/0", context.log_folder);
    let bytes = Bytes::from(format!("v1\n{}", context.clock.now_ms()));
    let found = match context.checkpoint.create(&path, bytes.clone(), Durability::Now).await {
        Ok(Created::New) => bytes,
        Ok(Created::Exists(found)) => found,
        Err(CreateError::NotDone(error)) => return Err(error),
        Err(CreateError::MaybeDone(error)) => context.checkpoint.read(&path).await?.ok_or(error)?,
    };
    let text = String::from_utf8_lossy(&found).into_owned();
    text.strip_prefix("v1\n").and_then(|ms| ms.trim().parse().ok()).ok_or_else(|| {
        Error::corrupt(format!(
            "{path} in {} does not hold the rate source's time of creation; run `onefold \
             checkpoint verify`",
            context.checkpoint.url()
        ))
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct BatchOffset {
    offset: i64,
    timestamp: i64,
}

#[derive(Debug)]
struct Rate {
    definition: Definition,
    created_ms: i64,
    clock: Arc<dyn Clock>,
    /// The last second that an available-now run may take.
    pinned: Mutex<Option<i64>>,
    /// For an available-now run by batch: its only end, once known.
    available: Mutex<Option<Option<BatchOffset>>>,
}

fn foreign(json: &str) -> Error {
    Error::corrupt(format!(
        "`{json}` is not an offset of a rate source; was the order of the sources changed?"
    ))
}

impl Rate {
    fn seconds(offset: Option<&Offset>) -> Result<i64> {
        offset.map_or(Ok(0), |o| o.json().trim().parse().map_err(|_| foreign(o.json())))
    }

    fn batch(&self, offset: Option<&Offset>) -> Result<BatchOffset> {
        match (offset, self.definition.pace) {
            (Some(offset), _) => {
                serde_json::from_str(offset.json()).map_err(|_| foreign(offset.json()))
            }
            (None, Pace::Batch { start_ms, .. }) => {
                Ok(BatchOffset { offset: 0, timestamp: start_ms })
            }
            (None, Pace::Clock { .. }) => Ok(BatchOffset { offset: 0, timestamp: 0 }),
        }
    }

    fn now_second(&self) -> i64 {
        (self.clock.now_ms() - self.created_ms).max(0) / 1_000
    }
}

#[async_trait]
impl Source for Rate {
    async fn pin_available(&self) -> Result<()> {
        *self.pinned.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.now_second());
        *self.available.lock().unwrap_or_else(PoisonError::into_inner) = Some(None);
        Ok(())
    }

    async fn latest_offset(&self, start: Option<&Offset>, _: ReadLimit) -> Result<LatestOffset> {
        let end = match self.definition.pace {
            Pace::Clock { .. } => {
                let pinned = *self.pinned.lock().unwrap_or_else(PoisonError::into_inner);
                // The clock may have gone back.
                let second = pinned.unwrap_or_else(|| self.now_second());
                Offset::new(second.max(Self::seconds(start)?).to_string())
            }
            Pace::Batch { rows, advance_ms, .. } => {
                let from = self.batch(start)?;
                let next = BatchOffset {
                    offset: from.offset.saturating_add(rows),
                    timestamp: from.timestamp.saturating_add(advance_ms),
                };
                let mut available = self.available.lock().unwrap_or_else(PoisonError::into_inner);
                let next = match available.as_mut() {
                    Some(only) => *only.get_or_insert(next),
                    None => next,
                };
                let json = serde_json::to_string(&next).map_err(|error| {
                    Error::internal("an offset could not be written").because(error)
                })?;
                Offset::new(json)
            }
        };
        Ok(LatestOffset { end: Some(end.clone()), latest: Some(end), note: None })
    }

    async fn read(
        &self,
        range: &OffsetRange,
        scan: ScanRequest<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (values, start_ms, ms_per_value) = match self.definition.pace {
            Pace::Clock { per_second, ramp_seconds } => {
                let (from, to) =
                    (Self::seconds(range.start.as_ref())?, Self::seconds(range.end.as_ref())?);
                let first = value_at(from, per_second, ramp_seconds);
                let last = value_at(to, per_second, ramp_seconds);
                let span = ((to - from) * 1_000) as f64 / (last - first).max(1) as f64;
                (first..last, self.created_ms + from * 1_000, span)
            }
            Pace::Batch { .. } => {
                let (from, to) =
                    (self.batch(range.start.as_ref())?, self.batch(range.end.as_ref())?);
                (from.offset..to.offset, from.timestamp, 0.0)
            }
        };
        let schema = Arc::clone(&self.definition.schema);
        let step = self.definition.partitions;
        let partitions = (0..step)
            .map(|first| {
                Arc::new(Slice {
                    schema: Arc::clone(&schema),
                    origin: values.start,
                    first: values.start.saturating_add(first),
                    end: values.end,
                    step,
                    start_ms,
                    ms_per_value,
                }) as Arc<dyn PartitionStream>
            })
            .collect();
        StreamingTableExec::try_new(schema, partitions, scan.projection, None, false, None)
            .map(|plan| Arc::new(plan) as Arc<dyn ExecutionPlan>)
            .map_err(|error| Error::internal("the rate plan could not be made").because(error))
    }

    async fn release(&self, _: &OffsetRange) -> Result<()> {
        Ok(())
    }
}

/// Every `step`-th value from `first`.
#[derive(Debug)]
struct Slice {
    schema: SchemaRef,
    origin: i64,
    first: i64,
    end: i64,
    step: i64,
    start_ms: i64,
    ms_per_value: f64,
}

impl PartitionStream for Slice {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (schema, end, step) = (Arc::clone(&self.schema), self.end, self.step);
        let (origin, start_ms, span) = (self.origin, self.start_ms, self.ms_per_value);
        let mut next = self.first;
        let batches = std::iter::from_fn(move || {
            if next >= end {
                return None;
            }
            let mut values = Vec::new();
            while next < end && (values.len() as i64) < ROWS_OF_A_BATCH {
                values.push(next);
                next = next.saturating_add(step);
            }
            let times: Vec<i64> = values
                .iter()
                .map(|value| {
                    let relative = ((value - origin) as f64 * span).round() as i64;
                    start_ms.saturating_add(relative).saturating_mul(1_000)
                })
                .collect();
            let times = TimestampMicrosecondArray::from(times).with_timezone("UTC");
            let columns: Vec<ArrayRef> = vec![Arc::new(times), Arc::new(Int64Array::from(values))];
            Some(RecordBatch::try_new(Arc::clone(&schema), columns).map_err(Into::into))
        });
        let stream = futures::stream::iter(batches);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream))
    }
}

#[cfg(test)]
mod tests {
    use super::value_at;

    #[test]
    fn values_ramp_up_as_in_spark() {
        let values: Vec<i64> = (0..7).map(|second| value_at(second, 10, 4)).collect();
        assert_eq!(values, [0, 2, 6, 12, 20, 30, 40]);
        assert_eq!(value_at(3, 10, 0), 30);
        let slow: Vec<i64> = [0, 1, 7, 8, 10].map(|second| value_at(second, 3, 7)).to_vec();
        assert_eq!(slow, [0, 0, 0, 3, 9]);
    }

    #[test]
    fn no_second_makes_more_rows_than_the_full_rate() {
        for per_second in 1..20 {
            for ramp in 0..20 {
                let before = |second| value_at(second, per_second, ramp);
                for second in 0..40 {
                    let made = before(second + 1) - before(second);
                    assert!((0..=per_second).contains(&made), "{per_second} {ramp} {second}");
                }
            }
        }
    }
}
