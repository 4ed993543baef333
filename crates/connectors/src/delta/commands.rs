//! Commands on a table, as the library does them: through our store, so that their commits are
//! durable, and found again when their reply is lost.

use super::features;
use super::history;
use super::once::Once;
use super::table::{Table, failed};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use chrono::Duration;
use datafusion::prelude::{Expr, SessionContext};
use deltalake_core::operations::merge::{InsertBuilder, MergeBuilder, UpdateBuilder};
use deltalake_core::{DeltaTable, DeltaTableError};
use onefold_connector::{MergeAct, MergeClause, MergeWhen, TableAct, TableMerge, TableRequest};
use onefold_types::{Error, Result};
use std::sync::Arc;

/// Hours that VACUUM keeps at least, unless a setting says that it need not.
const RETAIN_HOURS: u64 = 168;
/// That setting, by its name in Spark.
const RETENTION_CHECK: &str = "spark.databricks.delta.retentionDurationCheck.enabled";

/// Does something to a table.
///
/// # Errors
/// Invalid: no table is there, or it needs what is not done here. Others as the store's.
pub(crate) async fn run(request: TableRequest) -> Result<RecordBatch> {
    let table = Table::open(&request.path, &request.conf)?;
    if !table.exists().await? {
        return Err(Error::invalid(format!(
            "{} is not a Delta table: it has no folder `_delta_log` with commits; check the name",
            table.url()
        )));
    }
    if let TableAct::History { limit } = request.act {
        return history::rows(&table, limit).await;
    }
    let what = format!("the table {} was not changed", table.url());
    let unchanged = |error: DeltaTableError| failed(&what, error);
    let mut loaded = DeltaTable::new(Arc::clone(&table.log));
    loaded.load().await.map_err(unchanged)?;
    let snapshot = table.snapshot(None).await?;
    features::check_readable(table.url(), &snapshot)?;
    let once = Once(request.once);
    if once.is_done(&table, &snapshot).await? {
        return nothing_changed(&request.act);
    }
    let before = loaded.version();
    match request.act {
        TableAct::History { .. } => Err(Error::internal("a history was told before")),
        TableAct::Optimize => {
            let (_, metrics) = loaded.optimize().await.map_err(unchanged)?;
            counts(&[
                ("numFilesAdded", metrics.num_files_added),
                ("numFilesRemoved", metrics.num_files_removed),
            ])
        }
        TableAct::Vacuum { retain_hours, dry_run } => {
            let checks = request.conf.get(RETENTION_CHECK).is_none_or(|it| it != "false");
            let mut vacuum = loaded.vacuum().with_dry_run(dry_run);
            if let Some(hours) = retain_hours {
                if checks && hours < RETAIN_HOURS {
                    return Err(Error::invalid(format!(
                        "VACUUM … RETAIN {hours} HOURS may delete files that running queries read; \
                         keep {RETAIN_HOURS} hours at least, or set {RETENTION_CHECK}=false"
                    )));
                }
                let hours = i64::try_from(hours).unwrap_or(i64::MAX / 3_600_000);
                let period = Duration::try_hours(hours)
                    .ok_or_else(|| Error::invalid("VACUUM keeps fewer hours than that"))?;
                vacuum =
                    vacuum.with_retention_period(period).with_enforce_retention_duration(false);
            }
            let (_, metrics) = vacuum.await.map_err(unchanged)?;
            let paths = if dry_run { metrics.files_deleted } else { vec![table.url().to_owned()] };
            let paths: ArrayRef = Arc::new(StringArray::from(paths));
            batch(vec![("path", paths)])
        }
        TableAct::Delete { condition } => {
            let mut delete = loaded.delete().with_commit_properties(once.properties());
            if let Some(condition) = condition {
                delete = delete.with_predicate(condition);
            }
            let (after, metrics) = delete.await.map_err(unchanged)?;
            once.note_alone(&after, before, &what).await?;
            let rows = metrics.num_deleted_rows.unwrap_or_default();
            counts(&[("num_affected_rows", rows as u64)])
        }
        TableAct::Update { condition, set } => {
            let mut update = loaded.update().with_commit_properties(once.properties());
            if let Some(condition) = condition {
                update = update.with_predicate(condition);
            }
            for (column, value) in set {
                update = update.with_update(column, value);
            }
            let (after, metrics) = update.await.map_err(unchanged)?;
            once.note_alone(&after, before, &what).await?;
            counts(&[("num_affected_rows", metrics.num_updated_rows as u64)])
        }
        TableAct::Merge(merge) => {
            let built = merged(loaded, *merge).map_err(unchanged)?;
            let built = built.with_commit_properties(once.properties());
            let (after, metrics) = built.await.map_err(unchanged)?;
            once.note_alone(&after, before, &what).await?;
            let (updated, deleted, inserted) = (
                metrics.num_target_rows_updated as u64,
                metrics.num_target_rows_deleted as u64,
                metrics.num_target_rows_inserted as u64,
            );
            counts(&[
                ("num_affected_rows", updated + deleted + inserted),
                ("num_updated_rows", updated),
                ("num_deleted_rows", deleted),
                ("num_inserted_rows", inserted),
            ])
        }
    }
}

