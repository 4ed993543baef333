//! `onefold checkpoint repair`.

use crate::args::RepairArgs;
use crate::exit::Failure;
use crate::sink_lookup::{self, Absent, Found};
use crate::table::grouped;
use crate::terminal;
use crate::time::WallClock;
use onefold::checkpoint_tools::{Contents, Depth, take_generation};
use onefold::types::{BatchId, Generation, Totals};
use onefold_connector::{Clock, LostMark};
use onefold_storage::Store;
use serde::Serialize;
use std::sync::Arc;

/// What was, or would be, done.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    checkpoint: String,
    sink: String,
    applied: bool,
    /// Committed batches.
    batches: u64,
    /// Batches whose entry was made again, or would be.
    rebuilt: Vec<Entry>,
    /// Batches whose entry is lost and stays so.
    left: Vec<Left>,
    /// The same of the query's further sinks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    further: Vec<Report>,
}

/// A batch whose entry can be made again.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    batch: BatchId,
    files: u64,
    rows: u64,
    /// Whether rows and hash are those of the commit.
    proven: bool,
}

/// A batch whose entry cannot be made again.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Left {
    batch: BatchId,
    why: String,
}

/// Makes lost entries of the file sink's manifest again.
///
/// # Errors
/// Not whole, when an entry stays lost, or was found lost without `--apply`; as the stores'.
pub fn repair(args: &RepairArgs) -> Result<(), Failure> {
    let store = sink_lookup::open_store(&args.checkpoint, &args.reach)?;
    let report = sink_lookup::runtime()?.block_on(do_repair(args, &store))?;
    if args.json {
        terminal::json(&report);
    } else {
        let all = std::iter::once(&report).chain(&report.further);
        all.flat_map(text).for_each(|row| terminal::line(&row));
    }
    let whole =
        |report: &Report| report.left.is_empty() && (report.applied || report.rebuilt.is_empty());
    if whole(&report) && report.further.iter().all(whole) {
        Ok(())
    } else {
        Err(Failure::not_whole())
    }
}

async fn do_repair(args: &RepairArgs, store: &Arc<dyn Store>) -> Result<Report, Failure> {
    let contents = Contents::gather(store.as_ref(), Depth::All).await?;
    let found = match sink_lookup::find(&contents, args.sink.as_deref(), &args.reach).await {
        Ok(found) => found,
        Err(Absent::NotKnown(why)) => {
            return Err(Failure::usage(format!("there is no sink to repair: {why}")));
        }
        Err(Absent::Failed(error)) => return Err(error.into()),
    };
    if args.apply {
        // A query that runs now, or thinks so, must not write to the manifest meanwhile.
        take_generation(store, &contents, WallClock.now_ms(), ("checkpoint repair", None)).await?;
    }
    let further = sink_lookup::find_further(&contents, &args.reach).await?;
    let mut report = repair_sink(args, &contents, None, found).await?;
    for (name, found) in further {
        report.further.push(repair_sink(args, &contents, Some(&name), found).await?);
    }
    Ok(report)
}

async fn repair_sink(
    args: &RepairArgs,
    contents: &Contents,
    name: Option<&str>,
    found: Found,
) -> Result<Report, Failure> {
    let batches = contents.commit_ids.last().map_or(0, |last| last.0 + 1);
    let mut report = Report {
        checkpoint: contents.url.clone(),
        sink: found.description,
        applied: args.apply,
        batches,
        rebuilt: Vec::new(),
        left: Vec::new(),
        further: Vec::new(),
    };
    for batch in (0..batches).map(BatchId) {
        let committed = committed(contents, name, batch);
        let proven = committed.is_some();
        let taken = proven || args.unproven;
        match found.sink.rebuild(&LostMark { batch, committed }, args.apply && taken).await {
            Ok(None) => {}
            Ok(Some(made)) if taken => {
                let (files, rows) = (made.files, made.totals.rows);
                report.rebuilt.push(Entry { batch, files, rows, proven });
            }
            Ok(Some(made)) => report.left.push(Left {
                batch,
                why: format!(
                    "{} files with {} rows are there, but its commit was purged, so that nothing \
                     proves them whole; say --unproven to take them",
                    made.files, made.totals.rows
                ),
            }),
            Err(error) => report.left.push(Left { batch, why: error.chain() }),
        }
    }
    Ok(report)
}

/// Who published a batch and what, where its commit still tells.
fn committed(
    contents: &Contents,
    name: Option<&str>,
    batch: BatchId,
) -> Option<(Generation, Totals)> {
    let commit = contents.commits.get(&batch)?.ok()?;
    let totals = match name {
        None => commit.totals,
        Some(name) => commit.sinks.get(name).copied(),
    };
    Some((commit.generation?, totals?))
}

fn text(report: &Report) -> Vec<String> {
    let verb = if report.applied { "made again" } else { "can be made" };
    let mut lines = vec![
        format!("checkpoint  {}", report.checkpoint),
        format!("sink        {}", report.sink),
        format!("committed   {} batches", grouped(report.batches)),
    ];
    lines.extend(report.rebuilt.iter().map(|entry| {
        let proof = if entry.proven { "as committed" } else { "not proven" };
        let (files, rows) = (grouped(entry.files), grouped(entry.rows));
        format!("{verb:<10}  batch {}: {files} files, {rows} rows, {proof}", entry.batch)
    }));
    lines
        .extend(report.left.iter().map(|it| format!("lost        batch {}: {}", it.batch, it.why)));
    lines.push(match (report.rebuilt.is_empty() && report.left.is_empty(), report.applied) {
        (true, _) => "the manifest lacks nothing".to_owned(),
        (false, true) => format!("{} entries were made again", report.rebuilt.len()),
        (false, false) => "nothing was changed: say --apply to do it".to_owned(),
    });
    lines
}
