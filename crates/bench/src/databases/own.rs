//! A stream of files into a table under Onefold.

use crate::Failure;
use crate::measure::{Report, report};
use onefold::{OutputMode, Trigger};
use std::time::Instant;

const SCHEMA: &str = "id BIGINT, customer STRING, amount DOUBLE, quantity INT, at TIMESTAMP";

/// All files of a folder into a table, so many a batch; by keys if there are some.
pub fn drain(
    (url, table): (&str, &str),
    (input, checkpoint): (&str, &str),
    each: &str,
    keys: &str,
) -> Result<(), Failure> {
    let started = Instant::now();
    let session = onefold::session().build()?;
    let reader = session.read_stream().format("csv").schema(SCHEMA);
    let rows = reader.option("maxFilesPerTrigger", each).load(input)?;
    let mut writer = rows
        .write_stream()
        .format("jdbc")
        .option("url", url)
        .option("dbtable", table)
        .option("checkpointLocation", checkpoint)
        .trigger(Trigger::AvailableNow);
    if !keys.is_empty() {
        writer = writer.option("upsertKeys", keys).output_mode(OutputMode::Update);
    }
    let query = writer.start_default()?;
    query.await_termination(None)?;
    let seconds = started.elapsed().as_secs_f64();
    if std::env::var_os("ONEFOLD_BENCH_PHASES").is_some() {
        for batch in query.recent_progress().iter().rev().take(3) {
            eprintln!("{} rows: {:?}", batch.num_input_rows, batch.duration_ms);
        }
    }
    let rows = query.recent_progress().iter().filter_map(|it| it.rows_published()).sum();
    report(&Report { seconds, rows, ..Report::with_peak() })
}