/// What is told of a change that the table has already.
fn nothing_changed(act: &TableAct) -> Result<RecordBatch> {
    match act {
        TableAct::Merge(_) => counts(&[
            ("num_affected_rows", 0),
            ("num_updated_rows", 0),
            ("num_deleted_rows", 0),
            ("num_inserted_rows", 0),
        ]),
        _ => counts(&[("num_affected_rows", 0)]),
    }
}

/// The library's merge.
fn merged(
    table: DeltaTable,
    merge: TableMerge,
) -> std::result::Result<MergeBuilder, DeltaTableError> {
    let source = SessionContext::new().read_batches(merge.rows)?;
    let mut built = table
        .merge(source, merge.on)
        .with_source_alias(merge.rows_alias)
        .with_target_alias(merge.table_alias)
        .with_merge_schema(merge.adds_columns);
    for MergeClause { when, condition, act } in merge.clauses {
        built = match (when, act) {
            (MergeWhen::Matched, MergeAct::Update(set)) => {
                built.when_matched_update(|it| updates(it, condition, set))?
            }
            (MergeWhen::Matched, MergeAct::Delete) => {
                built.when_matched_delete(|it| match condition {
                    Some(condition) => it.predicate(condition),
                    None => it,
                })?
            }
            (MergeWhen::NotMatched, MergeAct::Insert(values)) => {
                built.when_not_matched_insert(|it| inserts(it, condition, values))?
            }
            (MergeWhen::NotMatchedBySource, MergeAct::Update(set)) => {
                built.when_not_matched_by_source_update(|it| updates(it, condition, set))?
            }
            (MergeWhen::NotMatchedBySource, MergeAct::Delete) => built
                .when_not_matched_by_source_delete(|it| match condition {
                    Some(condition) => it.predicate(condition),
                    None => it,
                })?,
            (MergeWhen::NotMatched, MergeAct::Update(_) | MergeAct::Delete)
            | (MergeWhen::Matched | MergeWhen::NotMatchedBySource, MergeAct::Insert(_)) => {
                return Err(DeltaTableError::Generic(
                    "rows that are not there are only inserted, and others never".to_owned(),
                ));
            }
        };
    }
    Ok(built)
}

fn updates(
    mut built: UpdateBuilder,
    condition: Option<Expr>,
    set: Vec<(String, Expr)>,
) -> UpdateBuilder {
    if let Some(condition) = condition {
        built = built.predicate(condition);
    }
    set.into_iter().fold(built, |built, (column, value)| built.update(column, value))
}

fn inserts(
    mut built: InsertBuilder,
    condition: Option<Expr>,
    values: Vec<(String, Expr)>,
) -> InsertBuilder {
    if let Some(condition) = condition {
        built = built.predicate(condition);
    }
    values.into_iter().fold(built, |built, (column, value)| built.set(column, value))
}

fn counts(counts: &[(&str, u64)]) -> Result<RecordBatch> {
    let columns = counts.iter().map(|(name, count)| {
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        (*name, Arc::new(Int64Array::from(vec![count])) as ArrayRef)
    });
    batch(columns.collect())
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    RecordBatch::try_from_iter(columns)
        .map_err(|error| Error::internal("a result cannot be shown").because(error))
}
