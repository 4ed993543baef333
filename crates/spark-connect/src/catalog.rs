//! Views and tables of a session.

use crate::client_session::ClientSession;
use crate::failure::{Failure, Outcome};
use crate::relation;
use arrow::array::{ArrayRef, BooleanArray, ListBuilder, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::catalog::SchemaProvider;
use datafusion::catalog::view::ViewTable;
use datafusion::datasource::TableType;
use datafusion::logical_expr::LogicalPlan;
use spark_connect_proto::Catalog;
use spark_connect_proto::catalog::CatType;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The database of views that all sessions see, as Spark names it.
pub(crate) const GLOBAL: &str = "global_temp";

/// Makes a view of a plan.
pub(crate) fn create_view(
    session: &ClientSession,
    name: &str,
    plan: LogicalPlan,
    replace: bool,
) -> Outcome<()> {
    let lower = name.to_lowercase();
    let taken = table_names(session).into_iter().find(|known| known.to_lowercase() == lower);
    if let Some(known) = taken {
        if !replace {
            return Err(Failure::view_exists(name));
        }
        session.engine.drop_view(&known)?;
    }
    session.engine.frame(plan).create_or_replace_temp_view(name)?;
    Ok(())
}

/// The view's name in `global_temp.view`.
pub(crate) fn global_name(name: &str) -> Option<&str> {
    let (schema, view) = name.split_once('.')?;
    schema.eq_ignore_ascii_case(GLOBAL).then_some(view)
}

/// The views that all sessions of the server see.
fn global_views(session: &ClientSession) -> Outcome<Arc<dyn SchemaProvider>> {
    let context = session.engine.context();
    let schema = context.catalog("datafusion").and_then(|catalog| catalog.schema(GLOBAL));
    schema.ok_or_else(|| Failure::missing(GLOBAL))
}

fn known_as(views: &dyn SchemaProvider, name: &str) -> Option<String> {
    let lower = name.to_lowercase();
    views.table_names().into_iter().find(|known| known.to_lowercase() == lower)
}

/// Makes a view that all sessions see, as `global_temp.name`, until the server ends.
pub(crate) fn create_global_view(
    session: &ClientSession,
    name: &str,
    plan: LogicalPlan,
    replace: bool,
) -> Outcome<()> {
    let views = global_views(session)?;
    if let Some(known) = known_as(views.as_ref(), name) {
        if !replace {
            return Err(Failure::view_exists(name));
        }
        views.deregister_table(&known)?;
    }
    // Names without quotes are in lower case.
    views.register_table(name.to_lowercase(), Arc::new(ViewTable::new(plan, None)))?;
    Ok(())
}

/// Drops a view of all sessions; false when there is none.
pub(crate) fn drop_global_view(session: &ClientSession, name: &str) -> Outcome<bool> {
    let views = global_views(session)?;
    match known_as(views.as_ref(), name) {
        Some(known) => Ok(views.deregister_table(&known)?.is_some()),
        None => Ok(false),
    }
}

/// Drops a view; false when there is none.
pub(crate) fn drop_view(session: &ClientSession, name: &str) -> Outcome<bool> {
    let lower = name.to_lowercase();
    match table_names(session).into_iter().find(|known| known.to_lowercase() == lower) {
        Some(known) => Ok(session.engine.drop_view(&known)?),
        None => Ok(false),
    }
}

/// The temporary views of a session: what each stands for, by name. Blocks.
pub(crate) fn views(session: &ClientSession) -> Vec<(String, LogicalPlan)> {
    let context = session.engine.context();
    let schema = context.catalog("datafusion").and_then(|catalog| catalog.schema("public"));
    let Some(schema) = schema else { return Vec::new() };
    let mut views = Vec::new();
    for name in schema.table_names() {
        let found = futures::executor::block_on(schema.table(&name));
        if let Ok(Some(table)) = found
            && table.table_type() == TableType::View
            && let Some(plan) = table.get_logical_plan()
        {
            views.push((name, plan.into_owned()));
        }
    }
    views
}

/// The names of the session's views and tables, sorted.
pub(crate) fn table_names(session: &ClientSession) -> Vec<String> {
    let context = session.engine.context();
    let mut names: Vec<String> = context
        .catalog_names()
        .iter()
        .filter_map(|name| context.catalog(name))
        .flat_map(|catalog| {
            let schemas = catalog.schema_names().into_iter();
            schemas
                .filter(|name| name != "information_schema" && name != GLOBAL)
                .filter_map(|name| catalog.schema(&name))
                .flat_map(|schema| schema.table_names())
                .collect::<Vec<_>>()
        })
        .collect();
    names.sort();
    // One table has several names: by its catalog, and without.
    names.dedup();
    names
}

/// The names of the functions that the session knows, sorted.
pub(crate) fn function_names(session: &ClientSession) -> Vec<String> {
    let state = session.engine.context().state();
    let scalar = state.scalar_functions().keys();
    let all =
        scalar.chain(state.aggregate_functions().keys()).chain(state.window_functions().keys());
    // Those that only the planner calls have names of ours.
    let inner = |name: &str| name.starts_with("spark_") || name.starts_with("onefold_");
    let names: BTreeSet<String> = all.filter(|it| !inner(it)).cloned().collect();
    names.into_iter().collect()
}

/// Answers a call of `spark.catalog`.
pub(crate) fn answer(session: &ClientSession, catalog: &Catalog) -> Outcome<LogicalPlan> {
    match catalog.cat_type.as_ref().ok_or_else(|| Failure::missing("cat_type"))? {
        CatType::CurrentDatabase(_) => one_text("default"),
        CatType::CurrentCatalog(_) => one_text("spark_catalog"),
        CatType::TableExists(asked) => {
            if let Some(view) = global_name(&asked.table_name) {
                return one_flag(known_as(global_views(session)?.as_ref(), view).is_some());
            }
            let lower = asked.table_name.to_lowercase();
            let there = table_names(session).iter().any(|name| name.to_lowercase() == lower);
            one_flag(there)
        }
        CatType::DatabaseExists(asked) => one_flag(asked.db_name.eq_ignore_ascii_case("default")),
        CatType::FunctionExists(asked) => {
            let name = asked.function_name.to_lowercase();
            let state = session.engine.context().state();
            one_flag(
                state.scalar_functions().contains_key(&name)
                    || state.aggregate_functions().contains_key(&name)
                    || state.window_functions().contains_key(&name),
            )
        }
        CatType::DropTempView(asked) => one_flag(drop_view(session, &asked.view_name)?),
        CatType::DropGlobalTempView(asked) => {
            one_flag(drop_global_view(session, &asked.view_name)?)
        }
        CatType::IsCached(_) => one_flag(false),
        CatType::CacheTable(_)
        | CatType::UncacheTable(_)
        | CatType::ClearCache(_)
        | CatType::RefreshTable(_)
        | CatType::RefreshByPath(_) => relation::of_batches(Arc::new(Schema::empty()), Vec::new()),
        CatType::ListTables(_) => list_tables(session),
        CatType::ListColumns(asked) => {
            let frame = session.engine.table_by(relation::table_reference(&asked.table_name)?)?;
            list_columns(&frame.schema())
        }
        _ => Err(Failure::unsupported("this call of spark.catalog")),
    }
}

fn batch(fields: Vec<Field>, columns: Vec<ArrayRef>) -> Outcome<LogicalPlan> {
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns)
        .map_err(|error| Failure::invalid(error.to_string()))?;
    relation::of_batches(schema, vec![batch])
}

