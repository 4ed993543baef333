//! A file of a store, read by code that knows only `std::io::Read`.

use bytes::Bytes;
use onefold_storage::Store;
use onefold_types::{Error, Result};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Handle;

/// Bytes read at a time.
const CHUNK: u64 = 1 << 20;

/// A file that is there. Its reads block: only for threads that may.
#[derive(Debug, Clone)]
pub(crate) struct StoredFile {
    store: Arc<dyn Store>,
    path: String,
    size: u64,
    runtime: Handle,
    /// Why the store gave no bytes, the first time; readers of formats lose the cause.
    failure: Arc<Mutex<Option<Error>>>,
}

impl StoredFile {
    /// # Errors
    /// Corrupt, if there is no such file.
    pub(crate) async fn open(store: Arc<dyn Store>, path: &str) -> Result<StoredFile> {
        let Some(entry) = store.stat(path).await? else {
            return Err(Error::corrupt(format!(
                "{}/{path} is missing, but the manifest names it: restore it from a backup",
                store.url()
            )));
        };
        let (path, runtime) = (path.to_owned(), Handle::current());
        Ok(Self::known(store, path, entry.size, runtime))
    }

    /// A file whose size is known.
    pub(crate) fn known(
        store: Arc<dyn Store>,
        path: String,
        size: u64,
        runtime: Handle,
    ) -> StoredFile {
        StoredFile { store, path, size, runtime, failure: Arc::default() }
    }

    /// Takes what the store's first failure was, if there was one.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/{}", self.store.url(), self.path)
    }

    /// A reader from a position on.
    pub(crate) fn read_from(&self, start: u64) -> StoredReader {
        StoredReader { file: self.clone(), start, held: Bytes::new() }
    }

    fn range(&self, start: u64, length: u64) -> io::Result<Bytes> {
        self.runtime.block_on(self.store.read_range(&self.path, start, length)).map_err(|error| {
            let text = error.to_string();
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
            io::Error::other(text)
        })
    }
}

impl Length for StoredFile {
    fn len(&self) -> u64 {
        self.size
    }
}

impl ChunkReader for StoredFile {
    type T = StoredReader;

    fn get_read(&self, start: u64) -> parquet::errors::Result<StoredReader> {
        Ok(self.read_from(start))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let bytes = self.range(start, length as u64)?;
        if bytes.len() == length {
            return Ok(bytes);
        }
        Err(ParquetError::EOF(format!("{} ends early", self.url())))
    }
}

/// Reads a file in order, a piece at a time.
#[derive(Debug)]
pub(crate) struct StoredReader {
    file: StoredFile,
    start: u64,
    held: Bytes,
}

impl io::Read for StoredReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.held.is_empty() {
            self.held = self.file.range(self.start, CHUNK)?;
            self.start += self.held.len() as u64;
        }
        let bytes = self.held.split_to(self.held.len().min(into.len()));
        for (to, from) in into.iter_mut().zip(bytes.iter()) {
            *to = *from;
        }
        Ok(bytes.len())
    }
}
