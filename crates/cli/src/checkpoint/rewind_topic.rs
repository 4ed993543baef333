//! `onefold checkpoint rewind --topic`: from where the next batch reads a topic of Kafka.

use crate::args::RewindArgs;
use crate::exit::Failure;
use crate::sink_lookup;
use crate::terminal;
use crate::time::WallClock;
use onefold::checkpoint_tools::{Contents, Depth, Record, take_generation};
use onefold::types::{BatchId, Generation};
use onefold_connector::Clock;
use onefold_connectors::kafka::{Rewind, RewindTo, ask_rewind, rewind_path, stands_in};
use onefold_storage::Store;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What was, or would be, done.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    checkpoint: String,
    applied: bool,
    /// The newest batch, after which the topic is read from elsewhere.
    after_batch: BatchId,
    /// The sources that read the topic, and the next offsets that they would read otherwise.
    sources: BTreeMap<String, BTreeMap<i32, i64>>,
    rewind: Rewind,
    /// The files that say so.
    files: Vec<String>,
}

/// Says, or writes down, from where the next batch reads a topic.
///
/// # Errors
/// Usage, when it cannot be done as asked; as the store's.
pub(super) fn rewind(
    args: &RewindArgs,
    store: &Arc<dyn Store>,
    topic: &str,
    to: &str,
) -> Result<(), Failure> {
    let rewind = Rewind { topic: topic.to_owned(), to: RewindTo::parse(to)? };
    let report = sink_lookup::runtime()?.block_on(do_rewind(args, store, rewind))?;
    if args.json {
        terminal::json(&report);
    } else {
        text(&report).iter().for_each(|row| terminal::line(row));
    }
    Ok(())
}

async fn do_rewind(
    args: &RewindArgs,
    store: &Arc<dyn Store>,
    rewind: Rewind,
) -> Result<Report, Failure> {
    let contents = Contents::gather(store.as_ref(), Depth::All).await?;
    let (after_batch, sources) = standing(&contents, &rewind.topic)?;
    check_partitions(&rewind, &sources)?;
    let mut files = Vec::new();
    if args.apply {
        let now_ms = WallClock.now_ms();
        let generation =
            take_generation(store, &contents, now_ms, ("checkpoint rewind", None)).await?;
        // A driver that lived until now may have gone on meanwhile.
        let again = Contents::gather(store.as_ref(), Depth::All).await?;
        if standing(&again, &rewind.topic)?.0 != after_batch {
            return Err(Failure::usage(
                "the query went on meanwhile; it is stopped now, so do it again".to_owned(),
            ));
        }
        files = write(store.as_ref(), &sources, after_batch, generation, &rewind).await?;
    }
    let checkpoint = contents.url;
    Ok(Report { checkpoint, applied: args.apply, after_batch, sources, rewind, files })
}

/// Partitions that the query has not read are not known here, and a start could not go there.
fn check_partitions(
    rewind: &Rewind,
    sources: &BTreeMap<String, BTreeMap<i32, i64>>,
) -> Result<(), Failure> {
    let RewindTo::Offsets(wanted) = &rewind.to else { return Ok(()) };
    let unknown = sources.iter().find_map(|(source, stands)| {
        let partition = wanted.keys().find(|partition| !stands.contains_key(partition))?;
        Some((source, partition, stands.keys().collect::<Vec<_>>()))
    });
    match unknown {
        None => Ok(()),
        Some((source, partition, known)) => Err(Failure::usage(format!(
            "source {source} has not read partition {partition} of {}; it has read {known:?}",
            rewind.topic
        ))),
    }
}

async fn write(
    store: &dyn Store,
    sources: &BTreeMap<String, BTreeMap<i32, i64>>,
    batch: BatchId,
    generation: Generation,
    rewind: &Rewind,
) -> Result<Vec<String>, Failure> {
    let mut files = Vec::new();
    for source in sources.keys() {
        let path = rewind_path(source, batch, generation);
        ask_rewind(store, &path, rewind).await?;
        files.push(path);
    }
    Ok(files)
}

/// The newest batch, which must be over, and which sources read the topic and where.
#[expect(clippy::type_complexity, reason = "next offsets by source and partition")]
fn standing(
    contents: &Contents,
    topic: &str,
) -> Result<(BatchId, BTreeMap<String, BTreeMap<i32, i64>>), Failure> {
    let Some(newest) = contents.intent_ids.last().copied() else {
        return Err(Failure::usage(format!(
            "{} has no batch yet: say where the query starts with startingOffsets",
            contents.url
        )));
    };
    if !contents.commit_ids.contains(&newest) {
        return Err(Failure::usage(format!(
            "batch {newest} is not over: start the query so that it ends, for example with \
             --trigger available-now, and then rewind the topic"
        )));
    }
    let intent = contents.intents.get(&newest).and_then(Record::ok);
    let ends = intent.iter().flat_map(|intent| &intent.sources);
    let sources: BTreeMap<String, BTreeMap<i32, i64>> = ends
        .filter_map(|(id, end)| Some((id.clone(), stands_in(end.as_ref()?.json(), topic)?)))
        .collect();
    if sources.is_empty() {
        return Err(Failure::usage(format!(
            "no source of {} has read a topic `{topic}` up to batch {newest}",
            contents.url
        )));
    }
    Ok((newest, sources))
}

fn text(report: &Report) -> Vec<String> {
    let to = match &report.rewind.to {
        RewindTo::Earliest => "the first records that are there then".to_owned(),
        RewindTo::Latest => "the end as it is then; what waits is left out".to_owned(),
        RewindTo::Timestamp(ms) => format!("the first records of {ms} ms since 1970 or later"),
        RewindTo::Offsets(offsets) => format!("{offsets:?}; other partitions stay where they are"),
    };
    let mut lines = vec![
        format!("checkpoint  {}", report.checkpoint),
        format!("after       batch {}", report.after_batch),
        format!("topic       {}", report.rewind.topic),
    ];
    for (source, offsets) in &report.sources {
        lines.push(format!("source      {source}, which stands at {offsets:?}"));
    }
    lines.push(format!("goes to     {to}"));
    lines.extend(report.files.iter().map(|path| format!("written     {path}")));
    lines.push(
        "note        records that the sink has already and that are read again are delivered again"
            .to_owned(),
    );
    if !report.applied {
        lines.push(
            "nothing was changed: say --apply to do it; a driver that still runs stops at its next batch"
                .to_owned(),
        );
    }
    lines
}
