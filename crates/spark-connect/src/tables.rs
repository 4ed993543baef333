//! Tables of the warehouse: making them, writing into them, reading them as streams.

use crate::client_session::ClientSession;
use crate::failure::{Failure, Outcome};
use crate::{analyze, catalog};
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
    mut definition: TableDefinition,
    rows: Option<LogicalPlan>,
    if_not_exists: bool,
) -> Outcome<bool> {
    if session.engine.table_definition(name)?.is_some() {
        return if if_not_exists { Ok(false) } else { Err(Failure::table_exists(name)) };
    }
    if definition.knows_its_columns()
        && definition.schema.is_empty()
        && rows.is_none()
        && let Some(location) = &definition.location
    {
        let there = session.engine.read().format(&definition.format);
        definition.schema = schema_ddl(&there.load_paths([location.clone()])?.schema());
        session.engine.create_table(name, &definition)?;
        return Ok(true);
    }
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
        let written = insert(session, name, plan, SaveMode::Append, Matching::Place);
        if written.is_err() {
            // A table whose making failed is none.
            session.engine.drop_table(name)?;
        }
        written?;
    }
    Ok(true)
}

/// Writes rows into a table that is there.
pub(crate) fn insert(
    session: &ClientSession,
    name: &str,
    rows: LogicalPlan,
    mode: SaveMode,
    matching: Matching,
) -> Outcome<()> {
    let definition =
        session.engine.table_definition(name)?.ok_or_else(|| Failure::no_table(name))?;
    let wanted = columns_of(session, name, &definition)?;
    let rows = fitted(stream::shown(rows)?, &wanted, matching)?;
    let partition_by: Vec<&str> = definition.partition_by.iter().map(String::as_str).collect();
    let files = session.engine.table_files(name, &definition)?;
    session
        .engine
        .frame(rows)
        .write()
        .format(&definition.format)
        .mode(mode)
        .options(definition.options.clone())
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
        let files = session.engine.table_files(name, definition)?;
        let reader = session.engine.read().format(&definition.format);
        // One that is being made has no log yet.
        if let Ok(table) = reader.load_paths([files]) {
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
    insert(session, name, none, SaveMode::Overwrite, Matching::Place)
}

/// Rows with the columns of a table.
fn fitted(rows: LogicalPlan, wanted: &Schema, matching: Matching) -> Outcome<LogicalPlan> {
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
        let writer = frame.write().format(&known.format).mode(mode).options(definition.options);
        return writer.partition_by(&by).save(&files).map_err(|it| Failure::execution(&it));
    }
    match mode {
        SaveMode::ErrorIfExists if there => Err(Failure::table_exists(name)),
        SaveMode::Ignore if there => Ok(()),
        SaveMode::Append if there => insert(session, name, rows, mode, Matching::Name),
        SaveMode::Overwrite if there => {
            // The rows may come from the table itself: they are computed before it goes.
            let rows = held(session, rows)?;
            session.engine.drop_table(name)?;
            create(session, name, definition, Some(rows), false).map(|_| ())
        }
        _ => create(session, name, definition, Some(rows), false).map(|_| ()),
    }
}

/// A plan with its rows computed.
fn held(session: &ClientSession, plan: LogicalPlan) -> Outcome<LogicalPlan> {
    let plan = stream::shown(plan)?;
    let schema = std::sync::Arc::new(plan.schema().as_arrow().clone());
    let batches = session.engine.frame(plan).collect();
    let batches = batches.map_err(|error| Failure::execution(&error))?;
    crate::relation::of_batches(schema, batches)
}

/// Drops a table or a view; false when there is none.
pub(crate) fn drop(session: &ClientSession, name: &str) -> Outcome<bool> {
    if let Some(view) = catalog::global_name(name) {
        return catalog::drop_global_view(session, view);
    }
    let bare = name.rsplit('.').next().unwrap_or(name);
    Ok(catalog::drop_view(session, bare)? || session.engine.drop_table(name)?)
}

/// `readStream.table(name)`: a view of a stream, or the files of a table as they come.
pub(crate) fn stream(session: &ClientSession, name: &str) -> Outcome<LogicalPlan> {
    if let Some(definition) = session.engine.table_definition(name)? {
        let files = session.engine.table_files(name, &definition)?;
        let mut reader = session.engine.read_stream().format(&definition.format);
        if !definition.knows_its_columns() {
            reader = reader.schema(&definition.schema);
        }
        let reader = reader.options(definition.options);
        return Ok(reader.load(files)?.logical_plan().clone());
    }
    let plan = session.engine.table_by(crate::relation::table_reference(name)?)?;
    let plan = plan.logical_plan().clone();
    if stream::is_streaming(&plan) {
        return Ok(plan);
    }
    Err(Failure::analysis(format!("`{name}` is no stream and no table of files")))
}
