//! Reading a batch's files back, to sum them up again.

use super::content::RowHasher;
use super::manifest::Line;
use super::options::{FileOptions, Format};
use super::stored_file::StoredFile;
use super::{avro_file, line_file, orc_file, parquet_file};
use onefold_storage::Store;
use onefold_types::{Error, Result, Totals};
use std::sync::Arc;

/// The totals of the files that these lines name; `None` if the lines are not the whole batch any
/// more.
///
/// # Errors
/// Corrupt, naming a file that is missing, has another size, or cannot be read.
pub(crate) async fn totals(
    store: &Arc<dyn Store>,
    options: &Arc<FileOptions>,
    lines: &[Line],
) -> Result<Option<Totals>> {
    let note = lines.iter().find_map(|line| line.onefold);
    if note.is_some_and(|note| note.files != lines.len() as u64) {
        return Ok(None);
    }
    let mut totals = Totals::default();
    for line in lines {
        let Some(path) = line.relative(store.url()) else {
            return Err(Error::corrupt(format!(
                "the manifest names {}, which is not below the output {}: the output was moved; \
                 move it back",
                line.path,
                store.url()
            )));
        };
        let file = StoredFile::open(Arc::clone(store), &path).await?;
        if file.size() != line.size {
            return Err(Error::corrupt(format!(
                "{} has {} bytes, but {} were published: it was changed; restore it from a backup",
                file.url(),
                file.size(),
                line.size
            )));
        }
        let options = Arc::clone(options);
        let sum = tokio::task::spawn_blocking(move || read_back(&file, &path, &options));
        let sum =
            sum.await.map_err(|e| Error::internal("reading back was cut off").because(e))??;
        totals = totals.plus(sum);
    }
    Ok(Some(totals))
}

fn read_back(file: &StoredFile, path: &str, options: &FileOptions) -> Result<Totals> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let hasher = RowHasher::new(folder);
    let totals = match options.format {
        Format::Parquet => parquet_file::totals(file, hasher),
        Format::Avro => avro_file::totals(file, hasher),
        Format::Orc => orc_file::totals(file, hasher),
        Format::Json | Format::Csv | Format::Text => line_file::totals(file, options, &hasher),
    };
    totals.map_err(|e| {
        Error::corrupt(format!(
            "{} cannot be read back: it is damaged; restore it from a backup",
            file.url()
        ))
        .because(e)
    })
}
