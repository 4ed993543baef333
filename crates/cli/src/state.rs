//! `onefold state read`: operators of a checkpoint's state, and their rows as a table.

use crate::args::{StateCommand, StateReadArgs};
use crate::exit::Failure;
use crate::sink_lookup::{self, open_store};
use crate::table::{aligned, grouped};
use crate::terminal;
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::json::LineDelimitedWriter;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use onefold::checkpoint_tools::{
    Contents, Depth, OperatorState, StateOverview, StateReader, keeps_none, open_state,
    state_overview,
};
use onefold::types::{BatchId, Error, Result};

/// Runs one of the commands on state.
///
/// # Errors
/// With the exit codes of [`crate::exit`].
pub fn state(command: &StateCommand) -> std::result::Result<(), Failure> {
    let StateCommand::Read(args) = command;
    let store = open_store(&args.checkpoint, &args.reach)?;
    let runtime = sink_lookup::runtime()?;
    let found = runtime.block_on(async {
        let contents = Contents::gather(store.as_ref(), Depth::All).await?;
        if args.version.is_none() && args.operator.is_none() && keeps_none(&contents) {
            return Ok(None);
        }
        let reader = open_state(&store, &contents, args.version).await?;
        let overview = state_overview(&contents, &reader);
        Ok::<_, Error>(Some((reader, overview)))
    })?;
    let Some((reader, overview)) = found else {
        // A query without state has all of it: nothing is wrong.
        if args.json {
            terminal::json(&serde_json::json!({ "url": store.url(), "operators": [] }));
        } else {
            terminal::line(&format!("checkpoint  {}", store.url()));
            terminal::line("state       none: its query keeps none");
        }
        return Ok(());
    };
    let Some(wanted) = &args.operator else {
        if args.json {
            terminal::json(&overview);
        } else {
            listed(&overview).iter().for_each(|line| terminal::line(line));
        }
        return Ok(());
    };
    let (operator, family) = choose(&overview, wanted, args.family.as_deref())?;
    Ok(runtime.block_on(rows(args, &reader, operator, family))?)
}

fn listed(overview: &StateOverview) -> Vec<String> {
    let mut lines = vec![
        format!("checkpoint  {}", overview.url),
        format!("version     {} (what batch {} left)", overview.version, overview.batch),
        format!("kept        {}", kept(&overview.versions)),
        format!("on disk     {} bytes that a restart reads", grouped(overview.bytes_to_read)),
    ];
    let heading = ["operator", "kind", "name", "partitions", "family", "rows", "bytes", "columns"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for operator in &overview.operators {
        for family in &operator.families {
            rows.push(vec![
                operator.id.to_string(),
                operator.kind.clone(),
                operator.name.clone(),
                operator.partitions.to_string(),
                family.name.clone(),
                grouped(family.rows),
                grouped(family.bytes),
                format!("({}) -> ({})", family.key, family.value),
            ]);
        }
    }
    lines.extend(aligned(&rows).into_iter().map(|row| format!("  {row}")));
    lines
}

fn kept(versions: &[u64]) -> String {
    match (versions.first(), versions.last()) {
        (Some(first), Some(last)) => format!("versions {first} to {last} ({})", versions.len()),
        _ => "no version".to_owned(),
    }
}

/// The operator and the family meant.
fn choose<'a>(
    overview: &'a StateOverview,
    wanted: &str,
    family: Option<&str>,
) -> Result<(&'a OperatorState, usize)> {
    let named = |it: &&OperatorState| it.name == wanted || it.id.to_string() == wanted;
    let operator = overview.operators.iter().find(named).ok_or_else(|| {
        let all: Vec<String> =
            overview.operators.iter().map(|it| format!("{} ({})", it.id, it.name)).collect();
        Error::invalid(format!("there is no operator {wanted}; there are {}", all.join(", ")))
    })?;
    let place = match family {
        Some(name) => operator.families.iter().position(|it| it.name == name),
        None if operator.families.len() == 1 => Some(0),
        // Counters and indexes are of less interest than the rows themselves.
        None => operator.families.iter().position(|it| it.counted),
    };
    let place = place.ok_or_else(|| {
        let all: Vec<&str> = operator.families.iter().map(|it| it.name.as_str()).collect();
        Error::invalid(format!(
            "operator {wanted} has the families {}; name one with --family",
            all.join(", ")
        ))
    })?;
    Ok((operator, place))
}

async fn rows(
    args: &StateReadArgs,
    reader: &StateReader,
    operator: &OperatorState,
    family: usize,
) -> Result<()> {
    let mut rows = if args.changes {
        let batch = BatchId(reader.version().saturating_sub(1));
        reader.changes(operator.id, family, batch)?
    } else {
        reader.rows(operator.id, family)?
    };
    let mut table: Vec<Vec<String>> = Vec::new();
    let mut shown = 0;
    while let Some(batch) = rows.next().await? {
        let batch = batch.slice(0, batch.num_rows().min(args.limit - shown));
        shown += batch.num_rows();
        if args.json {
            terminal::line(&json_lines(&batch)?);
        } else {
            if table.is_empty() {
                table.push(headings(&batch));
            }
            cells(&batch, &mut table)?;
        }
        if shown >= args.limit {
            terminal::note(&format!("only the first {shown} rows are shown; see --limit"));
            break;
        }
    }
    aligned(&table).iter().for_each(|line| terminal::line(line));
    Ok(())
}

fn json_lines(batch: &RecordBatch) -> Result<String> {
    let mut bytes = Vec::new();
    let mut writer = LineDelimitedWriter::new(&mut bytes);
    let written = writer.write(batch).and_then(|()| writer.finish());
    written.map_err(|error| Error::internal("rows have no JSON").because(error))?;
    Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

/// The columns of a struct column stand beside the others.
fn headings(batch: &RecordBatch) -> Vec<String> {
    let mut names = Vec::new();
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        match column.as_struct_opt() {
            Some(columns) => names.extend(columns.column_names().iter().map(|it| (*it).to_owned())),
            None => names.push(field.name().clone()),
        }
    }
    names
}

fn cells(batch: &RecordBatch, table: &mut Vec<Vec<String>>) -> Result<()> {
    let unreadable = |error| Error::internal("a row cannot be shown").because(error);
    let options = FormatOptions::default().with_null("NULL");
    let mut columns: Vec<(ArrayFormatter<'_>, Option<&dyn Array>)> = Vec::new();
    for column in batch.columns() {
        match column.as_struct_opt() {
            Some(inner) => {
                for array in inner.columns() {
                    let formatter = ArrayFormatter::try_new(array.as_ref(), &options);
                    columns.push((formatter.map_err(unreadable)?, Some(column.as_ref())));
                }
            }
            None => {
                let formatter = ArrayFormatter::try_new(column.as_ref(), &options);
                columns.push((formatter.map_err(unreadable)?, None));
            }
        }
    }
    for row in 0..batch.num_rows() {
        let cell = |(formatter, outer): &(ArrayFormatter<'_>, Option<&dyn Array>)| {
            if outer.is_some_and(|outer| outer.is_null(row)) {
                return Ok("-".to_owned());
            }
            formatter.value(row).try_to_string().map_err(unreadable)
        };
        table.push(columns.iter().map(cell).collect::<Result<_>>()?);
    }
    Ok(())
}
