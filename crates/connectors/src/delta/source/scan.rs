//! The plan that reads files of a table's versions. Each version's files are read as that version
//! has them: with its partition values, its deletion vectors, its names of columns.

use super::super::known::raw_files;
use super::super::table::{Table, failed};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use deltalake_core::delta_datafusion::TableProviderBuilder;
use onefold_connector::ScanRequest;
use onefold_storage::location;
use onefold_types::{Error, Result};
use std::sync::Arc;

/// Files of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) version: u64,
    /// As the log spells them.
    pub(crate) paths: Vec<String>,
    /// Whether they are only some of what the version has.
    pub(crate) some: bool,
}

/// A file of a version.
#[derive(Debug, Clone)]
pub(crate) struct VersionFile {
    pub(crate) path: String,
    pub(crate) bytes: i64,
    pub(crate) modified_ms: i64,
}

/// All files that a version has.
///
/// # Errors
/// Corrupt: the log cannot be read.
pub(crate) async fn files_of(table: &Table, version: u64) -> Result<Vec<VersionFile>> {
    let files = raw_files(table, version).await?;
    Ok(files
        .into_iter()
        .map(|(path, view)| VersionFile {
            path,
            bytes: view.size(),
            modified_ms: view.modification_time(),
        })
        .collect())
}

fn unplanned(error: datafusion::error::DataFusionError) -> Error {
    Error::corrupt("files of a Delta table cannot be read").because(error)
}

/// The plan of some parts, with the stream's columns.
///
/// # Errors
/// Corrupt: a file is gone, or the log cannot be read.
pub(crate) async fn of_parts(
    table: &Table,
    schema: &SchemaRef,
    parts: Vec<Part>,
    request: &ScanRequest<'_>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let wanted = match request.projection {
        Some(columns) => Arc::new(
            schema
                .project(columns)
                .map_err(|error| Error::internal("no such columns").because(error))?,
        ),
        None => Arc::clone(schema),
    };
    let mut plans = Vec::with_capacity(parts.len());
    for part in parts {
        if part.some {
            check_there(table, &part).await?;
        }
        plans.push(of_part(table, &wanted, part, request).await?);
    }
    match plans.len() {
        0 => Ok(Arc::new(EmptyExec::new(wanted))),
        1 => plans.pop().ok_or_else(|| Error::internal("one plan is none")),
        _ => UnionExec::try_new(plans).map_err(unplanned),
    }
}

/// What was vacuumed away is told before anything is read.
async fn check_there(table: &Table, part: &Part) -> Result<()> {
    for path in &part.paths {
        let path = location::decode_path(path)?;
        if table.store.stat(&path).await?.is_none() {
            return Err(Error::corrupt(format!(
                "{}/{path}, which version {} of the table brought, is gone: it was vacuumed away \
                 before it was read; vacuum with a longer retention, and start with a new checkpoint",
                table.url(),
                part.version
            )));
        }
    }
    Ok(())
}

async fn of_part(
    table: &Table,
    wanted: &SchemaRef,
    part: Part,
    request: &ScanRequest<'_>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let snapshot = table.snapshot(Some(part.version)).await?;
    super::super::features::check_readable(table.url(), &snapshot)?;
    let mut builder = TableProviderBuilder::default()
        .with_log_store(Arc::clone(&table.log))
        .with_eager_snapshot(snapshot);
    if part.some {
        builder = builder.with_file_paths(part.paths);
    }
    let provider = builder.build().await.map_err(unplanned)?;
    let there = provider.schema();
    let mut columns: Vec<usize> = Vec::new();
    let mut exprs: Vec<(Arc<dyn PhysicalExpr>, String)> = Vec::new();
    for field in wanted.fields() {
        let found = there
            .fields()
            .iter()
            .enumerate()
            .find(|(_, known)| known.name().eq_ignore_ascii_case(field.name()));
        let expr: Arc<dyn PhysicalExpr> = match found {
            Some((at, known)) => {
                let column: Arc<dyn PhysicalExpr> =
                    Arc::new(Column::new(known.name(), columns.len()));
                columns.push(at);
                if known.data_type() == field.data_type() {
                    column
                } else {
                    Arc::new(CastExpr::new(column, field.data_type().clone(), None))
                }
            }
            None => {
                Arc::new(Literal::new(ScalarValue::try_from(field.data_type()).map_err(unplanned)?))
            }
        };
        exprs.push((expr, field.name().clone()));
    }
    let filters: Vec<Expr> =
        request.filters.iter().filter(|filter| knows(filter, &there)).cloned().collect();
    let scan = provider.scan(request.session, Some(&columns), &filters, None).await;
    let scan = scan.map_err(|error| {
        failed(&format!("version {} of {} cannot be read", part.version, table.url()), error.into())
    })?;
    let projection = ProjectionExec::try_new(exprs, scan).map_err(unplanned)?;
    Ok(Arc::new(projection))
}

/// Whether a version has the columns of a filter, under the same names.
fn knows(filter: &Expr, there: &Schema) -> bool {
    filter.column_refs().iter().all(|column| there.field_with_name(&column.name).is_ok())
}
