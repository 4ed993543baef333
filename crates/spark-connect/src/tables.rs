//! Tables of the warehouse: making them, writing into them, reading them as streams.

use crate::client_session::ClientSession;
use crate::failure::{Failure, Outcome, quoted};
use crate::{analyze, catalog, store_assignment};
use arrow::array::AsArray;
use arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use onefold_engine::{SaveMode, TableDefinition};
use onefold_plan::schema::{parse_schema, schema_ddl};
use onefold_plan::stream;

/// How columns of rows find the columns of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Matching {
    /// Both have the same columns, in any order.
    Name,
    /// A column that the rows do not have is NULL.
    NameOrNull,
    Place,
}

/// Makes a table; with a query also its rows. False when it is there and that is fine.
pub(crate) fn create(
    session: &ClientSession,
    name: &str,
    definition: TableDefinition,
    rows: Option<LogicalPlan>,
    if_not_exists: bool,
) -> Outcome<bool> {
    if session.engine.table_definition(name)?.is_some() {
        return if if_not_exists { Ok(false) } else { Err(Failure::table_exists(name)) };
    }
    make(session, name, definition, rows, SaveMode::Append)?;
    Ok(true)
}

/// Makes a table that is not there; `mode` says what becomes of files that are in its place.
fn make(
    session: &ClientSession,
    name: &str,
    mut definition: TableDefinition,
    rows: Option<LogicalPlan>,
    mode: SaveMode,
) -> Outcome<()> {
    let of_a_database = definition.is_of_a_database();
    if of_a_database && (!definition.schema.is_empty() || !definition.partition_by.is_empty()) {
        return Err(Failure::analysis(format!(
            "the table `{name}` is one of a database, which knows its columns and partitions; leave \
             them out"
        )));
    }
    if definition.knows_its_columns()
        && definition.schema.is_empty()
        && rows.is_none()
        && (of_a_database || definition.location.is_some())
    {
        let there = session.engine.read().format(&definition.format);
        let there = if of_a_database { there.options(definition.options.clone()) } else { there };
        let paths = session.engine.table_paths(name, &definition)?;
        definition.schema = schema_ddl(&there.load_paths(paths)?.schema());
        session.engine.create_table(name, &definition)?;
        return Ok(());
    }
    // What is there already is nobody's to add to, as in Spark.
    let mode =
        if of_a_database && mode == SaveMode::Append { SaveMode::ErrorIfExists } else { mode };
    if let Some(plan) = &rows
        && definition.schema.is_empty()
    {
        definition.schema = schema_ddl(&analyze::rows_schema(plan));
    }
    if definition.schema.is_empty() {
        return Err(Failure::analysis(format!(
            "the table `{name}` has no columns; give them, or a query behind AS"
        )));
    }
    definition.schema = schema_ddl(&*parse_schema(&definition.schema)?);
    session.engine.create_table(name, &definition)?;
    let rows = match rows {
        // The table's own log must say that it is there.
        None if definition.knows_its_columns() => {
            Some(crate::relation::of_batches(parse_schema(&definition.schema)?, Vec::new())?)
        }
        rows => rows,
    };
    if let Some(plan) = rows {
        let written = insert(session, name, plan, mode, Matching::Place);
        if written.is_err() {
            // A table whose making failed is none.
            session.engine.drop_table(name)?;
        }
        written?;
    }
    Ok(())
}

/// Makes a table anew beside the one that is there, which it then replaces: the rows may come from
/// that one, and where they cannot be computed it stays.
fn replace(
    session: &ClientSession,
    name: &str,
    definition: TableDefinition,
    rows: LogicalPlan,
) -> Outcome<()> {
    let new = onefold_engine::Session::stand_in(name);
    make(session, &new, definition, Some(rows), SaveMode::Overwrite)?;
    Ok(session.engine.replace_table(name, &new)?)
}

/// Writes rows into a table that is there.
pub(crate) fn insert(
    session: &ClientSession,
    name: &str,
    rows: LogicalPlan,
    mode: SaveMode,
    matching: Matching,
) -> Outcome<()> {
    insert_with(session, name, rows, (mode, matching), None)
}

