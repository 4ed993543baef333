//! `spark.sql(…)`: queries give a relation that is computed when its rows are asked for; commands
//! run at once.

mod described;
mod logged_statement;
mod logged_table;
mod shown;
mod statement;
mod table_statement;
mod words;

pub(crate) use shown::fits;

use crate::client_session::ClientSession;
use crate::expression::{Columns, Translator, literal};
use crate::failure::{Failure, Outcome};
use crate::relation::Planner;
use crate::tables::Matching;
use crate::{analyze, catalog, conf, rows, tables, text_depth};
use arrow::array::{ArrayRef, BooleanArray, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use logged_statement::LoggedStatement;
use onefold_engine::SaveMode;
use spark_connect_proto::execute_plan_response::SqlCommandResult;
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{LocalRelation, Relation, Sql, SqlCommand};
use statement::{Statement, View, ViewOf};
use std::collections::HashMap;
use std::sync::Arc;
use table_statement::{Insert, TableStatement};

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
    if let Some(statement) = TableStatement::of(statement::bare(&text))? {
        run_on_table(session, statement)?;
        return texts(&[], &[]);
    }
    if let Some(statement) = LoggedStatement::of(statement::bare(&text))? {
        let rows = logged_table::run(session, statement)?;
        return result(rows.schema(), rows.columns().to_vec(), rows.num_rows());
    }
    match Statement::of(&text)? {
        Statement::Query => {
            // Errors of the text are the command's, not the first action's.
            planner.plan(&input)?;
            Ok(SqlCommandResult { relation: Some(input) })
        }
        other => run_statement(session, other),
    }
}

fn run_statement(session: &ClientSession, statement: Statement) -> Outcome<SqlCommandResult> {
    match statement {
        Statement::Query => Err(Failure::invalid("a query is no command")),
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
        Statement::CreateView(view) | Statement::Cache(Some(view)) => {
            create_view(session, view)?;
            texts(&[], &[])
        }
        Statement::Cache(None) => texts(&[], &[]),
        Statement::DropView { name, if_exists } => {
            if !tables::drop(session, &name)? && !if_exists {
                return Err(Failure::no_table(&name));
            }
            texts(&[], &[])
        }
        Statement::Truncate(name) => {
            tables::truncate(session, &name)?;
            texts(&[], &[])
        }
        Statement::Use(name) if name.eq_ignore_ascii_case("default") => texts(&[], &[]),
        Statement::Use(name) => Err(Failure::no_schema(&name)),
        Statement::ShowTables => listed(session, &["namespace", "tableName"], |_| true),
        Statement::ShowViews => listed(session, &["namespace", "viewName"], |kept| !kept),
        Statement::Show(shown) => {
            let (column, names) = shown.list(session)?;
            let rows: Vec<Vec<String>> = names.into_iter().map(|name| vec![name]).collect();
            texts(&[column], &rows)
        }
        Statement::ShowCreate(name) => {
            let definition = session.engine.table_definition(&name)?;
            let definition = definition.ok_or_else(|| Failure::no_table(&name))?;
            texts(&["createtab_stmt"], &[vec![described::statement(&name, &definition)]])
        }
        Statement::Describe { name, extended } => {
            let frame = session.engine.table_by(crate::relation::table_reference(&name)?)?;
            let table = session.engine.table_definition(&name)?;
            let rows = described::rows(&frame.schema(), &name, table.as_ref(), extended);
            optional_texts(&described::COLUMNS, &rows)
        }
        Statement::DescribeQuery(query) => {
            let schema = session.engine.sql(&query)?.schema();
            let rows = described::rows(&schema, "", None, false);
            optional_texts(&described::COLUMNS, &rows)
        }
        Statement::Explain { extended, query } => {
            let plan = session.engine.sql(&query)?.logical_plan().clone();
            texts(&["plan"], &[vec![analyze::explain(session, &plan, extended)?]])
        }
    }
}

/// The session's tables and views; `wanted` is asked whether a table of the warehouse, or a view.
fn listed(
    session: &ClientSession,
    columns: &[&str; 2],
    wanted: impl Fn(bool) -> bool,
) -> Outcome<SqlCommandResult> {
    let kept = session.engine.warehouse_tables();
    let names =
        catalog::table_names(session).into_iter().filter(|name| wanted(kept.contains(name)));
    let names: Vec<String> = names.collect();
    let temporary = |name: &String| !kept.contains(name);
    let namespaces = names.iter().map(|it| if temporary(it) { "" } else { "default" });
    let [first, second] = columns;
    let fields = vec![
        Field::new(*first, DataType::Utf8, false),
        Field::new(*second, DataType::Utf8, false),
        Field::new("isTemporary", DataType::Boolean, false),
    ];
    let rows: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(namespaces)),
        Arc::new(StringArray::from_iter_values(&names)),
        Arc::new(names.iter().map(|name| Some(temporary(name))).collect::<BooleanArray>()),
    ];
    result(Arc::new(Schema::new(fields)), rows, names.len())
}

