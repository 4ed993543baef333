//! `spark.sql(…)`: queries give a relation that is computed when its rows are asked for; commands
//! run at once.

mod shown;
mod table_statement;

use crate::client_session::ClientSession;
use crate::expression::{Columns, Translator, literal};
use crate::failure::{Failure, Outcome};
use crate::relation::Planner;
use crate::tables::Matching;
use crate::{catalog, conf, rows, tables, text_depth};
use arrow::array::StringArray;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use onefold_engine::{SaveMode, TableDefinition};
use shown::Shown;
use spark_connect_proto::execute_plan_response::SqlCommandResult;
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{LocalRelation, Relation, Sql, SqlCommand};
use std::collections::HashMap;
use std::sync::Arc;
use table_statement::TableStatement;

/// Runs a statement. Blocks.
pub(crate) fn run(session: &ClientSession, command: SqlCommand) -> Outcome<SqlCommandResult> {
    let input = match command.input {
        Some(input) => input,
        // Older clients put the text into the command itself.
        #[allow(deprecated, reason = "what older clients send")]
        None => Relation {
            common: None,
            rel_type: Some(RelType::Sql(Sql {
                query: command.sql,
                args: command.args,
                pos_args: command.pos_args,
                named_arguments: command.named_arguments,
                pos_arguments: command.pos_arguments,
            })),
        },
    };
    let Some(query) = statement(&input) else {
        return Ok(SqlCommandResult { relation: Some(input) });
    };
    let mut planner = Planner::new(session);
    let text = bound(&planner, query)?;
    if let Some(RelType::WithRelations(with)) = &input.rel_type {
        for reference in &with.references {
            let plan = planner.plan(reference)?;
            if let Some(RelType::SubqueryAlias(alias)) = &reference.rel_type {
                catalog::create_view(session, &alias.alias, plan, true)?;
            }
        }
    }
    if let Some(statement) = TableStatement::of(text.trim().trim_end_matches(';'))? {
        run_on_table(session, statement)?;
        return texts(&[], &[]);
    }
    match Statement::of(&text)? {
        Statement::Query => {
            // Errors of the text are the command's, not the first action's.
            planner.plan(&input)?;
            Ok(SqlCommandResult { relation: Some(input) })
        }
        Statement::Set(None, _) => {
            let pairs: Vec<(String, String)> = session.engine.conf().all().into_iter().collect();
            texts(
                &["key", "value"],
                &pairs.iter().map(|it| vec![it.0.clone(), it.1.clone()]).collect::<Vec<_>>(),
            )
        }
        Statement::Set(Some(key), None) => {
            let value = conf::value(&session.engine, &key).unwrap_or_else(|| "<undefined>".into());
            texts(&["key", "value"], &[vec![key, value]])
        }
        Statement::Set(Some(key), Some(value)) => {
            conf::set(&session.engine, &key, &value)?;
            texts(&["key", "value"], &[vec![key, value]])
        }
        Statement::CreateView { name, query, replace } => {
            let plan = session.engine.sql(&query)?.logical_plan().clone();
            catalog::create_view(session, &name, plan, replace)?;
            texts(&[], &[])
        }
        Statement::DropView { name, if_exists } => {
            if !tables::drop(session, &name)? && !if_exists {
                return Err(Failure::no_table(&name));
            }
            texts(&[], &[])
        }
        Statement::ShowTables => {
            let names = catalog::table_names(session);
            let kept = session.engine.warehouse_tables();
            let rows: Vec<Vec<String>> = names
                .into_iter()
                .map(|name| match kept.contains(&name) {
                    true => vec!["default".to_owned(), name, "false".to_owned()],
                    false => vec![String::new(), name, "true".to_owned()],
                })
                .collect();
            texts(&["namespace", "tableName", "isTemporary"], &rows)
        }
        Statement::Show(shown) => {
            let (column, names) = shown.list(session)?;
            let rows: Vec<Vec<String>> = names.into_iter().map(|name| vec![name]).collect();
            texts(&[column], &rows)
        }
        Statement::Describe(name) => {
            let frame = session.engine.table_by(crate::relation::table_reference(&name)?)?;
            let schema = frame.schema();
            described(&schema, session.engine.table_definition(&name)?.as_ref())
        }
        // Nothing is kept in memory between queries.
        Statement::Cache => texts(&[], &[]),
    }
}

fn statement(relation: &Relation) -> Option<&Sql> {
    match relation.rel_type.as_ref()? {
        RelType::Sql(sql) => Some(sql),
        RelType::WithRelations(with) => statement(with.root.as_deref()?),
        _ => None,
    }
}