/// Writes rows into a table in the place of the partitions that they are of.
pub(crate) fn insert_partitions(
    session: &ClientSession,
    name: &str,
    rows: LogicalPlan,
) -> Outcome<()> {
    let how = (SaveMode::Overwrite, Matching::NameOrNull);
    insert_with(session, name, rows, how, Some(("partitionOverwriteMode", "dynamic")))
}

fn insert_with(
    session: &ClientSession,
    name: &str,
    rows: LogicalPlan,
    (mode, matching): (SaveMode, Matching),
    option: Option<(&str, &str)>,
) -> Outcome<()> {
    let definition =
        session.engine.table_definition(name)?.ok_or_else(|| Failure::no_table(name))?;
    let wanted = columns_of(session, name, &definition)?;
    let rows = fitted(name, stream::shown(rows)?, &wanted, matching)?;
    let partition_by: Vec<&str> = definition.partition_by.iter().map(String::as_str).collect();
    let files = session.engine.table_files(name, &definition)?;
    session
        .engine
        .frame(rows)
        .write()
        .format(&definition.format)
        .mode(mode)
        .options(definition.options.clone())
        .options(option)
        .partition_by(&partition_by)
        .save(&files)
        .map_err(|error| Failure::execution(&error))
}

/// The columns of a table as they are now.
fn columns_of(
    session: &ClientSession,
    name: &str,
    definition: &TableDefinition,
) -> Outcome<arrow::datatypes::SchemaRef> {
    if definition.knows_its_columns() {
        let paths = session.engine.table_paths(name, definition)?;
        let mut reader = session.engine.read().format(&definition.format);
        if definition.is_of_a_database() {
            reader = reader.options(definition.options.clone());
        }
        // One that is being made has no log yet.
        if let Ok(table) = reader.load_paths(paths) {
            return Ok(table.schema());
        }
    }
    Ok(parse_schema(&definition.schema)?)
}

/// Deletes all rows of a table.
pub(crate) fn truncate(session: &ClientSession, name: &str) -> Outcome<()> {
    let definition =
        session.engine.table_definition(name)?.ok_or_else(|| Failure::no_table(name))?;
    let columns = columns_of(session, name, &definition)?;
    let none = crate::relation::of_batches(columns, Vec::new())?;
    // A table of a database stays, with its indexes and rights.
    let keeping = definition.is_of_a_database().then_some(("truncate", "true"));
    let how = (SaveMode::Overwrite, Matching::Place);
    insert_with(session, name, none, how, keeping)
}

/// Rows with the columns of a table.
fn fitted(
    table: &str,
    rows: LogicalPlan,
    wanted: &Schema,
    matching: Matching,
) -> Outcome<LogicalPlan> {
    let there = rows.schema().fields().len();
    if matching == Matching::Place && there != wanted.fields().len() {
        return Err(Failure::columns_mismatch(wanted.fields().len(), there));
    }
    if matching == Matching::Name {
        same_names(&rows, wanted)?;
    }
    let mut columns = Vec::with_capacity(wanted.fields().len());
    for (place, field) in wanted.fields().iter().enumerate() {
        let lower = field.name().to_lowercase();
        let mut candidates = rows.schema().iter().enumerate();
        let found = candidates.find(|(at, (_, known))| match matching {
            Matching::Place => *at == place,
            Matching::Name | Matching::NameOrNull => known.name().to_lowercase() == lower,
        });
        let column = match found {
            Some((_, (qualifier, known))) => {
                let column = Expr::Column(datafusion::common::Column::from((qualifier, known)));
                store_assignment::check(table, field.name(), known.data_type(), field.data_type())?;
                if known.data_type() == field.data_type() {
                    column
                } else {
                    datafusion::logical_expr::cast(column, field.data_type().clone())
                }
            }
            None => Expr::Literal(ScalarValue::try_from(field.data_type())?, None),
        };
        columns.push(column.alias(field.name().as_str()));
    }
    Ok(LogicalPlanBuilder::from(rows).project(columns)?.build()?)
}