fn create_view(session: &ClientSession, view: View) -> Outcome<()> {
    let plan = match view.of {
        ViewOf::Query(query) => session.engine.sql(&query)?.logical_plan().clone(),
        ViewOf::Files { format, schema, mut options } => {
            let path = options.remove("path");
            let mut reader = session.engine.read().format(&format).options(options);
            if !schema.is_empty() {
                reader = reader.schema(&schema);
            }
            reader.load_paths(path)?.logical_plan().clone()
        }
    };
    let plan = if view.columns.is_empty() { plan } else { named(plan, &view.columns)? };
    match view.global {
        true => catalog::create_global_view(session, &view.name, plan, view.replace),
        false => catalog::create_view(session, &view.name, plan, view.replace),
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
        TableStatement::Insert(insert) => self::insert(session, insert),
    }
}

fn insert(session: &ClientSession, insert: Insert) -> Outcome<()> {
    let Insert { name, partition, columns, query, overwrite } = insert;
    let rows = session.engine.sql(&query)?.logical_plan().clone();
    let mode = if overwrite { SaveMode::Overwrite } else { SaveMode::Append };
    if partition.is_empty() {
        if columns.is_empty() {
            return tables::insert(session, &name, rows, mode, Matching::Place);
        }
        let rows = named(rows, &columns)?;
        return tables::insert(session, &name, rows, mode, Matching::NameOrNull);
    }
    let rows = in_partition(session, &name, rows, &partition, columns)?;
    match overwrite {
        // Only the partitions that the rows are of.
        true => tables::insert_partitions(session, &name, rows),
        false => tables::insert(session, &name, rows, mode, Matching::NameOrNull),
    }
}

/// Rows with the values that PARTITION gives to all of them.
fn in_partition(
    session: &ClientSession,
    name: &str,
    rows: LogicalPlan,
    partition: &[(String, Option<String>)],
    mut columns: Vec<String>,
) -> Outcome<LogicalPlan> {
    let definition =
        session.engine.table_definition(name)?.ok_or_else(|| Failure::no_table(name))?;
    let folders = &definition.partition_by;
    if let Some((other, _)) =
        partition.iter().find(|(own, _)| !folders.iter().any(|it| it.eq_ignore_ascii_case(own)))
    {
        return Err(Failure::no_column(other, &folders.join(", ")));
    }
    let fixed: Vec<&(String, Option<String>)> =
        partition.iter().filter(|(_, value)| value.is_some()).collect();
    let is_fixed = |name: &str| fixed.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
    if columns.is_empty() {
        let schema = onefold_plan::schema::parse_schema(&definition.schema)?;
        let all = schema.fields().iter().map(|field| field.name().clone());
        columns = all.filter(|name| !is_fixed(name)).collect();
    }
    let rows = named(rows, &columns)?;
    let context = session.engine.context();
    let mut items: Vec<Expr> = rows.schema().iter().map(Expr::from).collect();
    for (own, value) in fixed {
        let value = value.as_deref().unwrap_or_default();
        let value = onefold_plan::sql::expression(context, rows.schema(), value)?;
        items.push(value.alias(own.as_str()));
    }
    Ok(LogicalPlanBuilder::from(rows).project(items)?.build()?)
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
    let columns: Vec<ArrayRef> = (0..names.len())
        .map(|place| {
            let cells = rows.iter().map(|row| row.get(place).and_then(|cell| cell.as_deref()));
            Arc::new(cells.collect::<StringArray>()) as ArrayRef
        })
        .collect();
    let count = if names.is_empty() { 0 } else { rows.len() };
    result(Arc::new(Schema::new(fields)), columns, count)
}

/// Rows as the result of a command.
fn result(schema: Arc<Schema>, columns: Vec<ArrayRef>, count: usize) -> Outcome<SqlCommandResult> {
    let options = arrow::record_batch::RecordBatchOptions::new().with_row_count(Some(count));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)
        .map_err(|error| Failure::invalid(error.to_string()))?;
    let local = LocalRelation { data: Some(rows::ipc(&batch)?.into()), schema: None };
    Ok(SqlCommandResult {
        relation: Some(Relation { common: None, rel_type: Some(RelType::LocalRelation(local)) }),
    })
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
    use super::written_out;
    use std::collections::HashMap;

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
