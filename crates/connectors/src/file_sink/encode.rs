//! Encoders: rows in, the bytes of one file out, a piece at a time.

use super::columns::Columns;
use super::options::{FileOptions, Format};
use super::parquet_file::ParquetEncoder;
use arrow::array::RecordBatch;
use bytes::Bytes;
use onefold_types::{Result, Totals};
use std::fmt::Debug;
use std::sync::Arc;

/// Writes the bytes of one file.
pub(crate) trait Encoder: Send + Debug {
    /// Takes rows with the file's columns and sums them up.
    fn write(&mut self, rows: &RecordBatch) -> Result<Totals>;
    /// Bytes that are ready, if they are at least so many; else none.
    fn drain(&mut self, least: usize) -> Result<Bytes>;
    /// Bytes of memory held for rows that are not ready.
    fn held_bytes(&self) -> usize;
    /// Makes what is held ready.
    fn flush(&mut self) -> Result<()>;
    /// Ends the file; the last bytes are ready after that.
    fn finish(&mut self) -> Result<()>;
}

/// Makes the encoders of a sink: everything that does not change between files is made once.
#[derive(Debug)]
pub(crate) struct Encoding {
    pub(crate) columns: Columns,
    options: Arc<FileOptions>,
    parquet: parquet::file::properties::WriterProperties,
}

impl Encoding {
    /// Prepares for these columns and options.
    pub(crate) fn new(columns: Columns, options: Arc<FileOptions>) -> Self {
        let parquet = super::parquet_file::properties(&options);
        Encoding { columns, options, parquet }
    }

    /// The extension of a file's name, with the compression's name where the format has one in
    /// front: `snappy.parquet`, `json.gz`.
    pub(crate) fn extension(&self) -> String {
        self.options.extension()
    }

    /// An encoder for one file below `folder` (empty: the output's root).
    pub(crate) fn encoder(&self, folder: &str) -> Result<Box<dyn Encoder>> {
        let schema = &self.columns.file;
        match self.options.format {
            Format::Parquet => {
                Ok(Box::new(ParquetEncoder::new(schema, self.parquet.clone(), folder)?))
            }
            other => Err(onefold_types::Error::invalid(other.name())),
        }
    }
}
