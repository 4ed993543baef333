//! What changed since the database was last written to, and writing it there.

use super::keys::row_key;
use crate::arena::Tag;
use crate::base::maps::Maps;
use crate::place::WrittenRef;
use crate::rows::Rows;
use onefold_types::Result;
use rocksdb::{DB, IngestExternalFileOptions, Options, SstFileWriter, WriteBatch};
use std::fs::File;
use std::path::{Path, PathBuf};

/// A file is full with so many bytes of keys and values: what is held to make one grows with it.
const FILE_BYTES: usize = 16 << 20;

/// A row that the database does not have like this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Recent {
    /// Whether it is gone.
    pub(super) removed: bool,
    /// Whether the database has a row of that key.
    pub(super) below: bool,
}

impl Tag for Recent {
    type Bytes = [u8; 1];

    fn to_bytes(self) -> [u8; 1] {
        [u8::from(self.removed) | u8::from(self.below) << 1]
    }

    fn of_bytes([bits]: [u8; 1]) -> Self {
        Recent { removed: bits & 1 != 0, below: bits & 2 != 0 }
    }
}

/// Takes a written row; what neither the database has nor the state needs is forgotten.
pub(super) fn take(rows: &mut Rows<Recent>, row: WrittenRef<'_>) -> Result<()> {
    let spot = rows.spot(row.key);
    let below = rows.at(spot).map_or(row.existed, |(recent, _)| recent.below);
    match row.value {
        Some(value) => rows.put(spot, row.key, Recent { removed: false, below }, value),
        None if below => rows.put(spot, row.key, Recent { removed: true, below }, &[]),
        None => rows.remove(row.key).map(|_| ()),
    }
}

/// Reads a file through. Whoever writes one for RocksDB has the system forget its bytes, so that
/// each row would be fetched from the disk when it is first looked for.
fn keep_at_hand(path: &Path) {
    // Nothing is lost if that fails.
    let _ = File::open(path).and_then(|mut file| std::io::copy(&mut file, &mut std::io::sink()));
}

/// Pairs to be written before and behind the rows, so that all come in order.
pub(super) type Pair = (Vec<u8>, Vec<u8>);

/// Everything to be written at once: a version, the rows, and counts.
pub(super) struct Spill<'a> {
    pub(super) before: &'a [Pair],
    pub(super) rows: &'a Maps<Recent>,
    pub(super) behind: &'a [Pair],
}

impl Spill<'_> {
    /// Calls for each key in the order of keys; `None` for a row that is gone.
    fn each<E>(
        &self,
        mut each: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.before.iter().try_for_each(|(key, value)| each(key, Some(value)))?;
        for (place, group, rows) in self.rows.iter() {
            for (key, recent, value) in rows.sorted() {
                let value = (!recent.removed).then_some(value);
                if value.is_some() || recent.below {
                    each(&row_key(place, group, key), value)?;
                }
            }
        }
        self.behind.iter().try_for_each(|(key, value)| each(key, Some(value)))
    }

    /// Writes few rows, through the log.
    pub(super) fn write(&self, db: &DB) -> Result<(), rocksdb::Error> {
        let mut batch = WriteBatch::default();
        self.each(|key, value| {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            }
            Ok(())
        })?;
        db.write(batch)
    }

    /// Writes many rows, as files that the database takes as its own: all of them or none. They are
    /// made in `folder`.
    pub(super) fn ingest(
        &self,
        db: &DB,
        options: &Options,
        folder: &Path,
    ) -> Result<(), rocksdb::Error> {
        let mut paths: Vec<PathBuf> = Vec::new();
        let mut open: Option<SstFileWriter<'_>> = None;
        let mut bytes = 0;
        self.each(|key, value| {
            if bytes >= FILE_BYTES
                && let Some(mut full) = open.take()
            {
                full.finish()?;
            }
            let file = match &mut open {
                Some(file) => file,
                None => {
                    let path = folder.join(format!("spilled-{}.sst", paths.len()));
                    let file = SstFileWriter::create(options);
                    file.open(&path)?;
                    paths.push(path);
                    bytes = 0;
                    open.insert(file)
                }
            };
            bytes += key.len() + value.map_or(0, <[u8]>::len);
            match value {
                Some(value) => file.put(key, value),
                None => file.delete(key),
            }
        })?;
        if let Some(mut last) = open {
            last.finish()?;
        }
        paths.iter().for_each(|path| keep_at_hand(path));
        let mut how = IngestExternalFileOptions::default();
        how.set_move_files(true);
        db.ingest_external_file_opts(&how, paths)
    }
}
