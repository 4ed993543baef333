//! Queries over Kafka under Onefold.

use crate::Failure;
use crate::measure::{Report, report};
use onefold::{DataFrame, Session, StreamingQuery, Trigger};
use std::io::Read;
use std::time::{Duration, Instant};

/// The fields of a record, and what is kept of it: half of the records.
const PARSED: &str =
    "from_json(CAST(value AS STRING), 'id BIGINT, user STRING, kind STRING, amount DOUBLE') AS it";
const KEPT: &str = "it.amount >= 500.0";

fn read(session: &Session, bootstrap: &str, topic: &str) -> Result<DataFrame, Failure> {
    let reader = session.read_stream().format("kafka");
    Ok(reader
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load_default()?)
}

/// Reads a topic to its end and drops the rows, with all columns.
pub fn source(bootstrap: &str, topic: &str, checkpoint: &str) -> Result<(), Failure> {
    let session = onefold::session().build()?;
    let frame = read(&session, bootstrap, topic)?;
    let started = Instant::now();
    let query = frame
        .write_stream()
        .format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(Trigger::AvailableNow)
        .start_default()?;
    query.await_termination(None)?;
    let seconds = started.elapsed().as_secs_f64();
    report(&Report { seconds, rows: rows_in(&query), ..Report::with_peak() })
}

fn rows_in(query: &StreamingQuery) -> u64 {
    query.recent_progress().iter().map(|it| it.num_input_rows).sum()
}

/// Kafka, `from_json`, filter, Kafka, exactly once.
fn pipeline(
    place: (&str, &str, &str, &str),
    kept: &str,
    trigger: Trigger,
) -> Result<StreamingQuery, Failure> {
    let (bootstrap, from, to, checkpoint) = place;
    let session = onefold::session().build()?;
    let frame = read(&session, bootstrap, from)?.select_expr(&["value", PARSED])?;
    let frame = frame.filter(kept)?.select_expr(&["it.user AS key", "value"])?;
    let writer = frame.write_stream().format("kafka");
    Ok(writer
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", to)
        .option("checkpointLocation", checkpoint)
        .trigger(trigger)
        .start_default()?)
}

/// A topic to its end.
pub fn drain(place: (&str, &str, &str, &str)) -> Result<(), Failure> {
    let started = Instant::now();
    let query = pipeline(place, KEPT, Trigger::AvailableNow)?;
    query.await_termination(None)?;
    let seconds = started.elapsed().as_secs_f64();
    let rows = query.recent_progress().iter().filter_map(|it| it.rows_published()).sum();
    report(&Report { seconds, rows, ..Report::with_peak() })
}

/// What comes, as it comes, until standard input ends; reports how long batches took.
pub fn follow(place: (&str, &str, &str, &str)) -> Result<(), Failure> {
    let query = pipeline(place, "it.id >= 0", Trigger::ProcessingTime(Duration::ZERO))?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    query.stop()?;
    let batches = query.recent_progress();
    if std::env::var_os("ONEFOLD_BENCH_PHASES").is_some() {
        for batch in batches.iter().rev().take(5) {
            eprintln!("{} rows: {:?}", batch.num_input_rows, batch.duration_ms);
        }
    }
    let took = |it: &std::collections::BTreeMap<String, i64>| {
        it.get("triggerExecution").copied().unwrap_or(0) as f64
    };
    let batch_ms = batches.iter().map(|batch| took(&batch.duration_ms)).collect();
    report(&Report { rows: rows_in(&query), batch_ms, ..Report::with_peak() })
}
