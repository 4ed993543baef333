//! Parquet files as Spark and pyarrow read them.

use super::content::RowHasher;
use super::encode::Encoder;
use super::options::FileOptions;
use super::stored_file::StoredFile;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use onefold_types::{Error, Result, Totals};
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::WriterProperties;
use std::sync::Arc;

/// Rows of a row group at most.
const ROW_GROUP_ROWS: usize = 1_048_576;
/// Encoded bytes of a row group at most; they are held in memory until it ends.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// The properties of every file of a sink.
pub(crate) fn properties(options: &FileOptions) -> WriterProperties {
    let compression = match options.compression.as_str() {
        "none" | "uncompressed" => Compression::UNCOMPRESSED,
        "gzip" => Compression::GZIP(parquet::basic::GzipLevel::default()),
        "lz4" | "lz4_raw" | "lz4raw" => Compression::LZ4_RAW,
        "zstd" => Compression::ZSTD(ZstdLevel::default()),
        "brotli" => Compression::BROTLI(parquet::basic::BrotliLevel::default()),
        _ => Compression::SNAPPY,
    };
    WriterProperties::builder()
        .set_compression(compression)
        .set_created_by(format!("onefold {}", env!("CARGO_PKG_VERSION")))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
        // Names of list items and map entries as the format's specification has them.
        .set_coerce_types(true)
        .build()
}

/// Writes one Parquet file.
pub(crate) struct ParquetEncoder {
    writer: ArrowWriter<Vec<u8>>,
    hasher: RowHasher,
    footer: Option<ParquetMetaData>,
}

impl std::fmt::Debug for ParquetEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetEncoder").finish_non_exhaustive()
    }
}

fn failed(error: parquet::errors::ParquetError) -> Error {
    Error::internal("rows cannot be encoded as Parquet").because(error)
}

impl ParquetEncoder {
    pub(crate) fn new(
        schema: &SchemaRef,
        properties: WriterProperties,
        folder: &str,
    ) -> Result<Self> {
        // Without Arrow's own schema beside it, every reader sees the same plain types.
        let options =
            ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(Vec::new(), Arc::clone(schema), options)
            .map_err(failed)?;
        Ok(ParquetEncoder { writer, hasher: RowHasher::new(folder), footer: None })
    }
}

impl Encoder for ParquetEncoder {
    fn write(&mut self, rows: &RecordBatch) -> Result<Totals> {
        self.writer.write(rows).map_err(failed)?;
        self.hasher.totals(rows)
    }

    fn drain(&mut self, least: usize) -> Result<Bytes> {
        if self.writer.inner().len() < least {
            return Ok(Bytes::new());
        }
        Ok(Bytes::from(std::mem::take(self.writer.inner_mut())))
    }

    fn held_bytes(&self) -> usize {
        self.writer.memory_size()
    }

    fn flush(&mut self) -> Result<()> {
        self.writer.flush().map_err(failed)
    }

    fn finish(&mut self) -> Result<()> {
        self.footer = Some(self.writer.finish().map_err(failed)?);
        Ok(())
    }

    fn footer(&mut self) -> Option<ParquetMetaData> {
        self.footer.take()
    }
}

/// Sums up a file that is read back.
pub(crate) fn totals(file: &StoredFile, mut hasher: RowHasher) -> Result<Totals> {
    let unreadable = |e: parquet::errors::ParquetError| Error::corrupt("not Parquet").because(e);
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let rows = ParquetRecordBatchReaderBuilder::try_new_with_options(file.clone(), options)
        .and_then(|builder| builder.with_batch_size(8_192).build())
        .map_err(unreadable)?;
    let mut totals = Totals::default();
    for batch in rows {
        let batch = batch.map_err(|e| Error::corrupt("not Parquet").because(e))?;
        totals = totals.plus(hasher.totals(&batch)?);
    }
    Ok(totals)
}
