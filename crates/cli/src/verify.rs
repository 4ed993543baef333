//! `onefold verify`: does the sink still hold what was committed?

use crate::args::VerifyArgs;
use crate::exit::Failure;
use crate::sink_lookup::{self, Absent};
use crate::table::grouped;
use crate::terminal;
use onefold::checkpoint_tools::{Comparison, Contents, Depth, compare};
use onefold::types::Totals;

/// Compares checkpoint and sink.
///
/// # Errors
/// Not whole, when something differs; otherwise as opening and reading fails.
pub fn verify(args: &VerifyArgs) -> Result<(), Failure> {
    let store = sink_lookup::open_store(&args.checkpoint, &args.reach)?;
    let comparison = sink_lookup::runtime()?.block_on(async {
        let contents = Contents::gather(store.as_ref(), Depth::All).await?;
        let found = match sink_lookup::find(&contents, args.sink.as_deref(), &args.reach).await {
            Ok(found) => found,
            Err(Absent::NotKnown(why)) => {
                return Err(Failure::usage(format!("there is no sink to compare with: {why}")));
            }
            Err(Absent::Failed(error)) => return Err(error.into()),
        };
        let sink = (found.sink.as_ref(), found.description, &found.delivery);
        let mut comparison = compare(&contents, None, sink).await?;
        for (name, found) in sink_lookup::find_further(&contents, &args.reach).await? {
            let sink = (found.sink.as_ref(), found.description, &found.delivery);
            let further = compare(&contents, Some(&name), sink).await?;
            comparison.ok &= further.ok;
            comparison.further.push(further);
        }
        Ok::<_, Failure>(comparison)
    })?;
    if args.json {
        terminal::json(&comparison);
    } else {
        let all = std::iter::once(&comparison).chain(&comparison.further);
        all.flat_map(text).for_each(|row| terminal::line(&row));
    }
    if comparison.ok { Ok(()) } else { Err(Failure::not_whole()) }
}

fn text(comparison: &Comparison) -> Vec<String> {
    let mut lines = vec![
        match &comparison.name {
            None => format!("checkpoint      {}", comparison.checkpoint),
            Some(name) => format!("of              {name}"),
        },
        format!("sink            {}", comparison.sink),
    ];
    match (comparison.from_batch, comparison.last_commit) {
        (Some(first), Some(last)) => {
            let purged = if first.0 > 0 {
                format!(
                    " (commits before {first} were purged, or are older than this sink, and cannot be compared)"
                )
            } else {
                String::new()
            };
            lines.push(format!("commits         {first} to {last}{purged}"));
        }
        _ => lines.push("commits         none".to_owned()),
    }
    lines.push(match comparison.mark {
        Some(published) => format!("sink holds      up to {}", published.mark),
        None => "sink holds      nothing".to_owned(),
    });
    lines.push(format!(
        "equal           {} batches, {} rows",
        grouped(comparison.equal),
        grouped(comparison.rows)
    ));
    if !comparison.not_comparable.is_empty() {
        let listed: Vec<String> = comparison
            .not_comparable
            .iter()
            .take(10)
            .map(|batch| batch.batch.to_string())
            .collect();
        let more = if comparison.not_comparable.len() > listed.len() { ", …" } else { "" };
        let why = comparison.not_comparable.first().map_or("", |batch| batch.why);
        lines.push(format!(
            "not comparable  {} batches: {}{more} ({why})",
            comparison.not_comparable.len(),
            listed.join(", ")
        ));
    }
    lines.push(format!("different       {}", comparison.differing));
    if let Some(first) = &comparison.first_difference {
        lines.push(format!("first           batch {}: {}", first.batch, first.text));
        lines.extend(first.expected.map(|totals| format!("  committed     {}", shown(totals))));
        lines.extend(first.found.map(|totals| format!("  found         {}", shown(totals))));
    }
    lines
}

fn shown(totals: Totals) -> String {
    format!("{} rows, hash {}", grouped(totals.rows), totals.hash)
}
