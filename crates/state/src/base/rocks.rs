//! A base in a RocksDB in a local folder: a copy of the newest version, for state larger than
//! memory.
//!
//! It holds nothing that the checkpoint does not hold. The version that it is a copy of is written
//! in the same atomic step as the rows, so a database that is found is either of use or is built
//! anew.
//!
//! What changes is first kept in memory, over the database, and goes there when it is much or old:
//! rows that come and go within a short time never reach it, and many rows reach it as one sorted
//! file. So the database may lag by some batches; a start catches up from their changelogs.

mod below;
mod filter;
mod folder;
mod keys;
mod spill;

use super::maps::Maps;
use super::{Base, BaseVersion, Writes};
use crate::budget::{MemoryBudget, Share};
use crate::counts::{Change, Counts};
use crate::layered;
use crate::place::{Place, WrittenRef};
use crate::state_ref::Hash;
use crate::{KeyGroup, OperatorSpec, RowVisitor, StateRow};
use filter::Filters;
use folder::LocalFolder;
use keys::{META, counts_key, decode_counts, encode_counts, row_key};
use onefold_types::{Error, Result};
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, DB, DBCompressionType,
    DEFAULT_COLUMN_FAMILY_NAME, Options, WriteBatch, WriteBufferManager, WriteOptions,
};
use serde::{Deserialize, Serialize};
use spill::{Pair, Recent, Spill};
use std::ops::{Bound, Range};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Rows are handed to the database so many bytes at a time while it is built.
const LOAD_BYTES: usize = 4 << 20;

/// What changed goes to the database after so many batches, so that a start finds the version
/// among the files it knows.
const BATCHES_BETWEEN: u64 = 8;

/// And when so many bytes were written since, which is what a start would have to read.
const BYTES_BETWEEN: u64 = 64 << 20;

/// Ten bits of filter for each row, and its share of an index.
const FILTER_BYTES: u64 = 2;

/// What takes at least this part of its room is written as a file of its own.
const INGEST_PART: u64 = 4;

