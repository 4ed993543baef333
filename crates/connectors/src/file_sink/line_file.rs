//! Files of lines: JSON, CSV and text, compressed as a whole or not.

use super::content::RowHasher;
use super::csv_lines::{CsvLines, each_record};
use super::encode::Encoder;
use super::json_lines::JsonLines;
use super::options::{FileOptions, Format};
use super::stored_file::StoredFile;
use super::text_lines::TextLines;
use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use bytes::Bytes;
use onefold_types::{Error, Result, Totals};
use std::fmt::Debug;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;

/// Writes rows as lines.
pub(crate) trait Lines: Send + Sync + Debug {
    /// The line before all rows, if there is one.
    fn header(&self) -> Option<Vec<u8>> {
        None
    }
    /// Calls `act` with the line of each row, without its end.
    fn each(&self, rows: &RecordBatch, act: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;
}

/// The lines of a format.
///
/// # Errors
/// Invalid: a pattern of dates or times, or columns that the format does not hold.
pub(crate) fn lines(
    options: &FileOptions,
    schema: &Schema,
    time_zone: &str,
) -> Result<Arc<dyn Lines>> {
    Ok(match options.format {
        Format::Csv => Arc::new(CsvLines::new(options, schema, time_zone)?),
        Format::Text => Arc::new(TextLines::new(options)),
        _ => Arc::new(JsonLines::new(options, time_zone)?),
    })
}

/// Writes one file of lines.
#[derive(Debug)]
pub(crate) struct LineEncoder {
    lines: Arc<dyn Lines>,
    line_sep: String,
    hasher: RowHasher,
    out: Packer,
}

impl LineEncoder {
    pub(crate) fn new(lines: Arc<dyn Lines>, options: &FileOptions, folder: &str) -> Result<Self> {
        let mut encoder = LineEncoder {
            line_sep: options.text.line_sep.clone(),
            hasher: RowHasher::new(folder),
            out: Packer::new(&options.compression)?,
            lines,
        };
        if let Some(header) = encoder.lines.header() {
            encoder.out.push(&header)?;
            encoder.out.push(encoder.line_sep.as_bytes())?;
        }
        Ok(encoder)
    }
}

impl Encoder for LineEncoder {
    fn write(&mut self, rows: &RecordBatch) -> Result<Totals> {
        let mut totals = Totals::default();
        let (hasher, out, line_sep) = (&self.hasher, &mut self.out, self.line_sep.as_bytes());
        self.lines.each(rows, &mut |line| {
            totals = totals.plus(hasher.line(line));
            out.push(line)?;
            out.push(line_sep)
        })?;
        Ok(totals)
    }

    fn drain(&mut self, least: usize) -> Result<Bytes> {
        let ready = self.out.ready();
        Ok(if ready.len() < least { Bytes::new() } else { Bytes::from(std::mem::take(ready)) })
    }

    fn held_bytes(&self) -> usize {
        self.out.held_bytes()
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.out.finish()
    }
}

/// Compresses into memory.
enum Packer {
    Plain(Vec<u8>),
    Gzip(flate2::write::GzEncoder<Vec<u8>>),
    Zlib(flate2::write::ZlibEncoder<Vec<u8>>),
    Bzip2(bzip2::write::BzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packer").finish_non_exhaustive()
    }
}

fn failed(error: io::Error) -> Error {
    Error::internal("lines cannot be compressed").because(error)
}

impl Packer {
    fn new(codec: &str) -> Result<Packer> {
        let level = flate2::Compression::default();
        Ok(match codec {
            "gzip" => Packer::Gzip(flate2::write::GzEncoder::new(Vec::new(), level)),
            "deflate" => Packer::Zlib(flate2::write::ZlibEncoder::new(Vec::new(), level)),
            "bzip2" => {
                let level = bzip2::Compression::best();
                Packer::Bzip2(bzip2::write::BzEncoder::new(Vec::new(), level))
            }
            "zstd" => {
                Packer::Zstd(zstd::stream::write::Encoder::new(Vec::new(), 3).map_err(failed)?)
            }
            _ => Packer::Plain(Vec::new()),
        })
    }

    fn push(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Packer::Plain(out) => {
                out.extend_from_slice(bytes);
                return Ok(());
            }
            Packer::Gzip(out) => out.write_all(bytes),
            Packer::Zlib(out) => out.write_all(bytes),
            Packer::Bzip2(out) => out.write_all(bytes),
            Packer::Zstd(out) => out.write_all(bytes),
        }
        .map_err(failed)
    }

    fn ready(&mut self) -> &mut Vec<u8> {
        match self {
            Packer::Plain(out) => out,
            Packer::Gzip(out) => out.get_mut(),
            Packer::Zlib(out) => out.get_mut(),
            Packer::Bzip2(out) => out.get_mut(),
            Packer::Zstd(out) => out.get_mut(),
        }
    }

    fn held_bytes(&self) -> usize {
        match self {
            Packer::Plain(out) => out.len(),
            Packer::Gzip(out) => out.get_ref().len(),
            Packer::Zlib(out) => out.get_ref().len(),
            Packer::Bzip2(out) => out.get_ref().len(),
            Packer::Zstd(out) => out.get_ref().len(),
        }
    }

    fn finish(&mut self) -> Result<()> {
        match self {
            Packer::Plain(_) => Ok(()),
            Packer::Gzip(out) => out.try_finish(),
            Packer::Zlib(out) => out.try_finish(),
            Packer::Bzip2(out) => out.try_finish(),
            Packer::Zstd(out) => out.do_finish(),
        }
        .map_err(failed)
    }
}

/// Sums up a file that is read back.
pub(crate) fn totals(
    file: &StoredFile,
    options: &FileOptions,
    hasher: &RowHasher,
) -> Result<Totals> {
    let raw = file.read_from(0);
    let unpacked: Box<dyn Read> = match options.compression.as_str() {
        "gzip" => Box::new(flate2::read::MultiGzDecoder::new(raw)),
        "deflate" => Box::new(flate2::read::ZlibDecoder::new(raw)),
        "bzip2" => Box::new(bzip2::read::MultiBzDecoder::new(raw)),
        "zstd" => Box::new(zstd::stream::read::Decoder::new(raw).map_err(unreadable)?),
        _ => Box::new(raw),
    };
    let mut reader = BufReader::with_capacity(256 << 10, unpacked);
    let mut totals = Totals::default();
    let mut skip = options.format == Format::Csv && options.text.csv.header;
    let mut act = |line: &[u8]| {
        if !std::mem::take(&mut skip) {
            totals = totals.plus(hasher.line(line));
        }
    };
    let line_sep = options.text.line_sep.as_bytes();
    if options.format == Format::Csv {
        each_record(&mut reader, &options.text.csv, line_sep, &mut act)
    } else {
        each_line(&mut reader, line_sep, &mut act)
    }
    .map_err(unreadable)?;
    Ok(totals)
}

fn unreadable(error: io::Error) -> Error {
    Error::corrupt("its lines cannot be read").because(error)
}

/// Calls `act` with each line, without its end.
fn each_line(
    reader: &mut dyn BufRead,
    line_sep: &[u8],
    act: &mut dyn FnMut(&[u8]),
) -> io::Result<()> {
    let Some(last) = line_sep.last() else { return Ok(()) };
    let mut line = Vec::new();
    loop {
        let count = reader.read_until(*last, &mut line)?;
        if let Some(text) = line.strip_suffix(line_sep) {
            act(text);
            line.clear();
        } else if count == 0 {
            if !line.is_empty() {
                act(&line);
            }
            return Ok(());
        }
    }
}