fn run_on_table(session: &ClientSession, statement: TableStatement) -> Outcome<()> {
    match statement {
        TableStatement::Create { name, definition, query, if_not_exists } => {
            let rows = match query {
                Some(query) => Some(session.engine.sql(&query)?.logical_plan().clone()),
                None => None,
            };
            tables::create(session, &name, definition, rows, if_not_exists).map(|_| ())
        }
        TableStatement::Insert { name, columns, query, overwrite } => {
            let rows = session.engine.sql(&query)?.logical_plan().clone();
            let mode = if overwrite { SaveMode::Overwrite } else { SaveMode::Append };
            if columns.is_empty() {
                return tables::insert(session, &name, rows, mode, Matching::ByPlace);
            }
            let rows = named(rows, &columns)?;
            tables::insert(session, &name, rows, mode, Matching::ByName)
        }
    }
}

/// Rows whose columns get these names.
fn named(rows: LogicalPlan, names: &[String]) -> Outcome<LogicalPlan> {
    let there = rows.schema().fields().len();
    if there != names.len() {
        return Err(Failure::columns_mismatch(names.len(), there));
    }
    let columns: Vec<_> = rows
        .schema()
        .iter()
        .zip(names)
        .map(|((qualifier, field), name)| {
            let column = datafusion::common::Column::from((qualifier, field));
            datafusion::logical_expr::Expr::Column(column).alias(name.as_str())
        })
        .collect();
    Ok(LogicalPlanBuilder::from(rows).project(columns)?.build()?)
}

/// `DESCRIBE`: the columns, then those that folders or clusters are made of.
fn described(schema: &Schema, table: Option<&TableDefinition>) -> Outcome<SqlCommandResult> {
    let row = |field: &Field| {
        let kind = onefold_plan::schema::type_name(field.data_type()).to_lowercase();
        let comment = field.metadata().get(onefold_plan::schema::COMMENT).cloned();
        vec![Some(field.name().clone()), Some(kind), comment]
    };
    let mut rows: Vec<Vec<Option<String>>> =
        schema.fields().iter().map(|field| row(field)).collect();
    let mut part = |title: &str, names: &[String]| {
        if names.is_empty() {
            return;
        }
        let text = |it: &str| Some(it.to_owned());
        rows.push(vec![text(title), text(""), text("")]);
        rows.push(vec![text("# col_name"), text("data_type"), text("comment")]);
        for name in names {
            let field = schema.fields().iter().find(|it| it.name().eq_ignore_ascii_case(name));
            rows.extend(field.map(|field| row(field)));
        }
    };
    if let Some(table) = table {
        part("# Partition Information", &table.partition_by);
        part("# Clustering Information", &table.cluster_by);
    }
    optional_texts(&["col_name", "data_type", "comment"], &rows)
}

/// Rows of texts as the result of a command.
fn texts(names: &[&str], rows: &[Vec<String>]) -> Outcome<SqlCommandResult> {
    let some = |row: &Vec<String>| row.iter().cloned().map(Some).collect();
    optional_texts(names, &rows.iter().map(some).collect::<Vec<_>>())
}

fn optional_texts(names: &[&str], rows: &[Vec<Option<String>>]) -> Outcome<SqlCommandResult> {
    let nullable = |place: usize| rows.iter().any(|row| matches!(row.get(place), Some(None)));
    let fields: Vec<Field> = names
        .iter()
        .enumerate()
        .map(|(place, name)| Field::new(*name, DataType::Utf8, nullable(place)))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let columns: Vec<arrow::array::ArrayRef> = (0..names.len())
        .map(|place| {
            let cells = rows.iter().map(|row| row.get(place).and_then(|cell| cell.as_deref()));
            Arc::new(cells.collect::<StringArray>()) as arrow::array::ArrayRef
        })
        .collect();
    let count = if names.is_empty() { 0 } else { rows.len() };
    let options = arrow::record_batch::RecordBatchOptions::new().with_row_count(Some(count));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)
        .map_err(|error| Failure::invalid(error.to_string()))?;
    let local = LocalRelation { data: Some(rows::ipc(&batch)?.into()), schema: None };
    Ok(SqlCommandResult {
        relation: Some(Relation { common: None, rel_type: Some(RelType::LocalRelation(local)) }),
    })
}

/// What a text is, beside a query.
#[derive(Debug, PartialEq, Eq)]
enum Statement {
    Query,
    Set(Option<String>, Option<String>),
    CreateView { name: String, query: String, replace: bool },
    DropView { name: String, if_exists: bool },
    ShowTables,
    Show(Shown),
    Describe(String),
    Cache,
}

