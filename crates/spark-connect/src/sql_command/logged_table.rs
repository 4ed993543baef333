//! Runs statements on tables that keep a log.

use super::logged_statement::{Act, ClauseAct, LoggedStatement, Merge, last_part, spelled};
use crate::client_session::ClientSession;
use crate::failure::{Failure, Outcome};
use arrow::record_batch::RecordBatch;
use datafusion::common::{Column, TableReference};
use datafusion::logical_expr::Expr;
use onefold_engine::{MergeAct, MergeClause, TableAct, TableMerge, unqualified};

/// What a statement gives.
pub(super) fn run(session: &ClientSession, statement: LoggedStatement) -> Outcome<RecordBatch> {
    let LoggedStatement { table, alias, act } = statement;
    let (format, path) = place(session, &table)?;
    let alias = alias.unwrap_or_else(|| last_part(&table));
    let from = format!("{} AS `{alias}`", spelled(&table));
    let act = match act {
        Act::History { limit } => TableAct::History { limit },
        Act::Optimize => TableAct::Optimize,
        Act::Vacuum { retain_hours, dry_run } => TableAct::Vacuum { retain_hours, dry_run },
        Act::Delete { condition } => {
            let condition = condition.map(|it| one(session, &from, it)).transpose()?;
            TableAct::Delete { condition }
        }
        Act::Update { set, condition } => {
            let condition = condition.map(|it| one(session, &from, it)).transpose()?;
            let (columns, values): (Vec<_>, Vec<_>) = set.into_iter().unzip();
            let values = session.engine.expressions(&from, &values)?;
            let values = values.into_iter().map(unqualified).collect::<Result<Vec<_>, _>>()?;
            TableAct::Update { condition, set: columns.into_iter().zip(values).collect() }
        }
        Act::Merge(merge) => TableAct::Merge(Box::new(merged(session, &from, alias, merge)?)),
    };
    Ok(session.engine.table_act(&format, &path, act)?)
}

/// The format and the folder of a table.
fn place(session: &ClientSession, table: &str) -> Outcome<(String, String)> {
    if let Some(path) = table.strip_prefix("delta.") {
        return Ok(("delta".to_owned(), path.to_owned()));
    }
    let definition = session.engine.table_definition(table)?;
    let definition = definition.ok_or_else(|| Failure::no_table(table))?;
    let files = session.engine.table_files(table, &definition)?;
    Ok((definition.format, files))
}

/// One expression over one table.
fn one(session: &ClientSession, from: &str, text: String) -> Outcome<Expr> {
    let mut found = session.engine.expressions(from, &[text])?;
    let expr = found.pop().ok_or_else(|| Failure::missing("an expression"))?;
    Ok(unqualified(expr)?)
}

fn merged(
    session: &ClientSession,
    from: &str,
    table_alias: String,
    merge: Merge,
) -> Outcome<TableMerge> {
    let Merge { source, source_alias, on, clauses, adds_columns } = merge;
    let source_from = format!("{source} AS `{source_alias}`");
    let rows = session.engine.sql(&format!("SELECT * FROM {source_from}"))?;
    let names: Vec<String> = rows.schema().fields().iter().map(|it| it.name().clone()).collect();
    let schema = rows.schema();
    let mut rows = rows.collect().map_err(|error| Failure::execution(&error))?;
    if rows.is_empty() {
        rows.push(RecordBatch::new_empty(schema));
    }
    let both = format!("{from} CROSS JOIN {source_from}");
    let all = |texts: &[String]| session.engine.expressions(&both, texts);
    let pairs = |set: Vec<(String, String)>| -> Outcome<Vec<(String, Expr)>> {
        let (columns, values): (Vec<_>, Vec<_>) = set.into_iter().unzip();
        Ok(columns.into_iter().zip(all(&values)?).collect())
    };
    let every = || {
        let column = |name: &String| {
            let from = TableReference::bare(source_alias.as_str());
            (name.clone(), Expr::Column(Column::new(Some(from), name.as_str())))
        };
        names.iter().map(column).collect::<Vec<_>>()
    };
    let mut built = Vec::with_capacity(clauses.len());
    for clause in clauses {
        let act = match clause.act {
            ClauseAct::UpdateAll => MergeAct::Update(every()),
            ClauseAct::InsertAll => MergeAct::Insert(every()),
            ClauseAct::Update(set) => MergeAct::Update(pairs(set)?),
            ClauseAct::Insert(values) => MergeAct::Insert(pairs(values)?),
            ClauseAct::Delete => MergeAct::Delete,
        };
        let condition = match clause.condition {
            Some(text) => all(&[text])?.pop(),
            None => None,
        };
        built.push(MergeClause { when: clause.when, condition, act });
    }
    let on = all(&[on])?.pop().ok_or_else(|| Failure::missing("the condition of MERGE"))?;
    Ok(TableMerge { rows, rows_alias: source_alias, table_alias, on, clauses: built, adds_columns })
}
