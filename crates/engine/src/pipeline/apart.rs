//! Whether the tables of a pipeline keep out of each other's folders.

use crate::run::folders::{self, Written};
use crate::writer::{DataStreamWriter, Folders, NO_FILES};
use onefold_connector::Overlap;
use onefold_plan::pipeline::StreamingTable;
use onefold_storage::Place as Folder;
use onefold_types::{Error, ErrorKind, Result};

/// What a table's query writes and reads.
struct Table<'a> {
    table: &'a StreamingTable,
    written: Vec<(Written, Folder)>,
}

/// Checks all tables of a pipeline before the first one starts.
///
/// # Errors
/// Invalid, naming the tables with line and column, when two of them would write one folder, or a
/// table would read what it writes or the checkpoint of another one. Those of describing a query.
pub(super) fn check(tables: &[(&StreamingTable, DataStreamWriter)]) -> Result<()> {
    let mut known: Vec<Table<'_>> = Vec::with_capacity(tables.len());
    let mut plans = Vec::with_capacity(tables.len());
    for (table, writer) in tables {
        let of_table = |error: Error| at(table, &error.chain(), error.kind());
        let Folders { plan, outputs, checkpoint } = writer.folders().map_err(of_table)?;
        let written = outputs.clone().into_iter();
        folders::check_folders(&plan, written, checkpoint.as_deref()).map_err(of_table)?;
        let output = outputs.into_iter().map(|folder| (Written::Output, folder));
        let checkpoint = checkpoint.map(|folder| (Written::Checkpoint, folder));
        let written = output.chain(checkpoint);
        let written = written.map(|(what, folder)| Ok((what, Folder::find(&folder)?)));
        known.push(Table { table, written: written.collect::<Result<_>>()? });
        plans.push((*table, plan));
    }
    known.sort_by_key(|it| it.table.place);
    one_folder_each(&known)?;
    for (reader, plan) in plans {
        for (other, checkpoint) in checkpoints(&known, reader) {
            for source in plan.sources() {
                let overlap = source.definition.overlap(checkpoint)?;
                let overlap = overlap.filter(|it| folders::refused(Written::Checkpoint, it));
                if let Some(Overlap { input, .. }) = overlap {
                    return Err(reads_logs(reader, &input, other, checkpoint));
                }
            }
        }
    }
    Ok(())
}

/// The checkpoints of all tables but one.
fn checkpoints<'a>(
    tables: &'a [Table<'a>],
    but: &'a StreamingTable,
) -> impl Iterator<Item = (&'a StreamingTable, &'a Folder)> {
    tables.iter().filter(move |it| it.table.place != but.place).flat_map(|it| {
        let written = it.written.iter().filter(|(what, _)| *what == Written::Checkpoint);
        written.map(|(_, folder)| (it.table, folder))
    })
}

