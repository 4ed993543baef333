//! A base in a RocksDB in a local folder: a copy of the newest version, for state larger than
//! memory.
//!
//! It holds nothing that the checkpoint does not hold. The version that it is a copy of is written
//! in the same atomic batch as the rows, so a database that is found is either of use or is built
//! anew.

mod folder;
mod keys;

use super::{Base, BaseVersion, Writes};
use crate::budget::{MemoryBudget, Share};
use crate::counts::{Change, Counts};
use crate::place::{Place, Written};
use crate::state_ref::Hash;
use crate::{KEY_GROUPS, KeyGroup, OperatorSpec, RowVisitor, StateRow};
use folder::LocalFolder;
use keys::{META, counts_key, decode_counts, encode_counts, family_key, group_end, row_key};
use onefold_types::{Error, Result};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, DBPinnableSlice, Options, ReadOptions,
    WriteBatch, WriteBufferManager, WriteOptions,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::{Bound, Range};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Rows are handed to the database so many bytes at a time while it is built.
const LOAD_BYTES: usize = 4 << 20;

/// What the database says of itself.
#[derive(Debug, Serialize, Deserialize)]
struct Meta {
    version: u64,
    chain: Hash,
    /// What its keys mean: operators, families and schemas.
    layout: String,
}

/// All rows in a RocksDB.
pub(crate) struct RocksBase {
    /// `None` only while the folder is made anew.
    db: Option<DB>,
    /// Given up after the database is closed.
    _place: LocalFolder,
    folder: PathBuf,
    options: Options,
    operators: Vec<OperatorSpec>,
    layout: String,
    held: Option<BaseVersion>,
    counts: Counts,
    /// Rows that are being loaded. The lock is only there because a batch cannot be shared.
    loading: Mutex<WriteBatch>,
    _share: Share,
}

impl std::fmt::Debug for RocksBase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RocksBase").field("folder", &self.folder).field("held", &self.held).finish()
    }
}

impl RocksBase {
    /// Opens a database in a query's folder, or makes one. `layout` names what its keys mean: a database
    /// of another layout is of no use.
    ///
    /// # Errors
    /// Unavailable, when the folder cannot be used; Invalid, when it is another user's or the budget does not suffice for the caches.
    pub(crate) fn open(
        folder: &Path,
        layout: String,
        operators: &[OperatorSpec],
        budget: &MemoryBudget,
    ) -> Result<Self> {
        let cache = usize::try_from(budget.limit() / 4).unwrap_or(usize::MAX);
        let cache = cache.clamp(8 << 20, 512 << 20);
        let mut share = budget.share();
        share.cover(cache as u64)?;
        let options = options(cache);
        let place = LocalFolder::take(folder)?;
        let mut base = RocksBase {
            db: None,
            folder: place.database().to_owned(),
            _place: place,
            options,
            operators: operators.to_vec(),
            layout,
            held: None,
            counts: Counts::empty(operators),
            loading: Mutex::default(),
            _share: share,
        };
        match DB::open(&base.options, &base.folder) {
            Ok(db) => base.db = Some(db),
            Err(error) if is_corrupt(&error) => {
                tracing::warn!("{}; building it anew", base.fault("open", error).chain());
                base.make_anew()?;
            }
            Err(error) => return Err(base.fault("open", error)),
        }
        if let Err(error) = base.read_meta() {
            tracing::warn!("{}; building it anew", error.chain());
            base.make_anew()?;
        }
        Ok(base)
    }

    fn db(&self) -> Result<&DB> {
        self.db.as_ref().ok_or_else(|| {
            let folder = self.folder.display();
            Error::unavailable(format!("the local state in {folder} is closed"))
        })
    }

    fn fault(&self, act: &str, error: rocksdb::Error) -> Error {
        let folder = self.folder.display();
        Error::unavailable(format!(
            "cannot {act} the local state in {folder}; if this goes on, remove that folder: it is \
             built again from the checkpoint"
        ))
        .because(error)
    }

    /// As [`RocksBase::fault`]; a database that is found damaged is built anew by the next start.
    fn read_fault(&self, error: rocksdb::Error) -> Error {
        if is_corrupt(&error)
            && let Some(db) = &self.db
        {
            // If this fails too, the next start meets the damage again.
            let _ = db.delete(META);
        }
        self.fault("read", error)
    }