fn one_text(text: &str) -> Outcome<LogicalPlan> {
    let column: ArrayRef = Arc::new(StringArray::from(vec![text]));
    batch(vec![Field::new("value", DataType::Utf8, false)], vec![column])
}

fn one_flag(flag: bool) -> Outcome<LogicalPlan> {
    let column: ArrayRef = Arc::new(BooleanArray::from(vec![flag]));
    batch(vec![Field::new("value", DataType::Boolean, false)], vec![column])
}

fn list_tables(session: &ClientSession) -> Outcome<LogicalPlan> {
    let names = table_names(session);
    let kept = session.engine.warehouse_tables();
    let is_kept: Vec<bool> = names.iter().map(|name| kept.contains(name)).collect();
    let told = |yes: &'static str, no: Option<&'static str>| {
        let cells = is_kept.iter().map(|kept| if *kept { Some(yes) } else { no });
        Arc::new(cells.collect::<StringArray>()) as ArrayRef
    };
    let mut namespaces = ListBuilder::new(StringBuilder::new());
    for kept in &is_kept {
        namespaces.append_option(kept.then_some([Some("default")]));
    }
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    let element = Arc::new(Field::new("element", DataType::Utf8, true));
    let list = Field::new("namespace", DataType::List(Arc::clone(&element)), true);
    let namespaces: ArrayRef = Arc::new(namespaces.with_field(element).finish());
    let nulls = Arc::new(StringArray::new_null(names.len())) as ArrayRef;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(names.clone())),
        told("spark_catalog", None),
        namespaces,
        nulls,
        told("MANAGED", Some("TEMPORARY")),
        Arc::new(is_kept.iter().map(|kept| Some(!kept)).collect::<BooleanArray>()),
    ];
    let fields = vec![
        text("name"),
        text("catalog"),
        list,
        text("description"),
        text("tableType"),
        Field::new("isTemporary", DataType::Boolean, false),
    ];
    batch(fields, columns)
}

fn list_columns(schema: &Schema) -> Outcome<LogicalPlan> {
    let count = schema.fields().len();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let kinds: Vec<String> = schema
        .fields()
        .iter()
        .map(|field| onefold_plan::schema::type_name(field.data_type()).to_lowercase())
        .collect();
    let nullable: Vec<bool> = schema.fields().iter().map(|field| field.is_nullable()).collect();
    let no = || Arc::new(BooleanArray::from(vec![false; count])) as ArrayRef;
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    let flag = |name: &str| Field::new(name, DataType::Boolean, false);
    batch(
        vec![
            text("name"),
            text("description"),
            text("dataType"),
            flag("nullable"),
            flag("isPartition"),
            flag("isBucket"),
            flag("isCluster"),
        ],
        vec![
            Arc::new(StringArray::from(names)),
            Arc::new(StringArray::new_null(count)),
            Arc::new(StringArray::from(kinds)),
            Arc::new(BooleanArray::from(nullable)),
            no(),
            no(),
            no(),
        ],
    )
}
