//! Staging: the rows of one partition into hidden files.

use super::encode::{Encoder, Encoding};
use super::names::DataFile;
use super::partitioning::by_folder;
use super::rest::Rest;
use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use futures::StreamExt;
use onefold_connector::{Attempt, RowStream};
use onefold_storage::crash::{CrashPoint, crash_point};
use onefold_storage::{Staged, StagedWriter, Store};
use onefold_types::{Error, Result, Totals};
use parquet::file::metadata::ParquetMetaData;

/// Files that are written at the same time at most. Rows of further folders wait, sorted, until
/// these are done.
const OPEN_FILES: usize = 32;
/// Bytes that the encoders of one partition hold at most before the largest must let go.
const HELD_BYTES: usize = 128 << 20;
/// Ready bytes are handed to the store when there are so many.
const READY_BYTES: usize = 256 << 10;

/// Writes the rows of one partition of an attempt.
pub(crate) struct Stager<'a> {
    store: &'a dyn Store,
    encoding: &'a Encoding,
    name: DataFile,
    tag: String,
    extension: String,
    rows_per_file_max: u64,
    bytes_per_file_max: u64,
    open: Vec<OpenFile>,
    staged: Vec<Staged>,
    footers: Vec<Option<ParquetMetaData>>,
    totals: Totals,
}

/// What was staged.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) files: Vec<Staged>,
    /// What each of the files says of itself, where its format has such a footer.
    pub(crate) footers: Vec<Option<ParquetMetaData>>,
    pub(crate) totals: Totals,
}

#[derive(Debug)]
struct OpenFile {
    folder: String,
    encoder: Box<dyn Encoder>,
    writer: Box<dyn StagedWriter>,
    rows: u64,
    /// Handed to the store.
    bytes: u64,
}

impl<'a> Stager<'a> {
    pub(crate) fn new(
        store: &'a dyn Store,
        encoding: &'a Encoding,
        attempt: &Attempt,
        partition: u32,
        rows_per_file_max: u64,
    ) -> Self {
        let Attempt { query, batch, generation } = *attempt;
        let name = DataFile { partition, query, batch, generation, file: 0 };
        let rows_per_file_max = if rows_per_file_max == 0 { u64::MAX } else { rows_per_file_max };
        Stager {
            store,
            encoding,
            name,
            tag: super::tag(attempt),
            extension: encoding.extension(),
            rows_per_file_max,
            bytes_per_file_max: u64::MAX,
            open: Vec::new(),
            staged: Vec::new(),
            footers: Vec::new(),
            totals: Totals::default(),
        }
    }

    /// Begins another file once one has so many bytes.
    pub(crate) fn cut_at(mut self, bytes: u64) -> Self {
        self.bytes_per_file_max = bytes.max(1);
        self
    }

    /// Writes all rows. Makes no file when there are none.
    pub(crate) async fn run(mut self, rows: RowStream, time_zone: &str) -> Result<Outcome> {
        if self.encoding.columns.folders.is_empty() {
            self.run_flat(rows).await?;
        } else {
            self.run_folders(rows, time_zone).await?;
        }
        while let Some(file) = self.open.pop() {
            self.close(file).await?;
        }
        Ok(Outcome { files: self.staged, footers: self.footers, totals: self.totals })
    }

    async fn run_flat(&mut self, mut rows: RowStream) -> Result<()> {
        while let Some(batch) = rows.next().await {
            let batch = batch.map_err(plan_failed)?;
            if batch.num_rows() > 0 {
                self.write("", &batch).await?;
            }
        }
        Ok(())
    }

    async fn run_folders(&mut self, mut rows: RowStream, time_zone: &str) -> Result<()> {
        let encoding = self.encoding;
        let folders = &encoding.columns.folders;
        let mut rest: Option<Rest> = None;
        while let Some(batch) = rows.next().await {
            let batch = batch.map_err(plan_failed)?;
            let mut waiting: Vec<u32> = Vec::new();
            for (folder, members) in
                by_folder(&batch, folders, encoding.columns.null_folder, time_zone)?
            {
                let room = self.open.len() < OPEN_FILES && rest.is_none();
                if room || self.open.iter().any(|file| file.folder == folder) {
                    self.write(&folder, &pick(&batch, members)?).await?;
                } else {
                    waiting.extend(members);
                }
            }
            if !waiting.is_empty() {
                waiting.sort_unstable();
                let rest = match &mut rest {
                    Some(rest) => rest,
                    None => rest.insert(Rest::start(batch.schema(), folders)?),
                };
                rest.push(pick(&batch, waiting)?).await?;
            }
        }
        let Some(rest) = rest else { return Ok(()) };
        while let Some(file) = self.open.pop() {
            self.close(file).await?;
        }
        let mut sorted = rest.finish().await?;
        while let Some(batch) = sorted.next().await {
            let batch = batch.map_err(plan_failed)?;
            for (folder, members) in
                by_folder(&batch, folders, encoding.columns.null_folder, time_zone)?
            {
                // Sorted rows never come back to a folder that was left.
                if self.open.iter().all(|file| file.folder != folder) {
                    while let Some(file) = self.open.pop() {
                        self.close(file).await?;
                    }
                }
                self.write(&folder, &pick(&batch, members)?).await?;
            }
        }
        Ok(())
    }

