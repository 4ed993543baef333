//! `onefold checkpoint rewind`.

use super::rewind_topic;
use crate::args::{LaterMarks as Choice, RewindArgs};
use crate::exit::Failure;
use crate::sink_lookup::{self, open_store};
use crate::terminal;
use crate::time::WallClock;
use onefold::checkpoint_tools::{
    Contents, Depth, LaterMarks, Record, RewindPlan, SinkRewind, apply_rewind, apply_sink_rewind,
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
    /// What goes from the folders of further sinks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    further: Vec<SinkRewind>,
    /// Where what was removed is kept, below the checkpoint and below the sink's folder.
    kept_in: Option<String>,
}

/// Goes back to an older batch, or elsewhere in a topic.
///
/// # Errors
/// Usage, when it cannot be done as asked; as the store's.
pub fn rewind(args: &RewindArgs) -> Result<(), Failure> {
    let store = open_store(&args.checkpoint, &args.reach)?;
    if let (Some(topic), Some(to)) = (&args.topic, &args.to) {
        return rewind_topic::rewind(args, &store, topic, to);
    }
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
    let to_batch = BatchId(args.to_batch.unwrap_or_default());
    let plan = plan_rewind(&contents, to_batch, &mark, later)?;
    let folder = match later {
        LaterMarks::Leave => None,
        _ => sink_folder(args, &contents, &plan).await?,
    };
    let mut sink = plan_sink(folder.as_deref(), &contents, &plan).await?;
    let folders = match later {
        LaterMarks::Leave => Vec::new(),
        _ => further_folders(args, &contents).await?,
    };
    let mut further = plan_further(&folders, &contents, &plan).await?;
    if let Some(sink) =
        sink.iter().chain(&further).find(|it| later == LaterMarks::Refuse && it.seen() > 0)
    {
        return Err(Failure::usage(later_files(sink, to_batch)));
    }
    let mut kept_in = None;
    if args.apply && !(plan.files.is_empty() && sink.is_none() && further.is_empty()) {
        let now_ms = WallClock.now_ms();
        let generation =
            take_generation(store, &contents, now_ms, ("checkpoint rewind", None)).await?;
        // A driver that lived until now may have gone on while the sink was looked at.
        sink = plan_sink(folder.as_deref(), &contents, &plan).await?;
        further = plan_further(&folders, &contents, &plan).await?;
        apply_rewind(store.as_ref(), &plan, generation).await?;
        if let (Some(folder), Some(sink)) = (&folder, &sink) {
            apply_sink_rewind(folder.as_ref(), sink, generation).await?;
        }
        for plan in &further {
            if let Some(folder) = folders.iter().find(|folder| folder.url() == plan.url) {
                apply_sink_rewind(folder.as_ref(), plan, generation).await?;
            }
        }
        kept_in = Some(format!("_onefold/rewound/{generation}"));
    }
    Ok(Report { checkpoint: contents.url, applied: args.apply, plan, sink, further, kept_in })
}

/// The sink's folder, if it has one. It must where the sink holds batches that are to go.
async fn sink_folder(
    args: &RewindArgs,
    contents: &Contents,
    plan: &RewindPlan,
) -> Result<Option<Arc<dyn Store>>, Failure> {
    let folder = match &args.sink {
        Some(folder) => Some(folder.clone()),
        None => {
            sink_lookup::find(contents, None, &args.reach).await.ok().and_then(|found| found.folder)
        }
    };
    match folder {
        Some(folder) => Ok(Some(open_store(&folder, &args.reach)?)),
        None if plan.sink_holds.is_none() => Ok(None),
        None => Err(Failure::usage(
            "the sink has no folder that could be rewound: rows in a topic or a database are there \
             to stay; to read a topic of Kafka again from elsewhere, say --topic and --to"
                .to_owned(),
        )),
    }
}

/// What goes from the sink's folder; `None` if nothing does.
async fn plan_sink(
    folder: Option<&dyn Store>,
    contents: &Contents,
    plan: &RewindPlan,
) -> Result<Option<SinkRewind>, Failure> {
    let Some(folder) = folder else { return Ok(None) };
    let query = contents.metadata.as_ref().and_then(Record::ok).map(|metadata| metadata.id);
    let sink = plan_sink_rewind(folder, query, plan.to_batch, false).await?;
    if sink.is_none() && plan.sink_holds.is_some() {
        return Err(Failure::usage(format!(
            "{} holds no manifest, so it is not the folder of a file sink: only those can be \
             taken back, say --later-marks leave",
            folder.url()
        )));
    }
    Ok(sink.filter(|sink| !sink.is_empty()))
}

/// The folders of the query's further sinks.
async fn further_folders(
    args: &RewindArgs,
    contents: &Contents,
) -> Result<Vec<Arc<dyn Store>>, Failure> {
    let found = sink_lookup::find_further(contents, &args.reach).await?;
    let folders = found.into_iter().filter_map(|(_, found)| found.folder);
    Ok(folders.map(|folder| open_store(&folder, &args.reach)).collect::<Result<_, _>>()?)
}

/// What goes from them.
async fn plan_further(
    folders: &[Arc<dyn Store>],
    contents: &Contents,
    plan: &RewindPlan,
) -> Result<Vec<SinkRewind>, Failure> {
    let query = contents.metadata.as_ref().and_then(Record::ok).map(|metadata| metadata.id);
    let mut further = Vec::new();
    for folder in folders {
        further.extend(plan_sink_rewind(folder.as_ref(), query, plan.to_batch, true).await?);
    }
    further.retain(|sink| !sink.is_empty());
    Ok(further)
}

fn later_files(sink: &SinkRewind, to_batch: BatchId) -> String {
    format!(
        "{} holds {} files of batches after {to_batch} that its manifest does not name, since a \
         driver died before it published them or their entries are lost; they would stay beside \
         those of the batches that run anew: say --later-marks rewind to take them out too, or \
         --later-marks leave if the query will write elsewhere",
        sink.url,
        sink.seen()
    )
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
    for sink in report.sink.iter().chain(&report.further) {
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