/// So many files that may overlap are merged into such that do not.
const LEVEL_ZERO: i32 = 32;

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
    /// The counts of what the database itself has.
    below: Counts,
    /// Which keys it may have.
    filters: Filters,
    /// What changed since the database was written to.
    recent: Maps<Recent>,
    /// As much memory as that may take.
    room: u64,
    /// Batches, and bytes of their rows, since then.
    batches: u64,
    bytes: u64,
    /// Whether `recent` and `held` may not fit each other, or the database is damaged.
    broken: AtomicBool,
    /// Rows that are being loaded. The lock is only there because a batch cannot be shared.
    loading: Mutex<WriteBatch>,
    share: Share,
    /// What the caches have of the share.
    cache: u64,
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
        let part = usize::try_from(budget.limit() / 8).unwrap_or(usize::MAX);
        let (cache, room) = (part.clamp(8 << 20, 32 << 20), part.clamp(1 << 20, 64 << 20) as u64);
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
            below: Counts::empty(operators),
            filters: Filters::new(operators),
            recent: Maps::new(operators),
            room,
            batches: 0,
            bytes: 0,
            broken: AtomicBool::new(false),
            loading: Mutex::default(),
            share,
            cache: cache as u64,
        };
        match base.open_database() {
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

    fn open_database(&self) -> Result<DB, rocksdb::Error> {
        // Named, so that many rows can be asked for at once.
        let rows = ColumnFamilyDescriptor::new(DEFAULT_COLUMN_FAMILY_NAME, self.options.clone());
        DB::open_cf_descriptors(&self.options, &self.folder, [rows])
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
            self.broken.store(true, Ordering::Release);
            // If this fails too, the next start meets the damage again.
            let _ = db.delete(META);
        }
        self.fault("read", error)
    }

    fn make_anew(&mut self) -> Result<()> {
        self.db = None;
        self.held = None;
        self.counts.clear();
        self.below.clear();
        self.filters.clear();
        self.recent.clear();
        (self.batches, self.bytes) = (0, 0);
        self.broken.store(false, Ordering::Release);
        self.loading().clear();
        DB::destroy(&self.options, &self.folder).map_err(|error| self.fault("remove", error))?;
        let db = self.open_database();
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
        self.below = counts.clone();
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

    /// The version as the database keeps it.
    fn meta(&self, version: &BaseVersion) -> Result<Pair> {
        let (chain, layout) = (Hash(version.chain), self.layout.clone());
        let meta = Meta { version: version.version, chain, layout };
        let meta = serde_json::to_vec(&meta)
            .map_err(|error| Error::internal("a version cannot be written").because(error))?;
        Ok((META.to_vec(), meta))
    }

    /// The counts as the database keeps them; `changed` leaves out those that it has already.
    fn counts_to_write(&self, changed: bool) -> Vec<Pair> {
        let of = |place: Place| {
            let counts = self.counts.family(place.operator, place.family)?;
            let same = self.below.family(place.operator, place.family) == Some(counts);
            (!(changed && same)).then(|| (counts_key(place).to_vec(), encode_counts(counts)))
        };
        self.places().into_iter().filter_map(of).collect()
    }

    /// About the memory of all filters, and of the indexes of the database's files.
    fn fixed(&self) -> u64 {
        let counts = |place: Place| self.below.family(place.operator, place.family);
        let rows = self.places().into_iter().filter_map(counts).map(|counts| counts.all().rows);
        rows.sum::<u64>() * FILTER_BYTES + self.filters.memory()
    }

    /// Writes what changed, up to a version, to the database.
    fn spill(&mut self, version: &BaseVersion) -> Result<()> {
        let (before, behind) = ([self.meta(version)?], self.counts_to_write(true));
        let spill = Spill { before: &before, rows: &self.recent, behind: &behind };
        let written = if self.recent.memory() < self.room / INGEST_PART {
            spill.write(self.db()?)
        } else {
            let folder = self.folder.parent().unwrap_or(&self.folder);
            spill.ingest(self.db()?, &self.options, folder)
        };
        written.map_err(|error| self.fault("write", error))?;
        self.filter_recent();
        self.recent.clear();
        (self.batches, self.bytes) = (0, 0);
        self.below = self.counts.clone();
        Ok(())
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
    // Held beside the cache: the filter of a large file does not fit into a part of it, and would
    // be read anew for every key.
    table.set_cache_index_and_filter_blocks(false);
    table.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_write_buffer_size((cache / 4).min(16 << 20));
    // What is held to make a file grows with it.
    options.set_target_file_size_base(16 << 20);
    // Rows not yet in files are charged to the cache, so that the cache bounds both.
    let buffers =
        WriteBufferManager::new_write_buffer_manager_with_cache(cache / 2, false, shared.clone());
    options.set_write_buffer_manager(&buffers);
    // A key that is not there is seldom looked for in the files, and those of one spill do not
    // overlap, so that many of them cost little.
    options.set_level_zero_file_num_compaction_trigger(LEVEL_ZERO);
    options.set_level_zero_slowdown_writes_trigger(2 * LEVEL_ZERO);
    options.set_level_zero_stop_writes_trigger(3 * LEVEL_ZERO);
    options.set_max_total_wal_size(256 << 20);
    options.set_max_background_jobs(2);
    options.set_keep_log_file_num(2);
    options.set_max_log_file_size(1 << 20);
    options.set_stats_dump_period_sec(0);
    options
}

impl Drop for RocksBase {
    fn drop(&mut self) {
        // Else the next start catches up from changelogs.
        let unwritten = self.batches > 0 && !self.broken.load(Ordering::Acquire);
        if let Some(held) = self.held.clone().filter(|_| unwritten)
            && let Err(error) = self.spill(&held)
        {
            tracing::warn!("{}", error.chain());
        }
    }
}

impl Base for RocksBase {
    fn get(&self, place: Place, keys: &[(KeyGroup, &[u8])]) -> Result<Vec<Option<Box<[u8]>>>> {
        let mut found = Vec::with_capacity(keys.len());
        // Those that only the database knows, with their places in `found`.
        let (mut asked, mut places) = (Vec::new(), Vec::new());
        for (index, (group, key)) in keys.iter().enumerate() {
            let rows = self.recent.group(place, *group)?;
            let spot = rows.spot(key);
            found.push(match rows.at(spot) {
                Some((recent, value)) => (!recent.removed).then(|| value.into()),
                None => {
                    if self.may_have_below(place, *group, spot.hash()) {
                        asked.push(row_key(place, *group, key));
                        places.push(index);
                    }
                    None
                }
            });
        }
        if asked.is_empty() {
            return Ok(found);
        }
        for (index, answer) in places.into_iter().zip(self.get_below(&asked)?) {
            match (found.get_mut(index), answer, keys.get(index)) {
                (Some(slot), Some(value), _) => *slot = Some(value.as_ref().into()),
                (_, None, Some((group, _))) => self.filters.missed(place, *group),
                _ => {}
            }
        }
        Ok(found)
    }

    fn value_length(&self, place: Place, group: KeyGroup, key: &[u8]) -> Result<Option<usize>> {
        let rows = self.recent.group(place, group)?;
        let spot = rows.spot(key);
        if let Some((recent, value)) = rows.at(spot) {
            return Ok((!recent.removed).then_some(value.len()));
        }
        if !self.may_have_below(place, group, spot.hash()) {
            return Ok(None);
        }
        self.length_below(place, group, key)
    }

    fn remember_reads(&self) -> bool {
        !self.is_below_empty()
    }

    fn scan(
        &self,
        place: Place,
        group: KeyGroup,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        limit: usize,
    ) -> Result<Vec<StateRow>> {
        let recent = self.recent.group(place, group)?;
        layered::scan(
            (from, to),
            limit,
            |from, limit| self.scan_below(place, group, (from, to), limit),
            |from, to, visit| {
                for (key, row, value) in recent.range(from, to) {
                    if !visit(key, (!row.removed).then_some(value)) {
                        break;
                    }
                }
                Ok(())
            },
        )
    }

    fn for_each(&self, place: Place, groups: Range<u32>, each: &mut RowVisitor<'_>) -> Result<()> {
        self.for_each_below(place, groups.clone(), &mut |group, key, value| match self
            .recent
            .group(place, group)?
            .get(key)
        {
            Some(_) => Ok(()),
            None => each(group, key, value),
        })?;
        for group in groups.filter_map(|group| u8::try_from(group).ok()) {
            for (key, row, value) in self.recent.group(place, group)?.iter() {
                if !row.removed {
                    each(group, key, value)?;
                }
            }
        }
        Ok(())
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }

    fn apply(&mut self, writes: Writes<'_>, version: &BaseVersion) -> Result<()> {
        self.broken.store(true, Ordering::Release);
        self.bytes += writes.rows.bytes();
        self.recent.take(writes.rows, spill::take)?;
        self.counts.change_all(writes.changes);
        self.batches += 1;
        self.held = Some(version.clone());
        let memory = self.recent.memory();
        // What fits into memory whole is built anew as fast as it would be read.
        let old = self.batches >= BATCHES_BETWEEN || self.bytes >= BYTES_BETWEEN;
        if memory > self.room || (old && !self.is_below_empty()) {
            self.spill(version)?;
        }
        self.make_filters()?;
        self.share.set(self.cache + self.recent.memory() + self.fixed());
        self.broken.store(false, Ordering::Release);
        Ok(())
    }

    fn clear(&mut self) -> Result<()> {
        self.make_anew()
    }

    fn load(&mut self, place: Place, row: WrittenRef<'_>) -> Result<()> {
        let Some(value) = row.value else { return Ok(()) };
        let change = Change::of(row.key.len(), None, Some(value.len()));
        self.counts.change_all(&[(place, row.group, change)]);
        let loading = self.loading();
        loading.put(row_key(place, row.group, row.key), value);
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
        let meta = self.meta(version)?;
        for (key, value) in self.counts_to_write(false).into_iter().chain([meta]) {
            batch.put(key, value);
        }
        let mut synced = WriteOptions::default();
        synced.set_sync(true);
        let written = self.db()?.write_opt(batch, &synced);
        written.map_err(|error| self.fault("write", error))?;
        self.held = Some(version.clone());
        self.below = self.counts.clone();
        Ok(())
    }

    fn held(&self) -> Option<&BaseVersion> {
        self.held.as_ref()
    }
}
