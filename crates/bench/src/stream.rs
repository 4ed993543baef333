//! The same query under Onefold, with its checkpoint and its marks.

use crate::Failure;
use crate::data;
use crate::measure::{Report, memory_kib, report};
use onefold::{
    DataFrame, Session, StreamingQuery, StreamingQueryListener, StreamingQueryProgress, Trigger,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

const COLUMNS: &[&str] = &["id", "customer", "country", "amount * 1.19 AS gross", "quantity", "ts"];

fn frame(session: &Session, input: &str, files: Option<&str>) -> Result<DataFrame, Failure> {
    let mut reader = session.read_stream().format("json").schema(data::SCHEMA);
    if let Some(files) = files {
        reader = reader.option("maxFilesPerTrigger", files);
    }
    Ok(reader.load(input)?.filter("amount > 200.0")?.select_expr(COLUMNS)?)
}

fn start(frame: &DataFrame, output: &str, checkpoint: &str) -> Result<StreamingQuery, Failure> {
    Ok(frame
        .write_stream()
        .format("parquet")
        .option("checkpointLocation", checkpoint)
        .trigger(Trigger::AvailableNow)
        .start(output)?)
}

/// Everything in one batch.
pub fn drain(input: &str, output: &str, checkpoint: &str) -> Result<(), Failure> {
    let started = Instant::now();
    let session = onefold::session().build()?;
    let query = start(&frame(&session, input, None)?, output, checkpoint)?;
    query.await_termination(None)?;
    let seconds = started.elapsed().as_secs_f64();
    let written = query.recent_progress().iter().filter_map(|it| it.rows_published()).sum();
    report(&Report { seconds, rows: written, ..Report::with_peak() })
}

/// Hears of each batch: when it ended, and how much memory was resident then.
#[derive(Default)]
struct Beats {
    ends: Mutex<Vec<(Instant, u64)>>,
}

impl StreamingQueryListener for Beats {
    fn on_query_progress(&self, progress: &StreamingQueryProgress) {
        let end = (Instant::now(), memory_kib("VmRSS"));
        let _ = progress;
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).push(end);
    }
}

/// Restarts on a finished checkpoint: from the start of the process to the end of the trigger that
/// finds nothing new.
pub fn restart(
    started: Instant,
    input: &str,
    output: &str,
    checkpoint: &str,
) -> Result<(), Failure> {
    let session = onefold::session().build()?;
    let frame = frame(&session, input, Some("1"))?;
    start(&frame, output, checkpoint)?.await_termination(None)?;
    report(&Report { seconds: started.elapsed().as_secs_f64(), ..Report::with_peak() })
}

/// One file a batch, until all files are read.
pub fn batches(input: &str, output: &str, checkpoint: &str) -> Result<(), Failure> {
    let session = onefold::session().build()?;
    let beats = Arc::new(Beats::default());
    session.streams().add_listener(Arc::clone(&beats) as Arc<dyn StreamingQueryListener>);
    let frame = frame(&session, input, Some("1"))?;
    let started = Instant::now();
    let query = start(&frame, output, checkpoint)?;
    query.await_termination(None)?;
    let seconds = started.elapsed().as_secs_f64();

    let ends = beats.ends.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut before = started;
    let mut batch_ms = Vec::with_capacity(ends.len());
    for (end, _) in &ends {
        batch_ms.push(end.duration_since(before).as_secs_f64() * 1e3);
        before = *end;
    }
    let resident_kib = ends.iter().map(|(_, resident)| *resident).collect();
    let rows = query.recent_progress().iter().filter_map(|it| it.rows_published()).sum();
    report(&Report { seconds, rows, batch_ms, resident_kib, ..Report::with_peak() })
}
