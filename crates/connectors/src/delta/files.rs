//! Data files as the log has them: their paths, the values of their folders, what they hold.

use super::commit::{Add, PartitionValues};
use super::shape::Shape;
use super::stats;
use crate::file_sink::stage::Outcome;
use onefold_connector::StagedOutput;
use onefold_storage::{Staged, location};
use onefold_types::{Error, Result, Totals};
use serde::{Deserialize, Serialize};

/// What the folder of null is called.
const NULL_FOLDER: &str = "__HIVE_DEFAULT_PARTITION__";

/// [`StagedOutput::detail`] of this sink.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Detail {
    pub(crate) files: Vec<Staged>,
    pub(crate) adds: Vec<Add>,
}

impl Detail {
    /// Of what one partition of a batch staged.
    ///
    /// # Errors
    /// Internal: a file without a footer.
    pub(crate) fn of(outcome: Outcome, shape: &Shape, now_ms: i64) -> Result<Detail> {
        let mut adds = Vec::with_capacity(outcome.files.len());
        for (file, footer) in outcome.files.iter().zip(&outcome.footers) {
            let footer = footer
                .as_ref()
                .ok_or_else(|| Error::internal(format!("{} has no footer", file.path)))?;
            let columns = &shape.encoding.columns.file;
            adds.push(Add {
                path: location::encode_path(&file.path),
                partition_values: values_of(&file.path, &shape.partition_by)?,
                size: i64::try_from(file.size)
                    .map_err(|error| Error::internal("a file is too large").because(error))?,
                modification_time: now_ms,
                data_change: true,
                stats: Some(stats::of_file(footer, columns, shape.stats_columns)?),
                deletion_vector: None,
            });
        }
        Ok(Detail { files: outcome.files, adds })
    }
}

/// What all partitions of a batch staged.
///
/// # Errors
/// Internal: it was staged by another sink.
pub(crate) fn gathered(outputs: Vec<StagedOutput>) -> Result<(Detail, Totals)> {
    let (mut all, mut totals) = (Detail::default(), Totals::default());
    for output in outputs {
        let detail: Detail = serde_json::from_value(output.detail)
            .map_err(|e| Error::internal("staged output is not of the Delta sink").because(e))?;
        all.files.extend(detail.files);
        all.adds.extend(detail.adds);
        totals = totals.plus(output.totals);
    }
    Ok((all, totals))
}

/// The path of a file below the table's folder; `None` when it lies elsewhere.
pub(crate) fn path_of(uri: &str) -> Result<Option<String>> {
    if uri.contains("://") || uri.starts_with('/') || uri.starts_with("file:") {
        return Ok(None);
    }
    location::decode_path(uri).map(Some)
}

/// The values that the folders of a path spell, by the table's columns.
fn values_of(path: &str, partition_by: &[String]) -> Result<PartitionValues> {
    let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
    let mut values = PartitionValues::new();
    let mut columns = partition_by.iter();
    for folder in folders.split('/').filter(|folder| !folder.is_empty()) {
        let (Some((_, value)), Some(column)) = (folder.split_once('='), columns.next()) else {
            return Err(Error::internal(format!("`{folder}` is no folder of a partition")));
        };
        let value = if value == NULL_FOLDER { None } else { Some(location::decode_path(value)?) };
        values.insert(column.clone(), value);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_give_back_the_values_they_were_made_of() {
        let by = ["k".to_owned(), "e=".to_owned()];
        let values = values_of("k=a b%2Fx%25/e%3D=%5F_HIVE_DEFAULT_PARTITION__/f.parquet", &by);
        let expected = PartitionValues::from([
            ("k".to_owned(), Some("a b/x%".to_owned())),
            ("e=".to_owned(), Some(NULL_FOLDER.to_owned())),
        ]);
        assert_eq!(values.unwrap(), expected);
        let values = values_of("k=__HIVE_DEFAULT_PARTITION__/e%3D=é/f.parquet", &by).unwrap();
        assert_eq!(values.get("k"), Some(&None));
        assert_eq!(values.get("e="), Some(&Some("é".to_owned())));
        assert!(values_of("f.parquet", &[]).unwrap().is_empty());
    }

    #[test]
    fn a_path_elsewhere_is_told_from_one_below() {
        assert_eq!(path_of("k=a%20b/f").unwrap().as_deref(), Some("k=a b/f"));
        for elsewhere in ["s3://b/f", "/abs/f", "file:/abs/f"] {
            assert_eq!(path_of(elsewhere).unwrap(), None);
        }
    }
}
