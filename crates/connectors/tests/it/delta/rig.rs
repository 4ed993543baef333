//! What every test of a Delta table needs: a query's side of the contract, and a reader of the log
//! that shares nothing with the code under test.

use crate::sink::rig::{Gate, ManualClock, stream};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Int64Type, SchemaRef};
use onefold_connector::{
    Attempt, Clock, ONE_BATCH, Options, OutputMode, Sink, SinkContext, SinkDefinition, SinkEffects,
    SinkRequest,
};
use onefold_connectors::delta;
use onefold_storage::{LocalStore, Store, location};
use onefold_types::{BatchId, Generation, OptionMap, Published, QueryId, Result, RunId};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

/// A query that writes a table.
#[derive(Clone)]
pub(crate) struct Rig {
    pub(crate) options: OptionMap,
    pub(crate) partition_by: Vec<String>,
    pub(crate) output_mode: OutputMode,
    pub(crate) schema: SchemaRef,
    pub(crate) query: QueryId,
    pub(crate) conf: BTreeMap<String, String>,
    pub(crate) store: Arc<dyn Store>,
}

impl Rig {
    pub(crate) fn local(folder: &Path) -> Rig {
        Rig::over(Arc::new(LocalStore::new(folder).unwrap()))
    }

    pub(crate) fn over(store: Arc<dyn Store>) -> Rig {
        Rig {
            options: OptionMap::new(),
            partition_by: Vec::new(),
            output_mode: OutputMode::Append,
            schema: crate::sink::rig::schema(),
            query: crate::sink::rig::query(),
            conf: BTreeMap::new(),
            store,
        }
    }

    /// The same table, another query.
    pub(crate) fn other(&self, number: u128) -> Rig {
        Rig { query: QueryId(uuid::Uuid::from_u128(number)), ..self.clone() }
    }

    pub(crate) fn definition(&self) -> Result<Arc<dyn SinkDefinition>> {
        let spec = &delta::SINK;
        let request = SinkRequest {
            options: Options::check(spec.name, spec.options, self.options.clone())?,
            path: None,
            partition_by: self.partition_by.clone(),
            query_name: None,
            output_mode: self.output_mode,
        };
        delta::define_over(&request, Arc::clone(&self.store))
    }

    /// Opens the sink as driver `generation`; commits and intents as the checkpoint has them.
    pub(crate) async fn open(
        &self,
        generation: u64,
        last_commit: Option<u64>,
        last_intent: Option<u64>,
    ) -> Result<Arc<dyn Sink>> {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock(AtomicI64::new(1_800_000_000_000)));
        let context = SinkContext {
            query: self.query,
            run: RunId(self.query.0),
            generation: Generation(generation),
            last_commit: last_commit.map(BatchId),
            last_intent: last_intent.map(BatchId),
            follows: false,
            schema: Arc::clone(&self.schema),
            clock,
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
        rows: Vec<RecordBatch>,
    ) -> Result<Published> {
        let attempt = self.attempt(batch, generation);
        let mut outputs = Vec::new();
        for (partition, rows) in (0..).zip(rows) {
            outputs.push(sink.stage(&attempt, partition, stream(vec![rows])).await?);
        }
        let published = sink.publish(&attempt, outputs, &Gate::default()).await?;
        sink.settle(&published).await?;
        Ok(published)
    }

    /// Writes once, as `DataFrame.write`.
    pub(crate) async fn write(&self, rows: RecordBatch) -> Result<()> {
        let mut rig = Rig { schema: rows.schema(), ..self.clone() };
        rig.conf.insert(ONE_BATCH.to_owned(), "true".to_owned());
        rig.query = QueryId(uuid::Uuid::new_v4());
        let sink = rig.open(1, None, None).await?;
        rig.run(&*sink, 1, 0, vec![rows]).await.map(|_| ())
    }
}

/// The lines of all commits in the order of their versions.
pub(crate) async fn actions(store: &dyn Store) -> Vec<Value> {
    let mut paths: Vec<String> = store
        .list("_delta_log")
        .await
        .unwrap()
        .into_iter()
        .map(|entry| entry.path)
        .filter(|path| path.ends_with(".json"))
        .collect();
    paths.sort();
    let mut actions = Vec::new();
    for path in paths {
        let bytes = store.read(&path).await.unwrap().unwrap();
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            actions.push(serde_json::from_slice(line).unwrap());
        }
    }
    actions
}

/// All actions of a kind.
pub(crate) async fn all(store: &dyn Store, kind: &str) -> Vec<Value> {
    let all = actions(store).await;
    all.into_iter().filter_map(|action| action.get(kind).cloned()).collect()
}

/// The files that the log names, as it spells them, with their partition values.
pub(crate) async fn files(store: &dyn Store) -> BTreeMap<String, Value> {
    let mut files = BTreeMap::new();
    for action in actions(store).await {
        if let Some(add) = action.get("add") {
            let path = add["path"].as_str().unwrap().to_owned();
            files.insert(path, add["partitionValues"].clone());
        }
        if let Some(remove) = action.get("remove") {
            let path = remove["path"].as_str().unwrap();
            assert!(files.remove(path).is_some(), "a removal names no file: {path}");
        }
    }
    files
}

/// The ids in the files that the log names, sorted.
pub(crate) async fn ids(store: &dyn Store) -> Vec<i64> {
    let mut ids = Vec::new();
    for path in files(store).await.into_keys() {
        let path = location::decode_path(&path).unwrap();
        let bytes = store.read(&path).await.unwrap().unwrap_or_else(|| panic!("{path} is gone"));
        for batch in ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap().build().unwrap() {
            let batch = batch.unwrap();
            let column = batch.column_by_name("id").unwrap();
            ids.extend(column.as_primitive::<Int64Type>().values());
        }
    }
    ids.sort_unstable();
    ids
}
