//! Views and tables of a session.

mod calls;
mod lists;

pub(crate) use calls::answer;

use crate::client_session::ClientSession;
use crate::failure::{Failure, Outcome};
use datafusion::catalog::SchemaProvider;
use datafusion::catalog::view::ViewTable;
use datafusion::datasource::TableType;
use datafusion::logical_expr::LogicalPlan;
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
