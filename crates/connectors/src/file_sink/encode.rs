//! Encoders: rows in, the bytes of one file out, a piece at a time.

use super::avro_file::AvroEncoder;
use super::columns::Columns;
use super::line_file::{self, LineEncoder, Lines};
use super::options::{FileOptions, Format};
use super::orc_file::OrcEncoder;
use super::parquet_file::{self, ParquetEncoder};
use arrow::array::RecordBatch;
use bytes::Bytes;
use onefold_types::{Result, Totals};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::WriterProperties;
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
    /// What the file says of itself once it has ended, where its format has such a footer.
    fn footer(&mut self) -> Option<ParquetMetaData> {
        None
    }
}

/// Makes the encoders of a sink: everything that does not change between files is made once.
#[derive(Debug)]
pub(crate) struct Encoding {
    pub(crate) columns: Columns,
    options: Arc<FileOptions>,
    parquet: WriterProperties,
    /// For the formats of lines.
    lines: Option<Arc<dyn Lines>>,
}

impl Encoding {
    /// Prepares for these columns and options.
    ///
    /// # Errors
    /// Invalid: a pattern of dates or times, or a time zone.
    pub(crate) fn new(
        columns: Columns,
        options: Arc<FileOptions>,
        time_zone: &str,
    ) -> Result<Self> {
        let parquet = parquet_file::properties(&options);
        let lines = match options.format {
            Format::Json | Format::Csv | Format::Text => {
                Some(line_file::lines(&options, &columns.file, time_zone)?)
            }
            Format::Parquet | Format::Avro | Format::Orc => None,
        };
        Ok(Encoding { columns, options, parquet, lines })
    }

    /// The extension of a file's name, with the compression's name where the format has one in
    /// front: `snappy.parquet`, `json.gz`.
    pub(crate) fn extension(&self) -> String {
        self.options.extension()
    }

    /// An encoder for one file below `folder` (empty: the output's root).
    pub(crate) fn encoder(&self, folder: &str) -> Result<Box<dyn Encoder>> {
        let schema = &self.columns.file;
        if let Some(lines) = &self.lines {
            return Ok(Box::new(LineEncoder::new(Arc::clone(lines), &self.options, folder)?));
        }
        Ok(match self.options.format {
            Format::Avro => Box::new(AvroEncoder::new(schema, &self.options, folder)?),
            Format::Orc => Box::new(OrcEncoder::new(schema, &self.options.compression, folder)?),
            _ => Box::new(ParquetEncoder::new(schema, self.parquet.clone(), folder)?),
        })
    }
}
