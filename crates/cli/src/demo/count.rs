//! Counts every order at the sink, as any reader of Parquet files would.

use super::place::cannot;
use crate::exit::Failure;
use arrow::array::{Array, Int64Array};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fs::File;
use std::path::{Path, PathBuf};

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Files read.
    pub files: u64,
    /// Rows in them.
    pub rows: u64,
    /// Orders that are in none.
    pub lost: u64,
    /// Rows beyond the first of each order.
    pub duplicated: u64,
    /// Rows of orders that were never made.
    pub foreign: u64,
}

impl Count {
    /// Whether each order is there once and nothing else.
    pub fn exact(&self) -> bool {
        (self.lost, self.duplicated, self.foreign) == (0, 0, 0)
    }
}

/// Reads all Parquet files below a folder; names that start with `.` or `_` are no data, as every
/// reader of such folders has it.
///
/// # Errors
/// Failed, when a file cannot be read: none may be torn.
pub fn count(folder: &Path, events: u64) -> Result<Count, Failure> {
    let mut seen = vec![0_u32; usize::try_from(events).unwrap_or(usize::MAX)];
    let mut count = Count::default();
    for path in data_files(folder)? {
        count.files += 1;
        read_ids(&path, |id| {
            count.rows += 1;
            let slot = id.and_then(|id| usize::try_from(id).ok()).and_then(|id| seen.get_mut(id));
            match slot {
                Some(times) => *times += 1,
                None => count.foreign += 1,
            }
        })?;
    }
    for times in seen {
        count.lost += u64::from(times == 0);
        count.duplicated += u64::from(times.saturating_sub(1));
    }
    Ok(count)
}

fn data_files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).map_err(|error| cannot("be listed", &folder, error))?;
        for entry in entries {
            let path = entry.map_err(|error| cannot("be listed", &folder, error))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with('.') || name.starts_with('_') {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    Ok(files)
}

fn read_ids(path: &Path, mut on_id: impl FnMut(Option<i64>)) -> Result<(), Failure> {
    let unreadable =
        |error: String| Failure::failed(format!("{} cannot be read: {error}", path.display()));
    let file = File::open(path).map_err(|error| cannot("be read", path, error))?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file)
        .map_err(|error| unreadable(error.to_string()))?;
    let only_ids = ProjectionMask::columns(builder.parquet_schema(), ["id"]);
    let reader =
        builder.with_projection(only_ids).build().map_err(|error| unreadable(error.to_string()))?;
    for batch in reader {
        let batch = batch.map_err(|error| unreadable(error.to_string()))?;
        let ids =
            batch.column_by_name("id").and_then(|it| it.as_any().downcast_ref::<Int64Array>());
        let ids = ids.ok_or_else(|| unreadable("it has no column `id` of 64 bits".to_owned()))?;
        ids.iter().for_each(&mut on_id);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::RecordBatch;
    use parquet::arrow::ArrowWriter;
    use std::sync::Arc;

    fn write(path: &Path, ids: &[i64]) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let column: arrow::array::ArrayRef = Arc::new(Int64Array::from(ids.to_vec()));
        let batch = RecordBatch::try_from_iter([("id", column)]).unwrap();
        let file = File::create(path).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }

    #[test]
    fn lost_doubled_and_foreign_rows_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("a.parquet"), &[0, 1, 1]);
        write(&dir.path().join("k=1/b.parquet"), &[3, 99]);
        write(&dir.path().join(".hidden.parquet"), &[0]);
        write(&dir.path().join("_tmp/c.parquet"), &[0]);
        let count = count(dir.path(), 4).unwrap();
        let wanted = Count { files: 2, rows: 5, lost: 1, duplicated: 1, foreign: 1 };
        assert_eq!(count, wanted);
        assert!(!count.exact());
    }

    #[test]
    fn a_torn_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.parquet"), "PAR1").unwrap();
        assert!(count(dir.path(), 1).is_err());
    }
}
