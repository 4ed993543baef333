//! `onefold checkpoint plan`.

use crate::args::PlanArgs;
use crate::exit::Failure;
use crate::pipeline_file::PipelineFile;
use crate::sink_lookup::{self, open_store};
use crate::table::aligned;
use crate::terminal;
use onefold::checkpoint_tools::{Contents, Depth, StatePlan, accept_state_plan, plan_state};
use onefold::pipeline::TableState;
use onefold::types::Error;

/// Says what becomes of each operator's state if a pipeline goes on with a checkpoint.
///
/// # Errors
/// Usage, when the pipeline does not plan or has no such table; not whole, when state would be
/// dropped and that is not accepted.
pub fn plan(args: &PlanArgs) -> Result<(), Failure> {
    let pipeline = PipelineFile::read(&args.pipeline)?;
    let session = pipeline.session()?;
    let tables = pipeline.state(&session)?;
    let table = choose(&tables, &args.folder, args.table.as_deref())?;
    let store = open_store(&args.folder, &args.pipeline.reach())?;
    let plan = sink_lookup::runtime()?.block_on(async {
        let contents = Contents::gather(store.as_ref(), Depth::Newest(2)).await?;
        let mut plan = plan_state(&store, &contents, &table.operators).await;
        if args.accept {
            let (next, drops) = match &plan {
                Ok(plan) => (plan.next_batch, plan.drops.clone()),
                Err(_) => {
                    let last = contents.commit_ids.last().copied();
                    (last.map_or_else(Default::default, |last| last.next()), Vec::new())
                }
            };
            accept_state_plan(store.as_ref(), next, &table.operators, drops).await?;
            plan = plan_state(&store, &contents, &table.operators).await;
        }
        plan
    })?;
    if args.json {
        terminal::json(&plan);
    } else {
        text(table, &args.folder, &plan).iter().for_each(|line| terminal::line(line));
    }
    if plan.starts() { Ok(()) } else { Err(Failure::not_whole()) }
}

/// The table meant: by name, by its checkpoint, or the only one.
fn choose<'a>(
    tables: &'a [TableState],
    checkpoint: &str,
    name: Option<&str>,
) -> Result<&'a TableState, Failure> {
    let same = |table: &&TableState| match name {
        Some(name) => table.name.eq_ignore_ascii_case(name),
        None => keeps(table, checkpoint),
    };
    let mut found = tables.iter().filter(same);
    match (found.next(), tables) {
        (Some(table), _) => Ok(table),
        (None, [table]) if name.is_none() => Ok(table),
        _ => {
            let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
            let names = names.join(", ");
            let text = match name {
                Some(name) => format!("the pipeline has no table `{name}`; there are: {names}"),
                None => format!(
                    "which table of the pipeline goes on with {checkpoint}? name it with --table; \
                     there are: {names}"
                ),
            };
            Err(Error::invalid(text).into())
        }
    }
}

/// Whether a table's checkpoint is this one, as both are written.
fn keeps(table: &TableState, checkpoint: &str) -> bool {
    let own = table.checkpoint.as_deref().map(|own| own.trim_end_matches('/'));
    own == Some(checkpoint.trim_end_matches('/'))
}

fn text(table: &TableState, folder: &str, plan: &StatePlan) -> Vec<String> {
    let mut lines = vec![
        format!("checkpoint  {}", plan.url),
        format!("table       {}", table.name),
        format!("next batch  {}", plan.next_batch),
    ];
    let rows: Vec<Vec<String>> = plan
        .operators
        .iter()
        .map(|it| vec![it.operator.clone(), it.change.to_owned(), it.why.join("; ")])
        .collect();
    lines.extend(aligned(&rows).into_iter().map(|row| format!("  {row}")));
    lines.push(match (plan.drops.is_empty(), plan.starts()) {
        (true, _) => "the query goes on with its state".to_owned(),
        (false, true) => format!("accepted: the next start drops {}", plan.drops.join(", ")),
        (false, false) => format!(
            "the query does not start: it would drop {}; --accept allows that",
            plan.drops.join(", ")
        ),
    });
    if let Some(own) = table.checkpoint.as_deref().filter(|_| !keeps(table, folder)) {
        lines.push(format!("note        `{}` keeps its checkpoint in {own}", table.name));
    }
    lines
}
