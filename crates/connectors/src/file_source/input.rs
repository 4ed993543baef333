//! Opens the files of a batch, checks that they are what was recorded, and unpacks them.

use super::note::ChosenFile;
use crate::formats::Compression;
use crate::java_uri;
use onefold_types::{Error, Result};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// What to do with files that are not as they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tolerance {
    /// `ignoreCorruptFiles`.
    pub(crate) corrupt: bool,
    /// `ignoreMissingFiles`.
    pub(crate) missing: bool,
    /// `onefold.source.allowChangedFiles`.
    pub(crate) changed: bool,
}

/// Time of last change in milliseconds since 1970; negative before.
pub(crate) fn modified_ms(metadata: &Metadata) -> i64 {
    metadata.mtime().saturating_mul(1_000).saturating_add(metadata.mtime_nsec() / 1_000_000)
}

/// The local path of a file of this source.
pub(crate) fn local(uri: &str) -> Result<PathBuf> {
    java_uri::local_path(uri).ok_or_else(|| {
        Error::invalid(format!("{uri} is not on a local disk; the file source reads local files"))
    })
}

/// Checks that a file is still the one that was recorded.
pub(crate) fn verify(file: &ChosenFile, found: &Metadata, tolerance: Tolerance) -> Result<()> {
    if tolerance.changed {
        return Ok(());
    }
    let differs = |what: &str, was: i64, is: i64| {
        Err(Error::corrupt(format!(
            "{} changed since its batch was planned: {what} was {was} and is {is}; restore the \
             file, or set onefold.source.allowChangedFiles=true to read it as it is",
            file.path
        )))
    };
    let size = i64::try_from(found.len()).unwrap_or(i64::MAX);
    if let Some(was) = file.size.and_then(|size| i64::try_from(size).ok())
        && was != size
    {
        return differs("size", was, size);
    }
    let time = modified_ms(found);
    match file.mtime {
        Some(was) if was != time => differs("modification time", was, time),
        _ => Ok(()),
    }
}

/// An open file of a batch.
pub(crate) struct Input {
    file: File,
    name: String,
}

impl Input {
    /// Opens a file; `None` if it is gone and that is allowed.
    pub(crate) fn open(chosen: &ChosenFile, tolerance: Tolerance) -> Result<Option<Input>> {
        let path = local(&chosen.path)?;
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if tolerance.missing {
                    tracing::warn!(path = %chosen.path, "a file vanished and is left out");
                    return Ok(None);
                }
                return Err(Error::corrupt(format!(
                    "{} vanished before its batch was read; restore it, or set \
                     ignoreMissingFiles=true to go on without it",
                    chosen.path
                ))
                .because(error));
            }
            Err(error) => return Err(unreadable(&chosen.path, error)),
        };
        let metadata = file.metadata().map_err(|error| unreadable(&chosen.path, error))?;
        verify(chosen, &metadata, tolerance)?;
        Ok(Some(Input { file, name: java_uri::file_name(&chosen.path) }))
    }

    /// The bytes, unpacked.
    pub(crate) fn reader(&self) -> Result<Box<dyn Read + Send>> {
        let file = self.file.try_clone().map_err(|error| {
            Error::unavailable("a file handle could not be copied").because(error)
        })?;
        let metadata = file.metadata().map_err(|error| unreadable(&self.name, error))?;
        if metadata.len() == 0 {
            // Codecs differ in what they make of nothing.
            return Ok(Box::new(io::empty()));
        }
        Ok(match Compression::of_file_name(&self.name) {
            Compression::None => Box::new(file),
            Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(buffered(file))),
            Compression::Bzip2 => Box::new(bzip2::read::MultiBzDecoder::new(buffered(file))),
            Compression::Zstd => {
                Box::new(zstd::stream::read::Decoder::new(file).map_err(|error| {
                    Error::unavailable("the zstd decoder could not start").because(error)
                })?)
            }
            Compression::Deflate => Box::new(flate2::read::ZlibDecoder::new(buffered(file))),
            Compression::Snappy => Box::new(HadoopBlocks::new(buffered(file), unpack_snappy)),
            Compression::Lz4 => Box::new(HadoopBlocks::new(buffered(file), unpack_lz4)),
        })
    }

    /// The file itself.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Checks once more, after all was read.
    pub(crate) fn verify_again(&self, chosen: &ChosenFile, tolerance: Tolerance) -> Result<()> {
        let metadata = self.file.metadata().map_err(|error| unreadable(&chosen.path, error))?;
        verify(chosen, &metadata, tolerance)
    }
}

fn buffered(file: File) -> io::BufReader<File> {
    io::BufReader::with_capacity(128 * 1024, file)
}

/// The error of a file that cannot be read.
pub(crate) fn unreadable(path: &str, error: io::Error) -> Error {
    let text = format!("{path} cannot be read");
    match error.kind() {
        io::ErrorKind::PermissionDenied => Error::invalid(format!(
            "{text}: permission denied; give the user that runs the query the right to read it"
        )),
        _ => Error::unavailable(text),
    }
    .because(error)
}

type Unpack = fn(&[u8], usize) -> io::Result<Vec<u8>>;

/// Blocks as Hadoop's codecs write them: length unpacked, then chunks of (length packed, bytes)
/// until that length is reached; lengths big-endian.
struct HadoopBlocks<R> {
    inner: R,
    unpack: Unpack,
    block_left: usize,
    chunk: io::Cursor<Vec<u8>>,
}

/// A block or chunk longer than this is taken as damage.
const BLOCK_BYTES_MAX: usize = 1 << 30;

impl<R: Read> HadoopBlocks<R> {
    fn new(inner: R, unpack: Unpack) -> Self {
        HadoopBlocks { inner, unpack, block_left: 0, chunk: io::Cursor::default() }
    }

    fn length(&mut self, end_allowed: bool) -> io::Result<Option<usize>> {
        let mut bytes = [0_u8; 4];
        let (first, rest) = bytes.split_at_mut(1);
        if self.inner.read(first)? == 0 {
            return if end_allowed { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
        self.inner.read_exact(rest)?;
        match usize::try_from(u32::from_be_bytes(bytes)) {
            Ok(length) if length <= BLOCK_BYTES_MAX => Ok(Some(length)),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "a block is impossibly long")),
        }
    }
}

impl<R: Read> Read for HadoopBlocks<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.chunk.read(out)?;
            if count > 0 || out.is_empty() {
                return Ok(count);
            }
            if self.block_left == 0 {
                match self.length(true)? {
                    Some(length) => self.block_left = length,
                    None => return Ok(0),
                }
                continue;
            }
            let packed_length = self.length(false)?.unwrap_or(0);
            let mut packed = Vec::new();
            (&mut self.inner).take(packed_length as u64).read_to_end(&mut packed)?;
            if packed.len() < packed_length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let plain = (self.unpack)(&packed, self.block_left)?;
            self.block_left = self.block_left.saturating_sub(plain.len().max(1));
            self.chunk = io::Cursor::new(plain);
        }
    }
}

fn unpack_snappy(packed: &[u8], _: usize) -> io::Result<Vec<u8>> {
    let length = snap::raw::decompress_len(packed).map_err(io::Error::from)?;
    if length > BLOCK_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a block is impossibly long"));
    }
    snap::raw::Decoder::new().decompress_vec(packed).map_err(io::Error::from)
}

fn unpack_lz4(packed: &[u8], length_max: usize) -> io::Result<Vec<u8>> {
    lz4_flex::block::decompress(packed, length_max)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
