//! What every test of a file sink needs: a query's side of the contract.

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use onefold_connector::{
    Attempt, Clock, Fence, Options, OutputMode, RowStream, Sink, SinkContext, SinkDefinition,
    SinkEffects, SinkRequest, SinkSpec,
};
use onefold_connectors::file_sink;
use onefold_storage::{LocalStore, Store};
use onefold_types::{BatchId, Error, Generation, OptionMap, Published, QueryId, Result, RunId};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// A clock that tests move.
#[derive(Debug)]
pub(crate) struct ManualClock(pub(crate) AtomicI64);

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A fence that tests close.
#[derive(Debug, Default)]
pub(crate) struct Gate(pub(crate) AtomicBool);

#[async_trait]
impl Fence for Gate {
    async fn check(&self) -> Result<()> {
        if self.0.load(Ordering::SeqCst) {
            return Err(Error::fenced("a newer driver runs this query"));
        }
        Ok(())
    }
}

pub(crate) fn query() -> QueryId {
    "6fa0ab59-0d2c-4b1e-9d5c-1f2d3c4b5a69".parse().unwrap()
}

pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("k", DataType::Utf8, true),
    ]))
}

/// Rows with these ids; `k` is the id modulo 3 as text with a space.
pub(crate) fn rows(ids: &[i64]) -> RecordBatch {
    let id: ArrayRef = Arc::new(Int64Array::from(ids.to_vec()));
    let k: ArrayRef =
        Arc::new(StringArray::from_iter_values(ids.iter().map(|id| format!("k {}/x", id % 3))));
    RecordBatch::try_new(schema(), vec![id, k]).unwrap()
}

pub(crate) fn stream(batches: Vec<RecordBatch>) -> RowStream {
    let schema = batches.first().map_or_else(schema, |batch| batch.schema());
    let rows = futures::stream::iter(batches.into_iter().map(Ok));
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

/// A query that writes into a folder.
pub(crate) struct Rig {
    pub(crate) spec: &'static SinkSpec,
    pub(crate) options: OptionMap,
    pub(crate) partition_by: Vec<String>,
    pub(crate) schema: SchemaRef,
    pub(crate) query: QueryId,
    /// Whether another sink of the query decides.
    pub(crate) follows: bool,
    pub(crate) conf: BTreeMap<String, String>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<dyn Store>,
}

impl Rig {
    pub(crate) fn local(folder: &Path) -> Rig {
        Rig::over(Arc::new(LocalStore::new(folder).unwrap()))
    }

    pub(crate) fn over(store: Arc<dyn Store>) -> Rig {
        Rig {
            spec: &file_sink::PARQUET,
            options: OptionMap::new(),
            partition_by: Vec::new(),
            schema: schema(),
            query: query(),
            follows: false,
            conf: BTreeMap::new(),
            clock: Arc::new(ManualClock(AtomicI64::new(1_800_000_000_000))),
            store,
        }
    }

    pub(crate) fn definition(&self) -> Result<Arc<dyn SinkDefinition>> {
        let options = Options::check(self.spec.name, self.spec.options, self.options.clone())?;
        let request = SinkRequest {
            options,
            path: None,
            partition_by: self.partition_by.clone(),
            query_name: None,
            output_mode: OutputMode::Append,
        };
        file_sink::define_over(self.spec, &request, Arc::clone(&self.store))
    }

    /// Opens the sink as driver `generation`; commits and intents as the checkpoint has them.
    pub(crate) async fn open(
        &self,
        generation: u64,
        last_commit: Option<u64>,
        last_intent: Option<u64>,
    ) -> Result<Arc<dyn Sink>> {
        let context = SinkContext {
            query: self.query,
            run: RunId(self.query.0),
            generation: Generation(generation),
            last_commit: last_commit.map(BatchId),
            last_intent: last_intent.map(BatchId),
            follows: self.follows,
            schema: Arc::clone(&self.schema),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            effects: SinkEffects::forgotten(self.query),
            conf: self.conf.clone(),
        };
        self.definition()?.open(context).await
    }

    pub(crate) fn attempt(&self, batch: u64, generation: u64) -> Attempt {
        Attempt { query: self.query, batch: BatchId(batch), generation: Generation(generation) }
    }

    /// Runs one batch through, up to the commit.
    pub(crate) async fn run(
        &self,
        sink: &dyn Sink,
        generation: u64,
        batch: u64,
        partitions: Vec<Vec<RecordBatch>>,
    ) -> Result<Published> {
        let attempt = self.attempt(batch, generation);
        let mut outputs = Vec::new();
        for (partition, batches) in (0..).zip(partitions) {
            outputs.push(sink.stage(&attempt, partition, stream(batches)).await?);
        }
        let published = sink.publish(&attempt, outputs, &Gate::default()).await?;
        sink.settle(&published).await?;
        Ok(published)
    }
}

/// Every file that a plain listing shows, without hidden and `_` names.
pub(crate) fn listed(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return found };
    for entry in entries {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name.starts_with('.') || name.starts_with('_') {
            continue;
        }
        if entry.path().is_dir() {
            found.extend(listed(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

/// Hidden files anywhere below a folder.
pub(crate) fn hidden(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return found };
    for entry in entries {
        let entry = entry.unwrap();
        if entry.path().is_dir() {
            found.extend(hidden(&entry.path()));
        } else if entry.file_name().to_str().unwrap().starts_with('.') {
            found.push(entry.path());
        }
    }
    found
}

/// The ids in Parquet files, sorted.
pub(crate) fn ids(files: &[PathBuf]) -> Vec<i64> {
    let mut ids = Vec::new();
    for file in files {
        let file = std::fs::File::open(file).unwrap();
        for batch in ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap() {
            let batch = batch.unwrap();
            let column = batch.column_by_name("id").unwrap();
            ids.extend(column.as_primitive::<Int64Type>().values());
        }
    }
    ids.sort_unstable();
    ids
}