fn one_folder_each(tables: &[Table<'_>]) -> Result<()> {
    for (number, later) in tables.iter().enumerate() {
        for earlier in tables.iter().take(number) {
            for (what, folder) in &later.written {
                let taken = earlier.written.iter().find(|(_, other)| folder.is(other));
                if let Some((other_what, other)) = taken {
                    let later = (later.table, *what, folder);
                    return Err(taken_twice(later, (earlier.table, *other_what, other)));
                }
            }
        }
    }
    Ok(())
}

/// A table, what it writes, and where.
type Use<'a> = (&'a StreamingTable, Written, &'a Folder);

fn taken_twice((later, what, folder): Use<'_>, (earlier, other_what, other): Use<'_>) -> Error {
    let kind = |what: Written| match what {
        Written::Output => "output",
        Written::Checkpoint => "checkpoint",
    };
    let advice = match what {
        Written::Output => "LOCATION '…'",
        Written::Checkpoint => "OPTIONS ('checkpointLocation' = '…')",
    };
    let shown = if folder.to_string() == other.to_string() {
        folder.to_string()
    } else {
        format!("{folder}, written there as {other}")
    };
    let text = format!(
        "its {} is the {} of {} `{}` (line {}, column {}), {shown}; give each table a folder of \
         its own by {advice}",
        kind(what),
        kind(other_what),
        earlier.kind(),
        earlier.name,
        earlier.place.line,
        earlier.place.column,
    );
    at(later, &text, ErrorKind::Invalid)
}

fn reads_logs(
    reader: &StreamingTable,
    input: &str,
    other: &StreamingTable,
    checkpoint: &Folder,
) -> Error {
    let text = format!(
        "its input {input} and the checkpoint {checkpoint} of {} `{}` (line {}, column {}) lie \
         within each other, so that logs would be read as rows; give that table another folder by \
         OPTIONS ('checkpointLocation' = '…')",
        other.kind(),
        other.name,
        other.place.line,
        other.place.column
    );
    at(reader, &text, ErrorKind::Invalid)
}

/// Checks what a table says about its folder.
///
/// # Errors
/// Invalid, when its sink keeps no files and the table says where or how to keep them.
pub(super) fn check_clauses(table: &StreamingTable) -> Result<()> {
    if !NO_FILES.contains(&table.format.as_str()) {
        return Ok(());
    }
    let clause = if table.location.is_some() {
        "LOCATION"
    } else if table.options.get("path").is_some() {
        "option `path`"
    } else if !table.partition_by.is_empty() {
        "PARTITIONED BY"
    } else {
        return Ok(());
    };
    let text = format!(
        "USING {} keeps no files, so that {clause} means nothing; take it out, or write to a \
         format of files, such as USING parquet",
        table.format
    );
    Err(at(table, &text, ErrorKind::Invalid))
}

fn at(table: &StreamingTable, text: &str, kind: ErrorKind) -> Error {
    let (line, column) = (table.place.line, table.place.column);
    Error::new(
        kind,
        format!("line {line}, column {column}: {} `{}`: {text}", table.kind(), table.name),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_plan::pipeline::parse;

    fn written(output: &str, checkpoint: &str) -> Vec<(Written, Folder)> {
        vec![
            (Written::Output, Folder::find(output).unwrap()),
            (Written::Checkpoint, Folder::find(checkpoint).unwrap()),
        ]
    }

    fn refused(first: (&str, &str), second: (&str, &str)) -> Option<String> {
        let text = "CREATE STREAMING TABLE a AS SELECT 1;\n\n CREATE STREAMING TABLE b AS SELECT 1";
        let pipeline = parse(text).unwrap();
        let tables: Vec<Table<'_>> = pipeline
            .tables()
            .zip([first, second])
            .map(|(table, (output, checkpoint))| Table {
                table,
                written: written(output, checkpoint),
            })
            .collect();
        one_folder_each(&tables).err().map(|error| error.to_string())
    }

    #[test]
    fn two_tables_with_one_folder_are_named_with_their_places() {
        assert_eq!(refused(("/no/a", "/no/ca"), ("/no/b", "/no/cb")), None);
        let text = refused(("/no/a", "/no/c"), ("/no/b", "/no/x/../c/")).unwrap();
        assert!(text.starts_with("line 3, column 2: table `b`: its checkpoint is"), "{text}");
        assert!(text.contains("table `a` (line 1, column 1), /no/x/../c/"), "{text}");
        assert!(text.contains("as /no/c;") && text.contains("checkpointLocation"), "{text}");
        let text = refused(("s3://b/o", "/no/ca"), ("s3a://b/o/", "/no/cb")).unwrap();
        assert!(text.contains("its output is the output of table `a`"), "{text}");
        assert!(text.contains("LOCATION"), "{text}");
        let text = refused(("/no/a", "/no/ca"), ("/no/ca", "/no/cb")).unwrap();
        assert!(text.contains("its output is the checkpoint of table `a`"), "{text}");
        // An output below another one is another folder.
        assert_eq!(refused(("/no/a", "/no/ca"), ("/no/a/b", "/no/cb")), None);
    }

    #[test]
    fn a_sink_without_files_takes_nothing_that_is_about_files() {
        for (clauses, wanted) in [
            ("USING console LOCATION '/x'", Some("LOCATION means nothing")),
            ("USING noop OPTIONS (path '/x')", Some("option `path` means nothing")),
            ("USING memory PARTITIONED BY (k)", Some("PARTITIONED BY means nothing")),
            ("USING console OPTIONS (numRows 5)", None),
            ("USING json LOCATION '/x' PARTITIONED BY (k)", None),
        ] {
            let text = format!("CREATE STREAMING TABLE t {clauses} AS SELECT 1");
            let pipeline = parse(&text).unwrap();
            let said = check_clauses(pipeline.tables().next().unwrap()).err();
            let said = said.map(|error| error.to_string());
            match wanted {
                None => assert_eq!(said, None),
                Some(wanted) => {
                    let said = said.unwrap();
                    assert!(said.starts_with("line 1, column 1: table `t`: "), "{said}");
                    assert!(said.contains(wanted) && said.contains("USING parquet"), "{said}");
                }
            }
        }
    }
}
