//! A Kafka source as an engine drives it: a checkpoint, intents, and restarts.

use crate::kafka::broker::Topic;
use crate::source::rig::{propose, rows};
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type};
use onefold_connector::{
    Options, ReadLimit, Source, SourceContext, SourceDefinition, SourceRequest,
};
use onefold_connectors::kafka::SOURCE;
use onefold_testkit::{ManualClock, MemoryStore};
use onefold_types::{BatchId, Offset, OffsetRange, OptionMap, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A row: partition, offset, value.
pub(crate) type Row = (i32, i64, String);

/// A query over a source.
pub(crate) struct Rig {
    pub(crate) options: OptionMap,
    pub(crate) checkpoint: MemoryStore,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) intents: Vec<(BatchId, OffsetRange)>,
    pub(crate) whole: bool,
}

impl Rig {
    /// Reads one topic from its beginning.
    pub(crate) fn of(topic: &Topic) -> Rig {
        Rig::bare(topic.servers())
            .with("subscribe", &topic.name)
            .with("startingOffsets", "earliest")
    }

    pub(crate) fn bare(servers: &str) -> Rig {
        Rig {
            options: OptionMap::new()
                .with("kafka.bootstrap.servers", servers)
                .with("kafka.fetch.max.wait.ms", "50")
                .with("kafkaConsumer.pollTimeoutMs", "20s"),
            checkpoint: MemoryStore::default(),
            clock: Arc::new(ManualClock::new(1_000_000)),
            intents: Vec::new(),
            whole: false,
        }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Rig {
        self.options.set(name, value);
        self
    }

    pub(crate) async fn define(&self) -> Result<Arc<dyn SourceDefinition>> {
        let options = Options::check("source `kafka`", SOURCE.options, self.options.clone())?;
        (SOURCE.define)(SourceRequest {
            options,
            schema: None,
            paths: Vec::new(),
            conf: BTreeMap::new(),
            whole: self.whole,
        })
        .await
    }

    pub(crate) async fn open(&self) -> Result<Arc<dyn Source>> {
        let context = SourceContext {
            query: "6fa0ab59-0d2c-4b1e-9d5c-1f2d3c4b5a69".parse().unwrap(),
            checkpoint: Arc::new(self.checkpoint.clone()),
            log_folder: "sources/0".to_owned(),
            history: self.intents.clone(),
            clock: Arc::<ManualClock>::clone(&self.clock),
            conf: BTreeMap::new(),
        };
        self.define().await?.open(context).await
    }

    fn start(&self) -> Option<Offset> {
        self.intents.last().and_then(|(_, range)| range.end.clone())
    }

    /// Plans the next batch and remembers its intent; `None` if there is nothing new.
    pub(crate) async fn plan(&mut self, source: &dyn Source) -> Result<Option<OffsetRange>> {
        let range = propose(source, self.start()).await?;
        if range.empty() {
            return Ok(None);
        }
        self.intents.push((BatchId(self.intents.len() as u64), range.clone()));
        Ok(Some(range))
    }

    /// One batch from the intent to the release.
    pub(crate) async fn batch(&mut self, source: &dyn Source) -> Result<Option<Vec<Row>>> {
        let Some(range) = self.plan(source).await? else { return Ok(None) };
        let read = read(source, &range).await?;
        source.release(&range).await?;
        Ok(Some(read))
    }

    /// Every batch of a new run until nothing is new.
    pub(crate) async fn drain(&mut self) -> Result<Vec<Vec<Row>>> {
        let source = self.open().await?;
        let mut batches = Vec::new();
        while let Some(rows) = self.batch(source.as_ref()).await? {
            batches.push(rows);
        }
        Ok(batches)
    }

    /// All that a table has.
    pub(crate) async fn table(mut self) -> Result<Vec<Row>> {
        self.whole = true;
        let source = self.open().await?;
        let latest = source.latest_offset(None, ReadLimit::All).await?;
        let range = OffsetRange { start: None, end: latest.end, note: latest.note };
        read(source.as_ref(), &range).await
    }

    /// The end of the newest intent.
    pub(crate) fn end(&self) -> String {
        self.start().unwrap().json().to_owned()
    }
}

/// The rows of a range, by partition and offset.
pub(crate) async fn read(source: &dyn Source, range: &OffsetRange) -> Result<Vec<Row>> {
    let mut all = Vec::new();
    for batch in rows(source, range, &[3, 4, 1]).await? {
        all.extend(rows_of(&batch));
    }
    all.sort();
    Ok(all)
}

fn rows_of(batch: &RecordBatch) -> Vec<Row> {
    let partitions = batch.column(0).as_primitive::<Int32Type>();
    let offsets = batch.column(1).as_primitive::<Int64Type>();
    let values = batch.column(2).as_binary::<i32>();
    let text = |row: usize| match values.is_valid(row) {
        true => String::from_utf8(values.value(row).to_vec()).unwrap(),
        false => "NULL".to_owned(),
    };
    (0..batch.num_rows())
        .map(|row| (partitions.value(row), offsets.value(row), text(row)))
        .collect()
}

/// The offsets of rows of one partition.
pub(crate) fn offsets(rows: &[Row]) -> Vec<i64> {
    rows.iter().map(|row| row.1).collect()
}

/// The values of rows.
pub(crate) fn values(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(|row| row.2.as_str()).collect()
}
