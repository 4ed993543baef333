//! Batch writes: `df.write` in a program and in the body of `foreachBatch`.

use crate::client_session::ClientSession;
use crate::failure::{Failure, Outcome};
use crate::observe::Observer;
use crate::python::{Calls, data_source, with_calls};
use crate::relation::Planner;
use crate::tables;
use datafusion::logical_expr::LogicalPlan;
use onefold_engine::{SaveMode, TableDefinition};
use spark_connect_proto::WriteOperation;
use spark_connect_proto::write_operation::save_table::TableSaveMethod;
use spark_connect_proto::write_operation::{SaveMode as Mode, SaveTable, SaveType};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Writes the rows of a relation, with the calls of its functions in Python noted in `calls`; what
/// observes them. Blocks.
pub(crate) fn write(
    session: &ClientSession,
    request: &WriteOperation,
    calls: &Calls,
) -> Outcome<Vec<Arc<Observer>>> {
    if request.bucket_by.is_some() || !request.sort_column_names.is_empty() {
        return Err(Failure::unsupported("bucketBy and sortBy"));
    }
    let input = request.input.as_ref().ok_or_else(|| Failure::missing("input"))?;
    let mut planner = Planner::new(session);
    let plan = with_calls(planner.plan(input)?, calls)?;
    let observers = planner.observers;
    if onefold_plan::stream::is_streaming(&plan) {
        return Err(Failure::analysis(
            "'write' can not be called on streaming Dataset/DataFrame; use writeStream",
        ));
    }
    let path = match &request.save_type {
        Some(SaveType::Path(path)) => path.clone(),
        Some(SaveType::Table(table)) => {
            return into_table(session, request, plan, table).map(|()| observers);
        }
        None => request
            .options
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("path"))
            .map(|(_, path)| path.clone())
            .unwrap_or_default(),
    };
    let format = request.source.as_deref().filter(|format| !format.is_empty());
    if let Some(class) = format.and_then(|format| session.data_source(format)) {
        let mut options: BTreeMap<String, String> = request.options.clone().into_iter().collect();
        if !path.is_empty() {
            options.insert("path".to_owned(), path);
        }
        let overwrite = match mode_of(request) {
            SaveMode::Append => false,
            SaveMode::Overwrite => true,
            SaveMode::Ignore | SaveMode::ErrorIfExists => {
                return Err(Failure::analysis(format!(
                    "[UNSUPPORTED_DATA_SOURCE_SAVE_MODE] The data source \"{}\" cannot be written \
                     in this mode. Please use either the \"Append\" or \"Overwrite\" mode instead.",
                    class.name
                )));
            }
        };
        return data_source::write(session, class, plan, options, overwrite).map(|()| observers);
    }
    let options = request.options.iter().map(|(name, value)| (name.clone(), value.clone()));
    let partitioning: Vec<&str> = request.partitioning_columns.iter().map(String::as_str).collect();
    session
        .engine
        .frame(plan)
        .write()
        .format(format.unwrap_or("parquet"))
        .mode(mode_of(request))
        .options(options)
        .partition_by(&partitioning)
        .save(&path)?;
    Ok(observers)
}

fn mode_of(request: &WriteOperation) -> SaveMode {
    match request.mode() {
        Mode::Append => SaveMode::Append,
        Mode::Overwrite => SaveMode::Overwrite,
        Mode::Ignore => SaveMode::Ignore,
        Mode::ErrorIfExists | Mode::Unspecified => SaveMode::ErrorIfExists,
    }
}

/// `saveAsTable` and `insertInto`.
fn into_table(
    session: &ClientSession,
    request: &WriteOperation,
    plan: LogicalPlan,
    table: &SaveTable,
) -> Outcome<()> {
    let mode = mode_of(request);
    let name = table.table_name.as_str();
    if table.save_method() == TableSaveMethod::InsertInto {
        let mode = if mode == SaveMode::Overwrite { mode } else { SaveMode::Append };
        return tables::insert(session, name, plan, mode, tables::Matching::Place);
    }
    let mut options: BTreeMap<String, String> = request.options.clone().into_iter().collect();
    let format = request.source.as_deref().filter(|format| !format.is_empty());
    let definition = TableDefinition {
        format: format.unwrap_or("parquet").to_lowercase(),
        schema: String::new(),
        location: options.remove("path"),
        options,
        partition_by: request.partitioning_columns.clone(),
        cluster_by: request.clustering_columns.clone(),
    };
    tables::save(session, name, plan, mode, definition)
}
