//! Stateful queries under Onefold, and DataFusion's own aggregation as a yardstick.

use crate::Failure;
use crate::measure::{Report, memory_kib, report};
use datafusion::functions_aggregate::expr_fn::{count, sum};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext, col, lit};
use onefold::{
    DataFrame, OutputMode, Session, StreamingQueryListener, StreamingQueryProgress, Trigger,
};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

const EVENTS: &str = "ts TIMESTAMP, kind STRING, user BIGINT, amount DOUBLE";
const IDS: &str = "ts TIMESTAMP, id BIGINT";

/// Where a child reads and writes: `input`, `local` and `checkpoint` below one folder.
pub struct Place<'a> {
    pub input: &'a str,
    pub output: &'a str,
    pub checkpoint: &'a str,
    pub provider: &'a str,
}

fn session(place: &Place<'_>) -> Result<Session, Failure> {
    Ok(onefold::session()
        .conf("spark.sql.shuffle.partitions", "2")
        .conf("spark.sql.streaming.stateStore.providerClass", place.provider)
        .conf("onefold.state.localDir", format!("{}-local", place.checkpoint))
        .build()?)
}

fn stream(
    session: &Session,
    schema: &str,
    folder: &str,
    files: Option<&str>,
) -> Result<DataFrame, Failure> {
    let mut reader = session.read_stream().format("parquet").schema(schema);
    if let Some(files) = files {
        reader = reader.option("maxFilesPerTrigger", files);
    }
    Ok(reader.load(folder)?)
}

fn windows(frame: &DataFrame, window: &str, key: &str) -> Result<DataFrame, Failure> {
    let frame = frame.with_watermark("ts", "10 seconds")?;
    Ok(frame.group_by(&[window, key]).agg(&["count(*) AS n", "sum(amount) AS total"])?)
}

fn case(session: &Session, name: &str, input: &str) -> Result<DataFrame, Failure> {
    let two = Some("2");
    match name {
        "tumbling" => {
            windows(&stream(session, EVENTS, input, two)?, "window(ts, '10 seconds')", "kind")
        }
        "per-user" => {
            windows(&stream(session, EVENTS, input, two)?, "window(ts, '60 seconds')", "user")
        }
        "dedup" => Ok(stream(session, IDS, input, two)?.drop_duplicates(&["id"])?),
        "join" => {
            let side = |folder: &str| -> Result<DataFrame, Failure> {
                let rows = stream(session, IDS, &format!("{input}/{folder}"), two)?;
                Ok(rows.with_watermark("ts", "10 seconds")?)
            };
            let left = side("left")?.select_expr(&["id AS lid", "ts AS lts"])?;
            let right = side("right")?.select_expr(&["id AS rid", "ts AS rts"])?;
            let near = "lid = rid AND rts >= lts AND rts <= lts + INTERVAL 5 SECONDS";
            let joined = left.join(&right, near, "inner")?;
            Ok(joined.select_expr(&["lid AS id", "lts", "rts"])?)
        }
        other => Err(format!("there is no case {other}").into()),
    }
}

/// One of the cases that PySpark runs too, two files a batch.
pub fn run(name: &str, place: &Place<'_>) -> Result<(), Failure> {
    let session = session(place)?;
    let frame = case(&session, name, place.input)?;
    let started = Instant::now();
    let query = frame
        .write_stream()
        .format("parquet")
        .option("checkpointLocation", place.checkpoint)
        .trigger(Trigger::AvailableNow)
        .start(place.output)?;
    query.await_termination(None)?;
    let seconds = started.elapsed().as_secs_f64();
    let rows = query.recent_progress().iter().filter_map(|it| it.rows_published()).sum();
    report(&Report { seconds, rows, ..Report::with_peak() })
}

/// Count and sum by user in complete mode, all rows in one batch.
pub fn aggregate(place: &Place<'_>) -> Result<(), Failure> {
    let session = session(place)?;
    let groups = stream(&session, EVENTS, place.input, None)?.group_by(&["user"]);
    let frame = groups.agg(&["count(*) AS n", "sum(amount) AS total"])?;
    let started = Instant::now();
    let query = frame
        .write_stream()
        .format("noop")
        .output_mode(OutputMode::Complete)
        .option("checkpointLocation", place.checkpoint)
        .trigger(Trigger::AvailableNow)
        .start_default()?;
    query.await_termination(None)?;
    let seconds = started.elapsed().as_secs_f64();
    let rows = query
        .last_progress()
        .map_or(0, |it| it.state_operators.iter().map(|operator| operator.num_rows_total).sum());
    report(&Report { seconds, rows, ..Report::with_peak() })
}

/// The same by DataFusion alone.
pub fn plain_aggregate(input: &str) -> Result<(), Failure> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let started = Instant::now();
        let context = SessionContext::new_with_config(SessionConfig::new());
        let frame = context.read_parquet(input, ParquetReadOptions::default()).await?.aggregate(
            vec![col("user")],
            vec![count(lit(1)).alias("n"), sum(col("amount")).alias("total")],
        )?;
        let rows = frame.collect().await?.iter().map(|batch| batch.num_rows() as u64).sum();
        let seconds = started.elapsed().as_secs_f64();
        report(&Report { seconds, rows, ..Report::with_peak() })
    })
}

/// Hears of each batch: how long it took, and how much memory was resident after it.
#[derive(Default)]
struct Beats(Mutex<Vec<(f64, u64)>>);

impl StreamingQueryListener for Beats {
    fn on_query_progress(&self, progress: &StreamingQueryProgress) {
        let took = progress.duration_ms.get("triggerExecution").copied().unwrap_or(0) as f64;
        let beat = (took, memory_kib("VmRSS"));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(beat);
    }
}

fn beaten(frame: &DataFrame, place: &Place<'_>, mode: OutputMode) -> Result<(), Failure> {
    let beats = Arc::new(Beats::default());
    let streams = frame.session().streams();
    streams.add_listener(Arc::clone(&beats) as Arc<dyn StreamingQueryListener>);
    let started = Instant::now();
    let query = frame
        .write_stream()
        .format("noop")
        .output_mode(mode)
        .option("checkpointLocation", place.checkpoint)
        .trigger(Trigger::AvailableNow)
        .start_default()?;
    query.await_termination(None)?;
    let seconds = started.elapsed().as_secs_f64();
    let rows = query
        .last_progress()
        .map_or(0, |it| it.state_operators.iter().map(|operator| operator.num_rows_total).sum());
    let (batch_ms, resident_kib) =
        beats.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().unzip();
    report(&Report { seconds, rows, batch_ms, resident_kib, ..Report::with_peak() })
}

/// Counts by id in update mode, one file a batch: what a few keys cost beside many.
pub fn touched(place: &Place<'_>) -> Result<(), Failure> {
    let session = session(place)?;
    let groups = stream(&session, IDS, place.input, Some("1"))?.group_by(&["id"]);
    beaten(&groups.agg(&["count(*) AS n"])?, place, OutputMode::Update)
}

/// Windows that come and go, one small file a batch.
pub fn flat(place: &Place<'_>) -> Result<(), Failure> {
    let session = session(place)?;
    let rows = stream(&session, EVENTS, place.input, Some("1"))?;
    beaten(&windows(&rows, "window(ts, '10 seconds')", "user")?, place, OutputMode::Append)
}

/// Bytes of all files below a folder.
pub fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = folder.read_dir() else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}