    /// Writes rows into the file of a folder; cuts files at the row limit.
    async fn write(&mut self, folder: &str, rows: &RecordBatch) -> Result<()> {
        let rows = self.encoding.columns.of_file(rows)?;
        let mut start = 0;
        while start < rows.num_rows() {
            let at = self.opened(folder).await?;
            let file = self.open.get_mut(at).ok_or_else(|| Error::internal("no open file"))?;
            let left = rows.num_rows() - start;
            let room = usize::try_from(self.rows_per_file_max - file.rows).unwrap_or(left);
            let count = room.min(left);
            let totals = file.encoder.write(&rows.slice(start, count))?;
            self.totals = self.totals.plus(totals);
            file.rows += count as u64;
            start += count;
            file.hand_over(READY_BYTES).await?;
            crash_point(CrashPoint::StageDuring);
            let bytes = file.bytes + file.encoder.held_bytes() as u64;
            if file.rows >= self.rows_per_file_max || bytes >= self.bytes_per_file_max {
                let file = self.open.swap_remove(at);
                self.close(file).await?;
            }
        }
        self.bound_memory().await
    }

    async fn opened(&mut self, folder: &str) -> Result<usize> {
        if let Some(at) = self.open.iter().position(|file| file.folder == folder) {
            return Ok(at);
        }
        let name = format!("{}.{}", self.name.stem(), self.extension);
        self.name.file += 1;
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        let encoder = self.encoding.encoder(folder)?;
        let writer = self.store.stage(&path, &self.tag).await?;
        self.open.push(OpenFile { folder: folder.to_owned(), encoder, writer, rows: 0, bytes: 0 });
        Ok(self.open.len() - 1)
    }

    async fn bound_memory(&mut self) -> Result<()> {
        if self.open.len() < 2 {
            return Ok(());
        }
        let held: usize = self.open.iter().map(|file| file.encoder.held_bytes()).sum();
        if held > HELD_BYTES
            && let Some(file) = self.open.iter_mut().max_by_key(|f| f.encoder.held_bytes())
        {
            file.encoder.flush()?;
            file.hand_over(0).await?;
        }
        Ok(())
    }

    async fn close(&mut self, mut file: OpenFile) -> Result<()> {
        file.encoder.finish()?;
        file.hand_over(0).await?;
        self.footers.push(file.encoder.footer());
        self.staged.push(file.writer.finish().await?);
        Ok(())
    }
}

impl OpenFile {
    async fn hand_over(&mut self, least: usize) -> Result<()> {
        let bytes = self.encoder.drain(least)?;
        self.bytes += bytes.len() as u64;
        if bytes.is_empty() { Ok(()) } else { self.writer.write(bytes).await }
    }
}

/// Stages a file without rows, to carry the mark of a batch that has none.
pub(crate) async fn stage_empty(
    store: &dyn Store,
    encoding: &Encoding,
    attempt: &Attempt,
    folder: &str,
) -> Result<Staged> {
    let mut stager = Stager::new(store, encoding, attempt, 0, 0);
    stager.opened(folder).await?;
    match stager.open.pop() {
        Some(file) => stager.close(file).await?,
        None => return Err(Error::internal("no open file")),
    }
    stager.staged.pop().ok_or_else(|| Error::internal("no staged file"))
}

fn pick(batch: &RecordBatch, members: Vec<u32>) -> Result<RecordBatch> {
    if members.len() == batch.num_rows() {
        return Ok(batch.clone());
    }
    take_record_batch(batch, &UInt32Array::from(members))
        .map_err(|e| Error::internal("rows cannot be split by folder").because(e))
}

/// An error of the plan that makes the rows. An error of ours that travelled through it keeps its
/// kind.
pub(crate) fn plan_failed(error: datafusion::error::DataFusionError) -> Error {
    let mut cause: &(dyn std::error::Error + 'static) = &error;
    let kind = loop {
        if let Some(ours) = cause.downcast_ref::<Error>() {
            break ours.kind();
        }
        match cause.source() {
            Some(next) => cause = next,
            None => break onefold_types::ErrorKind::Invalid,
        }
    };
    Error::new(kind, "the rows of the batch cannot be computed").because(error)
}
