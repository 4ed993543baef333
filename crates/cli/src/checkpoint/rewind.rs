//! `onefold checkpoint rewind`.

use crate::args::{LaterMarks as Choice, RewindArgs};
use crate::exit::Failure;
use crate::sink_lookup::{self, open_store};
use crate::terminal;
use crate::time::WallClock;
use onefold::checkpoint_tools::{
    Contents, Depth, LaterMarks, RewindPlan, SinkRewind, apply_rewind, apply_sink_rewind,
    plan_rewind, plan_sink_rewind, take_generation,
};
use onefold::types::BatchId;
use onefold_connector::Clock;
use onefold_storage::Store;
use serde::Serialize;
use std::sync::Arc;

/// What was, or would be, done.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    checkpoint: String,
    applied: bool,
    plan: RewindPlan,
    sink: Option<SinkRewind>,
    /// Where what was removed is kept, below the checkpoint and below the sink's folder.
    kept_in: Option<String>,
}

/// Goes back to an older batch.
///
/// # Errors
/// Usage, when it cannot be done as asked; as the store's.
pub fn rewind(args: &RewindArgs) -> Result<(), Failure> {
    let store = open_store(&args.checkpoint, &args.reach)?;
    let report = sink_lookup::runtime()?.block_on(do_rewind(args, &store))?;
    if args.json {
        terminal::json(&report);
    } else {
        text(&report).iter().for_each(|row| terminal::line(row));
    }
    Ok(())
}

async fn do_rewind(args: &RewindArgs, store: &Arc<dyn Store>) -> Result<Report, Failure> {
    let contents = Contents::gather(store.as_ref(), Depth::All).await?;
    let mark = sink_lookup::mark(&contents, args.sink.as_deref(), &args.reach).await;
    let later = match args.later_marks {
        Choice::Refuse => LaterMarks::Refuse,
        Choice::Leave => LaterMarks::Leave,
        Choice::Rewind => LaterMarks::Rewind,
    };
    let to_batch = BatchId(args.to_batch);
    let plan = plan_rewind(&contents, to_batch, &mark, later)?;
    let sink = match plan.sink_holds {
        Some(_) if later == LaterMarks::Rewind => {
            let folder = match &args.sink {
                Some(folder) => Some(folder.clone()),
                None => sink_lookup::find(&contents, None, &args.reach)
                    .await
                    .ok()
                    .and_then(|found| found.folder),
            };
            let folder = folder.ok_or_else(|| {
                Failure::usage("the sink has no folder that could be rewound".to_owned())
            })?;
            let sink_store = open_store(&folder, &args.reach)?;
            let plan = plan_sink_rewind(sink_store.as_ref(), to_batch).await?;
            Some((sink_store, plan))
        }
        _ => None,
    };
    let mut kept_in = None;
    if args.apply && !(plan.files.is_empty() && sink.is_none()) {
        let now_ms = WallClock.now_ms();
        let generation = take_generation(store, &contents, now_ms, "checkpoint rewind").await?;
        apply_rewind(store.as_ref(), &plan, generation).await?;
        if let Some((sink_store, plan)) = &sink {
            apply_sink_rewind(sink_store.as_ref(), plan, generation).await?;
        }
        kept_in = Some(format!("_onefold/rewound/{generation}"));
    }
    let sink = sink.map(|(_, plan)| plan);
    Ok(Report { checkpoint: contents.url, applied: args.apply, plan, sink, kept_in })
}

fn text(report: &Report) -> Vec<String> {
    let plan = &report.plan;
    let verb = if report.applied { "went" } else { "would go" };
    let mut lines = vec![
        format!("checkpoint  {}", report.checkpoint),
        format!("newest      batch {}", plan.to_batch),
    ];
    if let (Some(first), Some(last)) = (plan.batches.first(), plan.batches.last()) {
        let batches = plan.batches.len();
        lines.push(format!("{verb:<10}  {batches} batches, {first} to {last}"));
    }
    lines.extend(plan.files.iter().map(|path| format!("{verb:<10}  {path}")));
    if let Some(sink) = &report.sink {
        lines.push(format!("sink        {}", sink.url));
        let files = sink.data.iter().chain(&sink.entries);
        lines.extend(files.map(|path| format!("{verb:<10}  {path}")));
    }
    lines.extend(plan.remarks.iter().map(|remark| format!("note        {remark}")));
    match &report.kept_in {
        Some(folder) => lines.push(format!("kept in     {folder}")),
        None if report.applied => lines.push("nothing had to be done".to_owned()),
        None => lines.push(
            "nothing was changed: say --apply to do it; what goes is kept in _onefold/rewound, \
             and a driver that still runs is stopped"
                .to_owned(),
        ),
    }
    lines
}