/// The rest of a text behind words, compared without case.
fn after<'t>(text: &'t str, words: &[&str]) -> Option<&'t str> {
    let mut rest = text.trim_start();
    for word in words {
        let head = rest.get(..word.len())?;
        let tail = rest.get(word.len()..)?;
        let ends = tail.chars().next().is_none_or(|c| !c.is_alphanumeric() && c != '_');
        if !head.eq_ignore_ascii_case(word) || !ends {
            return None;
        }
        rest = tail.trim_start();
    }
    Some(rest)
}

/// The first name of a text, and what is behind it.
fn name(text: &str) -> Option<(String, &str)> {
    let mut quoted = false;
    let end = text.char_indices().find(|&(_, c)| {
        quoted ^= c == '`';
        !quoted && (c.is_whitespace() || c == '(' || c == ';')
    });
    let end = end.map_or(text.len(), |(place, _)| place);
    let (name, rest) = text.split_at(end);
    (!name.is_empty()).then(|| (name.replace('`', ""), rest.trim_start()))
}

/// The zone of `SET TIME ZONE`: a text, `LOCAL`, or an interval of hours and minutes.
fn time_zone(text: &str) -> Outcome<String> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("local") {
        return Ok("UTC".to_owned());
    }
    let wrong = || Failure::analysis(format!("SET TIME ZONE does not take {text}"));
    let Some(interval) = after(text, &["interval"]) else {
        return Ok(text.trim_matches(['\'', '"']).to_owned());
    };
    let value = interval.trim_start().trim_start_matches(['\'', '"']);
    let value = value.split(['\'', '"', ' ']).next().unwrap_or_default();
    let (sign, value) = match value.strip_prefix('-') {
        Some(value) => ('-', value),
        None => ('+', value.trim_start_matches('+')),
    };
    let (hours, minutes) = value.split_once(':').unwrap_or((value, "0"));
    let (Ok(hours), Ok(minutes)) = (hours.parse::<u8>(), minutes.parse::<u8>()) else {
        return Err(wrong());
    };
    Ok(format!("{sign}{hours:02}:{minutes:02}"))
}

impl Statement {
    fn of(text: &str) -> Outcome<Statement> {
        let text = text.trim().trim_end_matches(';').trim();
        let incomplete = || Failure::analysis(format!("the statement is not complete: {text}"));
        if let Some(rest) = after(text, &["set", "time", "zone"]) {
            let key = Some("spark.sql.session.timeZone".to_owned());
            return time_zone(rest).map(|zone| Statement::Set(key, Some(zone)));
        }
        if let Some(rest) = after(text, &["set"]) {
            let rest = rest.strip_prefix("-v").unwrap_or(rest).trim();
            return Ok(match rest.split_once('=') {
                Some((key, value)) => {
                    let value = value.trim().trim_matches(['\'', '"']);
                    Statement::Set(Some(key.trim().replace('`', "")), Some(value.to_owned()))
                }
                None if rest.is_empty() => Statement::Set(None, None),
                None => Statement::Set(Some(rest.replace('`', "")), None),
            });
        }
        for (words, replace) in [
            (&["create", "or", "replace", "temporary", "view"][..], true),
            (&["create", "or", "replace", "temp", "view"][..], true),
            (&["create", "temporary", "view"][..], false),
            (&["create", "temp", "view"][..], false),
        ] {
            if let Some(rest) = after(text, words) {
                let (name, rest) = name(rest).ok_or_else(incomplete)?;
                let query = after(rest, &["as"]).ok_or_else(incomplete)?.to_owned();
                return Ok(Statement::CreateView { name, query, replace });
            }
        }
        for words in [&["drop", "view"][..], &["drop", "table"][..]] {
            if let Some(rest) = after(text, words) {
                let exists = after(rest, &["if", "exists"]);
                let (name, _) = name(exists.unwrap_or(rest)).ok_or_else(incomplete)?;
                return Ok(Statement::DropView { name, if_exists: exists.is_some() });
            }
        }
        if after(text, &["show", "tables"]).is_some() || after(text, &["show", "views"]).is_some() {
            return Ok(Statement::ShowTables);
        }
        if let Some(shown) = Shown::of(text)? {
            return Ok(Statement::Show(shown));
        }
        for words in [&["describe"][..], &["desc"][..]] {
            if let Some(rest) = after(text, words) {
                let rest = after(rest, &["table"]).unwrap_or(rest);
                let (name, _) = name(rest).ok_or_else(incomplete)?;
                return Ok(Statement::Describe(name));
            }
        }
        for word in ["cache", "uncache", "clear", "refresh"] {
            if after(text, &[word]).is_some() {
                return Ok(Statement::Cache);
            }
        }
        for word in ["create", "alter", "merge", "update", "delete", "truncate", "use"] {
            if after(text, &[word]).is_some() {
                return Err(Failure::unsupported(format!("the statement {}", word.to_uppercase())));
            }
        }
        Ok(Statement::Query)
    }
}

