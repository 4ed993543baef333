//! The rows of a relation on their way to the client: in the order of the partitions, in messages that
//! are large enough to cost little and small enough for every client.

mod gather;

use crate::client_session::ClientSession;
use crate::conf;
use crate::failure::{Failure, Outcome};
use crate::operation::Operation;
use crate::{analyze, rows, types};
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use datafusion::logical_expr::LogicalPlan;
use futures::StreamExt;
use gather::Gather;
use spark_connect_proto::ResultChunkingOptions;
use spark_connect_proto::execute_plan_response::{ArrowBatch, ResponseType};
use std::sync::Arc;

/// The setting with the largest chunk, in bytes.
const CHUNK_SETTING: &str = "spark.connect.session.resultChunking.maxChunkSize";
/// The smallest chunk that a client may ask for, in bytes.
const CHUNK_MIN: usize = 1 << 10;

/// Computes a plan and sends its rows as they come.
pub(crate) async fn send(
    session: &Arc<ClientSession>,
    operation: &Arc<Operation>,
    plan: LogicalPlan,
) -> Outcome<()> {
    if onefold_plan::stream::is_streaming(&plan) {
        return Err(Failure::analysis(
            "Queries with streaming sources must be executed with writeStream.start();",
        ));
    }
    let plan = onefold_plan::stream::shown(plan)?;
    let schema = analyze::rows_schema(&plan);
    let mut first = operation.blank();
    first.schema = Some(types::from_schema(&schema));
    operation.send_whole(first).await;
    let plain = rows::plain_schema(&schema);
    let mut way = Way { operation, chunk: chunk_size(session, operation), sent: 0 };
    let mut gather = Gather::default();
    let mut stream = session.engine.frame(plan).stream().await?;
    while let Some(batch) = stream.next().await {
        let batch =
            batch.map_err(|error| Failure::execution(&onefold_engine::from_datafusion(error)))?;
        for whole in gather.add(rows::plain_batch(&batch, &plain)?)? {
            way.send(&whole).await?;
        }
    }
    // A client learns the Arrow schema from a batch, if only an empty one.
    let empty = || RecordBatch::new_empty(Arc::clone(&plain));
    match gather.rest()? {
        Some(rest) => way.send(&rest).await,
        None if way.sent == 0 => way.send(&empty()).await,
        None => Ok(()),
    }
}

/// Largest size of a message's rows, where the client puts the chunks of a batch together.
fn chunk_size(session: &ClientSession, operation: &Operation) -> Option<usize> {
    let asked = operation.chunking.as_ref().filter(|asked| asked.allow_arrow_batch_chunking)?;
    let most = conf::value(&session.engine, CHUNK_SETTING)?.parse::<usize>().ok()?;
    let wanted = asked.preferred_arrow_chunk_size.and_then(|size| usize::try_from(size).ok());
    Some(wanted.filter(|size| *size >= CHUNK_MIN).map_or(most, |size| size.min(most)).max(1))
}

/// The client's end of the rows.
struct Way<'a> {
    operation: &'a Arc<Operation>,
    chunk: Option<usize>,
    /// Rows that were sent.
    sent: i64,
}

impl Way<'_> {
    async fn send(&mut self, batch: &RecordBatch) -> Outcome<()> {
        let rows = i64::try_from(batch.num_rows()).unwrap_or(i64::MAX);
        let data = Bytes::from(rows::ipc(batch)?);
        let whole = ArrowBatch {
            row_count: rows,
            data: data.clone(),
            start_offset: Some(self.sent),
            chunk_index: None,
            num_chunks_in_batch: None,
        };
        for message in in_chunks(whole, &data, self.chunk) {
            self.operation.send(ResponseType::ArrowBatch(message)).await;
        }
        self.sent = self.sent.saturating_add(rows);
        Ok(())
    }
}

/// A batch as one message, or, for a client that can put them together, in chunks of its bytes.
fn in_chunks(whole: ArrowBatch, data: &Bytes, chunk: Option<usize>) -> Vec<ArrowBatch> {
    let Some(chunk) = chunk else { return vec![whole] };
    let number = data.len().div_ceil(chunk).max(1);
    let count = i64::try_from(number).unwrap_or(i64::MAX);
    (0..number)
        .zip(0_i64..)
        .map(|(at, index)| {
            let from = at.saturating_mul(chunk);
            let to = from.saturating_add(chunk).min(data.len());
            ArrowBatch {
                data: data.slice(from..to),
                chunk_index: Some(index),
                num_chunks_in_batch: Some(count),
                ..whole.clone()
            }
        })
        .collect()
}

/// What a request says of chunks.
pub(crate) type Chunking = Option<ResultChunkingOptions>;

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(bytes: usize, chunk: Option<usize>) -> Vec<(usize, Option<i64>, Option<i64>)> {
        let data = Bytes::from(vec![7; bytes]);
        let whole = ArrowBatch { row_count: 3, data: data.clone(), ..Default::default() };
        let cut = in_chunks(whole, &data, chunk);
        assert!(cut.iter().all(|it| it.row_count == 3));
        assert_eq!(cut.iter().map(|it| it.data.len()).sum::<usize>(), bytes);
        cut.iter().map(|it| (it.data.len(), it.chunk_index, it.num_chunks_in_batch)).collect()
    }

    #[test]
    fn a_batch_is_cut_into_chunks_only_for_clients_that_put_them_together() {
        assert_eq!(chunks(2500, None), [(2500, None, None)]);
        let cut = [(1024, Some(0), Some(3)), (1024, Some(1), Some(3)), (452, Some(2), Some(3))];
        assert_eq!(chunks(2500, Some(1024)), cut);
        assert_eq!(chunks(1024, Some(1024)), [(1024, Some(0), Some(1))]);
        assert_eq!(chunks(0, Some(1024)), [(0, Some(0), Some(1))]);
    }
}
