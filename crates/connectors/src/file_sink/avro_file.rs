//! Avro object container files.

use super::content::RowHasher;
use super::encode::Encoder;
use super::options::FileOptions;
use super::stored_file::StoredFile;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_avro::compression::CompressionCodec;
use arrow_avro::errors::AvroError;
use arrow_avro::reader::ReaderBuilder;
use arrow_avro::writer::format::AvroOcfFormat;
use arrow_avro::writer::{AvroWriter, WriterBuilder};
use bytes::Bytes;
use onefold_types::{Error, Result, Totals};
use std::io::{self, BufReader, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Rows of a block at most.
const BLOCK_ROWS: usize = 4_096;

/// Bytes that a writer leaves for us to take while it goes on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shelf(Arc<Mutex<Vec<u8>>>);

impl Shelf {
    /// Takes the bytes if they are at least so many.
    pub(crate) fn take(&self, least: usize) -> Bytes {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes.len() < least { Bytes::new() } else { Bytes::from(std::mem::take(&mut *bytes)) }
    }
}

impl Write for Shelf {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes one Avro file.
pub(crate) struct AvroEncoder {
    writer: AvroWriter<Shelf>,
    shelf: Shelf,
    hasher: RowHasher,
}

impl std::fmt::Debug for AvroEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AvroEncoder").finish_non_exhaustive()
    }
}

fn failed(error: AvroError) -> Error {
    Error::internal("rows cannot be encoded as Avro").because(error)
}

impl AvroEncoder {
    pub(crate) fn new(schema: &SchemaRef, options: &FileOptions, folder: &str) -> Result<Self> {
        let codec = match options.compression.as_str() {
            "snappy" => Some(CompressionCodec::Snappy),
            "deflate" => Some(CompressionCodec::Deflate),
            "bzip2" => Some(CompressionCodec::Bzip2),
            "xz" => Some(CompressionCodec::Xz),
            "zstandard" => Some(CompressionCodec::ZStandard),
            _ => None,
        };
        let shelf = Shelf::default();
        let writer = WriterBuilder::new(schema.as_ref().clone())
            .with_compression(codec)
            .build::<_, AvroOcfFormat>(shelf.clone())
            .map_err(failed)?;
        Ok(AvroEncoder { writer, shelf, hasher: RowHasher::new(folder) })
    }
}

impl Encoder for AvroEncoder {
    fn write(&mut self, rows: &RecordBatch) -> Result<Totals> {
        let mut start = 0;
        while start < rows.num_rows() {
            let count = BLOCK_ROWS.min(rows.num_rows() - start);
            self.writer.write(&rows.slice(start, count)).map_err(failed)?;
            start += count;
        }
        self.hasher.totals(rows)
    }

    fn drain(&mut self, least: usize) -> Result<Bytes> {
        Ok(self.shelf.take(least))
    }

    fn held_bytes(&self) -> usize {
        0
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.writer.finish().map_err(failed)
    }
}

/// Sums up a file that is read back.
pub(crate) fn totals(file: &StoredFile, mut hasher: RowHasher) -> Result<Totals> {
    let unreadable = |e: arrow::error::ArrowError| Error::corrupt("not Avro").because(e);
    let rows = ReaderBuilder::new().build(BufReader::new(file.read_from(0))).map_err(unreadable)?;
    let mut totals = Totals::default();
    for batch in rows {
        totals = totals.plus(hasher.totals(&batch.map_err(unreadable)?)?);
    }
    Ok(totals)
}
