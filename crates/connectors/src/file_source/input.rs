//! Opens the files of a batch, checks that they are what was recorded, and unpacks them.

use super::bucket::Bucket;
use super::note::ChosenFile;
use crate::file_sink::stored_file::StoredFile;
use crate::formats::Compression;
use onefold_storage::location;
use onefold_types::{Error, ErrorKind, Result};
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

/// What tells whether a file is still the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Length in bytes.
    pub(crate) size: u64,
    /// Time of last change, milliseconds since 1970; negative before.
    pub(crate) modified_ms: i64,
    /// The store's version of the bytes, where it has one.
    pub(crate) etag: Option<String>,
}

impl From<&Metadata> for Facts {
    fn from(metadata: &Metadata) -> Facts {
        Facts { size: metadata.len(), modified_ms: modified_ms(metadata), etag: None }
    }
}

/// Time of last change in milliseconds since 1970; negative before.
pub(crate) fn modified_ms(metadata: &Metadata) -> i64 {
    metadata.mtime().saturating_mul(1_000).saturating_add(metadata.mtime_nsec() / 1_000_000)
}

/// The local path of a file of this source.
fn local(uri: &str) -> Result<PathBuf> {
    location::log_path(uri).ok_or_else(|| {
        Error::invalid(format!(
            "{uri} is not on a local disk, but the source is; a source cannot move to another \
             store, so start the query with a new checkpoint"
        ))
    })
}

/// The facts of a file; `None` if it is gone.
pub(crate) fn facts_of(uri: &str, bucket: Option<&Bucket>) -> Result<Option<Facts>> {
    if let Some(bucket) = bucket {
        return bucket.facts(uri);
    }
    match std::fs::metadata(local(uri)?) {
        Ok(metadata) => Ok(Some(Facts::from(&metadata))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(uri, error)),
    }
}

/// Checks that a file is still the one that was recorded.
pub(crate) fn verify(file: &ChosenFile, found: &Facts, tolerance: Tolerance) -> Result<()> {
    if tolerance.changed {
        return Ok(());
    }
    let differs = |what: &str, was: &dyn std::fmt::Display, is: &dyn std::fmt::Display| {
        Err(Error::corrupt(format!(
            "{} changed since its batch was planned: {what} was {was} and is {is}; restore the \
             file, or give the source (read_files or readStream) the option \
             onefold.source.allowChangedFiles=true to read it as it is",
            file.path
        )))
    };
    if let (Some(was), Some(is)) = (&file.etag, &found.etag) {
        return if was == is { Ok(()) } else { differs("ETag", was, is) };
    }
    if let Some(was) = file.size
        && was != found.size
    {
        return differs("size", &was, &found.size);
    }
    // A listing of a bucket tells finer times than a look at one object.
    let unit = if found.etag.is_some() { 1_000 } else { 1 };
    match file.mtime {
        Some(was) if was.div_euclid(unit) != found.modified_ms.div_euclid(unit) => {
            differs("modification time", &was, &found.modified_ms)
        }
        _ => Ok(()),
    }
}

/// The bytes of a file, for readers that jump.
pub(crate) enum Content {
    Local(File),
    Stored(StoredFile),
}

/// An open file of a batch.
pub(crate) struct Input {
    content: Content,
    facts: Facts,
    name: String,
    bucket: Option<Bucket>,
}

fn vanished(chosen: &ChosenFile, tolerance: Tolerance) -> Result<()> {
    if tolerance.missing {
        tracing::warn!(path = %chosen.path, "a file vanished and is left out");
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "{} vanished before its batch was read; restore it, or set ignoreMissingFiles=true to go \
         on without it",
        chosen.path
    )))
}

impl Input {
    /// Opens a file; `None` if it is gone and that is allowed.
    pub(crate) fn open(
        chosen: &ChosenFile,
        tolerance: Tolerance,
        bucket: Option<&Bucket>,
    ) -> Result<Option<Input>> {
        let path = &chosen.path;
        let opened = match bucket {
            Some(bucket) => match bucket.facts(path)? {
                Some(facts) => Some((Content::Stored(bucket.file(path, facts.size)?), facts)),
                None => None,
            },
            None => match File::open(local(path)?) {
                Ok(file) => {
                    let metadata = file.metadata().map_err(|error| unreadable(path, error))?;
                    Some((Content::Local(file), Facts::from(&metadata)))
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(unreadable(path, error)),
            },
        };
        let Some((content, facts)) = opened else {
            return vanished(chosen, tolerance).map(|()| None);
        };
        verify(chosen, &facts, tolerance)?;
        let name = location::file_name(path);
        Ok(Some(Input { content, facts, name, bucket: bucket.cloned() }))
    }

    /// What the file was like when it was opened.
    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The file, for readers that jump.
    pub(crate) fn content(&self) -> Result<Content> {
        Ok(match &self.content {
            Content::Stored(file) => Content::Stored(file.clone()),
            Content::Local(file) => Content::Local(file.try_clone().map_err(|error| {
                Error::unavailable("a file handle could not be copied").because(error)
            })?),
        })
    }

    /// The bytes as they are.
    pub(crate) fn bytes(&self) -> Result<Box<dyn Read + Send>> {
        Ok(match self.content()? {
            Content::Local(file) => Box::new(file),
            Content::Stored(file) => Box::new(file.read_from(0)),
        })
    }

    /// The bytes, unpacked.
    pub(crate) fn reader(&self) -> Result<Box<dyn Read + Send>> {
        if self.facts.size == 0 {
            // Codecs differ in what they make of nothing.
            return Ok(Box::new(io::empty()));
        }
        let bytes = self.bytes()?;
        Ok(match Compression::of_file_name(&self.name) {
            Compression::None => bytes,
            Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(buffered(bytes))),
            Compression::Bzip2 => Box::new(bzip2::read::MultiBzDecoder::new(buffered(bytes))),
            Compression::Zstd => {
                Box::new(zstd::stream::read::Decoder::new(bytes).map_err(|error| {
                    Error::unavailable("the zstd decoder could not start").because(error)
                })?)
            }
            Compression::Deflate => Box::new(flate2::read::ZlibDecoder::new(buffered(bytes))),
            Compression::Snappy => Box::new(HadoopBlocks::new(buffered(bytes), unpack_snappy)),
            Compression::Lz4 => Box::new(HadoopBlocks::new(buffered(bytes), unpack_lz4)),
        })
    }

    /// Why the store gave no more bytes, if that is why reading stopped.
    pub(crate) fn failure(&self) -> Option<Error> {
        match &self.content {
            Content::Stored(file) => {
                file.failure().filter(|error| error.kind() != ErrorKind::Corrupt)
            }
            Content::Local(_) => None,
        }
    }

    /// Checks once more, after all was read.
    pub(crate) fn verify_again(&self, chosen: &ChosenFile, tolerance: Tolerance) -> Result<()> {
        let facts = match &self.content {
            Content::Local(file) => {
                let metadata = file.metadata().map_err(|error| unreadable(&chosen.path, error))?;
                Facts::from(&metadata)
            }
            Content::Stored(_) => match facts_of(&chosen.path, self.bucket.as_ref())? {
                Some(facts) => facts,
                None => return vanished(chosen, tolerance),
            },
        };
        verify(chosen, &facts, tolerance)
    }
}

type Source = Box<dyn Read + Send>;

fn buffered(bytes: Source) -> io::BufReader<Source> {
    io::BufReader::with_capacity(128 * 1024, bytes)
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