    fn make_anew(&mut self) -> Result<()> {
        self.db = None;
        self.held = None;
        self.counts.clear();
        self.loading().clear();
        DB::destroy(&self.options, &self.folder).map_err(|error| self.fault("remove", error))?;
        let db = DB::open(&self.options, &self.folder);
        self.db = Some(db.map_err(|error| self.fault("open", error))?);
        Ok(())
    }

    /// Reads what version is held, and the counts; nothing if the layout is another.
    fn read_meta(&mut self) -> Result<()> {
        let meta = self.db()?.get(META).map_err(|error| self.fault("read", error))?;
        let meta = meta.and_then(|bytes| serde_json::from_slice::<Meta>(&bytes).ok());
        let Some(meta) = meta.filter(|meta| meta.layout == self.layout) else { return Ok(()) };
        let mut counts = Counts::empty(&self.operators);
        for place in self.places() {
            let bytes =
                self.db()?.get(counts_key(place)).map_err(|error| self.fault("read", error))?;
            let read = bytes.and_then(|bytes| decode_counts(&bytes));
            let family = counts.family_mut(place.operator, place.family);
            let (Some(read), Some(family)) = (read, family) else { return Ok(()) };
            *family = read;
        }
        self.counts = counts;
        self.held = Some(BaseVersion { version: meta.version, chain: meta.chain.0 });
        Ok(())
    }

    fn places(&self) -> Vec<Place> {
        let of = |(operator, spec): (usize, &OperatorSpec)| {
            (0..spec.families.len()).map(move |family| Place { operator, family })
        };
        self.operators.iter().enumerate().flat_map(of).collect()
    }

    /// Adds the counts of some families, and the version, to what is written.
    fn add_meta(
        &self,
        batch: &mut WriteBatch,
        places: impl IntoIterator<Item = Place>,
        version: &BaseVersion,
    ) -> Result<()> {
        for place in places {
            if let Some(counts) = self.counts.family(place.operator, place.family) {
                batch.put(counts_key(place), encode_counts(counts));
            }
        }
        let (chain, layout) = (Hash(version.chain), self.layout.clone());
        let meta = Meta { version: version.version, chain, layout };
        let meta = serde_json::to_vec(&meta)
            .map_err(|error| Error::internal("a version cannot be written").because(error))?;
        batch.put(META, meta);
        Ok(())
    }

    fn get_pinned(
        &self,
        place: Place,
        group: KeyGroup,
        key: &[u8],
    ) -> Result<Option<DBPinnableSlice<'_>>> {
        let found = self.db()?.get_pinned(row_key(place, group, key));
        found.map_err(|error| self.read_fault(error))
    }

    fn loading(&mut self) -> &mut WriteBatch {
        self.loading.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn flush_loading(&mut self) -> Result<()> {
        let rows = std::mem::take(self.loading());
        // What is lost before the version is written is built again.
        let written = self.db()?.write_without_wal(rows);
        written.map_err(|error| self.fault("write", error))
    }
}

fn is_corrupt(error: &rocksdb::Error) -> bool {
    error.kind() == rocksdb::ErrorKind::Corruption
}

fn options(cache: usize) -> Options {
    let shared = Cache::new_lru_cache(cache);
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&shared);
    table.set_cache_index_and_filter_blocks(true);
    table.set_pin_l0_filter_and_index_blocks_in_cache(true);
    table.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_write_buffer_size((cache / 4).min(64 << 20));
    // Rows not yet in files are charged to the cache, so that the cache bounds both.
    let buffers =
        WriteBufferManager::new_write_buffer_manager_with_cache(cache / 2, false, shared.clone());
    options.set_write_buffer_manager(&buffers);
    options.set_max_total_wal_size(256 << 20);
    options.set_max_background_jobs(2);
    options.set_keep_log_file_num(2);
    options.set_max_log_file_size(1 << 20);
    options.set_stats_dump_period_sec(0);
    options
}

