//! Records as rows: Spark's columns, built straight from the library's buffers.

mod headers;

use crate::kafka::native::Record;
use arrow::array::{
    ArrayRef, BinaryBuilder, Int32Array, Int64Array, RecordBatch, RecordBatchOptions,
    StringBuilder, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use headers::Headers;
use onefold_types::{Error, Result};
use std::sync::Arc;

const KEY: usize = 0;
const VALUE: usize = 1;
const TOPIC: usize = 2;
const PARTITION: usize = 3;
const OFFSET: usize = 4;
const TIMESTAMP: usize = 5;
const TIMESTAMP_TYPE: usize = 6;
const HEADERS: usize = 7;

/// Bytes of keys, values and headers after which a batch of rows is full.
const BYTES_MAX: usize = 8 << 20;

/// The columns of the source.
pub(crate) fn schema(headers: bool) -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let mut fields = vec![
        Field::new("key", DataType::Binary, true),
        Field::new("value", DataType::Binary, true),
        Field::new("topic", DataType::Utf8, true),
        Field::new("partition", DataType::Int32, true),
        Field::new("offset", DataType::Int64, true),
        Field::new("timestamp", time, true),
        Field::new("timestampType", DataType::Int32, true),
    ];
    if headers {
        fields.push(Field::new("headers", headers::data_type(), true));
    }
    Arc::new(Schema::new(fields))
}

/// Rows in the making, of one or more partitions.
pub(crate) struct Rows {
    schema: SchemaRef,
    /// Which of the columns above, in order.
    wanted: Vec<usize>,
    rows_max: usize,
    /// Topic, partition, and how many rows in a row are of it.
    places: Vec<(Arc<str>, i32, usize)>,
    rows: usize,
    bytes: usize,
    keys: BinaryBuilder,
    values: BinaryBuilder,
    offsets: Vec<i64>,
    micros: Vec<Option<i64>>,
    kinds: Vec<i32>,
    headers: Headers,
    newest_ms: i64,
}

impl Rows {
    /// Nothing yet. `schema` is that of the `wanted` columns.
    pub(crate) fn new(schema: SchemaRef, wanted: Vec<usize>, rows_max: usize) -> Rows {
        Rows {
            schema,
            wanted,
            rows_max: rows_max.max(1),
            places: Vec::new(),
            rows: 0,
            bytes: 0,
            keys: BinaryBuilder::new(),
            values: BinaryBuilder::new(),
            offsets: Vec::new(),
            micros: Vec::new(),
            kinds: Vec::new(),
            headers: Headers::default(),
            newest_ms: i64::MIN,
        }
    }

    /// Rows from here on are of this partition.
    pub(crate) fn at(&mut self, topic: &Arc<str>, partition: i32) {
        self.places.push((Arc::clone(topic), partition, 0));
    }

    /// Adds a record.
    ///
    /// # Errors
    /// Corrupt, when its headers cannot be read.
    pub(crate) fn add(&mut self, record: &Record<'_>) -> Result<()> {
        let (key, value) = (record.key(), record.value());
        let (ms, kind) = record.timestamp();
        self.newest_ms = self.newest_ms.max(ms);
        for column in &self.wanted {
            match *column {
                KEY => self.keys.append_option(key),
                VALUE => self.values.append_option(value),
                OFFSET => self.offsets.push(record.offset()),
                // A time that is no time here leaves the row whole.
                TIMESTAMP => self.micros.push(ms.checked_mul(1_000)),
                TIMESTAMP_TYPE => self.kinds.push(kind),
                HEADERS => self.bytes += self.headers.add(record)?,
                _ => (),
            }
        }
        self.bytes += key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len);
        self.rows += 1;
        if let Some((_, _, rows)) = self.places.last_mut() {
            *rows += 1;
        }
        Ok(())
    }

    pub(crate) fn is_full(&self) -> bool {
        self.rows >= self.rows_max || self.bytes >= BYTES_MAX
    }

    /// The rows, with their number, the bytes of their records and the newest time among them in
    /// milliseconds; `None` when there are none. Begins anew, with the last partition.
    ///
    /// # Errors
    /// Internal, when the columns do not fit one another.
    pub(crate) fn take(&mut self) -> Result<Option<Taken>> {
        if self.rows == 0 {
            return Ok(None);
        }
        let columns = self.wanted.clone().into_iter().map(|column| self.column(column));
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| Error::internal("records do not fit the columns").because(error))?;
        let taken = Taken {
            batch,
            rows: self.rows as u64,
            bytes: self.bytes as u64,
            newest_ms: self.newest_ms,
        };
        let last = self.places.pop();
        self.places.clear();
        self.places.extend(last.map(|(topic, partition, _)| (topic, partition, 0)));
        (self.rows, self.bytes, self.newest_ms) = (0, 0, i64::MIN);
        Ok(Some(taken))
    }

    fn column(&mut self, column: usize) -> Result<ArrayRef> {
        Ok(match column {
            KEY => Arc::new(self.keys.finish()),
            VALUE => Arc::new(self.values.finish()),
            TOPIC => {
                let bytes = self.places.iter().map(|(topic, _, rows)| topic.len() * rows).sum();
                let mut topics = StringBuilder::with_capacity(self.rows, bytes);
                for (topic, _, rows) in &self.places {
                    topics.extend(std::iter::repeat_n(Some(&**topic), *rows));
                }
                Arc::new(topics.finish())
            }
            PARTITION => {
                let each = self.places.iter();
                let all = each.flat_map(|(_, number, rows)| std::iter::repeat_n(*number, *rows));
                Arc::new(Int32Array::from_iter_values(all))
            }
            OFFSET => Arc::new(Int64Array::from(std::mem::take(&mut self.offsets))),
            TIMESTAMP => {
                let micros = std::mem::take(&mut self.micros);
                Arc::new(TimestampMicrosecondArray::from(micros).with_timezone("UTC"))
            }
            TIMESTAMP_TYPE => Arc::new(Int32Array::from(std::mem::take(&mut self.kinds))),
            HEADERS => self.headers.finish()?,
            other => return Err(Error::internal(format!("there is no column {other} of Kafka"))),
        })
    }
}

/// Rows that are ready.
pub(crate) struct Taken {
    pub(crate) batch: RecordBatch,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) newest_ms: i64,
}