/// Whether rows have the columns of a table, no more and no fewer: what a name was mistyped in would
/// be lost, or NULL.
fn same_names(rows: &LogicalPlan, wanted: &Schema) -> Outcome<()> {
    let own: Vec<&str> = rows.schema().fields().iter().map(|it| it.name().as_str()).collect();
    let known: Vec<&str> = wanted.fields().iter().map(|it| it.name().as_str()).collect();
    let lacks = |names: &[&str], name: &str| !names.iter().any(|it| it.eq_ignore_ascii_case(name));
    if own.len() != known.len() {
        return Err(Failure::columns_mismatch(known.len(), own.len()));
    }
    match own.iter().find(|name| lacks(&known, name)) {
        Some(name) => Err(Failure::no_column(name, &known.join(", "))),
        None => Ok(()),
    }
}

/// `df.write.saveAsTable`.
pub(crate) fn save(
    session: &ClientSession,
    name: &str,
    rows: LogicalPlan,
    mode: SaveMode,
    definition: TableDefinition,
) -> Outcome<()> {
    let known = session.engine.table_definition(name)?;
    let there = known.is_some();
    if let Some(known) = known.filter(TableDefinition::knows_its_columns)
        && matches!(mode, SaveMode::Append | SaveMode::Overwrite)
        && known.format == definition.format
    {
        let files = session.engine.table_files(name, &known)?;
        let by: Vec<&str> = definition.partition_by.iter().map(String::as_str).collect();
        let frame = session.engine.frame(stream::shown(rows)?);
        let own = if known.is_of_a_database() { known.options } else { Default::default() };
        let writer = frame.write().format(&known.format).mode(mode);
        let writer = writer.options(own).options(definition.options);
        return writer.partition_by(&by).save(&files).map_err(|it| Failure::execution(&it));
    }
    match mode {
        SaveMode::ErrorIfExists if there => Err(Failure::table_exists(name)),
        SaveMode::Ignore if there => Ok(()),
        SaveMode::Append if there => insert(session, name, rows, mode, Matching::Name),
        SaveMode::Overwrite if there => replace(session, name, definition, rows),
        _ => create(session, name, definition, Some(rows), false).map(|_| ()),
    }
}

/// The partitions of a table that have rows, as `p=1/q=x`, sorted.
pub(crate) fn partitions(session: &ClientSession, name: &str) -> Outcome<Vec<String>> {
    let definition =
        session.engine.table_definition(name)?.ok_or_else(|| Failure::no_table(name))?;
    if definition.partition_by.is_empty() {
        return Err(Failure::not_partitioned(name));
    }
    let cells = definition.partition_by.iter().map(|column| {
        format!("'{column}=', coalesce(CAST(`{column}` AS STRING), '__HIVE_DEFAULT_PARTITION__')")
    });
    let text = cells.collect::<Vec<_>>().join(", '/', ");
    let query = format!("SELECT DISTINCT concat({text}) AS p FROM {} ORDER BY p", quoted(name));
    let mut found = Vec::new();
    for batch in session.engine.sql(&query)?.collect()? {
        let column = arrow::compute::cast(batch.column(0), &arrow::datatypes::DataType::Utf8);
        let column = column.map_err(|error| Failure::invalid(error.to_string()))?;
        found.extend(column.as_string::<i32>().iter().flatten().map(str::to_owned));
    }
    Ok(found)
}

/// Drops a table or a view; false when there is none. A name with a database is a table's.
pub(crate) fn drop(session: &ClientSession, name: &str) -> Outcome<bool> {
    if let Some(view) = catalog::global_name(name) {
        return catalog::drop_global_view(session, view);
    }
    let view = !name.contains('.') && catalog::drop_view(session, name)?;
    Ok(view || session.engine.drop_table(name)?)
}

/// `readStream.table(name)`: a view of a stream, or the files of a table as they come.
pub(crate) fn stream(session: &ClientSession, name: &str) -> Outcome<LogicalPlan> {
    if let Some(definition) = session.engine.table_definition(name)? {
        let paths = session.engine.table_paths(name, &definition)?;
        let mut reader = session.engine.read_stream().format(&definition.format);
        if !definition.knows_its_columns() {
            reader = reader.schema(&definition.schema);
        }
        let reader = reader.options(definition.options);
        return Ok(reader.load_paths(paths)?.logical_plan().clone());
    }
    let plan = session.engine.table_by(crate::relation::table_reference(name)?)?;
    let plan = plan.logical_plan().clone();
    if stream::is_streaming(&plan) {
        return Ok(plan);
    }
    Err(Failure::analysis(format!("`{name}` is no stream and no table of files")))
}
