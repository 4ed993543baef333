//! The plan of a batch: one partition of it for each lane, read on a thread of its own.

use super::broker::Broker;
use super::loss::{Loss, LossPolicy};
use super::offsets::EARLIEST;
use super::pool::Pool;
use super::reader::{Ended, Until};
use super::rows::Rows;
use super::split::{Lane, Split};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use onefold_types::{Error, Result};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::Sender;

/// Batches of rows that wait for who reads them.
const AHEAD: usize = 2;

/// What reading needs, and what it counts.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) pool: Pool,
    pub(crate) broker: Arc<Broker>,
    pub(crate) policy: LossPolicy,
    pub(crate) patience: Duration,
    pub(crate) counts: Counts,
}

/// What was read so far.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) rows: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// The newest time of a record, milliseconds since 1970; 0 before there is one.
    pub(crate) newest_ms: AtomicI64,
    /// What could not be read, of the batch that is read or was read last.
    pub(crate) losses: Mutex<Vec<Loss>>,
}

/// The plan that reads these lanes, with these columns.
///
/// # Errors
/// Internal, when the plan cannot be made.
pub(crate) fn plan(
    reading: &Arc<Reading>,
    lanes: Vec<Lane>,
    schema: SchemaRef,
    wanted: &[usize],
) -> Result<Arc<dyn ExecutionPlan>> {
    if lanes.is_empty() {
        return Ok(Arc::new(EmptyExec::new(schema)));
    }
    let stream = |lane| {
        Arc::new(LaneStream {
            reading: Arc::clone(reading),
            lane: Arc::new(lane),
            schema: Arc::clone(&schema),
            wanted: wanted.to_vec(),
        }) as Arc<dyn PartitionStream>
    };
    let streams = lanes.into_iter().map(stream).collect();
    StreamingTableExec::try_new(Arc::clone(&schema), streams, None, None, false, None)
        .map(|plan| Arc::new(plan) as Arc<dyn ExecutionPlan>)
        .map_err(|error| Error::internal("the Kafka plan could not be made").because(error))
}

#[derive(Debug)]
struct LaneStream {
    reading: Arc<Reading>,
    lane: Arc<Lane>,
    schema: SchemaRef,
    wanted: Vec<usize>,
}

impl PartitionStream for LaneStream {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows_max = context.session_config().batch_size();
        let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&self.schema), AHEAD);
        let (reading, lane) = (Arc::clone(&self.reading), Arc::clone(&self.lane));
        let rows = Rows::new(Arc::clone(&self.schema), self.wanted.clone(), rows_max);
        let out = builder.tx();
        builder.spawn_blocking(move || {
            read_lane(&reading, &lane, rows, &out)
                .map_err(|error| DataFusionError::External(Box::new(error)))
        });
        builder.build()
    }
}

/// Reads the splits of a lane one after the other. Ends early, without an error, when nobody takes
/// the rows any more.
fn read_lane(
    reading: &Reading,
    lane: &Lane,
    mut rows: Rows,
    out: &Sender<PlanResult<RecordBatch>>,
) -> Result<()> {
    let mut reader = reading.pool.lease(lane)?;
    let stopped = || out.is_closed();
    let until = Until { patience: reading.patience, stopped: &stopped };
    for split in &lane.splits {
        let mut split = split.clone();
        rows.at(&split.at.topic, split.at.partition);
        loop {
            let ended = reader.read(&split, &until, |record| {
                rows.add(record)?;
                if rows.is_full() { hand_on(reading, &mut rows, out) } else { Ok(true) }
            })?;
            match ended {
                Ended::Whole => break,
                Ended::Stopped => {
                    reading.pool.give(lane.number, reader);
                    return Ok(());
                }
                Ended::Gone(from) => {
                    split = reading.after_loss(split, from)?;
                    let rest = Lane { number: lane.number, splits: vec![split.clone()] };
                    let others = lane.splits.iter().filter(|other| other.at > split.at).cloned();
                    let splits = rest.splits.into_iter().chain(others).collect();
                    reader = reading.pool.lease(&Lane { number: lane.number, splits })?;
                }
            }
        }
    }
    hand_on(reading, &mut rows, out)?;
    reading.pool.give(lane.number, reader);
    Ok(())
}

/// Hands the rows on; false when nobody takes them.
fn hand_on(
    reading: &Reading,
    rows: &mut Rows,
    out: &Sender<PlanResult<RecordBatch>>,
) -> Result<bool> {
    let Some(taken) = rows.take()? else { return Ok(true) };
    let counts = &reading.counts;
    counts.rows.fetch_add(taken.rows, Ordering::Relaxed);
    counts.bytes.fetch_add(taken.bytes, Ordering::Relaxed);
    counts.newest_ms.fetch_max(taken.newest_ms, Ordering::Relaxed);
    Ok(out.blocking_send(Ok(taken.batch)).is_ok())
}

impl Reading {
    /// Records expired after the batch was planned: what is left of the split, where the query may
    /// go on without them.
    fn after_loss(&self, split: Split, from: i64) -> Result<Split> {
        let earliest = self.broker.offsets_at([split.at.clone()], EARLIEST)?;
        let earliest = earliest.get(&split.at).copied().unwrap_or(split.end);
        let start = earliest.clamp(from, split.end);
        if start == from {
            return Err(Error::unavailable(format!(
                "{} cannot be read at offset {from}, though its brokers say that they have it",
                split.at
            )));
        }
        let reason = format!("records before {earliest} expired while the batch was read");
        let losses = self.policy.allow(vec![Loss::new(&split.at, from, Some(start), reason)])?;
        for loss in &losses {
            tracing::warn!(
                topic = loss.topic,
                partition = loss.partition,
                from,
                to = start,
                "lost"
            );
        }
        self.counts.losses.lock().unwrap_or_else(PoisonError::into_inner).extend(losses);
        Ok(Split { start, ..split })
    }
}
