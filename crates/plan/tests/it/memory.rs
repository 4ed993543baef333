//! A source whose rows are in memory: partition `p` of batch range `..end` holds `rows[p]`.

use arrow::array::{ArrayRef, Int64Array, StringArray, StructArray};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use async_trait::async_trait;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::session_state::SessionState;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, execute_stream_partitioned,
};
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;
use onefold_connector::{
    LatestOffset, ReadLimit, ScanRequest, Source, SourceContext, SourceDefinition,
};
use onefold_plan::stream::{
    BatchContext, BatchPlan, BatchWatermark, HIDDEN, StreamTable, StreamingPlan,
};
use onefold_types::{BatchId, Offset, OffsetRange, QueryId, Replay, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// What the plan asked of the source.
pub type Asked = Arc<Mutex<Vec<(Option<Vec<usize>>, Vec<String>)>>>;

#[derive(Debug, Clone)]
pub struct Memory {
    pub partitions: Vec<Vec<RecordBatch>>,
    pub schema: SchemaRef,
    pub asked: Asked,
}

impl Memory {
    pub fn new(partitions: Vec<Vec<RecordBatch>>) -> Arc<Self> {
        let schema = partitions[0][0].schema();
        Arc::new(Memory { partitions, schema, asked: Asked::default() })
    }

    pub fn table(self: &Arc<Self>, name: Option<&str>) -> Arc<StreamTable> {
        let definition: Arc<dyn SourceDefinition> = Arc::clone(self) as _;
        Arc::new(StreamTable::new(name.map(str::to_owned), definition))
    }
}

#[async_trait]
impl SourceDefinition for Memory {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
    fn replay(&self) -> Replay {
        Replay::Exact { how: "in memory".to_owned() }
    }
    fn description(&self) -> String {
        "Memory".to_owned()
    }
    async fn open(&self, _context: SourceContext) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(self.clone()))
    }
}

#[async_trait]
impl Source for Memory {
    async fn pin_available(&self) -> Result<()> {
        Ok(())
    }
    async fn latest_offset(&self, _: Option<&Offset>, _: ReadLimit) -> Result<LatestOffset> {
        let end = Some(Offset::new("1"));
        Ok(LatestOffset { end: end.clone(), latest: end, note: None })
    }
    async fn read(
        &self,
        _range: &OffsetRange,
        scan: ScanRequest<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let filters = scan.filters.iter().map(ToString::to_string).collect();
        self.asked.lock().unwrap().push((scan.projection.cloned(), filters));
        let exec = MemorySourceConfig::try_new_exec(
            &self.partitions,
            Arc::clone(&self.schema),
            scan.projection.cloned(),
        );
        Ok(exec.unwrap())
    }
    async fn release(&self, _range: &OffsetRange) -> Result<()> {
        Ok(())
    }
}

/// `id BIGINT, userName STRING, tags ARRAY…` left out: ids `start..end` and names `u<id>`.
pub fn users(start: i64, end: i64) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(start..end));
    let names: ArrayRef =
        Arc::new(StringArray::from_iter_values((start..end).map(|id| format!("u{id}"))));
    RecordBatch::try_from_iter_with_nullable([("id", ids, true), ("userName", names, true)])
        .unwrap()
}

/// The same with a hidden `_metadata` struct.
pub fn users_with_metadata(start: i64, end: i64) -> RecordBatch {
    let plain = users(start, end);
    let fields = Fields::from(vec![Field::new("file_name", DataType::Utf8, false)]);
    let names = StringArray::from_iter_values((start..end).map(|_| "a.json"));
    let metadata = StructArray::new(fields.clone(), vec![Arc::new(names)], None);
    let mut field = Field::new("_metadata", DataType::Struct(fields), false);
    field.set_metadata(HashMap::from([(HIDDEN.to_owned(), "true".to_owned())]));
    let mut all: Vec<Field> =
        plain.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
    all.push(field);
    let mut columns = plain.columns().to_vec();
    columns.push(Arc::new(metadata));
    RecordBatch::try_new(Arc::new(Schema::new(all)), columns).unwrap()
}

pub fn context() -> SessionContext {
    let context = SessionContext::new();
    onefold_plan::functions::register(&context).unwrap();
    context
}

pub fn batch(number: u64) -> BatchContext {
    BatchContext {
        query: QueryId("6ba7b810-9dad-41d1-80b4-00c04fd430c8".parse().unwrap()),
        batch: BatchId(number),
        timestamp_ms: 1_767_225_600_123,
        watermark: BatchWatermark::default(),
        state: None,
        late_rows: None,
        dead_letters: None,
        effects: None,
    }
}

pub fn range() -> OffsetRange {
    OffsetRange { start: None, end: Some(Offset::new("1")), note: None }
}

/// Instantiates with the sources' definitions opened as themselves.
pub async fn instantiate(
    plan: &StreamingPlan,
    state: &SessionState,
    sources: &[&Arc<Memory>],
    context: &BatchContext,
) -> BatchPlan {
    let reads: Vec<(Arc<dyn Source>, OffsetRange)> =
        sources.iter().map(|source| (Arc::clone(source) as Arc<dyn Source>, range())).collect();
    plan.instantiate(state, &reads, context).await.unwrap()
}

/// Runs all partitions and gives the rows of each.
pub async fn run(context: &SessionContext, plan: &BatchPlan) -> Vec<Vec<RecordBatch>> {
    let streams = execute_stream_partitioned(Arc::clone(&plan.plan), context.task_ctx()).unwrap();
    assert_eq!(streams.len(), plan.plan.output_partitioning().partition_count());
    let mut partitions = Vec::new();
    for stream in streams {
        partitions.push(stream.try_collect::<Vec<_>>().await.unwrap());
    }
    partitions
}

pub fn pretty(partitions: &[Vec<RecordBatch>]) -> String {
    let all: Vec<RecordBatch> = partitions.iter().flatten().cloned().collect();
    pretty_format_batches(&all).unwrap().to_string()
}
