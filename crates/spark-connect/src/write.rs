//! Batch writes: `df.write` in a program and in the body of `foreachBatch`.

use crate::client_session::ClientSession;
use crate::failure::{Failure, Outcome};
use crate::relation::Planner;
use onefold_engine::SaveMode;
use spark_connect_proto::write_operation::{SaveMode as Mode, SaveType};
use spark_connect_proto::{WriteOperation, WriteOperationV2};

/// Writes the rows of a relation. Blocks.
pub(crate) fn write(session: &ClientSession, request: &WriteOperation) -> Outcome<()> {
    if request.bucket_by.is_some() || !request.sort_column_names.is_empty() {
        return Err(Failure::unsupported("bucketBy and sortBy"));
    }
    let input = request.input.as_ref().ok_or_else(|| Failure::missing("input"))?;
    let plan = Planner::new(session).plan(input)?;
    if onefold_plan::stream::is_streaming(&plan) {
        return Err(Failure::analysis(
            "'write' can not be called on streaming Dataset/DataFrame; use writeStream",
        ));
    }
    let path = match &request.save_type {
        Some(SaveType::Path(path)) => path.clone(),
        Some(SaveType::Table(table)) => {
            return Err(Failure::unsupported(format!(
                "saving as the table `{}`; give a path to save()",
                table.table_name
            )));
        }
        None => request
            .options
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("path"))
            .map(|(_, path)| path.clone())
            .unwrap_or_default(),
    };
    let mode = match request.mode() {
        Mode::Append => SaveMode::Append,
        Mode::Overwrite => SaveMode::Overwrite,
        Mode::Ignore => SaveMode::Ignore,
        Mode::ErrorIfExists | Mode::Unspecified => SaveMode::ErrorIfExists,
    };
    let format = request.source.as_deref().filter(|format| !format.is_empty());
    let options = request.options.iter().map(|(name, value)| (name.clone(), value.clone()));
    let partitioning: Vec<&str> = request.partitioning_columns.iter().map(String::as_str).collect();
    session
        .engine
        .frame(plan)
        .write()
        .format(format.unwrap_or("parquet"))
        .mode(mode)
        .options(options)
        .partition_by(&partitioning)
        .save(&path)
        .map_err(Failure::from)
}

/// Writes into a table of a catalog.
pub(crate) fn write_v2(_session: &ClientSession, request: &WriteOperationV2) -> Outcome<()> {
    Err(Failure::unsupported(format!(
        "writeTo(`{}`); write to a path with df.write",
        request.table_name
    )))
}
