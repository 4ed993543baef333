//! Calls of `spark.catalog`.

use super::lists;
use super::{
    GLOBAL, drop_global_view, drop_view, function_names, global_name, global_views, known_as,
    table_names,
};
use crate::client_session::ClientSession;
use crate::failure::{Failure, Outcome};
use crate::sql_command::fits;
use crate::{conf, relation, tables, types};
use arrow::datatypes::Schema;
use datafusion::logical_expr::LogicalPlan;
use onefold_engine::TableDefinition;
use onefold_plan::schema::schema_ddl;
use spark_connect_proto::catalog::CatType;
use spark_connect_proto::{Catalog, CreateTable};
use std::sync::Arc;

/// Answers a call of `spark.catalog`.
pub(crate) fn answer(session: &ClientSession, catalog: &Catalog) -> Outcome<LogicalPlan> {
    let fitting = |pattern: &Option<String>, name: &str| {
        pattern.as_deref().is_none_or(|pattern| fits(name, pattern))
    };
    match catalog.cat_type.as_ref().ok_or_else(|| Failure::missing("cat_type"))? {
        CatType::CurrentDatabase(_) => lists::one_text(lists::DATABASE),
        CatType::CurrentCatalog(_) => lists::one_text(lists::CATALOG),
        CatType::SetCurrentDatabase(asked) => known(&asked.db_name, lists::DATABASE),
        CatType::SetCurrentCatalog(asked) => known(&asked.catalog_name, lists::CATALOG),
        CatType::ListCatalogs(asked) => lists::catalogs(fitting(&asked.pattern, lists::CATALOG)),
        CatType::ListDatabases(asked) => {
            lists::databases(session, fitting(&asked.pattern, lists::DATABASE))
        }
        CatType::GetDatabase(asked) => match asked.db_name.eq_ignore_ascii_case(lists::DATABASE) {
            true => lists::databases(session, true),
            false => Err(Failure::no_schema(&asked.db_name)),
        },
        CatType::DatabaseExists(asked) => {
            lists::one_flag(asked.db_name.eq_ignore_ascii_case(lists::DATABASE))
        }
        CatType::ListTables(asked) => lists::tables(session, |name| fitting(&asked.pattern, name)),
        CatType::ListViews(asked) => {
            let kept = session.engine.warehouse_tables();
            let view = |name: &str| !kept.iter().any(|it| it == name);
            lists::tables(session, |name| view(name) && fitting(&asked.pattern, name))
        }
        CatType::GetTable(asked) => get_table(session, &asked.table_name),
        CatType::TableExists(asked) => lists::one_flag(table_exists(session, &asked.table_name)?),
        CatType::ListColumns(asked) => lists::columns(session, &asked.table_name),
        CatType::ListPartitions(asked) => {
            lists::texts("partition", tables::partitions(session, &asked.table_name)?)
        }
        CatType::ListFunctions(asked) => {
            let mut names = function_names(session);
            names.retain(|name| fitting(&asked.pattern, name));
            lists::functions(names)
        }
        CatType::GetFunction(asked) => match function_exists(session, &asked.function_name) {
            true => lists::functions(vec![asked.function_name.to_lowercase()]),
            false => Err(Failure::no_routine(&asked.function_name)),
        },
        CatType::FunctionExists(asked) => {
            lists::one_flag(function_exists(session, &asked.function_name))
        }
        CatType::CreateTable(asked) => create_table(session, asked),
        CatType::DropTable(asked) => dropped(session, &asked.table_name, asked.if_exists),
        CatType::DropView(asked) => dropped(session, &asked.view_name, asked.if_exists),
        CatType::TruncateTable(asked) => {
            tables::truncate(session, &asked.table_name)?;
            nothing()
        }
        CatType::DropTempView(asked) => lists::one_flag(drop_view(session, &asked.view_name)?),
        CatType::DropGlobalTempView(asked) => {
            lists::one_flag(drop_global_view(session, &asked.view_name)?)
        }
        CatType::IsCached(_) => lists::one_flag(false),
        CatType::CacheTable(_)
        | CatType::UncacheTable(_)
        | CatType::ClearCache(_)
        | CatType::RefreshTable(_)
        | CatType::RefreshByPath(_)
        | CatType::RecoverPartitions(_)
        | CatType::AnalyzeTable(_) => nothing(),
        CatType::CreateDatabase(_) | CatType::DropDatabase(_) => {
            Err(Failure::unsupported("a database other than `default`"))
        }
        _ => Err(Failure::unsupported("this call of spark.catalog")),
    }
}

fn nothing() -> Outcome<LogicalPlan> {
    relation::of_batches(Arc::new(Schema::empty()), Vec::new())
}

fn table_exists(session: &ClientSession, name: &str) -> Outcome<bool> {
    if let Some(view) = global_name(name) {
        return Ok(known_as(global_views(session)?.as_ref(), view).is_some());
    }
    let lower = name.rsplit('.').next().unwrap_or(name).to_lowercase();
    Ok(table_names(session).iter().any(|name| name.to_lowercase() == lower))
}

fn function_exists(session: &ClientSession, name: &str) -> bool {
    let name = name.to_lowercase();
    let state = session.engine.context().state();
    state.scalar_functions().contains_key(&name)
        || state.aggregate_functions().contains_key(&name)
        || state.window_functions().contains_key(&name)
}

/// Only what there is can be made the current one.
fn known(name: &str, there: &str) -> Outcome<LogicalPlan> {
    match name.eq_ignore_ascii_case(there) {
        true => nothing(),
        false => Err(Failure::no_schema(name)),
    }
}

fn get_table(session: &ClientSession, name: &str) -> Outcome<LogicalPlan> {
    let own = name.rsplit('.').next().unwrap_or(name);
    let database = name.rsplit_once('.').map(|(database, _)| database);
    if database.is_some_and(|it| it.eq_ignore_ascii_case(GLOBAL)) || !table_exists(session, name)? {
        return Err(Failure::no_table(name));
    }
    lists::tables(session, |name| name.eq_ignore_ascii_case(own))
}

fn dropped(session: &ClientSession, name: &str, if_exists: bool) -> Outcome<LogicalPlan> {
    match tables::drop(session, name)? || if_exists {
        true => nothing(),
        false => Err(Failure::no_table(name)),
    }
}

/// `createTable`: a table of files in a format, with columns that are given or found in the files.
fn create_table(session: &ClientSession, asked: &CreateTable) -> Outcome<LogicalPlan> {
    let source = asked.source.clone().filter(|it| !it.is_empty());
    let standard = || conf::value(&session.engine, "spark.sql.sources.default");
    let format = source.or_else(standard).unwrap_or_else(|| "parquet".to_owned()).to_lowercase();
    let mut options = asked.options.clone();
    let location = asked.path.clone().or_else(|| options.remove("path"));
    let mut definition = TableDefinition {
        format,
        options: options.into_iter().collect(),
        location,
        ..TableDefinition::default()
    };
    let schema = match &asked.schema {
        Some(schema) => Arc::new(types::to_schema(schema)?),
        None => Arc::new(Schema::empty()),
    };
    if !schema.fields().is_empty() {
        definition.schema = schema_ddl(&schema);
    } else if let Some(location) = definition.location.clone() {
        let reader = session.engine.read().format(&definition.format);
        let found = reader.options(definition.options.clone()).load_paths(Some(location))?;
        definition.schema = schema_ddl(&found.schema());
    }
    tables::create(session, &asked.table_name, definition, None, false)?;
    let frame = session.engine.table_by(relation::table_reference(&asked.table_name)?)?;
    Ok(frame.logical_plan().clone())
}
