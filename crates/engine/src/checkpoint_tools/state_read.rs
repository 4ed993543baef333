//! Reading the state that a checkpoint holds, without a running query.

use super::contents::Contents;
use crate::run::state::reference;
use arrow::datatypes::Schema;
use onefold_state::{FamilySpec, OperatorSpec, StateReader};
use onefold_storage::Store;
use onefold_types::{BatchId, Error, Result};
use serde::Serialize;
use std::sync::Arc;

/// The state of a query at one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StateOverview {
    /// The checkpoint.
    pub url: String,
    /// The version.
    pub version: u64,
    /// The batch that left it.
    pub batch: BatchId,
    /// Versions that are kept, ascending.
    pub versions: Vec<u64>,
    /// Bytes of the files that a restart reads.
    pub bytes_to_read: u64,
    /// The operators, by number.
    pub operators: Vec<OperatorState>,
}

/// The state of one operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorState {
    /// Its number.
    pub id: u32,
    /// Its lasting name.
    pub name: String,
    /// Spark's name of its kind.
    pub kind: String,
    /// Partitions that it had in the run that left the version.
    pub partitions: u32,
    /// Rows that count as its state.
    pub rows: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Its families of rows.
    pub families: Vec<FamilyState>,
}

/// One family of rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FamilyState {
    /// Its name.
    pub name: String,
    /// Its rows.
    pub rows: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// The columns of its keys.
    pub key: String,
    /// The columns of its values.
    pub value: String,
    /// Whether its rows count as rows of state.
    pub counted: bool,
}

/// Opens the state at a version: the newest committed one, or an older one that is kept.
/// `contents` was read at [`super::Depth::All`].
///
/// # Errors
/// Invalid, when the checkpoint holds no state of ours, or none of this version.
pub async fn open_state(
    store: &Arc<dyn Store>,
    contents: &Contents,
    version: Option<u64>,
) -> Result<StateReader> {
    let batch = match version {
        Some(version) => version.checked_sub(1).map(BatchId),
        None => contents.commit_ids.last().copied(),
    };
    if let Some(record) = batch.and_then(|batch| contents.state_after(batch)) {
        return StateReader::open(Arc::clone(store), &reference(&record.state)?).await;
    }
    let kept = versions(contents);
    Err(Error::invalid(match (kept.first(), kept.last()) {
        (Some(first), Some(last)) => format!(
            "{} keeps no version {} of its state; it has versions {first} to {last}",
            contents.url,
            version.unwrap_or_default()
        ),
        _ if !contents.state.is_empty() => format!(
            "the state in {} is in Spark's own files, which this command does not read",
            contents.url
        ),
        _ => format!("{} holds no state: its query keeps none", contents.url),
    }))
}

/// Whether the query of a checkpoint keeps no state, as far as it was committed. `contents` was read
/// at [`super::Depth::All`].
#[must_use]
pub fn keeps_none(contents: &Contents) -> bool {
    !contents.commit_ids.is_empty() && contents.state.is_empty() && versions(contents).is_empty()
}

/// What there is at a version.
#[must_use]
pub fn state_overview(contents: &Contents, reader: &StateReader) -> StateOverview {
    let version = reader.version();
    let batch = BatchId(version.saturating_sub(1));
    let bytes_to_read = contents
        .state_after(batch)
        .and_then(|record| reference(&record.state).ok())
        .map_or(0, |state| state.bytes_to_read());
    StateOverview {
        url: contents.url.clone(),
        version,
        batch,
        versions: versions(contents),
        bytes_to_read,
        operators: reader.operators().iter().map(|spec| operator(spec, reader)).collect(),
    }
}

fn versions(contents: &Contents) -> Vec<u64> {
    let kept = contents.commit_ids.iter().filter(|batch| contents.state_after(**batch).is_some());
    kept.map(|batch| batch.next().0).collect()
}

fn operator(spec: &OperatorSpec, reader: &StateReader) -> OperatorState {
    let report = reader.report().into_iter().find(|report| report.id == spec.id);
    let family = |named: &FamilySpec| {
        let of = report.iter().flat_map(|report| &report.families);
        let counts = of.into_iter().find(|it| it.name == named.name);
        FamilyState {
            name: named.name.clone(),
            rows: counts.map_or(0, |it| it.rows),
            bytes: counts.map_or(0, |it| it.bytes),
            key: columns(&named.key),
            value: columns(&named.value),
            counted: named.counted,
        }
    };
    OperatorState {
        id: spec.id,
        name: spec.label.clone(),
        kind: spec.kind.clone(),
        partitions: report.as_ref().map_or(0, |it| it.partitions),
        rows: report.as_ref().map_or(0, |it| it.rows),
        bytes: report.as_ref().map_or(0, |it| it.bytes),
        families: spec.families.iter().map(family).collect(),
    }
}

fn columns(schema: &Schema) -> String {
    let column =
        |field: &arrow::datatypes::FieldRef| format!("{} {}", field.name(), field.data_type());
    schema.fields().iter().map(column).collect::<Vec<_>>().join(", ")
}
