//! A file source as an engine drives it: a folder, a checkpoint, intents, and restarts.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit};
use datafusion::prelude::{SessionConfig, SessionContext};
use onefold_connector::{
    Options, ReadLimit, ScanRequest, Source, SourceContext, SourceDefinition, SourceRequest,
    SourceSpec,
};
use onefold_storage::Store;
use onefold_testkit::{ManualClock, MemoryStore};
use onefold_types::{BatchId, Error, Offset, OffsetRange, OptionMap, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The columns that most tests read: `id`, `text`, `at`.
pub(crate) fn schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("text", DataType::Utf8, true),
        Field::new("at", time, true),
    ]))
}

/// A source over a folder of its own, with a checkpoint in memory, and the intents so far.
pub(crate) struct Rig {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) spec: &'static SourceSpec,
    pub(crate) options: OptionMap,
    pub(crate) schema: Option<SchemaRef>,
    /// Paths given to `load`; the folder if empty.
    pub(crate) paths: Vec<String>,
    pub(crate) conf: BTreeMap<String, String>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) log_folder: String,
    pub(crate) checkpoint: Arc<dyn Store>,
    pub(crate) memory: MemoryStore,
    pub(crate) intents: Vec<(BatchId, OffsetRange)>,
}

impl Rig {
    pub(crate) fn new(spec: &'static SourceSpec) -> Rig {
        let memory = MemoryStore::default();
        Rig {
            folder: tempfile::tempdir().unwrap(),
            spec,
            options: OptionMap::new(),
            schema: Some(schema()),
            paths: Vec::new(),
            conf: BTreeMap::new(),
            clock: Arc::new(ManualClock::new(0)),
            log_folder: "sources/0".to_owned(),
            checkpoint: Arc::new(memory.clone()),
            memory,
            intents: Vec::new(),
        }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Rig {
        self.options = self.options.with(name, value);
        self
    }

    pub(crate) fn conf(mut self, name: &str, value: &str) -> Rig {
        self.conf.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn schema(mut self, schema: Option<SchemaRef>) -> Rig {
        self.schema = schema;
        self
    }

    /// Reads this below the folder, or this absolute pattern, instead of the folder.
    pub(crate) fn path(mut self, below: &str) -> Rig {
        self.paths.push(self.at(below).to_str().unwrap().to_owned());
        self
    }

    pub(crate) fn at(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    /// Writes a file, and its folders.
    pub(crate) fn file(&self, below: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// A file with one JSON line `{"id": id}`, last changed at this second.
    pub(crate) fn row(&self, below: &str, id: i64, second: u64) -> PathBuf {
        let path = self.file(below, format!("{{\"id\":{id}}}\n"));
        touch(&path, second);
        path
    }

    pub(crate) async fn define(&self) -> Result<Arc<dyn SourceDefinition>> {
        let paths = match self.paths.as_slice() {
            [] => vec![self.folder.path().to_str().unwrap().to_owned()],
            given => given.to_vec(),
        };
        let options = Options::check(self.spec.name, self.spec.options, self.options.clone())?;
        let (schema, conf) = (self.schema.clone(), self.conf.clone());
        (self.spec.define)(SourceRequest { options, schema, paths, conf, whole: false }).await
    }

    pub(crate) async fn open(&self) -> Result<Arc<dyn Source>> {
        let context = SourceContext {
            query: "6fa0ab59-0d2c-4b1e-9d5c-1f2d3c4b5a69".parse().unwrap(),
            checkpoint: Arc::clone(&self.checkpoint),
            log_folder: self.log_folder.clone(),
            history: self.intents.clone(),
            clock: Arc::<ManualClock>::clone(&self.clock),
            conf: self.conf.clone(),
        };
        self.define().await?.open(context).await
    }

    /// Plans the next batch and remembers its intent; `None` if there is nothing new.
    pub(crate) async fn plan(&mut self, source: &dyn Source) -> Result<Option<OffsetRange>> {
        let start = self.intents.last().and_then(|(_, range)| range.end.clone());
        let range = propose(source, start).await?;
        if range.empty() {
            return Ok(None);
        }
        let batch = self.intents.last().map_or(BatchId::FIRST, |(batch, _)| batch.next());
        self.intents.push((batch, range.clone()));
        Ok(Some(range))
    }

    /// One batch from the intent to the release: the ids that it read, `None` if nothing was new.
    pub(crate) async fn batch(&mut self, source: &dyn Source) -> Result<Option<Vec<i64>>> {
        let Some(range) = self.plan(source).await? else { return Ok(None) };
        let ids = ids(&rows(source, &range, &[0]).await?);
        source.release(&range).await?;
        Ok(Some(ids))
    }

    /// Purges all intents but the newest ones.
    pub(crate) async fn purge(&mut self, source: &dyn Source, keep: u64) -> Result<()> {
        let newest = self.intents.last().map_or(0, |(batch, _)| batch.0);
        let keep_from = BatchId(newest.saturating_sub(keep));
        source.retain(keep_from).await?;
        self.intents.retain(|(batch, _)| *batch >= keep_from);
        Ok(())
    }

    /// The ids of every batch until nothing is new.
    pub(crate) async fn drain(&mut self) -> Result<Vec<Vec<i64>>> {
        let source = self.open().await?;
        let mut batches = Vec::new();
        while let Some(ids) = self.batch(source.as_ref()).await? {
            batches.push(ids);
        }
        Ok(batches)
    }

    /// All rows that one batch gives of these columns.
    pub(crate) async fn rows(&mut self, columns: &[usize]) -> Result<Vec<RecordBatch>> {
        let source = self.open().await?;
        let range = self.plan(source.as_ref()).await?.unwrap();
        rows(source.as_ref(), &range, columns).await
    }
}

/// Sets when a file was last changed, in seconds since 1970.
pub(crate) fn touch(path: &Path, second: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
    fs::File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
}

/// What a source proposes after this offset.
pub(crate) async fn propose(source: &dyn Source, start: Option<Offset>) -> Result<OffsetRange> {
    let latest = source.latest_offset(start.as_ref(), ReadLimit::Options).await?;
    Ok(OffsetRange { start, end: latest.end, note: latest.note })
}

pub(crate) async fn rows(
    source: &dyn Source,
    range: &OffsetRange,
    columns: &[usize],
) -> Result<Vec<RecordBatch>> {
    // One partition, so that rows come in the order of their files.
    let one = SessionConfig::new().with_target_partitions(1);
    let context = SessionContext::new_with_config(one);
    let state = context.state();
    let projection = columns.to_vec();
    let scan = ScanRequest { projection: Some(&projection), filters: &[], session: &state };
    let plan = source.read(range, scan).await?;
    let collected = datafusion::physical_plan::collect(plan, context.task_ctx()).await;
    collected.map_err(|error| match error.find_root() {
        datafusion::error::DataFusionError::External(found) => {
            let found = found.downcast_ref::<Error>().expect("an error of ours");
            Error::new(found.kind(), found.chain().to_string())
        }
        other => panic!("{other}"),
    })
}

/// The first column, whose values are not null.
pub(crate) fn ids(batches: &[RecordBatch]) -> Vec<i64> {
    let column = |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().clone();
    batches.iter().flat_map(|batch| column(batch).values().to_vec()).collect()
}

/// A column of text.
pub(crate) fn texts(batches: &[RecordBatch], column: usize) -> Vec<Option<String>> {
    let column = |batch: &RecordBatch| batch.column(column).as_string::<i32>().clone();
    let values = batches.iter().map(column);
    values
        .flat_map(|column| column.iter().map(|v| v.map(str::to_owned)).collect::<Vec<_>>())
        .collect()
}
