//! ORC files, of the column types that the writer knows.

use super::avro_file::Shelf;
use super::content::RowHasher;
use super::encode::Encoder;
use super::stored_file::StoredFile;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use onefold_types::{Error, Result, Totals};
use orc_rust::compression::CompressionType;
use orc_rust::error::OrcError;
use orc_rust::reader::ChunkReader;
use orc_rust::{ArrowReaderBuilder, ArrowWriter, ArrowWriterBuilder};
use std::io::Read;
use std::sync::{Arc, mpsc};

/// What the thread of a file is asked to do.
enum Order {
    Write(RecordBatch),
    Flush,
    Finish,
}

/// Writes one ORC file. The writer cannot move between threads, so it has one of its own, which
/// ends with the file.
#[derive(Debug)]
pub(crate) struct OrcEncoder {
    orders: mpsc::SyncSender<Order>,
    replies: mpsc::Receiver<Result<(), OrcError>>,
    shelf: Shelf,
    hasher: RowHasher,
    held: usize,
}

fn failed(error: OrcError) -> Error {
    // Its types were checked, so it is a value, such as a fraction of the last second before 1970.
    Error::invalid("a value cannot be written to an ORC file; use format parquet").because(error)
}

fn build(shelf: Shelf, schema: SchemaRef, codec: &str) -> Result<ArrowWriter<Shelf>, OrcError> {
    let builder = ArrowWriterBuilder::new(shelf, schema);
    match codec {
        "snappy" => builder.with_compression(CompressionType::Snappy),
        "zlib" => builder.with_compression(CompressionType::Zlib),
        "lz4" => builder.with_compression(CompressionType::Lz4),
        "zstd" => builder.with_compression(CompressionType::Zstd),
        _ => builder,
    }
    .try_build()
}

/// Carries out orders until the file ends or its encoder is dropped.
fn work(
    writer: Result<ArrowWriter<Shelf>, OrcError>,
    orders: &mpsc::Receiver<Order>,
    replies: &mpsc::Sender<Result<(), OrcError>>,
) {
    let mut writer = match writer {
        Ok(writer) => writer,
        Err(error) => {
            let _ = replies.send(Err(error));
            return;
        }
    };
    while let Ok(order) = orders.recv() {
        let reply = match order {
            Order::Write(rows) => writer.write(&rows),
            Order::Flush => writer.flush_stripe(),
            Order::Finish => {
                let _ = replies.send(writer.close());
                return;
            }
        };
        if replies.send(reply).is_err() {
            return;
        }
    }
}

impl OrcEncoder {
    pub(crate) fn new(schema: &SchemaRef, codec: &str, folder: &str) -> Result<Self> {
        let shelf = Shelf::default();
        let (orders, taken) = mpsc::sync_channel(1);
        let (given, replies) = mpsc::channel();
        let (out, schema, codec) = (shelf.clone(), Arc::clone(schema), codec.to_owned());
        std::thread::Builder::new()
            .name("orc-writer".to_owned())
            .spawn(move || work(build(out, schema, &codec), &taken, &given))
            .map_err(|e| Error::unavailable("no thread for an ORC file").because(e))?;
        Ok(OrcEncoder { orders, replies, shelf, hasher: RowHasher::new(folder), held: 0 })
    }

    fn order(&self, order: Order) -> Result<()> {
        // A thread that has ended left its reason.
        let _ = self.orders.send(order);
        match self.replies.recv() {
            Ok(reply) => reply.map_err(failed),
            Err(_) => Err(Error::internal("the ORC file has ended")),
        }
    }
}

impl Encoder for OrcEncoder {
    fn write(&mut self, rows: &RecordBatch) -> Result<Totals> {
        self.order(Order::Write(rows.clone()))?;
        self.held += rows.get_array_memory_size();
        self.hasher.totals(rows)
    }

    fn drain(&mut self, least: usize) -> Result<Bytes> {
        Ok(self.shelf.take(least))
    }

    fn held_bytes(&self) -> usize {
        self.held
    }

    fn flush(&mut self) -> Result<()> {
        self.held = 0;
        self.order(Order::Flush)
    }

    fn finish(&mut self) -> Result<()> {
        self.order(Order::Finish)
    }
}

impl ChunkReader for StoredFile {
    type T = Box<dyn Read>;

    fn len(&self) -> u64 {
        self.size()
    }

    fn get_read(&self, offset_from_start: u64) -> std::io::Result<Self::T> {
        Ok(Box::new(self.read_from(offset_from_start)))
    }
}

/// Sums up a file that is read back.
pub(crate) fn totals(file: &StoredFile, mut hasher: RowHasher) -> Result<Totals> {
    let rows = ArrowReaderBuilder::try_new(file.clone())
        .map_err(|e| Error::corrupt("not ORC").because(e))?
        .build();
    let mut totals = Totals::default();
    for batch in rows {
        let batch = batch.map_err(|e| Error::corrupt("not ORC").because(e))?;
        totals = totals.plus(hasher.totals(&batch)?);
    }
    Ok(totals)
}