/// The text with its parameters written out.
///
/// # Errors
/// A parameter without a value.
pub(crate) fn bound(planner: &Planner<'_>, query: &Sql) -> Outcome<String> {
    text_depth::check(&query.query)?;
    let nothing = datafusion::common::DFSchema::empty();
    let none = HashMap::new();
    let columns = Columns::new(&nothing, &none, planner.session);
    let mut named: HashMap<String, String> = HashMap::new();
    let mut placed: Vec<String> = Vec::new();
    #[allow(deprecated, reason = "what older clients send")]
    {
        for (name, value) in &query.args {
            named.insert(name.clone(), literal(value)?.to_string());
        }
        for value in &query.pos_args {
            placed.push(literal(value)?.to_string());
        }
    }
    for (name, value) in &query.named_arguments {
        named.insert(name.clone(), Translator::new(&columns).expression(value)?.to_string());
    }
    for value in &query.pos_arguments {
        placed.push(Translator::new(&columns).expression(value)?.to_string());
    }
    if named.is_empty() && placed.is_empty() {
        return Ok(query.query.clone());
    }
    written_out(&query.query, &named, &placed)
}

/// Puts values in place of `:name` and `?`, outside quotes and comments.
fn written_out(text: &str, named: &HashMap<String, String>, placed: &[String]) -> Outcome<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut places = placed.iter();
    let mut quote: Option<char> = None;
    while let Some(c) = chars.next() {
        if let Some(open) = quote {
            out.push(c);
            if c == '\\' && open != '`' {
                out.extend(chars.next());
            } else if c == open {
                quote = None;
            }
            continue;
        }
        match c {
            '\'' | '"' | '`' => {
                quote = Some(c);
                out.push(c);
            }
            '-' if chars.peek() == Some(&'-') => {
                out.push(c);
                for c in chars.by_ref() {
                    out.push(c);
                    if c == '\n' {
                        break;
                    }
                }
            }
            '?' if !placed.is_empty() => {
                let value = places.next().ok_or_else(|| unbound("?"))?;
                out.push_str(value);
            }
            ':' if chars.peek().is_some_and(|c| c.is_alphabetic() || *c == '_')
                && !out.ends_with(':')
                && !named.is_empty() =>
            {
                let mut name = String::new();
                while let Some(c) = chars.next_if(|c| c.is_alphanumeric() || *c == '_') {
                    name.push(c);
                }
                out.push_str(named.get(&name).ok_or_else(|| unbound(&name))?);
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

fn unbound(name: &str) -> Failure {
    Failure::analysis(format!("the parameter `{name}` of the query has no value"))
}

#[cfg(test)]
mod tests {
    use super::{Statement, written_out};
    use std::collections::HashMap;

    #[test]
    fn statements_are_told_from_queries() {
        assert_eq!(Statement::of("SELECT 1").unwrap(), Statement::Query);
        assert_eq!(
            Statement::of("set a.b = 'c' ;").unwrap(),
            Statement::Set(Some("a.b".into()), Some("c".into()))
        );
        assert_eq!(
            Statement::of("CREATE OR REPLACE TEMP VIEW v AS SELECT 1").unwrap(),
            Statement::CreateView { name: "v".into(), query: "SELECT 1".into(), replace: true }
        );
        assert_eq!(
            Statement::of("drop view if exists `v`").unwrap(),
            Statement::DropView { name: "v".into(), if_exists: true }
        );
        assert!(Statement::of("ALTER TABLE t ADD COLUMN a INT").is_err());
        let zone = |text: &str| match Statement::of(text).unwrap() {
            Statement::Set(Some(key), Some(zone)) if key == "spark.sql.session.timeZone" => zone,
            other => panic!("{other:?}"),
        };
        assert_eq!(zone("SET TIME ZONE 'Europe/Berlin'"), "Europe/Berlin");
        assert_eq!(zone("set time zone local"), "UTC");
        assert_eq!(zone("SET TIME ZONE INTERVAL '-08:30' HOUR TO MINUTE"), "-08:30");
        assert_eq!(Statement::of("settle").unwrap(), Statement::Query);
    }

    #[test]
    fn parameters_are_written_out_but_not_in_texts() {
        let named = HashMap::from([("a".to_owned(), "1".to_owned())]);
        assert_eq!(
            written_out("SELECT :a, ':a', x::int -- :a", &named, &[]).unwrap(),
            "SELECT 1, ':a', x::int -- :a"
        );
        let placed = ["'q'".to_owned()];
        assert_eq!(
            written_out("SELECT ?, '?'", &HashMap::new(), &placed).unwrap(),
            "SELECT 'q', '?'"
        );
        assert!(written_out("SELECT :b", &named, &[]).is_err());
    }
}