impl Base for RocksBase {
    fn get(&self, place: Place, keys: &[(KeyGroup, &[u8])]) -> Result<Vec<Option<Box<[u8]>>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let keys = keys.iter().map(|(group, key)| row_key(place, *group, key));
        let found = self.db()?.multi_get(keys).into_iter();
        let boxed = |value: Option<Vec<u8>>| value.map(Vec::into_boxed_slice);
        found.map(|found| found.map(boxed).map_err(|error| self.read_fault(error))).collect()
    }

    fn value_length(&self, place: Place, group: KeyGroup, key: &[u8]) -> Result<Option<usize>> {
        Ok(self.get_pinned(place, group, key)?.map(|value| value.len()))
    }

    fn remember_reads(&self) -> bool {
        true
    }

    fn scan(
        &self,
        place: Place,
        group: KeyGroup,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        limit: usize,
    ) -> Result<Vec<StateRow>> {
        if crate::rows::is_empty(from, to) {
            return Ok(Vec::new());
        }
        let prefix = row_key(place, group, &[]);
        // The smallest key after another is that one with a zero byte behind it.
        let after = |key: &[u8]| [row_key(place, group, key), vec![0]].concat();
        let start = match from {
            Bound::Unbounded => prefix.clone(),
            Bound::Included(key) => row_key(place, group, key),
            Bound::Excluded(key) => after(key),
        };
        let end = match to {
            Bound::Unbounded => group_end(place, group),
            Bound::Included(key) => after(key),
            Bound::Excluded(key) => row_key(place, group, key),
        };
        let mut read = ReadOptions::default();
        read.set_iterate_upper_bound(end);
        let mut rows = self.db()?.raw_iterator_opt(read);
        rows.seek(start);
        let mut found = Vec::new();
        while found.len() < limit
            && let Some((key, value)) = rows.item()
        {
            let key = key.get(prefix.len()..).unwrap_or_default().into();
            found.push(StateRow { key, value: value.into() });
            rows.next();
        }
        rows.status().map_err(|error| self.read_fault(error))?;
        Ok(found)
    }

    fn for_each(&self, place: Place, groups: Range<u32>, each: &mut RowVisitor<'_>) -> Result<()> {
        let Some(first) = u8::try_from(groups.start).ok().filter(|_| !groups.is_empty()) else {
            return Ok(());
        };
        // The last group may be 255, behind which no byte comes.
        let end = match groups.end {
            KEY_GROUPS.. => group_end(place, u8::MAX),
            end => row_key(place, u8::try_from(end).unwrap_or(u8::MAX), &[]),
        };
        let mut read = ReadOptions::default();
        read.set_iterate_upper_bound(end);
        read.set_readahead_size(1 << 20);
        read.fill_cache(false);
        let mut rows = self.db()?.raw_iterator_opt(read);
        rows.seek(row_key(place, first, &[]));
        let prefix = family_key(place).len();
        while let Some((key, value)) = rows.item() {
            if let Some((group, key)) = key.get(prefix..).and_then(<[u8]>::split_first) {
                each(*group, key, value)?;
            }
            rows.next();
        }
        rows.status().map_err(|error| self.read_fault(error))
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }

    fn apply(&mut self, writes: Writes<'_, '_>, version: &BaseVersion) -> Result<()> {
        let mut batch = WriteBatch::default();
        for (place, row) in writes.rows {
            let key = row_key(place, row.group, row.key);
            match row.value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            }
        }
        let mut changed = BTreeSet::new();
        for (place, group, change) in writes.changes {
            if let Some(family) = self.counts.family_mut(place.operator, place.family) {
                family.change(*group, *change);
                changed.insert(*place);
            }
        }
        self.add_meta(&mut batch, changed, version)?;
        let written = self.db()?.write(batch);
        written.map_err(|error| self.fault("write", error))?;
        self.held = Some(version.clone());
        Ok(())
    }

    fn clear(&mut self) -> Result<()> {
        self.make_anew()
    }

    fn load(&mut self, place: Place, row: Written) -> Result<()> {
        let Some(value) = row.value else { return Ok(()) };
        let change = Change::of(row.key.len(), None, Some(value.len()));
        if let Some(family) = self.counts.family_mut(place.operator, place.family) {
            family.change(row.group, change);
        }
        let loading = self.loading();
        loading.put(row_key(place, row.group, &row.key), value);
        if loading.size_in_bytes() >= LOAD_BYTES { self.flush_loading() } else { Ok(()) }
    }

    fn loaded(&mut self, version: &BaseVersion) -> Result<()> {
        if self.held.as_ref() == Some(version) {
            return Ok(());
        }
        self.flush_loading()?;
        // The rows were written without a log: they go into files before the version does.
        self.db()?.flush().map_err(|error| self.fault("write", error))?;
        let mut batch = WriteBatch::default();
        self.add_meta(&mut batch, self.places(), version)?;
        let mut synced = WriteOptions::default();
        synced.set_sync(true);
        let written = self.db()?.write_opt(batch, &synced);
        written.map_err(|error| self.fault("write", error))?;
        self.held = Some(version.clone());
        Ok(())
    }

    fn held(&self) -> Option<&BaseVersion> {
        self.held.as_ref()
    }
}
