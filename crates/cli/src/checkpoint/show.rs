//! `onefold checkpoint show`.

use crate::args::ShowArgs;
use crate::exit::Failure;
use crate::table::{aligned, grouped};
use crate::time::watermark;
use crate::{sink_lookup, terminal};
use onefold::checkpoint_tools::{
    Batch, Contents, Depth, Ids, Layout, Overview, SinkMark, SourceRange,
};
use onefold::iso_ms;
use serde_json::Value;

/// Batches whose records are read.
const NEWEST: usize = 6;

/// Shows what a checkpoint holds and what a restart would do.
///
/// # Errors
/// Not whole, when a record cannot be read or a restart would stop; as the store's.
pub fn show(args: &ShowArgs) -> Result<(), Failure> {
    let store = sink_lookup::open_store(&args.checkpoint, &args.reach)?;
    let overview = sink_lookup::runtime()?.block_on(async {
        let contents = Contents::gather(store.as_ref(), Depth::Newest(NEWEST)).await?;
        let mark = if contents.layout == Layout::Checkpoint {
            sink_lookup::mark_for_restart(&contents, args.sink.as_deref(), &args.reach).await
        } else {
            SinkMark::Unknown { why: "this is a bare log".to_owned() }
        };
        Ok::<_, Failure>(Overview::of(&contents, &mark))
    })?;
    if args.json {
        terminal::json(&overview);
    } else {
        text(&overview).iter().for_each(|row| terminal::line(row));
    }
    let stops = overview.restart.as_ref().is_some_and(|restart| restart.act == "stop");
    let holds = overview.unreadable.is_empty() && !stops && overview.layout != Layout::Unknown;
    if holds { Ok(()) } else { Err(Failure::not_whole()) }
}

fn text(overview: &Overview) -> Vec<String> {
    let mut lines = heading(overview);
    generations(overview, &mut lines);
    batches(overview, &mut lines);
    rest(overview, &mut lines);
    if let Some(restart) = &overview.restart {
        lines.push(format!("a restart    {}", restart.text));
    }
    lines
}

fn heading(overview: &Overview) -> Vec<String> {
    let what = match overview.layout {
        Layout::Checkpoint => "checkpoint",
        Layout::OffsetLog => "a log of intents (`offsets`)",
        Layout::CommitLog => "a log of commits (`commits`)",
        Layout::FileSourceLog => "a file source's own log",
        Layout::FileSinkLog => "a file sink's manifest",
        Layout::Unknown => "nothing that is known",
    };
    let mut lines = vec![format!("{:<11}  {}", what, overview.url)];
    if overview.layout == Layout::Checkpoint {
        let query = overview.query.map_or("not known".to_owned(), |query| query.to_string());
        let name = overview.name.as_ref().map_or(String::new(), |name| format!(" `{name}`"));
        lines.push(format!("query        {query}{name}"));
    }
    if overview.intents.count + overview.commits.count > 0 {
        lines.push(format!("intents      {}", ids(&overview.intents)));
        lines.push(format!("commits      {}", ids(&overview.commits)));
    }
    if let Some(sink) = overview.definition.as_ref().and_then(|definition| definition.get("sink")) {
        let described = sink.get("description").and_then(Value::as_str).unwrap_or("-");
        lines.push(format!("sink         {described}"));
    }
    lines
}

fn ids(ids: &Ids) -> String {
    let (Some(first), Some(last)) = (ids.first, ids.last) else { return "none".to_owned() };
    let missing: Vec<String> = ids.missing.iter().map(ToString::to_string).collect();
    let missing = match missing.len() {
        0 => String::new(),
        _ => format!(", missing {}", missing.join(", ")),
    };
    format!("{first} to {last} ({}){missing}", grouped(ids.count as u64))
}

fn generations(overview: &Overview, lines: &mut Vec<String>) {
    if overview.generations.is_empty() {
        return;
    }
    lines.push(format!("drivers      {} known, newest first", overview.generation_count));
    let rows: Vec<Vec<String>> = overview
        .generations
        .iter()
        .map(|driver| {
            vec![
                format!("generation {}", driver.generation),
                format!("host {}", driver.host),
                format!("pid {}", driver.pid),
                format!("since {}", iso_ms(driver.since_ms)),
                format!("onefold {}", driver.version),
            ]
        })
        .collect();
    lines.extend(aligned(&rows).into_iter().map(|row| format!("  {row}")));
}

fn batches(overview: &Overview, lines: &mut Vec<String>) {
    if overview.batches.is_empty() {
        return;
    }
    lines.push("batches      newest first".to_owned());
    let heading = ["batch", "state", "by", "planned at", "watermark", "rows", "sources end at"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(overview.batches.iter().map(batch_row));
    lines.extend(aligned(&rows).into_iter().map(|row| format!("  {row}")));
}

fn batch_row(batch: &Batch) -> Vec<String> {
    let by = match batch.generation {
        Some(generation) => format!("{} g{generation}", batch.planned_by),
        None => batch.planned_by.to_owned(),
    };
    vec![
        batch.batch.to_string(),
        if batch.committed { "committed" } else { "open" }.to_owned(),
        by,
        batch.timestamp_ms.map_or("-".to_owned(), iso_ms),
        batch.watermark_ms.map_or("-".to_owned(), watermark),
        batch.totals.map_or("-".to_owned(), |totals| grouped(totals.rows)),
        batch.sources.iter().map(source_end).collect::<Vec<_>>().join("  "),
    ]
}

fn source_end(range: &SourceRange) -> String {
    let end = range.end.as_ref().map_or("-".to_owned(), |end| shortened(&end.to_string(), 60));
    let noted = if range.note.is_some() { " (noted)" } else { "" };
    format!("{}: {end}{noted}", range.id)
}

fn shortened(text: &str, most: usize) -> String {
    let mut characters = text.chars();
    let head: String = characters.by_ref().take(most).collect();
    if characters.next().is_some() { format!("{head}…") } else { head }
}

fn rest(overview: &Overview, lines: &mut Vec<String>) {
    for source in &overview.sources {
        let last = source.last.map_or("-".to_owned(), |last| last.to_string());
        let compact =
            source.last_compact.map_or(String::new(), |number| format!(", compacted at {number}"));
        let others = match source.others.len() {
            0 => String::new(),
            _ => format!(", also {}", source.others.join(", ")),
        };
        lines.push(format!(
            "source {:<4}  {} entries, newest {last}{compact}{others}",
            source.id, source.entries
        ));
    }
    for state in &overview.state {
        lines.push(format!(
            "state {:<5}  {} files, {} bytes",
            state.operator,
            grouped(state.files),
            grouped(state.bytes)
        ));
    }
    if !overview.settings.is_empty() {
        lines.push("frozen settings that a fresh query would not have".to_owned());
        let rows: Vec<Vec<String>> = overview
            .settings
            .iter()
            .map(|setting| {
                let fresh = setting.fresh.as_deref();
                vec![
                    setting.key.clone(),
                    setting.frozen.clone(),
                    fresh.map_or("(not known)".to_owned(), |fresh| format!("(fresh: {fresh})")),
                ]
            })
            .collect();
        lines.extend(aligned(&rows).into_iter().map(|row| format!("  {row}")));
    }
    for path in &overview.unknown {
        lines.push(format!("not known    {path}"));
    }
    for unreadable in &overview.unreadable {
        lines.push(format!("unreadable   {}: {}", unreadable.path, unreadable.error));
    }
}
